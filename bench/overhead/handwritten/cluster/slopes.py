"""The loss of the classifier and its gradients: written out in NumPy, by autograd, or by PyTensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from told import gradients

Slopes = Callable[[Mapping[str, np.ndarray], np.ndarray, np.ndarray], tuple[Any, Mapping[str, np.ndarray]]]


def by_autograd() -> Slopes:
    import autograd.numpy as anp
    from autograd import value_and_grad

    def loss(weights: Any, x: np.ndarray, labels: np.ndarray) -> Any:
        scores = anp.dot(x, weights["w"]) + weights["b"]
        scores = scores - anp.max(scores, axis=1, keepdims=True)
        sums = anp.log(anp.sum(anp.exp(scores), axis=1))
        return anp.mean(sums - scores[np.arange(len(x)), labels])

    found: Slopes = value_and_grad(loss)
    return found


def by_pytensor() -> Slopes:
    import pytensor
    import pytensor.tensor as pt

    x, labels, w, b = pt.matrix("x"), pt.lvector("labels"), pt.matrix("w"), pt.vector("b")
    scores = x @ w + b
    loss = -pt.mean(pt.special.log_softmax(scores, axis=1)[pt.arange(x.shape[0]), labels])
    run = pytensor.function([x, labels, w, b], [loss, *pt.grad(loss, [w, b])])

    def slopes(weights: Mapping[str, np.ndarray], x: np.ndarray, labels: np.ndarray) -> Any:
        own, of_w, of_b = run(x, labels, weights["w"], weights["b"])
        return own, {"w": of_w, "b": of_b}

    return slopes


BY: Mapping[str, Callable[[], Slopes]] = {
    "written out": lambda: gradients,
    "autograd": by_autograd,
    "pytensor": by_pytensor,
}
