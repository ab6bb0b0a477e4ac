"""What a user writes programs with: tracing, arrays and their functions, shared variables, gradients."""
