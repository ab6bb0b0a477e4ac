"""Functions that `to_callable` makes, in the interpreters of the frameworks, and files that `translate` writes: they
are what a user of the framework calls, and compute what NumPy's program does."""

from __future__ import annotations

import os
import subprocess
import traceback
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend.cli import DONE, WRONG, main
from xbackend.errors import UsageError
from xbackend.workers.remote import ready_environment

pytestmark = pytest.mark.tier("standard")

ROOT = Path(__file__).parent.parent
# `table` has more elements than the text of a script.
MODEL = """
    import numpy as np, xbackend as xb
    table = np.linspace(0.5, 1.5, 5000)
    x, w = np.linspace(-1.0, 1.0, 6).reshape(3, 2), np.array([0.5, -0.25])
    def loss(x, w):
        return xb.sum(xb.tanh(x @ w) ** 2) + xb.sum(xb.asarray(table, dtype=x.dtype) * w[0])
    total = xb.shared(np.zeros(2), name="total")
    def step(w):
        xb.update(total, total + w)
        return xb.sum(total * w)
    def each(x, w):
        return {"value": loss(x, w), "rows": x @ w, "step": step(w)}
    def inputs():
        return [x, w]
    def more(x, unused, w):
        return loss(x, w)
    def placed(x):
        with xb.device("dev1"):
            return x + 1.0
"""
JAX = """
    import jax
    try:
        xb.to_callable(loss, "jax", x, w)
    except xb.errors.UsageError as error:
        assert "jax_enable_x64" in str(error), error
    else:
        raise AssertionError("JAX would have halved the precision")
    jax.config.update("jax_enable_x64", True)
    function = xb.to_callable(loss, "jax", x, w)
    save(function(x, w), jax.grad(function, argnums=1)(x, w))
    assert np.allclose(jax.vmap(function, (None, 0))(x, np.stack([w, w])), function(x, w))
    counting = xb.to_callable(step, "jax", w)
    first, after = counting(w, np.zeros(2))
    assert (first, list(after)) == (0.0, list(w)), (first, after)
    assert counting(w, after)[0] == (w * w).sum()
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax.extend.backend import get_backend
    from jax.extend.mlir import ir
    with mlir.make_ir_context():
        module = ir.Module.parse((folder / "loss.mlir").read_text())
        devices = xla_client.DeviceList(tuple(jax.devices()[:1]))
        compiled = get_backend().compile_and_load(module, devices, xla_client.CompileOptions())
    found = compiled.execute_sharded([jax.device_put(one) for one in (x, w, w)])
    ((value,),) = found.disassemble_into_single_device_arrays()
    assert np.allclose(value, function(x, w), rtol=1e-12), value
    from jax import export
    loaded = export.deserialize(bytearray((folder / "loss.jaxexport").read_bytes()))
    assert np.allclose(loaded.call(x, w, w), function(x, w), rtol=1e-12)
"""
TENSORFLOW = """
    import tensorflow as tf
    function = xb.to_callable(loss, "tensorflow", x, w)
    watched = tf.Variable(w)
    with tf.GradientTape() as tape:
        value = function(x, watched)
    save(value, tape.gradient(value, watched))
    layer = tf.keras.layers.Lambda(lambda rows: function(rows, tf.constant(w)), dtype="float64")
    assert np.allclose(layer(tf.constant(x)), value)
    counting = xb.to_callable(step, "tensorflow", w)
    assert (counting(w), counting(w)) == (0.0, (w * w).sum())
    loaded = tf.saved_model.load(str(folder / "saved")).signatures["serving_default"]
    first, found = (loaded(x=tf.constant(x), w=tf.constant(w)) for _ in range(2))
    assert np.allclose(found["value"], value, rtol=1e-12) and np.allclose(found["rows"], x @ w, rtol=1e-12), found
    assert (first["step"], found["step"]) == (0.0, (w * w).sum()), (first, found)
"""
PYTENSOR = """
    import pytensor, pytensor.tensor as pt
    function = xb.to_callable(loss, "pytensor", x, w)
    weights = pt.dvector("weights")
    value = function(pt.constant(x), 1.0 * weights)
    slope = pytensor.function([weights], pt.grad(value, weights))
    save(function(x, w), slope(w))
    counting = xb.to_callable(step, "pytensor", w)
    assert (counting(w), counting(w)) == (0.0, (w * w).sum())
    outputs, updates = counting(weights)
    assert len(updates) == 1
    single = xb.to_callable(lambda x, w: xb.sum(xb.tanh(x @ w)), "pytensor", np.float32(x), np.float32(w))
    assert single(np.float32(x), np.float32(w)).dtype == "float32"
    assert single(pt.fmatrix(), pt.fvector()).dtype == "float32"
    assert pytensor.config.floatX == "float64"
    from pytensor.tensor.random.utils import RandomStream
    noise = RandomStream(1).normal(0.0, 1.0, size=(3,))
    program = xb.from_pytensor((noise * weights[0]).sum(), {weights: w}, draws="inputs")
    assert [program.values[i].shape for i in program.inputs] == [(2,), (3,)], program
"""
SCRIPTS = {"jax": JAX, "tensorflow": TENSORFLOW, "pytensor": PYTENSOR}
SAVE = """
    import sys
    from pathlib import Path
    folder = Path(sys.argv[1])
    def save(*results):
        np.savez(folder / "results.npz", *map(np.asarray, results))
"""
FLAGS = {"PYTENSOR_FLAGS": "mode=FAST_COMPILE,cxx=", "TF_CPP_MIN_LOG_LEVEL": "3"}


