"""Kernels: small programs of one kind of work each, a file for each, called as its workload."""
