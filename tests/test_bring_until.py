"""Loops with ``until`` of PyTensor, Aesara and Theano: their last elements and gradients are those of the framework."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from test_bring import HEADS, LINEAGE, check

from xbackend.bring.origin import Origin
from xbackend.errors import GraphError
from xbackend.workers.bringing import bring

pytestmark = pytest.mark.tier("standard")

UNTIL = {
    "pytensor": "from pytensor.scan.utils import until\n",
    "aesara": "from aesara.scan.utils import until\n",
    "theano": "from theano.scan_module import until\n",
}
LOOPS = """
    x, v = T.dscalar("x"), T.dvector("v")
    value = scan(lambda s, x: (s * x, until(T.gt(s, 20.0))), outputs_info=T.ones(()), non_sequences=x, n_steps=50)[0]
    # A root by Newton's method. Behind the last step, where the change is 0, the derivative of its root is infinite.
    def newton(s, x):
        change = (s * s - x * x) / (2.0 * s)
        return s - change + 0.0 * T.sqrt(abs(change)), until(T.lt(abs(change), 1e-7))
    root = scan(newton, outputs_info=x + 1.0, non_sequences=x, n_steps=20)[0]
    several = scan(
        lambda row, before, last, s, w: ([last + 0.5 * before + row, s + row * w, row * s], until(T.gt(s.sum(), 3.0))),
        sequences=v, outputs_info=[dict(initial=T.stack([x, 2.0 * x]), taps=[-2, -1]), T.zeros_like(v), None],
        non_sequences=T.cos(v),
    )[0]
    never = scan(lambda s: (s * 0.5, until(T.gt(s, 9.0))), outputs_info=x, n_steps=7)[0]
    once = scan(lambda s: (s * 3.0, until(T.gt(s, 0.0))), outputs_info=x, n_steps=7)[0]
    out = [one[-1] for one in (value, root, *several, never, once)]
    loss = sum(one.sum() for one in out)
    lengths = [value, root[-2], several[0][3:][-1], several[1][-1], never[-1]]
    def inputs():
        return {"x": 2.0, "v": np.array([0.5, 1.0, 0.7, 2.0, 0.1, 0.2])}
"""


@pytest.fixture
def loops(tmp_path: Path):  # type: ignore[no-untyped-def]
    def brought(kind: str, name: str, rewrites: str = "none") -> Origin:
        path = tmp_path / "model.py"
        path.write_text(HEADS[kind] + UNTIL[kind] + dedent(LOOPS))
        return bring(kind, f"{path}:{name}", None, {"rewrites": rewrites})

    return brought


def ops(origin: Origin) -> list[str]:
    return [node.op for node in origin.program.nodes if node.op in ("scan", "while_loop")]


@LINEAGE
def test_the_last_elements(kind: str, loops) -> None:
    out = loops(kind, "out")
    assert ops(out) == ["while_loop"] * 5
    check(out, ("numpy",))


@pytest.mark.tier("exhaustive")
def test_gradients_of_the_last_elements(loops) -> None:
    """Expected are PyTensor's: Aesara and Theano shift the gradient of a sequence by a step if the first result is a
    state (pytensor/scan/op.py, Scan.L_op, describes the correction)."""
    each = {kind: loops(kind, "loss") for kind in HEADS}
    slopes = each["pytensor"].slopes
    assert len(slopes) == 2
    for kind, loss in each.items():
        assert ops(loss) == ["scan"] * 5
        check(replace(loss, slopes=slopes), ("numpy", "jax") if kind == "pytensor" else ("numpy",))


def test_rewrites_leave_the_last_elements(loops) -> None:
    check(loops("pytensor", "loss", "stabilize"), ("numpy",))


def test_results_of_a_length_that_depends_on_values_are_refused_at_once(loops) -> None:
    with pytest.raises(GraphError, match=r"(?s)Scan with until, 3 times, first at .*model.py.*take \[-1\] of each"):
        loops("pytensor", "lengths")
