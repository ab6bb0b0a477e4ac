"""Unchanged tutorial scripts of Theano and TensorFlow 1 for several devices are imported, and run on backends."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bring_helpers import LIMITS, REPOSITORY, Brought, brought, compare, flat
from bring_old import IMAGES, LABELS, NAMES, SQUARE, TRAINED
from test_cli import xbackend

import xbackend as xb
from xbackend import environments
from xbackend.cli import users
from xbackend.cli.graphs import GraphChoice
from xbackend.errors import GraphError
from xbackend.results.naming import FILE
from xbackend.workers.bringing import bring

pytestmark = pytest.mark.tier("standard")

KINDS, ALL = ("theano", "tensorflow"), (*NAMES, *TRAINED)
# Theano's names of contexts; TensorFlow's GPUs, which the machine need not have.
BOUND = {"theano": {"dev0": "cpu:1", "dev1": "cpu:2"}, "tensorflow": {"gpu:0": "cpu:1", "gpu:1": "cpu:2"}}
EXPECTED = {
    "product": [[22, 28], [49, 64]],
    "default_product": [[22, 28], [49, 64]],
    "two_products": [[44, 56], [98, 128]],
    "powers": np.linalg.matrix_power(SQUARE, 10) + np.linalg.matrix_power(SQUARE.T, 10),
    "single": np.linalg.matrix_power(SQUARE, 10) + np.linalg.matrix_power(SQUARE.T, 10),
    "multi": np.linalg.matrix_power(SQUARE, 10) + np.linalg.matrix_power(SQUARE.T, 10),
    "doubled": [2, 4, 6],
    "replicated": [[9], [21], [33], [45]],
}
# The devices of each op, and of the one that joins results.
PLACES = {
    "product": {"matmul": ["cpu:2"]},
    "two_products": {"matmul": ["cpu:1", "cpu:2"], "add": ["cpu:0"]},
    "default_product": {"matmul": ["cpu:0"]},
    "powers": {"matmul": ["cpu:1"] * 9 + ["cpu:2"] * 9, "add": ["cpu:0"]},
    "single": {"matmul": ["cpu:1"] * 18},
    "multi": {"matmul": ["cpu:1"] * 9 + ["cpu:2"] * 9, "add": ["cpu:0"]},
    "doubled": {"multiply": ["cpu:2"]},
    "replicated": {"matmul": ["cpu:1", "cpu:2"], "concat": ["cpu:0"]},
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Brought]]:
    made = {}
    for kind in KINDS:
        environment = environments.get(kind)
        python = (environment if environment.state == "ready" else environments.sync(kind)).python
        made[kind] = brought(python, Path(__file__).with_name("bring_old.py"), tmp_path_factory.mktemp(kind), kind)
    return made


def compiled(backend: Any, kind: str, graph: Brought, on: str = "") -> Any:
    """The compiled graph, on the devices of its kind, or all on the device ``on``."""
    program = xb.Program.from_json(graph.program)
    used = {node.device for node in program.nodes}
    return backend.compile(program, devices={name: on or to for name, to in BOUND[kind].items() if name in used})


@pytest.mark.tier("exhaustive", "jax", "tensorflow")
@pytest.mark.parametrize(
    ("name", "asked"),
    [*((name, ALL) for name in ("numpy", "jax", "tensorflow")), ("pytensor-c", ("doubled", "product"))],
)
def test_numbers_are_those_of_the_tutorial_and_of_its_framework(scripts: Any, name: str, asked: Any) -> None:
    with xb.open(name, virtual_devices=3) as backend:
        for kind in KINDS:
            for graph, one in ((scripts[kind][one], one) for one in asked if one in scripts[kind]):
                found = flat(compiled(backend, kind, graph)(*graph.inputs))
                compare(found, graph.results)
                if one in EXPECTED:
                    np.testing.assert_allclose(found[0], EXPECTED[one], LIMITS["float32"])


@pytest.mark.parametrize("kind", KINDS)
def test_ops_run_where_the_script_says(scripts: Any, kind: str) -> None:
    with xb.open("numpy", virtual_devices=3) as backend:
        for one, places in PLACES.items():
            graph = scripts[kind][one]
            run = compiled(backend, kind, graph)
            run(*graph.inputs)
            ops = run.placement.ops
            found = {op: sorted(o.bound for o in ops if o.op == op) for op in places}
            assert found == places, (one, run.placement.listing())


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_run_where_their_ops_do(scripts: Any, kind: str) -> None:
    """All products of a part are on its device, and the losses equal those on one device."""
    graph = scripts[kind]["model_parallel"]
    losses = []
    for on in ("cpu:0", ""):
        with xb.open("numpy", virtual_devices=3) as backend:
            run = compiled(backend, kind, graph, on)
            losses.append([flat(run(*graph.inputs))[0] for _ in range(10)])
            products = [o.bound for o in run.placement.ops if o.op == "matmul"]
    np.testing.assert_allclose(*losses, rtol=1e-6)
    assert losses[0][-1] < losses[0][0]
    assert products.count("cpu:1") == products.count("cpu:2") == len(products) / 2


@pytest.mark.parametrize(
    ("kind", "name", "trained"),
    [("theano", "towers", "s"), ("tensorflow", "towers", "softmax/s"), ("tensorflow", "epochs", "model/weights")],
)
def test_towers_are_one_device_on_the_whole_batch(scripts: Any, kind: str, name: str, trained: str) -> None:
    images, labels = IMAGES.reshape(10, 3).astype(np.float64), LABELS.reshape(10)
    weights = np.zeros((3, 3))
    for _ in range(3):
        each = np.exp(images @ weights)
        slopes = images.T @ (each / each.sum(1, keepdims=True) - np.eye(3)[labels]) / len(labels)
        weights -= 0.5 * slopes
    with xb.open("numpy", virtual_devices=3) as backend:
        graph = scripts[kind][name]
        run = compiled(backend, kind, graph)
        for _ in range(3):
            run(*graph.inputs)
        (variable,) = [v for v in run.program.shared.values() if v.name == trained]
        np.testing.assert_allclose(backend.get_value(variable), weights, 1e-5, 1e-6)
        products = [o.bound for o in run.placement.ops if o.op == "matmul"]
        assert products.count("cpu:1") == products.count("cpu:2") == len(products) / 2


def test_a_summary_is_left_out_of_the_fetches() -> None:
    target, inputs = f"{Path(__file__).with_name('old_tensorflow.py')}:with_summary", ["float32[5,3]", "int32[5]"]
    with pytest.raises(GraphError, match=r"MergeSummary.*leave it out of what is fetched"):
        bring("tensorflow", target, inputs * 2)


@pytest.mark.tier("exhaustive")
def test_the_code_of_the_document_runs(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "bring.md").read_text().split("## Move old code")[1].split("\n## ")[0]
    for name, code in re.findall(r"```python\n# (\S+)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(code)
    (commands,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    said = [xbackend(*shlex.split(line)[1:], cwd=tmp_path).stdout for line in commands.splitlines()]
    for run, devices in zip(said, ("dev0 = cpu:0 dev1 = cpu:1", "gpu:0 = cpu:0 gpu:1 = cpu:1"), strict=False):
        assert "agree with the oracle: numpy" in run
        products = [line for line in run.splitlines() if "matmul" in line]
        assert all(one in "".join(products) for one in re.findall(r"\S+ = \S+", devices)), run
    assert "jax.device_put" in (tmp_path / "new.py").read_text()


@pytest.mark.tier("exhaustive")
@pytest.mark.needs("theano-gpuarray")
def test_contexts_without_devices_make_the_graphs_of_those_with(scripts: Any, tmp_path: Path) -> None:
    script = Path(__file__).with_name("bring_old.py")
    found = brought(environments.get("theano").python, script, tmp_path, "contexts")
    for name, graph in scripts["theano"].items():
        one, other = (xb.Program.from_json(each.program) for each in (graph, found[name]))
        assert [(n.op, n.inputs, n.device) for n in one.nodes] == [(n.op, n.inputs, n.device) for n in other.nodes]
        compare(found[name].results, graph.results)


CONTEXTS = """
import os
os.environ["THEANO_FLAGS"] = "device=cuda0,floatX=float32,contexts=dev0->cuda0;dev1->cuda1"
import numpy as np, theano, theano.tensor as T
x = T.fvector("x")
w, u = (theano.shared(np.arange(3, dtype="float32"), name, target=name) for name in ("dev0", "dev1"))
host, default = theano.shared(np.float32(2.0), "host"), theano.shared(np.arange(3, dtype="float32"), "default")
out = [(w * x).transfer("dev1"), w + u, w.transfer("cpu"), host * x]
mixed = [w * x, default * x, host * x]
def step(row, state, w):
    return state + row * w.sum()
