"""Importers, in a process of the framework's environment: programs are compared with the framework's own results."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from time import monotonic

import numpy as np
import pytest
from report_helpers import measured, of

import xbackend as xb
from xbackend.analysis.comparison import comparisons
from xbackend.analysis.sampling import of_pymc
from xbackend.bring.origin import Origin
from xbackend.cli import users
from xbackend.cli.graphs import GraphChoice
from xbackend.cli.run import run
from xbackend.errors import GraphError, UsageError
from xbackend.results.naming import FILE
from xbackend.workers.bringing import bring
from xbackend.workloads.agreement import relative_error
from xbackend.workloads.brought import workload_of

pytestmark = pytest.mark.tier("standard")

HEADS = {
    "pytensor": "import numpy as np, pytensor as framework, pytensor.tensor as T\nfrom pytensor import scan\n",
    "aesara": "import numpy as np, aesara as framework, aesara.tensor as T\nfrom aesara import scan\n",
    "theano": "import numpy as np, theano as framework, theano.tensor as T\nfrom theano import scan\n",
}
LINEAGE = pytest.mark.parametrize("kind", list(HEADS))
ANY_GENERATION = """
    x, v, i = T.dmatrix("x"), T.dvector("v"), T.lvector("i")
    small = T.cast(T.round(x * 60.0), "int8")
    out = [
        T.exp(-x) + T.log1p(T.sqr(x)) / T.sqrt(1.0 + T.sqr(v)),
        T.switch(T.gt(x, 0.0), T.tanh(x), v), T.clip(x, -0.5, 0.5), T.maximum(x, v) // 0.3, x % 0.3, abs(x) ** 1.5,
        small + small, small * small - 5, T.cast(x * 300.0, "int16") + small, T.cast(T.gt(x, 0.1), "int8") + 1,
        x.sum(axis=0), x.prod(), T.cast(x, "float32").mean(axis=1), x.max(axis=1), T.argmax(x, axis=1), x.std(),
        T.any(T.gt(x, 1.0)), T.all(T.gt(x, -9.0), axis=0),
        x.T, x.dimshuffle(0, "x", 1), x.reshape((-1,)), x.flatten()[::-2], x[1:, ::2], x[-1], x[:, None, 0],
        x[i], x[i, i % 3], x[:, i % 3], T.set_subtensor(x[1:, 0], v[0]), T.inc_subtensor(x[i], v),
        T.set_subtensor(x[T.gt(x, 0.1)], 0.5),
        T.concatenate([x, x * 2.0], axis=1), T.stack([v, v + 1.0]), T.alloc(v, 2, 3), T.arange(x.shape[0]) + v.sum(),
        T.extra_ops.cumsum(x, axis=1), T.eye(4)[i], T.extra_ops.cumsum(T.cast(i, "int32")) + i,
        T.extra_ops.cumprod(v), T.sort(x, axis=0), T.argsort(v), T.eye(3) * v,
        T.dot(x, x.T), T.dot(x, v), T.outer(v, v),
        T.nlinalg.det(T.dot(x.T, x) + T.eye(3)) if hasattr(T, "nlinalg") else v,
        T.gammaln(2.0 + T.sqr(v)), T.erf(v), T.erfc(v), T.isnan(x), T.eq(x, x) & T.neq(v, 0.0), T.identity_like(x),
    ]
    whole = T.cast(x * 60.0, "int32")
    out += [
        T.extra_ops.cumsum(whole, axis=1), whole.sum(dtype="int32", acc_dtype="int32"),
        small.sum(axis=1, dtype="int8", acc_dtype="int8"), T.dot(small, small.T),
        T.inc_subtensor(small[1:], small[:-1]),
        T.split(x, [1, 2], n_splits=2, axis=-1)[1], T.diag(1.0 / (v - 0.5)), T.erfcinv(T.exp(-30.0 * T.sqr(v))),
        T.gt(x, 0.1) * np.int8(100) + np.int8(100) - np.int8(100),
        *(v * function(np.int8(3)) for function in (T.sqrt, T.exp, T.log, T.sqrt, T.exp, T.log)),
        T.tril(x), T.triu(x, 1), T.extra_ops.diff(x, axis=0), T.erfcinv(0.0 * v),
    ]
    a, b = T.dscalar("a"), T.dvector("b")
    seq, _ = scan(lambda s, p, q: s * q + p, sequences=b, outputs_info=T.zeros(()) * a, non_sequences=a)
    fib, _ = scan(lambda m2, m1: m1 + m2 * 0.5, outputs_info=[dict(initial=b[:2], taps=[-2, -1])], n_steps=5)
    many, _ = scan(lambda s, p: [p + s, s * 2.0], sequences=b, outputs_info=[a, None])
    loop = seq[-1] + fib.sum() + (many[0] * many[1]).sum()
    w = framework.shared(np.ones((3, 2)), "w")
    loss = T.mean(T.tanh(T.dot(x, w)) ** 2)
    step = framework.function([x], loss, updates=[(w, w - 0.1 * T.grad(loss, w))])
    def inputs():
        x, v = np.linspace(-1.0, 2.0, 12).reshape(4, 3), np.array([0.5, -1.5, 2.0])
        return {"x": x, "v": v, "i": np.array([2, 0, 2])}
