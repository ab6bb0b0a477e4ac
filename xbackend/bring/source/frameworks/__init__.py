"""A file for each framework, with its `Dialect` as ``DIALECT``."""