def moving(row, state, w):
    return state + row * w.transfer("dev1").sum()
loop, refused = (theano.scan(f, x, T.zeros_like(x[0]), [w])[0][-1] for f in (step, moving))
def unknown():
    theano.shared(np.arange(3), target="dev2")
def inputs():
    return [np.arange(3.0)]
if os.environ.get("UNKNOWN"):
    unknown()
"""


def test_where_ops_of_several_contexts_and_of_none_are(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(CONTEXTS)
    origin = bring("theano", f"{tmp_path / 'old.py'}:out", None)
    nodes = [(n.op, n.device) for n in origin.program.nodes if n.op in ("add", "multiply", "transfer")]
    places = [
        ("multiply", "dev0"),
        ("transfer", "dev1"),
        ("add", "cpu:0"),
        ("multiply", "cpu:0"),
        ("transfer", "cpu:0"),
    ]
    assert nodes == places
    assert {v.name: v.device for v in origin.program.shared.values()} == {
        "dev0": "dev0",
        "dev1": "dev1",
        "host": "cpu:0",
    }
    mixed = bring("theano", f"{tmp_path / 'old.py'}:mixed", None)
    assert [n.device for n in mixed.program.nodes if n.op == "multiply"] == ["dev0", None, None]
    source = next(n.source for n in origin.program.nodes if n.op == "shared")
    assert source == f"{tmp_path / 'old.py'}:6"


@pytest.mark.tier("exhaustive")
def test_a_loop_is_on_one_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.py").write_text(CONTEXTS)
    origin = bring("theano", f"{tmp_path / 'old.py'}:loop", None)
    assert [n.device for n in origin.program.nodes if n.op == "scan"] == ["dev0"]
    with pytest.raises(GraphError, match=r"GpuToGpu.*in a loop or an inner graph on dev0.*move arrays"):
        bring("theano", f"{tmp_path / 'old.py'}:refused", None)
    monkeypatch.setenv("UNKNOWN", "yes")
    with pytest.raises(GraphError, match="context name dev2 not defined"):
        bring("theano", f"{tmp_path / 'old.py'}:loop", None)


def test_a_script_is_named_beside_its_framework() -> None:
    made = users.cases(
        f"{Path(__file__).with_name('old_tensorflow.py')}:product", None, {}, graph=GraphChoice("tensorflow")
    )
    assert made[0].parameters[FILE].endswith("old_tensorflow.py")
    assert made[0].parameters["graph"].startswith("TensorFlow ")


TOWERS = """\
import numpy as np
import tensorflow as tf

x = tf.placeholder(tf.float32, [3])
total = tf.reduce_sum(x)
"""
NOW = "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()"


@pytest.mark.tier("exhaustive")
@pytest.mark.needs("tensorflow")
def test_a_script_of_tensorflow_1_is_told_its_first_lines_and_whose_numbers_it_has(tmp_path: Path) -> None:
    file = tmp_path / "towers.py"
    file.write_text(TOWERS)
    with pytest.raises(GraphError, match=r"no attribute 'placeholder'\na script of TensorFlow 1 .*compat.v1 as tf"):
        bring("tensorflow", f"{file}:total", None)
    file.write_text(TOWERS.replace("import tensorflow as tf", NOW))
    assert bring("tensorflow", f"{file}:total", None).drawn
    file.write_text(f"{file.read_text()}\n\ndef inputs():\n    return [np.ones(3, 'float32')]\n")
    given = bring("tensorflow", f"{file}:total", None)
    assert not given.drawn and given.results[0] == 3.0
