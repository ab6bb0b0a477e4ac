"""Programs to and from JSON.

What is read is not believed: every shape and dtype is inferred again, every reference checked, and the fingerprint
compared, so that a damaged file is named as one instead of becoming a wrong program.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from xbackend.devices import canonical
from xbackend.errors import ProgramFormatError, ProgramVersionError, XBackendError
from xbackend.program.dtypes import DType
from xbackend.program.ops import OPS
from xbackend.program.program import Node, Program
from xbackend.program.shared import SharedVariable
from xbackend.program.structure import count_leaves

FORMAT = "xbackend.program"
VERSION = 1
_PLAIN = (str, int, float, bool, type(None))


def _encode_array(value: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
    data = base64.b64encode(little.tobytes()).decode("ascii")
    return {"dtype": value.dtype.name, "shape": list(value.shape), "data": data}


def _decode_array(data: dict[str, Any]) -> np.ndarray:
    dtype = np.dtype(DType(data["dtype"]).value)
    raw = base64.b64decode(data["data"], validate=True)
    array = np.frombuffer(raw, dtype.newbyteorder("<")).reshape(data["shape"]).astype(dtype)
    array.flags.writeable = False
    return array


def _encode_number(value: Any) -> Any:
    # JSON has no infinities and no NaN; Python's own spelling of them would not be JSON.
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    return value


def to_json(program: Program) -> str:
    """The program as JSON text (keys sorted, one node a line)."""
    nodes = []
    for node in program.nodes:
        params = {
            k: _encode_array(v) if isinstance(v, np.ndarray) else _encode_number(v) for k, v in node.params.items()
        }
        nodes.append([node.op, node.inputs, params, node.shape, node.dtype, node.device, node.source])
    shared = {
        str(i): {"name": v.name, "uid": v.uid, "device": v.device, "value": _encode_array(v.value)}
        for i, v in program.shared.items()
    }
    head = {
        "format": FORMAT,
        "version": VERSION,
        "fingerprint": program.fingerprint,
        "name": program.name,
        "inputs": program.inputs,
        "outputs": program.outputs,
        "structure": program.structure,
        "shared": shared,
        "updates": sorted(program.updates.items()),
    }
    body = ",\n".join(json.dumps(n, sort_keys=True, allow_nan=False) for n in nodes)
    return json.dumps(head, sort_keys=True, allow_nan=False)[:-1] + f', "nodes": [\n{body}\n]}}\n'


def from_json(text: str | bytes) -> Program:
    """Read a program. Raises `ProgramFormatError` for damage, `ProgramVersionError` for a newer format."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProgramFormatError(f"not a program: {error}; save it again with Program.to_json()") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ProgramFormatError(f"not a program: the field format is not {FORMAT!r}")
    version = data.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        raise ProgramVersionError(
            f"the program has format version {version}, this xbackend reads up to {VERSION}: "
            "upgrade with pip install --upgrade xbackend"
        )
    if version != VERSION:
        raise ProgramFormatError(f"the program's format version is {version!r}, not {VERSION}")
    try:
        program = _read(data)
    except ProgramFormatError:
        raise
    except (XBackendError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ProgramFormatError(f"the program is damaged: {type(error).__name__}: {error}") from error
    if program.fingerprint != data.get("fingerprint"):
        raise ProgramFormatError(
            f"the program is damaged: its content has the fingerprint {program.fingerprint[:12]}, "
            f"the file says {str(data.get('fingerprint'))[:12]}"
        )
    return program


def _decode_params(op: str, params: dict[str, Any]) -> dict[str, Any]:
    if set(params) != set(OPS[op].params):
        raise ProgramFormatError(f"op {op} has the parameters {sorted(params)}, not {sorted(OPS[op].params)}")
    decoded: dict[str, Any] = {}
    for key, value in params.items():
        if key == "value":
            decoded[key] = _decode_array(value)
        elif isinstance(value, list):
            decoded[key] = tuple(value)
        elif isinstance(value, dict):
            decoded[key] = float(value["float"])
        else:
            decoded[key] = value
        items = decoded[key] if isinstance(decoded[key], tuple) else (decoded[key],)
        if key != "value" and not all(isinstance(i, _PLAIN) for i in items):
            raise ProgramFormatError(f"parameter {key} of op {op} is {value!r}")
    return decoded


def _read_nodes(rows: list[Any]) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for position, (op, inputs, params, shape, dtype, device, source) in enumerate(rows):
        if op not in OPS:
            raise ProgramFormatError(f"node {position} is an op {op!r} that this xbackend does not have")
        if OPS[op].arity not in (len(inputs), -1) or not all(type(i) is int and 0 <= i < position for i in inputs):
            raise ProgramFormatError(f"node {position} ({op}) has the inputs {inputs}")
        decoded = _decode_params(op, params)
        aval = OPS[op].infer([nodes[i].aval for i in inputs], decoded)
        declared = tuple(shape)
        if not all(type(n) is int and n >= 0 for n in declared):
            raise ProgramFormatError(f"node {position} ({op}) has the shape {shape}")
        if aval.shape != declared or aval.dtype != dtype:
            raise ProgramFormatError(f"node {position} ({op}) is {aval}, the file says {dtype}{shape}")
        where = canonical(device) if device is not None else None
        nodes.append(Node(op, tuple(inputs), decoded, aval.shape, aval.dtype, where, str(source)))
    return tuple(nodes)


def _references(data: dict[str, Any], key: str, nodes: tuple[Node, ...]) -> tuple[int, ...]:
    found = tuple(data[key])
    if not all(type(i) is int and 0 <= i < len(nodes) for i in found):
        raise ProgramFormatError(f"{key} {list(found)} name no node; there are {len(nodes)}")
    return found


def _read(data: dict[str, Any]) -> Program:
    nodes = _read_nodes(data["nodes"])
    inputs, outputs = _references(data, "inputs", nodes), _references(data, "outputs", nodes)
    if any(nodes[i].op != "input" for i in inputs):
        raise ProgramFormatError(f"inputs {list(inputs)} are not all input nodes")
    if count_leaves(data["structure"]) != len(outputs):
        raise ProgramFormatError(f"the structure has not the {len(outputs)} leaves of the outputs")
    shared = {}
    for key, row in data["shared"].items():
        value = _decode_array(row["value"])
        if nodes[int(key)].op != "shared" or nodes[int(key)].aval != (value.shape, value.dtype.name):
            raise ProgramFormatError(f"shared variable {row['name']!r} does not fit node {key}")
        shared[int(key)] = SharedVariable(value, row["name"], row["device"], uid=row["uid"])
    updates = {int(target): int(expression) for target, expression in data["updates"]}
    for target, expression in updates.items():
        if target not in shared or nodes[target].aval != nodes[expression].aval:
            raise ProgramFormatError(f"the update of node {target} by node {expression} does not fit")
    if {i for i, n in enumerate(nodes) if n.op == "shared"} != set(shared):
        raise ProgramFormatError("a shared node has no shared variable")
    return Program(str(data["name"]), nodes, inputs, outputs, data["structure"], shared, updates)
