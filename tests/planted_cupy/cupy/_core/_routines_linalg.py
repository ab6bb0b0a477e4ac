"""Its names."""

COMPUTE_TYPE_DEFAULT = 1