"""


@pytest.fixture
def written(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(text: str, head: str = "") -> Path:
        path = tmp_path / "model.py"
        path.write_text(head + dedent(text))
        return path

    return write


def check(origin: Origin, backends: tuple[str, ...] = ("numpy", "jax"), limit: float = 1e-12) -> None:
    """Raises `AssertionError` unless the program's values and gradients are those of the framework."""
    workload = workload_of(origin, "brought")
    for name in backends:
        with xb.open(name) as backend:
            got = backend.compile(workload.traced({}, bool(origin.gradient)), *origin.inputs)(*origin.inputs)
        values, slopes = (got[0], got[1]) if origin.gradient else (got, ())
        flat = list(values) if isinstance(values, tuple) else [values]
        for number, (one, own) in enumerate(zip([*flat, *slopes], [*origin.results, *origin.slopes], strict=True)):
            passes = 1e-6 if own.dtype == np.float32 else limit
            assert relative_error(one, own) <= passes, (name, number, one, own)


@LINEAGE
def test_ops_of_a_generation_are_those_of_its_own_functions(kind: str, written) -> None:
    """Integers of 8 and 16 bits wrap, but their dtype is int32: values are compared."""
    origin = bring(kind, f"{written(ANY_GENERATION, HEADS[kind])}:out", None)
    check(origin, limit=1e-6 if kind == "theano" else 1e-12)


OWN_RULE = """
    import jax, jax.numpy as jnp, numpy as np
    f = jax.custom_jvp(lambda x: jnp.sum(x * x))
    f.defjvp(lambda x, dx: (f(*x), 3.0 * jnp.sum(x[0] * dx[0])))
    def inputs():
        return [np.ones(2)]
"""


@pytest.mark.needs("jax")
def test_run_says_where_the_oracle_is_not_the_frameworks_own_result(written) -> None:
    target = f"{written(OWN_RULE)}:f"
    for name, said in ((target, []), (f"{target}+gradient", ["NumPy in float64 is 3.3e-01 (relative) from what JAX"])):
        found = run(name, graph=GraphChoice(kind="jax"), backends=["numpy"])
        assert [one.partition(" 0.")[0] for one in found.notes if "float64" in one] == said


MASKED = """
    x = T.dvector("x")
    mu = T.exp(x) * np.array([1.0, 0.0, 2.0, 0.0])
    poisson = T.switch(T.eq(mu, 0.0), 0.0, np.array([2.0, 0.0, 1.0, 3.0]) * T.log(mu) - mu)
    loss = poisson.sum() + T.switch(T.eq(x, 0.0), 1.0, T.sin(x) / x).sum() + T.switch(T.gt(x, 0.0), x**0.5, x).sum()
    def inputs():
        return [np.array([0.3, -0.2, 0.0, 1.0])]
"""


