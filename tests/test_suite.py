"""The suite: found by its folders, each workload checked by another formula, and measured as users' workloads are."""

from __future__ import annotations

import gzip
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import signal, special, stats

from xbackend import limits, workloads
from xbackend.cli import main, users
from xbackend.errors import UsageError, WorkloadError, XBackendError
from xbackend.measure import candidates, session
from xbackend.results.naming import GRADIENT
from xbackend.workloads.kernels import black_scholes, nbody, stencil
from xbackend.workloads.models import kalman, logistic_regression, model_parallel, seir
from xbackend.workloads.workload import Workload

FOLDER = Path(inspect.getfile(workloads)).parent
NAMES = workloads.names()
SMALL = {"size": 12, "dtype": "float64"}


# --- found by folder --------------------------------------------------------------------------------------------------


def test_a_suite_is_a_folder_and_a_workload_a_file() -> None:
    for suite, names in workloads.suites().items():
        files = {path.stem for path in (FOLDER / suite).glob("*.py")} - {"__init__"}
        assert set(names) == files and len(names) >= 8
    assert {"kernels", "models"} == {*workloads.suites()}
    assert len(set(NAMES)) == len(NAMES)
    assert [one.name for one in workloads.of_suite("all")] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_of_the_suite_says_where_it_is_from_and_has_sizes(name: str) -> None:
    workload = workloads.get(name)
    assert workload.name == name and workload.summary
    assert "Source: " in (inspect.getdoc(getattr(workloads, name)) or "")
    assert len(workload.sweep["size"]) >= (1 if name == "matpow" else 2)
    assert len(workload.quick["size"]) == 1
    if name not in ("matpow", "kalman", "seir"):
        assert len(workload.sweep["size"]) == 3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [{"size": -1}, {"size": 10**8}, {"size": 2.5}, {"dtype": "int32"}])
def test_a_parameter_that_cannot_be_is_refused_before_anything_is_made(
    name: str, bad: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "memory", lambda: 1 << 20)
    with pytest.raises(XBackendError):
        workloads.get(name).resolve(**bad)


def test_an_unknown_suite_lists_those_there_are() -> None:
    with pytest.raises(WorkloadError, match="there is no suite 'kernel'; there is kernels, models, all"):
        workloads.of_suite("kernel")


# --- right, by other formulas -----------------------------------------------------------------------------------------


def _axis_sums(x: Any) -> Any:
    return np.ones(len(x)) @ x, x @ np.ones(len(x))


def _black_scholes(spot: Any, strike: Any, years: Any) -> Any:
    """Discounted means of a log-normal distribution's excess over the strike, and below it, by quadrature."""
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    rate, volatility = black_scholes.RATE, black_scholes.VOLATILITY
    t = years[:, None]
    drift = (rate - volatility**2 / 2) * t
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / (volatility * np.sqrt(years))
    d2 = d1 - volatility * np.sqrt(years)
    cash = strike * np.exp(-rate * years)
    call = spot * stats.norm.cdf(d1) - cash * stats.norm.cdf(d2)
    ends = spot[:, None] * np.exp(drift + volatility * np.sqrt(t) * z)
    by_mean = np.exp(-rate * years) * (np.maximum(ends - strike[:, None], 0.0) @ weight) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(call, by_mean, atol=0.05)  # the formula's meaning
    return call, call - spot + cash  # the parity of puts and calls


def _nbody(position: Any, velocity: Any, mass: Any) -> Any:
    def pulls(x: Any) -> Any:
        found = np.zeros_like(x)
        for i in range(len(x)):
            for j in range(len(x)):
                d = x[j] - x[i]
                found[i] += mass[j] * d / (d @ d + nbody.SOFTENING**2) ** 1.5
        return found

    x, v = position.copy(), velocity.copy()
    for _ in range(4):
        v = v + nbody.STEP / 2 * pulls(x)
        x = x + nbody.STEP * v
        v = v + nbody.STEP / 2 * pulls(x)
    np.testing.assert_allclose(mass @ v, mass @ velocity, atol=1e-14)  # momentum is conserved
    return x, v


def _stencil(u: Any) -> Any:
    kernel = stencil.RATE * np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
    for _ in range(50):
        u = u + np.pad(signal.convolve2d(u, kernel, mode="valid"), 1)
    return u


def _attention(query: Any, key: Any, value: Any) -> Any:
    scores = np.einsum("hid,hjd->hij", query, key) / 8.0
    return np.einsum("hij,hjd->hid", special.softmax(scores, axis=2), value)


