"""Workloads of the suite as users of a framework write them, in its own words: one module for each environment.

Each has a function of a mode, a dtype and the parameters of the workload for each name of `overhead.handwritten.SUITE`.
Its call takes the workload's arrays and returns the workload's results; for a model the value, then its gradients.
"""
