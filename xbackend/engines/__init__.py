"""Engines join several processes: TensorFlow's servers, `jax.distributed`, MPI.

This file imports nothing: a worker imports the package too.
"""
