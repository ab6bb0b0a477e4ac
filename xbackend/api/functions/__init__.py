"""The functions on arrays, with the names and semantics of the Array API standard 2025.12.

https://data-apis.org/array-api/2025.12/API_specification/

They work on traced arrays (inside a function given to `xbackend.trace` or ``backend.compile``), shared variables, NumPy
arrays and Python numbers. Dtypes promote as the standard says. A mix that it leaves undefined (integer with floating
point) raises `DTypeError`, invalid shapes raise `ShapeError`, both with the user's file and line.
"""

from __future__ import annotations

from xbackend.api.functions import creation, elementwise, manipulation, rearrangement, reductions, sorting
from xbackend.api.functions.convolution import conv2d
from xbackend.api.functions.creation import *  # noqa: F403
from xbackend.api.functions.dtype_functions import can_cast, finfo, iinfo, isdtype, result_type
from xbackend.api.functions.einsum import einsum
from xbackend.api.functions.elementwise import *  # noqa: F403
from xbackend.api.functions.indexing import at, getitem, take, take_along_axis
from xbackend.api.functions.manipulation import *  # noqa: F403
from xbackend.api.functions.matrices import matmul, tensordot, tril, triu, vecdot
from xbackend.api.functions.rearrangement import *  # noqa: F403
from xbackend.api.functions.reductions import *  # noqa: F403
from xbackend.api.functions.sorting import *  # noqa: F403
from xbackend.program.operators import FUNCTIONS

# Operators and NumPy's functions look these up: names that the modules define, not names that they import.
_modules = (creation, elementwise, manipulation, rearrangement, reductions, sorting)
_functions = (
    *(matmul, tensordot, vecdot, at, take, take_along_axis, tril, triu, einsum, conv2d),
    *(can_cast, finfo, iinfo, isdtype, result_type),
)
_defined = [item for m in _modules for item in vars(m).values() if getattr(item, "__module__", "") == m.__name__]
FUNCTIONS.update({f.__name__: f for f in (*_functions, *_defined) if not f.__name__.startswith("_")})
NAMES = tuple(FUNCTIONS)
FUNCTIONS["__getitem__"] = getitem
