"""Programs to and from JSON: equal by fingerprint; damage is named."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from random_programs import Case, programs
from tiers import share

import xbackend as xb
from xbackend.backends import registry
from xbackend.errors import ProgramFormatError, ProgramVersionError
from xbackend.program.serialization import to_json
from xbackend.program.shared import SharedVariable

NAMES = ("dev0", "cpu:1", "/job:worker/task:1/gpu:0")


@settings(max_examples=share(300))
@given(programs(NAMES, grads=True))
def test_a_program_comes_back_equal(case: Case) -> None:
    text = case.program.to_json()
    back = xb.Program.from_json(text)
    assert back == case.program and hash(back) == hash(case.program)
    assert back.fingerprint == case.program.fingerprint
    assert back.to_json() == text
    assert [n.source for n in back.values] == [n.source for n in case.program.values]
    assert [n.device for n in back.values] == [n.device for n in case.program.values]
    assert [n.dtype for n in back.values] == [n.dtype for n in case.program.values]
    assert back.operations == case.program.operations
    for position, variable in case.program.shared.items():
        twin = back.shared[position]
        assert (twin.uid, twin.name, twin.device) == (variable.uid, variable.name, variable.device)
        assert twin.value.dtype == variable.value.dtype
        np.testing.assert_array_equal(twin.value, variable.value)


@settings(max_examples=share(50))
@given(programs())
def test_a_program_that_came_back_computes_the_same_bits(case: Case) -> None:
    backend = registry.get("numpy").load()
    before = backend.compile(case.program)(*case.arguments)
    backend.close()
    backend = registry.get("numpy").load()
    after = backend.compile(xb.Program.from_json(case.program.to_json()))(*case.arguments)
    leaves = json.dumps(before, default=lambda a: [str(a.dtype), list(a.shape), a.tobytes().hex()])
    assert leaves == json.dumps(after, default=lambda a: [str(a.dtype), list(a.shape), a.tobytes().hex()])


def example() -> xb.Program:
    w = xb.shared(np.array([1.0, 2.0, 3.0]), name="w", device="dev1")

    def function(x: Any) -> Any:
        with xb.device("dev0"):
            y = xb.full((3,), float("inf")) + x[::-1] * xb.asarray(np.array([1.0, np.nan, -0.0]))
        z = xb.concat([y, xb.arange(3.0) + xb.sum(w)], axis=0)
        xb.update(w, w * 2.0)
        loss = xb.sum(xb.where(z > 0.0, z, xb.zeros_like(z)))
        return {"loss": loss, "rest": (xb.grad(loss, w), xb.eye(2, k=1), xb.max(xb.reshape(z, (2, 3)), axis=1))}

    return xb.trace(function, xb.ArraySpec((3,)))


def test_the_fingerprint_is_that_of_what_is_computed_and_where() -> None:
    def traced(value: float, device: str, name: str = "dev0") -> xb.Program:
        def function(x: Any) -> Any:
            with xb.device(device):
                return x * value

        function.__name__ = name
        return xb.trace(function, xb.ArraySpec((2,)))

    assert traced(2.0, "dev0").fingerprint == traced(2.0, "dev0", name="other").fingerprint
    assert traced(2.0, "dev0") != traced(3.0, "dev0")
    assert traced(2.0, "dev0") != traced(2.0, "dev1")
    assert len(traced(2.0, "dev0").fingerprint) == 64


def test_the_file_is_json_without_nan_and_has_one_node_a_line() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    program = example()
    text = program.to_json()
    data = json.loads(text, parse_constant=refuse)
    assert len(data["nodes"]) == len(program.nodes) == text.count("\n") - 2
    assert xb.Program.from_json(text.encode()) == program
    assert xb.Program.from_json(json.dumps(data, indent=3)) == program


@pytest.mark.parametrize("version", [3, 4, 10**9])
def test_a_newer_version_is_named_with_what_to_do(version: int) -> None:
    data = json.loads(example().to_json())
    data["version"], data["nodes"] = version, [["an op of the future"]]
    with pytest.raises(ProgramVersionError, match=rf"version {version}.*reads up to 2.*pip install --upgrade"):
        xb.Program.from_json(json.dumps(data))


@pytest.mark.parametrize("version", [0, -1, "2", None, True, 2.0, [2]])
def test_a_version_that_never_was_is_damage(version: Any) -> None:
    data = json.loads(example().to_json())
    data["version"] = version
    with pytest.raises(ProgramFormatError, match="version"):
        xb.Program.from_json(json.dumps(data))


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", "3", '"x"', "{", "\x00", "[" * 100_000, b"\xff\xfe\x00", b"", None, 3, "9" * 9999]
)
def test_what_is_no_program_is_refused(text: Any) -> None:
    with pytest.raises(ProgramFormatError, match="not a program"):
        xb.Program.from_json(text)


def refused_or_equal(text: str | bytes, program: xb.Program) -> bool:
    """Whether the text is refused as damaged. Otherwise it must read as the very same program with the same state."""
    try:
        back = xb.Program.from_json(text)
    except (ProgramFormatError, ProgramVersionError):  # the version itself may have changed
        return True
    assert back.fingerprint == program.fingerprint, "a wrong program was read"
    assert back == program
    state = {i: (v.uid, v.name, v.device, v.value.tobytes()) for i, v in program.shared.items()}
    assert {i: (v.uid, v.name, v.device, v.value.tobytes()) for i, v in back.shared.items()} == state
    return False


def test_a_file_that_ends_too_early_is_refused() -> None:
    program = example()
    text = program.to_json()
    for end in range(len(text.rstrip()) - 1):
        assert refused_or_equal(text[:end], program), f"cut off after {end} characters"


def test_flipped_bytes_never_give_a_wrong_program() -> None:
    program, rng = example(), random.Random(0)
    data = program.to_json().encode()
    refused = 0
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        refused += refused_or_equal(bytes(damaged), program)
    # Accepted texts differ only in white space, source lines or the name.
    assert refused > 2000


HOSTILE: tuple[Callable[[Any, random.Random], Any], ...] = (
    lambda v, r: None,
    lambda v, r: r.choice([-1, 0, 1, 2**31, 2**63, 10**30, -(10**30), 1e308, 0.5]),
    lambda v, r: float("nan"),
    lambda v, r: float("inf"),
    lambda v, r: r.choice(["", "x", "cpu:0", "float64", "*", "a" * 5000, "\ud800", "NaN"]),
    lambda v, r: [],
    lambda v, r: {},
    lambda v, r: [v],
    lambda v, r: {"float": "nan"},
    lambda v, r: [10**18, "a"],
    lambda v, r: {"tuple": [[["*"]]]},
    lambda v, r: True,
    lambda v, r: str(v),
    lambda v, r: v[:-1] if isinstance(v, list | str) else v,
    lambda v, r: v * 2 if isinstance(v, list | str | int) else v,
    lambda v, r: [*v[1:], v[0]] if isinstance(v, list) and v else v,
    lambda v, r: v + 1 if isinstance(v, int) else v,
    lambda v, r: dict(list(v.items())[1:]) if isinstance(v, dict) else v,
)


def mutate(data: Any, rng: random.Random) -> Any:
    """The JSON data with one random part replaced by something hostile."""
    if isinstance(data, list | dict) and data and rng.random() < 0.85:
        place = rng.choice(list(data)) if isinstance(data, dict) else rng.randrange(len(data))
        data[place] = mutate(data[place], rng)
        return data
    return rng.choice(HOSTILE)(data, rng)


def test_changed_types_and_values_never_give_a_wrong_program() -> None:
    program, rng = example(), random.Random(1)
    text = program.to_json()
    refused = 0
    for _ in range(4000):
        data = json.loads(text)
        for _ in range(rng.choice([1, 1, 2, 4])):
            data = mutate(data, rng)
        refused += refused_or_equal(json.dumps(data), program)
    assert refused > 2500


def test_parts_that_do_not_fit_are_named() -> None:
    """The rules find these before the fingerprint does: the message says what is wrong."""

    def damaged(change: Callable[[dict[str, Any]], None]) -> str:
        data = json.loads(example().to_json())
        change(data)
        return json.dumps(data)

    def node(data: dict[str, Any], op: str) -> list[Any]:
        return next(n for n in data["nodes"] if n[0] == op)

    changes: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
        ("inputs", lambda d: node(d, "add")[1].__setitem__(0, len(d["nodes"]))),
        ("inputs", lambda d: node(d, "add")[1].append(0)),
        ("axis", lambda d: node(d, "max")[2].__setitem__("axis", [7])),
        ("axis", lambda d: node(d, "concat")[2].__setitem__("axis", -1)),
        ("axis", lambda d: node(d, "concat")[2].__setitem__("axis", 1e300)),
        ("does not have", lambda d: node(d, "add").__setitem__(0, "addition")),
        ("parameters", lambda d: node(d, "eye")[2].pop("k")),
        ("file says", lambda d: node(d, "eye")[3][0].__setitem__(0, [2, 3])),
        ("file says", lambda d: node(d, "add")[3][0].__setitem__(1, "int32")),
        ("leaves", lambda d: d.__setitem__("structure", "*")),
        ("updates|update", lambda d: d.__setitem__("updates", [[0, 0]])),
        ("names no value", lambda d: d.__setitem__("outputs", [-1, 0, 0, 0])),
        ("update|shared", lambda d: d.__setitem__("shared", {})),
        ("input", lambda d: d.__setitem__("inputs", [])),
        ("shared variables are not those", lambda d: next(iter(d["shared"].values())).__setitem__("uid", "other")),
    ]
    for expected, change in changes:
        with pytest.raises(ProgramFormatError, match=expected):
            xb.Program.from_json(damaged(change))


def test_a_changed_initial_value_of_a_shared_variable_is_found() -> None:
    data = json.loads(example().to_json())
    (row,) = data["shared"].values()
    row["value"]["data"] = "A" + row["value"]["data"][1:-2] + row["value"]["data"][-2:]
    row["value"]["data"] = row["value"]["data"].replace("8D", "8E")
    with pytest.raises(ProgramFormatError, match="not those that were saved"):
        xb.Program.from_json(json.dumps(data))


def test_values_can_be_left_out_for_a_reader_that_has_them() -> None:
    w = xb.shared(np.arange(6.0).reshape(2, 3), name="w")
    program = xb.trace(lambda x: x @ w, xb.ArraySpec((4, 2)))
    text = program.to_json(values=False)
    read = xb.Program.from_json(text)
    assert read == program
    (variable,) = read.shared.values()
    assert (variable.uid, variable.value.tolist()) == (w.uid, [[0.0] * 3] * 2)
    lost = json.loads(program.to_json())
    lost["state"] = None
    with pytest.raises(xb.errors.ProgramFormatError, match="has lost its value"):
        xb.Program.from_json(json.dumps(lost))


def test_a_program_without_its_values_says_so_and_cannot_pass_for_one_with_them() -> None:
    program = example()
    text = to_json(program, values=False)
    back = xb.Program.from_json(text)
    assert back == program
    (mine,), (theirs,) = program.shared.values(), back.shared.values()
    assert (theirs.uid, theirs.name, theirs.device) == (mine.uid, mine.name, mine.device)
    np.testing.assert_array_equal(theirs.value, np.zeros(3))
    whole, bare = json.loads(program.to_json()), json.loads(text)
    for changed in ({**whole, "state": None}, {**bare, "state": whole["state"]}, {**whole, "shared": bare["shared"]}):
        with pytest.raises(ProgramFormatError, match="has lost its value"):
            xb.Program.from_json(json.dumps(changed))


SAVES = """
import os, sys
os.getpid = lambda: 7  # in containers numbers of processes repeat
import numpy as np, xbackend as xb
w = xb.shared(np.array(float(sys.argv[1])), "w")
print(xb.trace(lambda: w * 1.0).to_json())
"""


def test_variables_of_two_processes_are_never_one() -> None:
    texts = [
        subprocess.run([sys.executable, "-c", SAVES, start], capture_output=True, check=True, text=True).stdout
        for start in ("5", "0")
    ]
    first, second = map(xb.Program.from_json, texts)
    with xb.open("numpy", isolated=False) as backend:
        assert [backend.compile(program)() for program in (first, second, first)] == [5.0, 0.0, 5.0]
        # A file that is read twice has one variable, even an older file with another form of identities.
        old = SharedVariable(np.array(5.0), "w", uid="w/7.0")
        before = [xb.Program.from_json(xb.trace(lambda: old * 1.0).to_json()) for _ in range(2)]
        backend.set_value(old, 7.0)
        assert [backend.compile(program)() for program in (*before, first)] == [7.0, 7.0, 5.0]
