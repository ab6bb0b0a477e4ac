"""Operations that no program has, what to write instead, and the check that lists all of a graph in one error."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from xbackend.bring.missing import Missing
from xbackend.bring.tensorflow.calls import called
from xbackend.bring.tensorflow.functions import effects
from xbackend.bring.tensorflow.walk import ROWS, key, line_of, operations

INSTEAD = {  # by a regular expression of the type
    r"(Ref)?(Switch|Merge|Enter|Exit|NextIteration|LoopCond)|ControlTrigger": (
        "it is a loop or a choice of TensorFlow 1: call tf.compat.v1.enable_control_flow_v2() before the graph is "
        "made, or write tf.while_loop and tf.cond in a tf.function"
    ),
    r"(Eager)?PyFunc(Stateless)?": "it calls Python, which no program does: write it in TensorFlow's operations",
    r"Write\w*Summary|.*Summary(V2)?": "it writes a summary, which is text: leave it out of what is fetched",
    r"Print(V2)?|StringFormat|Timestamp": (
        "it has a side effect, which no program has: take it out, and return the array"
    ),
    r"CheckNumerics(V2)?": "it stops TensorFlow, which no program does: take it out, and look at xb.isfinite",
    r"(Mutable)?(Anonymous)?(Mutable)?(HashTable|DenseHashTable).*|LookupTable.*|InitializeTable.*": (
        "it looks up in a table: look it up before, and give the numbers as an input, for tf.gather"
    ),
    r"(Stateless)?(Random|Truncated|Parameterized|Multinomial|Stateful).*|RngReadAndSkip|RngSkip": (
        "it draws random numbers: give the draws as an input"
    ),
    r".*Ragged.*": "it is ragged: pad it, with a mask (RaggedTensor.to_tensor)",
    r".*Sparse.*": "it is sparse: use tf.sparse.to_dense before, or tf.gather and tf.scatter_nd",
    r".*String.*|Decode.*|Encode.*|Parse.*|AsString|Substr.*|Regex.*|Unicode.*": (
        "it works on text: do it before, and give numbers as an input"
    ),
    r".*Queue.*|.*Reader.*|Iterator.*|.*Dataset.*|ReadFile|WriteFile|Save.*|Restore.*|MatchingFiles": (
        "it reads or writes data: give the batch as an input"
    ),
    r"Collective.*|Nccl.*": "it joins devices: write xb.all_reduce, or a strategy",
    r".*FFT.*|Complex.*|Real|Imag|Angle|Conj": "it is of complex numbers, which no program has",
    r"Stack.*|TensorArray.*": "it is a list of TensorFlow 1: use tf.TensorArray in a tf.function",
}
_PATTERNS = [(re.compile(pattern), said) for pattern, said in INSTEAD.items()]


def instead(kind: str) -> str:
    """What to write in place of an operation of this type; empty where nothing is known."""
    return next((said for pattern, said in _PATTERNS if pattern.fullmatch(kind)), "")


def check_rows(
    name: str,
    outputs: Sequence[Any],
    controls: Sequence[Any],
    given: Any,
    function: Callable[[Any, str], Any],
    *,
    executed: bool = False,
) -> None:
    """Raises `GraphError`, which lists operations without a row and attributes that no row reads, also of functions.

    With ``executed`` it is for a session's run: all operations of called functions are checked, and no attributes.
    """
    missing, entered = Missing("TensorFlow"), set[int]()
    todo = operations(outputs, controls, given)
    for operation in todo:
        for attribute, value in () if executed else _unread(operation):
            missing.add(f"{operation.type} with {attribute}={value!r:.40}", line_of(operation))
        inner = [graph for graph, _ in called(function, operation)]
        if not inner and operation.type not in ROWS:
            missing.add(operation.type, line_of(operation), instead(operation.type))
        for one in inner:
            if id(one) not in entered:
                entered.add(id(one))
                own = {key(tensor): None for tensor in one.inputs}
                todo += one.get_operations() if executed else operations(one.outputs, effects(one), own)
    missing.check(name)


def _unread(operation: Any) -> list[tuple[str, Any]]:
    """Attributes, with their values, that the operation's row does not read, and that are not their default."""
    if operation.type not in ROWS:
        return []
    read = ROWS[operation.type].attributes
    numbers = {one.number_attr for one in (*operation.op_def.input_arg, *operation.op_def.output_arg)}
    found = []
    for attribute in operation.op_def.attr:
        if attribute.type in ("type", "list(type)") or attribute.name in read or attribute.name in numbers:
            continue
        value = operation.get_attr(attribute.name)
        kind = attribute.default_value.WhichOneof("value")
        default: Any = None
        if kind in ("s", "i", "f", "b"):
            default = getattr(attribute.default_value, kind)
        elif kind == "list":
            default = next((list(items) for _, items in attribute.default_value.list.ListFields()), [])
        if value != default:
            found.append((attribute.name, value))
    return found