@pytest.mark.parametrize("kind", ["pytensor", "aesara"])  # Theano's own gradient is NaN in FAST_COMPILE
def test_a_gradient_is_zero_where_a_branch_is_not_taken(kind: str, written) -> None:
    origin = bring(kind, f"{written(MASKED, HEADS[kind])}:loss", None)
    assert np.isfinite(origin.slopes[0]).all()
    check(origin)


TRIANGLES = {
    "pytensor": "T.linalg.solve_triangular(x, v, lower=True), T.linalg.solve_triangular(y, y, unit_diagonal=True)",
    "aesara": "T.slinalg.solve_triangular(x, v, lower=True), T.slinalg.solve_triangular(y, y, unit_diagonal=True)",
    "theano": "slinalg.solve_lower_triangular(x, v), slinalg.solve_upper_triangular(x, v), slinalg.solve(x, v)",
}


@LINEAGE
def test_equations_of_one_triangle(kind: str, written) -> None:
    text = """
        from theano.tensor import slinalg
        x, v, y = T.dmatrix("x"), T.dvector("v"), T.fmatrix("y")
        out = [{}]
        def inputs():
            x = np.linspace(1.0, 2.0, 9).reshape(3, 3) ** 2
            return {{"x": x, "v": np.ones(3), "y": x.astype(np.float32)}}
    """
    if kind != "theano":
        text = text.replace("from theano.tensor import slinalg", "")
    else:
        text = text.replace(', "y": x.astype(np.float32)', "")
    check(bring(kind, f"{written(text.format(TRIANGLES[kind]), HEADS[kind])}:out", None))


@LINEAGE
def test_loops_and_their_gradients(kind: str, written) -> None:
    path = written(ANY_GENERATION, HEADS[kind])
    check(bring(kind, f"{path}:loop", ["float64[4]", "0.7"]))


@LINEAGE
def test_a_compiled_function_keeps_its_updates(kind: str, written) -> None:
    origin = bring(kind, f"{written(ANY_GENERATION, HEADS[kind])}:step", ["float64[4,3]"])
    check(origin)
    (variable,) = origin.program.shared.values()
    with xb.open("numpy") as backend:
        step = backend.compile(origin.program)
        first, second = step(*origin.inputs), step(*origin.inputs)
    assert variable.name == "w"
    assert second < first


INNER = """
    from {}.compile.builders import OpFromGraph
    x, b, a, s = T.dvector("x"), T.dscalar("b"), T.dvector("a"), T.dscalar("s")
    w = framework.shared(np.float64(3.0), "w") if framework.__name__ == "theano" else 3.0  # an input of others
    loss = sum((OpFromGraph([a, s], [w * a * s], inline=inline)(x, b) ** 2).sum() for inline in (False, True))
    own = OpFromGraph([a], [a * 2.0], lop_overrides=lambda inputs, outputs, slopes: [100.0 * slopes[0]])(x)
"""


@LINEAGE
def test_graphs_inside_of_an_op(kind: str, written) -> None:
    path = written(INNER.format(kind), HEADS[kind])
    check(bring(kind, f"{path}:loss", ["float64[4]", "0.7"]))
    with pytest.raises(GraphError, match="an OpFromGraph with a gradient of its own has no row"):
        bring(kind, f"{path}:own", ["float64[4]"])


DRAWS = """
    from %s.tensor.random.utils import RandomStream
    stream = RandomStream()
    x = T.dvector("x")
    scale = stream.exponential(1.0, size=(2,))
    scale.name = "scale"
    out = (stream.normal(x[:2] * 0.0, scale) * x[:2]).sum() + T.log(scale).sum()
    both = [out, scale]
    fixed = stream.normal(0.0, 1.0, size=(3,)).sum()
"""
LOOPED = """
    looped = scan(lambda s: s + stream.normal(0.0, 1.0, size=()), outputs_info=x[0], n_steps=3)[0]
    def inputs():
        return {"x": np.ones(4)}
"""


