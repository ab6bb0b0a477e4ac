"""Ops of unsigned integers that not every framework has: computed in a wider signed dtype, and made what they were.

All arithmetic of integers is that of their last bits, which are the same in a wider dtype (two's complement).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xbackend.api.array import Array
from xbackend.program.dtypes import DType
from xbackend.program.ops import OPS, WIDENED, Aval


def narrow(op: str, inputs: Sequence[Array]) -> DType | None:
    """The unsigned dtype of the inputs of an op of `WIDENED`; else `None`."""
    return inputs[0].dtype if op in WIDENED and inputs[0].dtype.is_unsigned else None


def is_of_inputs(op: str, inputs: Sequence[Array], params: Mapping[str, Any]) -> bool:
    """Whether the result has the dtype of the inputs; that of positions is always the same."""
    return OPS[op].infer([Aval(array.shape, DType.int32) for array in inputs], params).dtype is DType.int32
