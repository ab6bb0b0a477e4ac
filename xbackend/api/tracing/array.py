"""The traced array, which a user's function gets in place of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from xbackend.errors import TraceError
from xbackend.program.dtypes import DType
from xbackend.program.operators import Operators
from xbackend.program.program import Value


class Recorder(Protocol):
    """The interface of a tracer to its arrays."""

    values: list[Value]
    open: bool

    def emit(self, op: str, inputs: Sequence[Array], params: Any, device: str | None = None) -> Array: ...
    def emit_all(self, op: str, inputs: Sequence[Array], params: Any, device: str | None = None) -> list[Array]: ...


class Array(Operators):
    """A value of the program being traced: shape, dtype and device are known, its elements are not.

    Made by tracing only. Its operators and the functions of `xbackend` add nodes to the program.

    >>> def described(x):
    ...     print(x.shape, x.dtype, x.to_device("dev1").device)
    ...     return x @ x.T
    >>> program = xb.trace(described, np.ones((2, 3)))
    (2, 3) float64 dev1
    """

    __slots__ = ("_shape", "_tracer", "dtype", "node")

    def __init__(self, tracer: Recorder, node: int, shape: tuple[int, ...], dtype: DType) -> None:
        self._tracer = tracer
        self.node = node
        self._shape = shape
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:  # which cannot be assigned, as NumPy's can: the elements would not follow
        return self._shape

    @property
    def device(self) -> str | None:
        """The device or logical name that the program asks for, or `None`."""
        return self._tracer.values[self.node].device

    def __repr__(self) -> str:
        return f"<traced {self.dtype}{list(self.shape)}{f' on {self.device}' if self.device else ''}>"

    def _no_value(self, wanted: str) -> TraceError:
        return TraceError(
            f"{wanted} needs the elements of {self!r}, which do not exist while a program is traced; "
            "use xb.where or xb.cond for a choice by value, xb.while_loop for a loop, or return the array and look at "
            "the result"
        )

    def __bool__(self) -> bool:
        raise self._no_value("if, while, and, or, not or bool()")

    def __int__(self) -> int:
        raise self._no_value("int()")

    def __float__(self) -> float:
        raise self._no_value("float()")

    def __index__(self) -> int:
        raise self._no_value("an index")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._no_value("a NumPy function")
