"""Graphs that exist become programs: of PyTensor (and PyMC), Aesara, Theano, TensorFlow and JAX.

An importer runs where its framework is installed. It walks the framework's graph inside of a trace and calls the
functions of `xbackend.api`, so a program that was brought is like one that was traced. An importer never guesses: an op
or an attribute that it does not know is an error.
"""