def test_draws_are_not_called_drawn_inputs_and_stay_in_loops(written) -> None:
    path = written(DRAWS % "pytensor" + LOOPED, HEADS["pytensor"])
    assert not bring("pytensor", f"{path}:out", None, {"draws": True}).drawn
    with pytest.raises(GraphError, match="in a loop or an inner graph: draw before it") as raised:
        bring("pytensor", f"{path}:looped", None, {"draws": True})
    assert "--draws" not in str(raised.value)


@pytest.mark.parametrize("kind", ["pytensor", "aesara"])
def test_draws_become_inputs(kind: str, written) -> None:
    """A draw follows its distribution and is the same in each process. One read only by another draw is no input."""
    path = written(DRAWS % kind, HEADS[kind])
    origin = bring(kind, f"{path}:both", ["float64[4]"], {"draws": True})
    names = [origin.program.values[i].params["name"] for i in origin.program.inputs]
    assert names[0] == "x" and sorted(names[1:]) == sorted(origin.facts["draws"].split(" and ")) == ["normal", "scale"]
    assert (origin.inputs[names.index("scale")] > 0).all()
    check(origin, ("numpy",))
    if kind == "pytensor":
        again = bring(kind, f"{path}:both", ["float64[4]"], {"draws": True})
        for one, other in zip(origin.inputs, again.inputs, strict=True):
            np.testing.assert_array_equal(one, other)
        with pytest.raises(GraphError, match=r"NormalRV.*with --draws"):
            bring(kind, f"{path}:fixed", [])
        with pytest.raises(UsageError, match="--draws is for --from pytensor, aesara"):
            bring("theano", f"{path}:fixed", [], {"draws": True})


STABLE = """
    x = T.dvector("x")
    out = T.log(1.0 + T.exp(x))
    loss = out.sum()
    def inputs():
        return [np.array([-1.0, 800.0])]
"""


@pytest.mark.parametrize(("rewrites", "last"), [(None, np.inf), ("none", np.inf), ("stabilize", 800.0)])
def test_rewrites_are_those_that_are_chosen(rewrites: str | None, last: float, written) -> None:
    path = written(STABLE, HEADS["pytensor"])
    origin = bring("pytensor", f"{path}:out", None, {"rewrites": rewrites} if rewrites else {})
    assert origin.facts["rewrites"] == (rewrites or "none")
    with xb.open("numpy") as backend, np.errstate(over="ignore"):
        assert backend.compile(origin.program)(*origin.inputs)[1] == last
    assert rewrites == "none" or rewrites is None or origin.results[0][1] == last


GRADIENTS = """
    from {0}.gradient import disconnected_grad, grad_clip, grad_scale, zero_grad
    x = T.TensorType("float64", shape=(3,))("x")
    zero, disconnected = zero_grad(x) * x, disconnected_grad(x) * x
    clipped, scaled = grad_clip(x, -0.1, 0.1) * x, grad_scale(x, 3.0)
    loop, _ = scan(lambda row, state: state + zero_grad(row) * row, x, [np.float64(0.0)])
    import xbackend as xb
    said = []
    for variable in (zero, disconnected, clipped, scaled, loop):
        text = framework.printing.debugprint(variable, file="str")
        for rewrites in (None, "canonicalize", "stabilize"):
            try:
                xb.from_{0}(variable, [x], rewrites=rewrites)
            except xb.errors.GraphError as error:
                said.append(str(error))
        assert framework.printing.debugprint(variable, file="str") == text
    assert len(said) == 15 and all("has ops of" in one and "Grad" in one for one in said), said
    stable = T.log(1.0 + T.exp(x)).sum()
    text = framework.printing.debugprint(stable, file="str")
    xb.from_{0}(stable, [x], rewrites="stabilize")
    assert framework.printing.debugprint(stable, file="str") == text
    doubled = x * 2.0
    out = T.exp(doubled).sum()
    program = xb.from_{0}(out, {{doubled: np.ones(3)}}, rewrites="stabilize")
    assert [node.op for node in program.nodes] == ["input", "exp", "sum"]
"""


