"""The user's interface to write programs: tracing, arrays and their functions, shared variables, gradients."""
