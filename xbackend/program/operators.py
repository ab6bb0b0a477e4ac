"""The operators of the Array API standard, for traced arrays, shared variables and eager arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from xbackend.errors import NoSuchMethod, ShapeError, TraceError
from xbackend.habits import RENAMED, instead
from xbackend.wording import marked

# The functions that operators call, by name. `xbackend.api.functions` registers them: it imports arrays, which import
# this module.
FUNCTIONS: dict[str, Callable[..., Any]] = {}
_LISTED = "use the functions of xbackend, dir(xb) lists them"


def _binary(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    def forward(self: Any, other: Any) -> Any:
        return self._functions[name](self, other)

    def reflected(self: Any, other: Any) -> Any:
        return self._functions[name](other, self)

    forward.__doc__ = reflected.__doc__ = f"The standard's ``{name}``."
    return forward, reflected


def _unary(name: str) -> Callable[[Any], Any]:
    def operator(self: Any) -> Any:
        return self._functions[name](self)

    operator.__doc__ = f"The standard's ``{name}``."
    return operator


class Operators:
    """A base class with the operators of the Array API standard."""

    _functions: Any = FUNCTIONS

    # `==` makes a node, so equality cannot hash; identity can.
    __hash__ = object.__hash__

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        raise NotImplementedError(f"{type(self).__name__} has no shape")

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("remainder")
    __pow__, __rpow__ = _binary("pow")
    __matmul__, __rmatmul__ = _binary("matmul")
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift")
    __lt__, _ = _binary("less")
    __le__, _ = _binary("less_equal")
    __gt__, _ = _binary("greater")
    __ge__, _ = _binary("greater_equal")
    __eq__, _ = _binary("equal")
    __ne__, _ = _binary("not_equal")
    del _
    __neg__ = _unary("negative")
    __pos__ = _unary("positive")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_invert")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's ufuncs, also from an array on the left of an operator, become the standard's functions."""
        function = self._functions.get(RENAMED.get(ufunc.__name__, ufunc.__name__))
        if method != "__call__" or kwargs or function is None:
            called = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
            raise self._refused(called, "" if function else ufunc.__name__)
        return function(*inputs)

    def _refused(self, called: str, name: str = "") -> Exception:
        """The error for a ufunc with further arguments, or for a function of NumPy's without a counterpart."""
        if not name:
            return TraceError(f"{called} cannot be traced with these arguments; use the functions of xbackend")
        hint = instead(name, FUNCTIONS, _LISTED)
        return TraceError(f"{called} needs the elements of an array, which a traced one has not: {hint}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's other functions need elements and are refused, except those that ask for the shape only."""
        name = function.__name__
        if name in ("shape", "ndim", "size") and len(args) == 1 and not kwargs:
            return getattr(self, name)
        raise self._refused(f"np.{name}", name)

    def to_device(self, device: Any, /) -> Any:
        """The same values on another device: `xbackend.to_device`."""
        return self._functions["to_device"](self, device)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise NoSuchMethod(self._no_method(name))

    def _repr_html_(self) -> str:
        return marked(repr(self))

    def _no_method(self, name: str) -> str:
        return f"a traced array or shared variable has no .{name}: {instead(name, FUNCTIONS, _LISTED)}"

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TraceError(
            "x[...] = value: arrays of a program never change; write x = xb.at(x)[...].set(value) or .add(value), or "
            "x = xb.where(mask, value, x); a shared variable takes a new value with xb.update"
        )

    def __getitem__(self, key: Any) -> Any:
        """Integers, slices, ``...``, ``None`` and arrays of integers."""
        return self._functions["__getitem__"](self, key)

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise ShapeError("a 0-dimensional array cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("a 0-dimensional array has no length")
        return self.shape[0]

    @property
    def T(self) -> Any:
        """The transpose of a matrix."""
        if len(self.shape) != 2:
            raise ShapeError(f".T is for matrices, this has shape {self.shape}; use xb.permute_dims")
        return self.mT

    @property
    def mT(self) -> Any:
        """The array with its last two axes exchanged."""
        return self._functions["matrix_transpose"](self)