@pytest.mark.parametrize("kind", ["pytensor", "aesara"])
def test_rewrites_neither_change_the_graph_nor_hide_a_gradient_of_its_own(kind: str, written) -> None:
    """The assertions are in the file."""
    bring(kind, f"{written(GRADIENTS.format(kind), HEADS[kind])}:out", ["float64[3]"])


def test_slopes_are_those_of_the_framework_after_the_rewrites(written) -> None:
    origin = bring("pytensor", f"{written(STABLE, HEADS['pytensor'])}:loss", None, {"rewrites": "stabilize"})
    assert origin.slopes[0][1] == 1.0
    check(origin)


MODEL = """
    import numpy as np, pymc as pm
    y, sigma = np.array([28.0, 8.0, -3.0, 7.0]), np.array([15.0, 10.0, 16.0, 11.0])
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=4)
        cov = pm.LKJCholeskyCov("cov", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0), compute_corr=False)
        pm.MvNormal("z", np.zeros(3), chol=pm.expand_packed_triangular(3, cov), observed=np.eye(3))
        pm.Normal("obs", theta[np.array([0, 1, 3, 2])], sigma, observed=y)
        steps = pm.GaussianRandomWalk("steps", sigma=tau, init_dist=pm.Normal.dist(0, 1), shape=6)
        pm.StudentT("walk", nu=4, mu=steps, sigma=1.0, observed=np.linspace(-1, 1, 6))
    def build():
        return model, model.initial_point()
    def lacking():
        return model, {"mu": 0.0}
    with pm.Model() as empty:
        pass
"""


@pytest.mark.parametrize("name", ["model", "build"])
def test_a_model_of_pymc_and_its_gradient(name: str, written) -> None:
    origin = bring("pymc", f"{written(MODEL)}:{name}", None)
    assert origin.gradient == ["theta"]
    (comparison,) = comparisons(of(measured("jax", [1.0], parameters=origin.facts)))
    assert origin.facts["graph"].startswith("PyMC 6.") and of_pymc(comparison)
    check(origin)


MATRICES = """
    x = T.dmatrix("x")
    spd = T.dot(x, x.T) + 4.0 * T.eye(3)
    L = T.linalg.cholesky(spd)
    out = [
        L, T.linalg.cholesky(spd, lower=False), T.linalg.solve_triangular(L, x, lower=True),
        T.linalg.solve_triangular(L, x[0], lower=True, trans=1), T.linalg.solve(spd, x), T.linalg.solve(spd, x[0]),
        T.linalg.solve(spd, x, assume_a="sym"), T.linalg.cho_solve((L, True), x),
        T.linalg.inv(spd), T.linalg.det(spd), *T.linalg.slogdet(spd), T.linalg.eigh(spd)[0],
        T.linalg.pinv(x), T.diag(x), T.diag(x[0]), T.fill_diagonal(x, 2.0), T.special.softmax(x, axis=1),
        T.special.log_softmax(x, axis=0), T.logsumexp(x, axis=1), T.softplus(x), T.sigmoid(x), T.erfcx(x),
        T.tri_gamma(2.0 + x), T.tri_gamma(x - 9.45), T.ive(np.arange(4)[:, None], 9.0 * x.ravel()),
        T.ive(np.array([0.5, 3.0, 12.0]), 400.0 * x[0]),
        T.stack([x, spd]) @ T.stack([spd, x]), T.stack([x, spd]) @ x[0], T.repeat(x, 2, axis=0),
        T.linalg.cholesky(T.stack([spd, spd * 2.0])), T.split(x, [1, 2], axis=0)[1], T.log1mexp(-T.abs(x) - 0.1),
    ]
    loss = T.log(T.linalg.det(spd)) + T.sum(T.linalg.solve_triangular(L, x, lower=True) ** 2) + T.erfcx(x).sum()
    loss += T.ive(np.arange(3), 20.0 * x[0]).sum() + T.ive(np.arange(3), 200.0 * x[0]).sum()
    def inputs():
        return [np.linspace(-1.0, 2.0, 9).reshape(3, 3) ** 2 - 0.7]
"""


