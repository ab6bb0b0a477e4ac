"""Functions, files and graphs of TensorFlow become programs."""
