"""Functions of JAX for several devices become programs of several devices, with JAX's values and gradients."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from bring_helpers import REPOSITORY, Brought, brought, check, compare
from test_cli import xbackend

import xbackend as xb
from xbackend.workers.bringing import bring
from xbackend.workers.remote import ready_environment

pytestmark = [pytest.mark.tier("standard"), pytest.mark.needs("jax")]

SCRIPT = Path(__file__).with_name("jax_sharded.py")
GRAPHS = re.findall(r"^def ([a-z]\w*)\(\w+=", SCRIPT.read_text(), re.MULTILINE)
FOUR = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
DEVICES = {f"dev{i}": f"cpu:{i}" for i in range(4)}
# Compilers have the gradients of a few beside `loss`: all would be compiled.
ELSEWHERE = {"jax": ("own_gradient", "two_axes"), "tensorflow": ("own_gradient", "rings"), "pytensor-c": ()}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Brought]:
    return brought(ready_environment("jax").python, SCRIPT, tmp_path_factory.mktemp("sharded"), **FOUR)


class OnFour:
    """A backend that binds the devices of what it compiles."""

    def __init__(self, backend: xb.Backend) -> None:
        self.backend = backend

    def compile(self, program: xb.Program) -> xb.Executable:
        used = {node.device for node in program.nodes}
        return self.backend.compile(program, devices={one: to for one, to in DEVICES.items() if one in used})


@pytest.fixture(scope="module")
def oracle() -> Iterator[OnFour]:
    with xb.open("numpy", virtual_devices=4) as backend:
        yield OnFour(backend)


def test_each_function_came_in(graphs: dict[str, Brought]) -> None:
    assert set(graphs) == set(GRAPHS)
    assert sum(bool(one.gradients) for one in graphs.values()) >= len(graphs) - 2


@pytest.mark.parametrize("name", GRAPHS)
def test_a_function_has_jaxs_values_and_gradients(name: str, graphs: dict[str, Brought], oracle: OnFour) -> None:
    check(graphs[name], oracle, xb)


def counts(run: xb.Executable, op: str, by: str) -> Counter[str]:
    return Counter(getattr(one, by) for one in run.placement.ops if one.op == op)


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("backend", ELSEWHERE)
def test_so_it_has_on_other_backends_and_on_its_devices(backend: str, graphs: dict[str, Brought]) -> None:
    with xb.open(backend, virtual_devices=4) as opened:
        for name in ELSEWHERE[backend]:
            check(graphs[name], OnFour(opened), xb)
        run = OnFour(opened).compile(xb.Program.from_json(graphs["loss"].program))
        compare([run(*graphs["loss"].inputs)], graphs["loss"].results)
        assert counts(run, "matmul", "executed") == dict.fromkeys(DEVICES.values(), 1), run.placement.listing()


def test_ops_are_on_the_device_of_their_position(graphs: dict[str, Brought], oracle: OnFour) -> None:
    def bound(name: str, op: str) -> Counter[str]:
        run = oracle.compile(xb.Program.from_json(graphs[name].program))
        run(*graphs[name].inputs)
        return counts(run, op, "bound")

    each = dict.fromkeys(DEVICES.values(), 1)
    assert bound("loss", "matmul") == bound("loss", "tanh") == each
    assert bound("model_parallel", "matmul") == dict.fromkeys(each, 2)
    assert bound("rings", "matmul") == dict.fromkeys(each, 4)
    assert bound("moved", "matmul") == {"cpu:1": 1} and bound("moved", "sum") == {"cpu:2": 1}


def test_what_is_returned_and_taken_in_the_same_shards_stays_on_its_devices(
    graphs: dict[str, Brought], oracle: OnFour
) -> None:
    program = xb.Program.from_json(graphs["chained"].program)
    assert sum(node.op == "concat" for node in program.nodes) == 1
    assert sum(node.op == "slice" for node in program.nodes) == 4


def test_what_follows_from_a_position_alone_is_computed_when_it_comes_in(graphs: dict[str, Brought]) -> None:
    ops = Counter(node.op for node in xb.Program.from_json(graphs["rings"].program).nodes)
    assert ops["slice_set"] == 16 and not {"where", "take", "take_set", "remainder"} & set(ops)


def test_a_wrong_collective_would_be_found(tmp_path: Path, oracle: OnFour) -> None:
    """The largest number of all devices that is the smallest, planted in the importer."""
    found = brought(ready_environment("jax").python, SCRIPT, tmp_path, "--planted", "extrema", "loss", **FOUR)
    check(found["loss"], oracle, xb)
    with pytest.raises(AssertionError, match="result 0"):
        check(found["extrema"], oracle, xb)


SIX = """
import jax
from jax import lax, numpy as jnp

mesh = jax.make_mesh((6,), ("i",))


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P())
def mean(x):
    return lax.pmean(jnp.sum(x * x), "i")


def inputs():
    return [jax.device_put(jnp.arange(12.0), jax.NamedSharding(mesh, jax.P("i")))]
"""


def test_a_mesh_of_more_devices_than_the_machine_has_is_made(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(SIX)
    origin = bring("jax", f"{path}:mean", None)
    assert origin.program.logical_devices == tuple(f"dev{i}" for i in range(6))
    assert origin.gradient == ["x"]
    np.testing.assert_allclose(origin.slopes[0], np.arange(12.0) / 3.0)


def test_the_code_of_the_document_runs(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "bring.md").read_text().split("## Several devices of JAX")[1].split("\n## ")[0]
    ((name, code),) = re.findall(r"```python\n# (\S+)\n(.*?)```", text, re.DOTALL)
    (command,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    (tmp_path / name).write_text(code)
    said = xbackend(*shlex.split(command)[1:], cwd=tmp_path).stdout
    assert "agree with the oracle: numpy" in said
    products = [line for line in said.splitlines() if "matmul" in line]
    assert all(f"dev{i} = cpu:{i % 2}" in "".join(products) for i in range(4)), said
