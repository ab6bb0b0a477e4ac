"""Graphs of TensorFlow: of functions, and GraphDefs of TensorFlow 1."""
