"""Files that users write with TensorFlow, and files to be refused: `write_all` writes them and brings them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from bring_helpers import Brought, write
from tensorflow.core.protobuf import saved_model_pb2

from xbackend.bring.origin import Origin
from xbackend.bring.tensorflow.found import brought
from xbackend.errors import GraphError

tf1 = tf.compat.v1
R = np.random.default_rng(11)
W, U, X = R.normal(size=(3, 2)), R.normal(size=2), R.normal(size=(4, 3))
X32 = X.astype(np.float32)
INPUT = tf.TensorSpec([None, 3], tf.float64, name="x")


class Fitted(tf.Module):
    """Two variables of one name, and one that a signature assigns."""

    def __init__(self) -> None:
        self.w, self.u = tf.Variable(W, name="w"), tf.Variable(U, name="w")
        self.count = tf.Variable(np.zeros(2), name="count")

    @tf.function(input_signature=[INPUT])
    def predict(self, x):
        return {"scores": tf.tanh(x @ self.w) + self.u, "best": tf.argmax(x @ self.w, axis=1)}

    @tf.function(input_signature=[INPUT])
    def loss(self, x):
        return tf.reduce_sum(tf.tanh(x @ self.w + self.u) ** 2)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float64, name="x")])
    def rows(self, x):
        return tf.scan(lambda carry, row: tf.tanh(carry) + row, x)

    @tf.function(input_signature=[INPUT, tf.TensorSpec([], tf.float64, name="by")])
    def step(self, x, by):
        self.count.assign_add(by * tf.reduce_sum(x @ self.w, axis=0))
        return self.count.read_value()


def _keep(folder: Path, function: Callable[..., Any], **inputs: tf.TensorSpec) -> None:
    """Write a SavedModel of one function."""
    module = tf.Module()
    module.f = tf.function(function, input_signature=list(inputs.values()))
    tf.saved_model.save(module, str(folder), signatures=module.f)


def _old(folder: Path) -> np.ndarray:
    """Write files of TensorFlow 1 with trained variables: a SavedModel, a MetaGraphDef with its checkpoint, a frozen
    GraphDef. Write the untrained graph as text. Return the session's ``y``, (4, 2)."""
    with tf1.Graph().as_default() as graph, tf1.Session(graph=graph) as running:
        x = tf1.placeholder(tf.float32, [None, 3], "x")
        w = tf1.get_variable("w", initializer=tf.ones([3, 2]), use_resource=False)
        b = tf1.get_variable("b", initializer=tf.zeros([2]), use_resource=True)
        y = tf.identity(tf.tanh(tf.matmul(x, w)) + b, name="y")
        loss = tf.reduce_mean(tf.square(y - 0.5), name="loss")
        train = tf1.train.GradientDescentOptimizer(0.5).minimize(loss, name="train")
        running.run(tf1.global_variables_initializer())
        tf1.train.write_graph(graph, str(folder), "text.pbtxt")
        for _ in range(3):
            running.run(train, {x: X32})
        tf1.saved_model.simple_save(running, str(folder / "old"), {"x": x}, {"y": y, "loss": loss})
        tf1.train.Saver().save(running, str(folder / "kept.ckpt"))
        frozen = tf1.graph_util.convert_variables_to_constants(running, graph.as_graph_def(), ["y", "loss"])
        (folder / "frozen.pb").write_bytes(frozen.SerializeToString())
        return np.asarray(running.run(y, {x: X32}))


class Looking(tf.Module):
    def __init__(self) -> None:
        keys = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant([5.0, 6.0]))
        self.table = tf.lookup.StaticHashTable(keys, 0.0)

    @tf.function(input_signature=[tf.TensorSpec([3], tf.int64, name="k")])
    def look(self, k):
        return self.table.lookup(k)


def _ragged(x: Any) -> Any:
    return tf.RaggedTensor.from_row_lengths(x, [1, 3]).to_tensor()


def _version(path: Path) -> None:
    definition = tf1.GraphDef()
    definition.versions.min_consumer = 1_000_000
    path.write_bytes(definition.SerializeToString())


def _deep(path: Path) -> None:
    levels = 3000
    inside = "attr { key: 'a' value { func { " * levels + "} } } " * levels
    path.write_text(f"library {{ function {{ node_def {{ {inside} }} }} }}")


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate((1 << 31) + 1)