def ran(framework: str, script: str, folder: Path) -> None:
    """Run a script in a framework's environment, where xbackend can be imported."""
    done = subprocess.run(
        [str(ready_environment(framework).python), "-c", script, str(folder)],
        env={**os.environ, **FLAGS, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(dedent(MODEL))
    return path


@pytest.fixture
def right() -> tuple[Any, Any]:
    """What NumPy's program computes: the loss, and its gradient."""
    names: dict[str, Any] = {}
    exec(dedent(MODEL), names)
    loss, x, w = (names[name] for name in ("loss", "x", "w"))
    with xb.open("numpy") as backend:
        return backend.compile(lambda x, w: (loss(x, w), xb.grad(loss(x, w), w)), x, w)(x, w)


@pytest.mark.tier("exhaustive", "tensorflow")
@pytest.mark.parametrize("framework", [pytest.param(name, marks=pytest.mark.needs(name)) for name in SCRIPTS])
def test_a_function_is_one_of_the_frameworks_own(
    framework: str, model: Path, right: tuple[Any, Any], tmp_path: Path
) -> None:
    """Its values and its gradient by the framework; the values of StableHLO's text, of a serialized function and of a
    SavedModel, too."""
    if framework == "jax":
        inputs = ["--input", "float64[3,2]", "--input", "float64[2]", "--input", "float64[2]"]
        for form, name in (("stablehlo", "loss.mlir"), ("jax-export", "loss.jaxexport")):
            target = ["translate", f"{model}:more", *inputs, "--to", form, "--write", str(tmp_path / name)]
            assert main(target) == DONE
    if framework == "tensorflow":
        assert main(["translate", f"{model}:each", "--to", "savedmodel", "--write", str(tmp_path / "saved")]) == DONE
    ran(framework, dedent(MODEL + SAVE + SCRIPTS[framework]), tmp_path)
    with np.load(tmp_path / "results.npz") as found:
        for one, expected in zip(found.values(), right, strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-12)


@pytest.mark.needs("tensorflow")
def test_results_of_a_savedmodel_keep_their_order_and_keys(tmp_path: Path) -> None:
    script = """
    import sys
    import numpy as np, tensorflow as tf, xbackend as xb
    from xbackend.bring.source import exports
    from xbackend.program.serialization import to_json
    def nested(x):
        return {"loss": xb.sum(x), "each": [x * 2.0, {"loss": x * 3.0}]}
    def mixed(x):
        return {"b": x, "a": x * 2.0}, x * 3.0
    def single(x):
        return {"loss": xb.sum(x), "each": [x]}
    x = np.arange(3.0)
    for one, expected in (
        (single, {"loss": 3.0, "output_1": x}),
        (nested, {"loss": 3.0, "output_1": x * 2.0, "loss_2": x * 3.0}),
        (mixed, {"b": x, "a": x * 2.0, "output_2": x * 3.0}),
    ):
        path = f"{sys.argv[1]}/{one.__name__}"
        exports.write(None, "savedmodel", to_json(xb.trace(one, x)), path)
        found = tf.saved_model.load(path).signatures["serving_default"](x=tf.constant(x))
        assert found.keys() == expected.keys(), found
        assert all((found[key] == value).numpy().all() for key, value in expected.items()), found
    """
    ran("tensorflow", dedent(script), tmp_path)


def test_a_function_of_numpy_shows_its_lines() -> None:
    a, b = np.ones((2, 3)), np.ones((3, 2))
    function = xb.to_callable(lambda a, b: xb.exp(a) @ b, "numpy", a, b)
    np.testing.assert_array_equal(function(a, b), np.exp(a) @ b)
    with pytest.raises(ValueError, match="matmul") as raised:
        function(a, a)
    shown = "".join(traceback.format_exception(raised.value))
    assert "return np.exp(a) @ b" in shown and "<xbackend " in shown


def test_what_cannot_be_called_is_said() -> None:
    program = xb.trace(lambda x: x + 1.0, np.ones(2))
    with pytest.raises(UsageError, match=r"has no jax, which jax's code imports: .* xb.open\('jax'\)"):
        xb.to_callable(program, "jax")
    with pytest.raises(UsageError, match="a program has its shapes"):
        xb.to_callable(program, "numpy", np.ones(2))
    with pytest.raises(UsageError, match="there is no source code of 'torch'"):
        xb.to_callable(program, "torch")
    with pytest.raises(UsageError, match=r"is no program: write xb.to_source\(xb.trace\(f, \*arrays\), 'numpy'\)"):
        xb.to_source(abs, "numpy")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["placed", "--input", "float64[2]", "--to", "stablehlo"], "placed names devices, and stablehlo has none"),
        (["loss", "--to", "savedmodel"], "savedmodel is no text: give --write PATH"),
        (["loss", "--to", "stable"], "did you mean"),
        (["loss", "--to", "stablehlo", "--write", "gone/x"], "there is no folder gone"),
    ],
)
def test_what_cannot_be_written_is_said(
    words: list[str], said: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", f"{model}:{words[0]}", *words[1:]]) == WRONG
    assert said in capsys.readouterr().err
