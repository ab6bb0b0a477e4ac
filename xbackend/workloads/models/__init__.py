"""Models: what people fit and filter, most with the gradient, a file for each, called as its workload."""