VECTORIZED = """
    m, v = T.TensorType("float64", shape=(3, 4))("m"), T.TensorType("float64", shape=(4,))("v")
    def over(function, *arrays, signature="(n)->(n)"):
        return T.vectorize(function, signature=signature)(*arrays)
    out = [
        over(lambda a: T.set_subtensor(a[1:3], 0.5), m), over(lambda a: T.inc_subtensor(a[::-2], a[:2]), m),
        over(lambda a: a[1:3], m, signature="(n)->(k)"), over(lambda a: T.repeat(a, 2), m, signature="(n)->(k)"),
        over(lambda a, b: T.set_subtensor(a[:2], b[1:3]), m, v, signature="(n),(n)->(n)"),
        over(lambda a: a.reshape((2, 2)), m, signature="(n)->(k,k)"),
        over(lambda a: T.concatenate([a, T.arange(2.0)]), m, signature="(n)->(k)"),
        over(lambda a: T.dot(np.eye(4)[:2], a), m, signature="(n)->(k)"),
    ]
"""


def test_what_is_known_is_known_over_batches(written) -> None:
    check(bring("pytensor", f"{written(VECTORIZED, HEADS['pytensor'])}:out", ["float64[3,4]", "float64[4]"]))


@pytest.mark.parametrize("name", ["out", "loss"])
def test_matrices_and_special_functions_of_pytensor(name: str, written) -> None:
    check(bring("pytensor", f"{written(MATRICES, HEADS['pytensor'])}:{name}", None), limit=1e-11)


REFUSED = """
    from pytensor.scan.utils import until as stop
    from pytensor.tensor.random.utils import RandomStream
    x = T.dmatrix("x")
    several = T.linalg.expm(x).sum() + RandomStream(1).normal(0, 1, size=(2,)).sum() + T.linalg.expm(x + 1.0).sum()
    masked = x[x > 0.5].sum()
    length = T.arange(T.cast(x.sum(), "int64")).sum()
    until, _ = scan(lambda s: (s * 2.0, stop(s > 10.0)), outputs_info=T.ones(()), n_steps=20)
    cut, _ = scan(lambda s, c: c + s, sequences=x.sum(axis=1), outputs_info=T.ones(()), truncate_gradient=2)
    tied = T.linalg.solve(x, x, assume_a="tridiagonal").sum()
    class Repeat(T.extra_ops.Repeat):
        __props__ = ("axis", "tomorrow")
        tomorrow = 3
    order = T.ive(x, x).sum()
    unknown = Repeat(axis=0)(x, T.as_tensor_variable([2, 1])).sum() + T.i0(x).sum() + T.j0(x).sum()
    combined = T.elemwise.CAReduce(framework.scalar.basic.xor)(T.cast(x, "int64"))
    number = 3
    complex_ = T.zmatrix("c").real.sum()
    counted = T.cumsum(x > 0.5, axis=0).sum()
    batch = T.vectorize(lambda row: T.repeat(row, 2), signature="(n)->(k)")(x)
"""


@pytest.mark.parametrize(
    ("name", "inputs", "says"),
    [
        (
            "several",
            ["float64[2,2]"],
            r"(?s)Expm, 2 times, first at .*model.py:7.*NormalRV.*give the draws as an input",
        ),
        ("masked", ["float64[2,2]"], "a mask that depends on the inputs"),
        ("length", ["float64[2,2]"], "the length of an arange depends on the values of the inputs"),
        ("until", [], r"Scan with until, once, first at .*model.py.*the length of its results depends on values"),
        ("cut", ["float64[2,2]"], "truncate_gradient has no row"),
        ("tied", ["float64[2,2]"], "has no row"),
        ("unknown", ["float64[2,2]"], r"(?s)I0, once.*J0, once.*Repeat with tomorrow=3, once, first at .*model.py"),
        ("order", ["float64[2,2]"], "the order of a Bessel function depends on the inputs"),
        ("combined", ["float64[2,2]"], "XOR along axes of int64 has no row"),
        ("number", None, "number is int: it has to be a variable"),
        ("complex_", ["float64[2,2]"], "complex128"),
        ("batch", ["float64[0,2]"], r"over a batch of \(0,\) has no row"),
        ("counted", ["float64[2,2]"], "sums and products of bool have no row: cast"),
        ("masked", None, r"the input x .* has no fixed shape: give each input with --input"),
        ("masked", ["1.0", "2.0"], "takes 1 inputs, 2 are given"),
    ],
)
def test_what_no_program_has_is_said_at_once(name, inputs, says, written) -> None:
    with pytest.raises(GraphError, match=says):
        bring("pytensor", f"{written(REFUSED, HEADS['pytensor'])}:{name}", inputs)


