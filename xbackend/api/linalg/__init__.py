"""``xbackend.linalg``: the standard's extension for products, factorizations, equations and norms of matrices.

https://data-apis.org/array-api/2025.12/extensions/linear_algebra_functions.html
"""

from __future__ import annotations

from xbackend.api.functions.manipulation import matrix_transpose
from xbackend.api.functions.products import cross, matmul, outer, tensordot, vecdot
from xbackend.api.functions.triangles import diagonal, trace
from xbackend.api.linalg.factorizations import (
    cholesky,
    det,
    eigh,
    eigvalsh,
    inv,
    matrix_rank,
    pinv,
    qr,
    slogdet,
    solve,
    solve_triangular,
    svd,
    svdvals,
)
from xbackend.api.linalg.norms import matrix_norm, vector_norm
from xbackend.api.linalg.powers import matrix_power

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
