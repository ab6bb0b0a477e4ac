"""Rows of elementwise ops, of ops that create, move, join and split arrays, of gathers, scatters and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from xbackend.bring.dtypes import SMALL
from xbackend.bring.jax.arrays import ints
from xbackend.bring.stablehlo.modules import dtype_of, shape_of
from xbackend.bring.stablehlo.walk import Frame, mapping, row
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


mapping(
    {
        **_same("abs add atan2 cbrt ceil clamp floor is_finite logistic rsqrt sign sqrt tan tanh"),
        **{"cosine": "cos", "sine": "sin", "divide": "div", "exponential": "exp", "exponential_minus_one": "expm1"},
        **{"log": "log", "log_plus_one": "log1p", "maximum": "max", "minimum": "min", "multiply": "mul"},
        **{"negate": "neg", "not": "bitwise_not", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"},
        **{"power": "pow", "remainder": "rem", "subtract": "sub", "shift_left": "shift_left"},
        **_same("shift_right_arithmetic shift_right_logical"),
    }
)


row("round_nearest_even")(
    lambda frame, operation, values: frame.lax.round(*values, frame.lax.RoundingMethod.TO_NEAREST_EVEN)
)
row("round_nearest_afz")(lambda frame, operation, values: frame.lax.round(*values))
row("convert")(
    lambda frame, operation, values: frame.lax.convert_element_type(*values, dtype_of(operation.result.type))
)
row("optimization_barrier", "sharding_constraint", attributes=("sharding",))(lambda frame, operation, values: values)


@row("constant", attributes=("value",))
def constant(frame: Frame, operation: Any, values: list[Any]) -> Any:
    """An array of equal numbers becomes one number that is broadcast: a file of a few bytes may name any shape."""
    attribute, type_ = operation.attributes["value"], operation.result.type
    shape, dtype = shape_of(type_), dtype_of(type_)
    if dtype not in (*DType, *SMALL):
        return frame.lacks(operation, f"constant of {dtype}", "cast before it is exported")
    if getattr(attribute, "is_splat", False) and shape:
        return frame.lax.full(shape, np.asarray(attribute.get_splat_value().value, dtype), dtype)
    return np.asarray(attribute).astype(dtype).reshape(shape)


@row("compare", attributes=("comparison_direction", "compare_type"))
def compare(frame: Frame, operation: Any, values: list[Any]) -> Any:
    direction, order = _enum(operation, "comparison_direction").lower(), _enum(operation, "compare_type")
    if order == "TOTALORDER" and dtype_of(operation.operands[0].type).startswith("float"):
        return frame.lacks(operation, "compare in total order", "compare by <, or search in a vector")
    return getattr(frame.lax, direction)(*values)


def _enum(operation: Any, attribute: str) -> str:
    """The last word of an attribute, such as SIGNED of ``#stablehlo<comparison_type SIGNED>``; empty without it."""
    own = operation.attributes
    return str(own[attribute]).rstrip(">").split()[-1] if attribute in own else ""


@row("select")
def select(frame: Frame, operation: Any, values: list[Any]) -> Any:
    which, first, second = values
    return frame.lax.select_n(which, second, first)


@row("iota", attributes=("iota_dimension",))
def iota(frame: Frame, operation: Any, values: list[Any]) -> Any:
    type_ = operation.result.type
    return frame.lax.broadcasted_iota(dtype_of(type_), shape_of(type_), int(operation.attributes["iota_dimension"]))


@row("broadcast_in_dim", attributes=("broadcast_dimensions",))
def broadcast_in_dim(frame: Frame, operation: Any, values: list[Any]) -> Any:
    """A scalar stays as it is: loops and reductions ask whether it is known."""
    shape, axes = shape_of(operation.result.type), ints(operation.attributes["broadcast_dimensions"])
    return frame.lax.broadcast_in_dim(values[0], shape, axes) if shape else values[0]


row("reshape")(lambda frame, operation, values: frame.lax.reshape(values[0], shape_of(operation.result.type)))
row("transpose", attributes=("permutation",))(
    lambda frame, operation, values: frame.lax.transpose(values[0], ints(operation.attributes["permutation"]))
)
row("reverse", attributes=("dimensions",))(
    lambda frame, operation, values: frame.lax.rev(values[0], ints(operation.attributes["dimensions"]))
)
row("concatenate", attributes=("dimension",))(
    lambda frame, operation, values: frame.lax.concatenate(values, int(operation.attributes["dimension"]))
)
_SLICE = ("start_indices", "limit_indices", "strides")
row("slice", attributes=_SLICE)(
    lambda frame, operation, values: frame.lax.slice(values[0], *(ints(operation.attributes[n]) for n in _SLICE))
)
row("dynamic_slice", attributes=("slice_sizes",))(  # starts below 0 become 0, they do not count from the end
    lambda frame, operation, values: frame.lax.dynamic_slice(
        values[0], values[1:], ints(operation.attributes["slice_sizes"]), allow_negative_indices=False
    )
)
row("dynamic_update_slice")(
    lambda frame, operation, values: frame.lax.dynamic_update_slice(
        values[0], values[1], values[2:], allow_negative_indices=False
    )
)
_PAD = ("edge_padding_low", "edge_padding_high", "interior_padding")


@row("pad", attributes=_PAD)
def pad(frame: Frame, operation: Any, values: list[Any]) -> Any:
    return frame.lax.pad(*values, [*zip(*(ints(operation.attributes[name]) for name in _PAD), strict=True)])


# --- indices ----------------------------------------------------------------------------------------------------------