def test_a_model_without_variables_and_a_wrong_name(written) -> None:
    path = written(MODEL)
    with pytest.raises(GraphError, match="empty has no free variable"):
        bring("pymc", f"{path}:empty", None)
    with pytest.raises(GraphError, match="the point of lacking lacks tau_log__, steps, theta and cov"):
        bring("pymc", f"{path}:lacking", None)
    with pytest.raises(GraphError, match=r"has no modell; it has .*model"):
        bring("pymc", f"{path}:modell", None)
    with pytest.raises(UsageError, match="did you mean 'pymc'"):
        bring("pymk", f"{path}:model", None)
    with pytest.raises(UsageError, match="there is no interpreter"):
        bring("pymc=/nowhere", f"{path}:model", None)
    with pytest.raises(UsageError, match=r"is not FILE.py:NAME"):
        bring("pymc", str(path), None)


def test_a_file_that_raises_shows_its_own_lines(written) -> None:
    path = written("value = 1\nraise ValueError('of the file')\n")
    with pytest.raises(GraphError, match=r"(?s)raised ValueError.*model.py\", line 2.*of the file"):
        bring("pytensor", f"{path}:value", None)


def test_a_file_that_exits_or_leaves_a_process_behind(written) -> None:
    path = written("import sys\nsys.exit(0)\n")
    with pytest.raises(GraphError, match='exits when it is imported: put that below if __name__ == "__main__":'):
        bring("pytensor", f"{path}:value", None)
    path = written("import os\nos._exit(0)\n")
    with pytest.raises(GraphError, match="its process ended before it was brought"):
        bring("pytensor", f"{path}:value", None)
    path = written(
        "import subprocess\nsubprocess.Popen(['sleep', '100'])\nout = T.dvector('x').sum()\n", HEADS["pytensor"]
    )
    start = monotonic()
    assert bring("pytensor", f"{path}:out", ["float64[3]"]).inputs[0].shape == (3,)
    assert monotonic() - start < 60


def test_a_folder_of_models_has_a_row_for_each_file(tmp_path: Path) -> None:
    (tmp_path / "cubes.py").write_text(
        "import numpy as np, jax.numpy as jnp\nmodel = lambda x: jnp.sum(x**3)\ninputs = lambda: [np.ones(3)]\n"
    )
    (tmp_path / "nothing.py").write_text("other = 1\n")
    (tmp_path / "_helpers.py").write_text("raise ValueError\n")
    graph = GraphChoice("jax")
    made = users.cases(str(tmp_path), None, {}, graph=graph)
    assert [one.workload for one in made] == ["cubes", "cubes+gradient", "nothing"]
    assert [one.parameters[FILE] for one in made] == [str(tmp_path / f"{n}.py") for n in ("cubes", "cubes", "nothing")]
    assert made[1].expected[1].tolist() == [3.0, 3.0, 3.0]
    assert "has no model; it has other" in made[2].refused and not made[0].refused
    assert graph.place(str(tmp_path)) == graph.place(f"{tmp_path}:model") == str(tmp_path)
    with pytest.raises(GraphError, match="has no loss"):  # if no file has it
        users.cases(f"{tmp_path}:loss", None, {}, graph=graph)
    with pytest.raises(UsageError, match=r"each file of .* has its own inputs"):
        users.cases(str(tmp_path), ["float64[3]"], {}, graph=graph)
