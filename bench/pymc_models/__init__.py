"""PyMC's models of a folder: each compared with PyTensor's own numbers at three points, and timed."""
