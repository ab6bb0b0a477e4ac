"""What CuPy computes products in."""


def set_compute_type(dtype, compute_type):
    assert dtype in ("float32", "float64") and compute_type == 1