def _convolution(images: Any, kernels: Any) -> Any:
    planes = [
        [
            sum(signal.correlate2d(image[:, :, c], kernels[:, :, c, k], mode="valid") for c in range(image.shape[2]))
            for k in range(kernels.shape[3])
        ]
        for image in images
    ]
    return np.moveaxis(np.array(planes), 1, 3)


def _logistic_regression(coefficients: Any, x: Any, y: Any) -> Any:
    eta, scale = x @ coefficients, logistic_regression.SCALE
    likelihood = y * special.log_expit(eta) + (1.0 - y) * special.log_expit(-eta)
    prior = stats.norm.logpdf(coefficients, 0.0, scale) - stats.norm.logpdf(0.0, 0.0, scale)
    return likelihood.sum() + prior.sum()


def _radon(  # noqa: PLR0917 (an argument is an array)
    centre: Any, log_scale: Any, intercept: Any, slope: Any, county: Any, floor: Any, y: Any
) -> Any:
    def density(x: Any, mean: Any = 0.0, scale: float = 1.0) -> float:
        return float(np.sum(stats.norm.logpdf(x, mean, scale) + 0.5 * np.log(2 * np.pi)))

    scale = np.exp(log_scale)
    a, b = centre[0] + scale[0] * intercept, centre[1] + scale[1] * slope
    priors = density(intercept) + density(slope) + density(centre / 10.0) + density(scale)
    return density(y, a[county] + b[county] * floor, scale[2]) + priors + np.sum(log_scale)


def _seir(log_rates: Any, start: Any, cases: Any) -> Any:
    b, s, g = np.exp(log_rates)
    susceptible, exposed, infectious, _ = start
    total = 0.0
    for seen in cases:
        expected = seir.PEOPLE * s * exposed
        total += stats.poisson.logpmf(seen, expected) + special.gammaln(seen + 1)
        infected = b * susceptible * infectious
        susceptible, exposed, infectious = (
            susceptible - infected,
            exposed + infected - s * exposed,
            infectious + s * exposed - g * infectious,
        )
    return total


def _gaussian_process(log_parameters: Any, x: Any, y: Any) -> Any:
    length, scale, noise = np.exp(log_parameters)
    covariance = scale**2 * np.exp(-((x[:, None] - x) ** 2) / (2 * length**2)) + noise**2 * np.eye(len(x))
    return stats.multivariate_normal.logpdf(y, np.zeros(len(y)), covariance)


def _multivariate_normal(mean: Any, log_scale: Any, correlation: Any, x: Any) -> Any:
    scales = np.diag(np.exp(log_scale))
    pairs = zip(x, correlation, strict=True)
    return sum(stats.multivariate_normal.logpdf(point, mean, scales @ r @ scales) for point, r in pairs)


def _kalman(log_noise: Any, mean: Any, covariance: Any, y: Any) -> Any:
    """All observations as one normal vector."""
    q, r = np.exp(log_noise)
    steps, a, h = len(y), kalman.MOVES, kalman.SEES
    power = [np.linalg.matrix_power(a, k) for k in range(steps + 1)]
    means = np.concatenate([h @ power[t + 1] @ mean for t in range(steps)])
    whole = np.zeros((2 * steps, 2 * steps))
    for t in range(steps):
        for u in range(steps):
            inner = power[t + 1] @ covariance @ power[u + 1].T
            for k in range(min(t, u) + 1):
                inner = inner + power[t - k] @ (q * kalman.JOLTS) @ power[u - k].T
            whole[2 * t : 2 * t + 2, 2 * u : 2 * u + 2] = h @ inner @ h.T + r * np.eye(2) * (t == u)
    return stats.multivariate_normal.logpdf(y.ravel(), means, whole)


def _step(x: Any, target: Any, w1: Any, w2: Any) -> Any:
    hidden = np.tanh(x @ w1)
    miss = hidden @ w2 - target
    outer = 2.0 * miss / miss.size
    inner = (outer @ w2.T) * (1.0 - hidden**2)
    rate = model_parallel.RATE
    return np.mean(miss**2), w1 - rate * x.T @ inner, w2 - rate * hidden.T @ outer


