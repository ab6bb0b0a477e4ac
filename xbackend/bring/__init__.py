"""Importers of graphs of PyTensor (and PyMC), Aesara, Theano, TensorFlow and JAX, and writers (`source`, `onnx`).

An importer runs where its framework is installed. It walks the framework's graph during a trace and calls the functions
of `xbackend.api`, so an imported program is like a traced one. An importer never guesses: an unknown op or attribute is
an error.
"""