def _damaged(folder: Path, of: Path) -> None:
    (folder / "variables").mkdir(parents=True)
    for file in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        data = (of / file).read_bytes()
        (folder / file).write_bytes(data[: len(data) // 2] if "index" in file else data)


def _run(folder: Path) -> None:
    """Write SavedModels of TensorFlow 1 whose session would write a file: as a control input of a variable, and in the
    body of a function. Write signatures that no session feeds, and one without outputs."""

    @tf.function
    def called(x):
        return x + 1.0

    for name in ("variable", "function", "fed", "twice", "empty"):
        with tf1.Graph().as_default() as graph, tf1.Session(graph=graph) as running:
            x = tf1.placeholder(tf.float32, [2], "x")
            write = tf.raw_ops.WriteFile(filename=str(folder / "written"), contents="evil")
            v = tf1.get_variable("v", initializer=tf.ones([2]), use_resource=True)
            y = called(x) if name == "function" else x * v
            fed = {"fed": {"x": tf.identity(x)}, "twice": {"a": x, "b": x}}.get(name, {"x": x})
            y = fed["x"] * v if name == "fed" else y
            running.run(v.initializer)
            saved = tf1.saved_model
            signature = saved.build_signature_def(
                {label: saved.build_tensor_info(one) for label, one in fed.items()},
                {} if name == "empty" else {"y": saved.build_tensor_info(y)},
                "any",
            )
            builder = saved.Builder(str(folder / f"run_{name}"))
            builder.add_meta_graph_and_variables(running, ["serve"], {"serving_default": signature})
            builder.save()
        path = folder / f"run_{name}" / "saved_model.pb"
        model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
        definition = model.meta_graphs[0].graph_def
        for operation in definition.node:
            if name == "variable" and operation.op == "VarHandleOp":
                operation.input.append(f"^{write.name}")
            if name == "function" and "WriteFile" in operation.name:
                definition.library.function[0].node_def.add().CopyFrom(operation)
                own = definition.library.function[0].node_def[-1]
                own.input[:] = [f"{one}:output:0" for one in own.input]
        path.write_bytes(model.SerializeToString())


def _checkpoints(folder: Path) -> None:
    """Write MetaGraphDefs whose variables are restored in other ways, or whose checkpoint is gone."""
    for name in ("reshaped", "cast", "lost"):
        with tf1.Graph().as_default() as graph, tf1.Session(graph=graph) as running:
            v = tf1.get_variable("v", initializer=tf.zeros([2]), use_resource=False)
            tf.multiply(v, 2.0, name="y")
            running.run(v.assign([2.0, 3.0]))
            saver = tf1.train.Saver(reshape=name == "reshaped")
            saver.save(running, str(folder / f"{name}.ckpt"))
        if name == "lost":
            (folder / "lost.ckpt.index").unlink()
        if name == "cast":
            meta = tf1.MetaGraphDef.FromString((folder / "cast.ckpt.meta").read_bytes())
            (assign,) = [one for one in meta.graph_def.node if one.op == "Assign" and "save" in one.name]
            with tf1.Graph().as_default() as graph:
                tf.negative(tf1.placeholder(tf.float32, name="read"), name="other")
                (other,) = [one for one in graph.as_graph_def().node if one.name == "other"]
            other.input[0], assign.input[1] = assign.input[1], "other"
            meta.graph_def.node.append(other)
            (folder / "cast.ckpt.meta").write_bytes(meta.SerializeToString())


def bring(path: Path, name: str, *inputs: Any) -> Origin:
    return brought(path, list(inputs), name, np.random.default_rng(0))


def said(path: Path, name: str, *inputs: Any) -> Brought:
    """The error of a refused file."""
    try:
        bring(path, name, *inputs)
    except GraphError as error:
        return Brought("", [], [], [], [], [], str(error))
    return Brought("", [], [], [], [], [], "")


def _written(folder: Path, name: str, origin: Origin, *expected: Any, slopes: Any = ()) -> None:
    for found, right in zip(origin.results, expected, strict=False):
        np.testing.assert_allclose(found, right, 1e-6)
    results, slopes = list(origin.results), list(origin.slopes or slopes)
    weights = [np.ones((), one.dtype) if slopes else None for one in results]
    inputs = list(origin.inputs)
    write(folder, name, Brought(origin.program.to_json(), inputs, results, weights, slopes, list(range(len(slopes)))))


def write_all(folder: Path, there: Path) -> None:
    """Write the files to ``there``, bring them, and write programs, results and errors to ``folder``."""
    there.mkdir()
    fitted = Fitted()
    signatures = {name: getattr(fitted, name).get_concrete_function() for name in ("predict", "loss", "rows", "step")}
    tf.saved_model.save(fitted, str(there / "fitted"), signatures=signatures)
    predicted = fitted.predict(tf.constant(X))
    _written(folder, "file_predict", bring(there / "fitted", "predict", X), predicted["best"], predicted["scores"])
    with tf.GradientTape() as tape:
        x = tf.constant(X)
        tape.watch(x)
        loss = fitted.loss(x)
    slopes = [tape.gradient(loss, x).numpy()]
    _written(folder, "file_loss", bring(there / "fitted", "loss", X), loss, slopes=slopes)
    _written(folder, "file_rows", bring(there / "fitted", "rows", X), fitted.rows(tf.constant(X)))
    _written(folder, "file_step", bring(there / "fitted", "step", 0.5, X), 0.5 * (X @ W).sum(0))
    y = _old(there)
    _written(folder, "file_old", bring(there / "old", "", X32), np.mean((y - 0.5) ** 2), y)
    _written(folder, "file_meta", bring(there / "kept.ckpt.meta", "y,^train", X32), y)
    _written(folder, "file_frozen", bring(there / "frozen.pb", "y:0,loss", X32), y)
    _written(folder, "file_text", bring(there / "text.pbtxt", "loss", X32))
    _run(there)
    _checkpoints(there)
    _written(folder, "file_reshaped", bring(there / "reshaped.ckpt.meta", "y"), [4.0, 6.0])
    (there / "folder.pb").mkdir()
    tf.saved_model.save(Looking(), str(there / "table"))
    _keep(there / "ragged", _ragged, x=tf.TensorSpec([4], tf.float64, name="x"))
    _keep(there / "python", lambda x: tf.numpy_function(np.sin, [x], tf.float64), x=tf.TensorSpec([4], tf.float64))
    _keep(there / "text", tf.strings.length, x=tf.TensorSpec([4], tf.string, name="x"))
    tf.saved_model.save(tf.Module(), str(there / "none"))
    _version(there / "later.pb")
    _deep(there / "deep.pbtxt")
    _large(there / "large.pb")
    _damaged(there / "damaged", there / "fitted")
    (there / "noise.pb").write_bytes(b"no graph")
    refused = {
        **{f"file_run_{name}": (there / f"run_{name}", "", X32[0, :2]) for name in ("variable", "function", "fed")},
        "file_twice": (there / "run_twice", "", X32[0, :2], X32[0, :2]),
        "file_empty": (there / "run_empty", "", X32[0, :2]),
        "file_cast": (there / "cast.ckpt.meta", "y"),
        "file_lost": (there / "lost.ckpt.meta", "y"),
        "file_folder": (there / "folder.pb", "y"),
        "file_inside": (there / "old" / "saved_model.pb", "y"),
        "file_wrong_dtype": (there / "table", "", np.zeros(3)),
        "file_several": (there / "fitted", ""),
        "file_no_signature": (there / "fitted", "fit"),
        "file_without": (there / "none", ""),
        "file_table": (there / "table", "", np.zeros(3, np.int64)),
        "file_ragged": (there / "ragged", "", np.ones(4)),
        "file_python": (there / "python", "", np.ones(4)),
        "file_string": (there / "text", ""),
        "file_shape": (there / "old", ""),
        "file_wrong_shape": (there / "old", "", X32.T),
        "file_no_output": (there / "frozen.pb", ""),
        "file_other_output": (there / "frozen.pb", "yy"),
        "file_later": (there / "later.pb", "y"),
        "file_deep": (there / "deep.pbtxt", "y"),
        "file_large": (there / "large.pb", "y"),
        "file_damaged": (there / "damaged", "predict", X),
        "file_noise": (there / "noise.pb", "y"),
    }
    for name, (path, own, *inputs) in refused.items():
        write(folder, name, said(path, own, *inputs))
    assert not (there / "written").exists()
