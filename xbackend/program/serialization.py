"""Programs to and from JSON.

Reading infers every shape and dtype again, checks every reference and compares the fingerprint: a damaged file is
refused and never becomes a wrong program.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from xbackend.devices import canonical
from xbackend.errors import ProgramFormatError, ProgramVersionError, XBackendError
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.ops import ARRAY, BODY, OPS
from xbackend.program.program import Nodes, Program, Value
from xbackend.program.shared import SharedVariable
from xbackend.program.structure import count_leaves

FORMAT = "xbackend.program"
VERSION = 2

# Errors that reading hostile data may raise.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


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


def _encode_nodes(program: Program) -> list[Any]:
    return [
        [n.op, n.inputs, {k: _encode_param(v) for k, v in n.params.items()}, n.results, n.device, n.source]
        for n in program.nodes
    ]


def _encode_param(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, Program):  # the body of a loop or a choice
        own = {key: getattr(value, key) for key in ("name", "inputs", "outputs", "structure")}
        return {**own, "nodes": _encode_nodes(value)}
    # JSON has no infinities and no NaN; Python's own spelling of them would not be JSON.
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    return value


def _state_digest(shared: Mapping[int, SharedVariable]) -> str:
    """SHA-256 of the shared variables' identities and initial values, which the fingerprint leaves out."""
    digest = hashlib.sha256()
    for i, variable in sorted(shared.items()):
        digest.update(json.dumps([i, variable.name, variable.uid, variable.device]).encode())
        digest.update(variable.value.astype(variable.value.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def to_json(program: Program, values: bool = True) -> str:
    """The program as JSON text (keys sorted, one node a line).

    Without ``values`` the initial values of shared variables are left out, for a reader that has their storage already;
    reading makes them zeros.
    """
    shared = {
        str(i): {"name": v.name, "uid": v.uid, "device": v.device, "value": _encode_array(v.value) if values else None}
        for i, v in program.shared.items()
    }
    head = {
        "format": FORMAT,
        "version": VERSION,
        "fingerprint": program.fingerprint,
        "state": _state_digest(program.shared) if values else None,
        "name": program.name,
        "inputs": program.inputs,
        "outputs": program.outputs,
        "structure": program.structure,
        "shared": shared,
        "updates": sorted(program.updates.items()),
    }
    encode = json.JSONEncoder(sort_keys=True, allow_nan=False).encode
    body = ",\n".join(map(encode, _encode_nodes(program)))
    return encode(head)[:-1] + f', "nodes": [\n{body}\n]}}\n'


def from_json(text: str | bytes) -> Program:
    """Read a program. Raises `ProgramFormatError` for damage, `ProgramVersionError` for a newer format."""
    try:
        data = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ProgramFormatError(f"not a program: {error}; save it again with Program.to_json()") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ProgramFormatError(f"not a program: the field format is not {FORMAT!r}")
    version = data.get("version")
    if type(version) is int and version > VERSION:
        raise ProgramVersionError(
            f"the program has format version {version}, this xbackend reads up to {VERSION}: "
            "upgrade with pip install --upgrade xbackend"
        )
    if type(version) is not int or version != VERSION:
        raise ProgramFormatError(f"the program's format version is {version!r}, not {VERSION}")
    try:
        program = _read(data)
    except ProgramFormatError:
        raise
    except (XBackendError, *_DAMAGE) as error:
        raise ProgramFormatError(f"the program is damaged: {type(error).__name__}: {error}") from error
    if program.fingerprint != data.get("fingerprint"):
        raise ProgramFormatError(
            f"the program is damaged: its content has the fingerprint {program.fingerprint[:12]}, "
            f"the file says {str(data.get('fingerprint'))[:12]}"
        )
    if data.get("state") is not None and _state_digest(program.shared) != data["state"]:
        raise ProgramFormatError("the program is damaged: its shared variables are not those that were saved")
    return program


def _decode_params(op: str, params: dict[str, Any]) -> dict[str, Any]:
    if set(params) != set(OPS[op].params):
        raise ProgramFormatError(f"op {op} has the parameters {sorted(params)}, not {sorted(OPS[op].params)}")
    return {key: _decode_param(op, key, value) for key, value in params.items()}


def _decode_param(op: str, key: str, value: Any) -> Any:
    kind = OPS[op].params[key]
    if kind is ARRAY:
        return _decode_array(value)
    if kind is BODY:
        body = _read({**value, "shared": {}, "updates": [], "state": None})
        if any(node.op == "transfer" for node in body.nodes):
            raise ProgramFormatError(f"the {key} of a {op} transfers to another device")
        return body
    decoded: Any = float(value["float"]) if isinstance(value, dict) else value
    items = decoded if isinstance(decoded, list) else [decoded]
    if isinstance(decoded, list) is not kind.many or not all(type(item) in kind.types for item in items):
        raise ProgramFormatError(f"parameter {key} of op {op} is {value!r:.80}")
    return tuple(decoded) if kind.many else decoded


def _check_axes(op: str, params: dict[str, Any], avals: list[Aval]) -> None:
    """Check axes, which tracing normalises and the shape rules trust. Raises `ProgramFormatError`."""
    if "axis" in params:
        axes = params["axis"] if OPS[op].params["axis"].many else (params["axis"],)
        rank = len(avals[0].shape) + (op == "stack")
        if list(axes) != sorted(set(axes)) or not all(0 <= a < rank for a in axes):
            raise ProgramFormatError(f"op {op} has the axis {params['axis']} in an array of rank {rank}")
    if any(n < 0 for n in params.get("shape", ())):
        raise ProgramFormatError(f"op {op} makes the shape {params['shape']}")


def _read_nodes(rows: list[Any]) -> Nodes:
    written = Nodes()
    for number, (op, inputs, params, results, device, source) in enumerate(rows):
        if op not in OPS:
            raise ProgramFormatError(f"node {number} is an op {op!r} that this xbackend does not have")
        known = len(written.values)
        if OPS[op].arity not in (len(inputs), -1) or not all(type(i) is int and 0 <= i < known for i in inputs):
            raise ProgramFormatError(f"node {number} ({op}) has the inputs {inputs}")
        decoded, avals = _decode_params(op, params), [written.values[i].aval for i in inputs]
        _check_axes(op, decoded, avals)
        found = OPS[op].results(avals, decoded)
        declared = [(tuple(shape), dtype) for shape, dtype in results]
        if not all(type(n) is int and n >= 0 for shape, _ in declared for n in shape):
            raise ProgramFormatError(f"node {number} ({op}) has the results {results}")
        if list(found) != declared:
            said = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in declared)
            raise ProgramFormatError(f"node {number} ({op}) is {', '.join(map(str, found))}, the file says {said}")
        where = canonical(device) if device is not None else None
        written.add(op, inputs, decoded, found, device=where, source=str(source))
    return written


def _indices(numbers: Any, what: str, values: list[Value]) -> tuple[int, ...]:
    indices = tuple(numbers)
    if not all(type(i) is int and 0 <= i < len(values) for i in indices):
        raise ProgramFormatError(f"{what} {list(indices)} names no value; there are {len(values)}")
    return indices


def _read(data: dict[str, Any]) -> Program:
    written = _read_nodes(data["nodes"])
    values = written.values
    inputs, outputs = (_indices(data[key], key, values) for key in ("inputs", "outputs"))
    if sorted(inputs) != [i for i, n in enumerate(values) if n.op == "input"]:
        raise ProgramFormatError(f"inputs {list(inputs)} are not the input nodes")
    if count_leaves(data["structure"]) != len(outputs):
        raise ProgramFormatError(f"the structure has not the {len(outputs)} leaves of the outputs")
    shared = {}
    for key, row in data["shared"].items():
        if (row["value"] is None) != (data["state"] is None):
            raise ProgramFormatError(f"shared variable {row['name']!r} has lost its value")
        if row["value"] is None:
            value = np.zeros(values[int(key)].shape, values[int(key)].dtype.value)
        else:
            value = _decode_array(row["value"])
        if values[int(key)].op != "shared" or values[int(key)].aval != (value.shape, value.dtype.name):
            raise ProgramFormatError(f"shared variable {row['name']!r} does not fit node {key}")
        if not (isinstance(row["uid"], str) and row["uid"]):
            raise ProgramFormatError(f"shared variable {row['name']!r} has the identity {row['uid']!r:.60}")
        shared[int(key)] = SharedVariable(value, row["name"], row["device"], uid=row["uid"])
    updates = {}
    for pair in data["updates"]:
        target, expression = _indices(pair, "an update", values)
        updates[target] = expression
        if target not in shared or values[target].aval != values[expression].aval:
            raise ProgramFormatError(f"the update of node {target} by node {expression} does not fit")
    if {i for i, n in enumerate(values) if n.op == "shared"} != set(shared):
        raise ProgramFormatError("a shared node has no shared variable")
    return written.program(str(data["name"]), inputs, outputs, data["structure"], shared, updates)
