"""What joins several processes, as each has it: TensorFlow's servers, `jax.distributed`, MPI.

Imports nothing here: a worker imports this package too.
"""