def _indices(frame: Frame, indices: Any, axis: int) -> Any:
    """The indices with the axis of the index vectors last, where `jax.lax` has it."""
    if axis == len(indices.shape):
        return frame.lax.expand_dims(indices, (axis,))
    return frame.lax.transpose(indices, [*(a for a in range(len(indices.shape)) if a != axis), axis])


@row("gather", attributes=("dimension_numbers", "slice_sizes", "indices_are_sorted"))
def gather(frame: Frame, operation: Any, values: list[Any]) -> Any:
    """Starts out of bounds are clipped."""
    from jaxlib.mlir.dialects import stablehlo

    lax, own = frame.lax, stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    names = ("offset_dims", "collapsed_slice_dims", "start_index_map")
    batching = ("operand_batching_dims", "start_indices_batching_dims")
    numbers = lax.GatherDimensionNumbers(**{name: ints(getattr(own, name)) for name in (*names, *batching)})
    sizes, indices = ints(operation.attributes["slice_sizes"]), _indices(frame, values[1], own.index_vector_dim)
    return lax.gather(values[0], indices, numbers, sizes, mode=lax.GatherScatterMode.CLIP)


_SCATTER = ("scatter_dimension_numbers", "indices_are_sorted", "unique_indices")
_WRITES = {"add": "scatter_add", "subtract": "scatter_sub", "": "scatter"}


@row("scatter", attributes=_SCATTER)
def scatter(frame: Frame, operation: Any, values: list[Any]) -> Any:
    """Updates that are not all inside of the array are dropped."""
    from jaxlib.mlir.dialects import stablehlo

    lax, own = frame.lax, stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
    joined = joined_by(operation.regions[0], second="")
    if joined not in _WRITES or len(values) != 3:
        return frame.lacks(
            operation, f"scatter by {joined or 'an own function'}", "read the part, compute it, and set it"
        )
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=ints(own.update_window_dims),
        inserted_window_dims=ints(own.inserted_window_dims),
        scatter_dims_to_operand_dims=ints(own.scattered_dims_to_operand_dims),
        operand_batching_dims=ints(own.input_batching_dims),
        scatter_indices_batching_dims=ints(own.scatter_indices_batching_dims),
    )
    array, indices, updates = values[0], _indices(frame, values[1], own.index_vector_dim), values[2]
    return getattr(lax, _WRITES[joined])(array, indices, updates, numbers, mode=lax.GatherScatterMode.FILL_OR_DROP)


_COMMUTE = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")


def joined_by(region: Any, second: str | None = None) -> str | None:
    """The name of the op that joins the two arguments of a region and is its only op; ``second`` for a region that
    returns its second argument, `None` for any other."""
    (block,) = region.blocks
    *inner, end = [one.operation for one in block.operations]
    arguments, results = list(block.arguments), list(end.operands)
    if len(arguments) != 2 or len(results) != 1 or len(inner) > 1:
        return None
    if not inner:
        return second if results[0] == arguments[1] else None
    operands, name = list(inner[0].operands), inner[0].name.rpartition(".")[2]
    in_order = operands == arguments or (name in _COMMUTE and operands == arguments[::-1])
    return name if in_order and results[0] == inner[0].result else None


# --- products ---------------------------------------------------------------------------------------------------------


@row("dot_general", attributes=("dot_dimension_numbers", "precision_config"))
def dot_general(frame: Frame, operation: Any, values: list[Any]) -> Any:
    from jaxlib.mlir.dialects import stablehlo

    own = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    over = ints(own.lhs_contracting_dimensions), ints(own.rhs_contracting_dimensions)
    batch = ints(own.lhs_batching_dimensions), ints(own.rhs_batching_dimensions)
    return frame.lax.dot_general(*values, (over, batch), preferred_element_type=dtype_of(operation.result.type))


_WINDOW = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "window_reversal")
_CONVOLUTION = (*_WINDOW, "dimension_numbers", "feature_group_count", "batch_group_count", "precision_config")


@row("convolution", attributes=_CONVOLUTION)
def convolution(frame: Frame, operation: Any, values: list[Any]) -> Any:
    from jaxlib.mlir.dialects import stablehlo

    own = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    axes = len(own.input_spatial_dimensions)
    strides, padding, *dilation, turned = (
        given(operation, name, default) for name, default in zip(_WINDOW, (1, [(0, 0)] * axes, 1, 1, 0), strict=True)
    )
    if np.any(turned):
        raise GraphError("window_reversal has no row: reverse the kernel, jnp.flip, before it is exported")
    numbers = frame.lax.ConvDimensionNumbers(
        (own.input_batch_dimension, own.input_feature_dimension, *own.input_spatial_dimensions),
        (own.kernel_output_feature_dimension, own.kernel_input_feature_dimension, *own.kernel_spatial_dimensions),
        (own.output_batch_dimension, own.output_feature_dimension, *own.output_spatial_dimensions),
    )
    each = [tuple(np.broadcast_to(one, axes).tolist()) for one in (strides, *dilation)]
    return frame.lax.conv_general_dilated(
        *values,
        each[0],
        [tuple(pair) for pair in np.asarray(padding).tolist()],
        lhs_dilation=each[1],
        rhs_dilation=each[2],
        dimension_numbers=numbers,
        feature_group_count=int(operation.attributes["feature_group_count"]),
        batch_group_count=int(operation.attributes["batch_group_count"]),
        preferred_element_type=dtype_of(operation.result.type),
    )


def given(operation: Any, name: str, default: Any) -> Any:
    """The numbers of an attribute, or the default: StableHLO may leave out an attribute that has it."""
    return np.asarray(operation.attributes[name]) if name in operation.attributes else default
