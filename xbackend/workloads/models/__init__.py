"""Models that people fit and filter, most with the gradient. A file has the name of its workload."""