FORMULAS: dict[str, Callable[..., Any]] = {
    "axis_sums": _axis_sums,
    "softmax": lambda x: special.softmax(x, axis=1),
    "black_scholes": _black_scholes,
    "nbody": _nbody,
    "stencil": _stencil,
    "attention": _attention,
    "convolution": _convolution,
    "matpow": lambda a, b: np.linalg.matrix_power(a, 10) + np.linalg.matrix_power(b, 10),
    "logistic_regression": _logistic_regression,
    "radon": _radon,
    "seir": _seir,
    "gaussian_process": _gaussian_process,
    "multivariate_normal": _multivariate_normal,
    "kalman": _kalman,
    "model_parallel": _step,
    "data_and_model_parallel": _step,
}


def test_every_workload_has_a_formula_here() -> None:
    assert {*FORMULAS} == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_is_right(name: str) -> None:
    made = candidates.made(workloads.get(name), SMALL)
    found = FORMULAS[name](*made.inputs)
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(made.expected)
    for ours, theirs in zip(made.expected, found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in NAMES if workloads.get(name).gradient])
def test_a_model_has_a_gradient_that_differences_confirm(name: str) -> None:
    """`candidates.made` compares it with central differences."""
    made = candidates.made(workloads.get(name), SMALL, gradient=True)
    assert len(made.expected) == 1 + len(workloads.get(name).gradient)
    assert all(np.isfinite(array).all() and np.any(array != 0) for array in made.expected)


# --- as a session -----------------------------------------------------------------------------------------------------


def test_a_suite_is_the_tasks_of_all_its_workloads() -> None:
    cases = users.cases("matpow", None, {"size": [12]}, suite="models")
    names = [case.workload for case in cases]
    assert [*dict.fromkeys(name.removesuffix(GRADIENT) for name in names)] == [*workloads.suites()["models"]]
    assert not any(case.refused for case in cases), [case.refused for case in cases]
    assert {f"{n}{GRADIENT}" for n in ("radon", "seir", "gaussian_process")} <= {*names}


def test_a_workload_that_cannot_be_made_is_a_row_of_its_own() -> None:
    def broken(a: Any) -> Any:
        return a * undefined_name  # type: ignore[name-defined]  # noqa: F821

    bad = Workload(broken)
    bad.inputs(lambda rng: rng.random(3))
    cases = session.cases_of([(workloads.get("softmax"), [{"size": 2}]), (bad, [{}])], guard=users.calling)
    assert not cases[0].refused and "undefined_name" in cases[1].refused
    with pytest.raises(UsageError, match="undefined_name"):
        session.cases_of([(bad, [{}])], guard=users.calling)


def test_a_workload_whose_parameter_has_no_value_is_a_row_that_can_be_kept() -> None:
    needs = Workload(lambda a, *, n: a * n, name="needs")
    needs.inputs(lambda rng: rng.random(3))
    _, refused = session.cases_of([(workloads.get("softmax"), [{"size": 2}]), (needs, [{}])])
    assert refused.parameters == {}
    row = candidates.Candidate(refused, "numpy", 1).measurement()
    assert row.status == "failed" and "n has no value" in row.reason and row.operations == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--suite", "kernel"], "there is no suite 'kernel'; there is kernels, models, all"),
        (["softmax", "--suite", "kernels"], "--suite kernels and softmax say two things"),
        (["--suite", "kernels", "--input", "float32[3]"], "--suite kernels and --input say two things"),
        (["--suite", "kernels", "--set", "colour=3"], "has no parameter colour"),
    ],
)
def test_what_does_not_go_with_a_suite_is_said(words: list[str], said: str, capsys: Any, tmp_path: Path) -> None:
    assert main(["compare", "--backends", "numpy", "--store", str(tmp_path), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.tier("exhaustive")  # half a minute
def test_the_kernels_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        words = ["--suite", "kernels", "--size", "12", "--quick", "--processes", "1", "--wait", "0"]
        assert main(["compare", *words, "--backends", "numpy,jax"]) == 0, capsys.readouterr()
    results = json.loads(gzip.decompress((tmp_path / "reports/kernels/results.json.gz").read_bytes()))
    assert {m["workload"] for m in results["measurements"]} == {*workloads.suites()["kernels"]}
    assert all(m["status"] == "ok" and m["processes"][0]["memory"]["call"] >= 0 for m in results["measurements"])
    text = (tmp_path / "reports/kernels/report.md").read_text()
    assert "| workload | numpy | jax |" in text and "geometric mean" in text and "## Memory" in text
    shown = capsys.readouterr().out
    assert "softmax" in shown and max(map(len, shown.split("\n\n")[1].splitlines())) <= 80
