"""Graphs of PyTensor, Aesara and Theano, whose ops have the same names in all generations."""
