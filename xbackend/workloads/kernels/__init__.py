"""Kernels: small programs with one kind of work each. A file has the name of its workload."""
