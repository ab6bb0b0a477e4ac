"""A job of a cluster: a function that is traced once for each task, and the data of each step.

@xb.job(steps=100)
def step(task, x, labels):
    w = xb.shared(np.zeros(64), "w", device="/job:ps/task:0")
    loss = ...
    xb.update(w, w - 0.1 * xb.grad(loss, w))
    return loss

@step.data
def data(task, number):
    own = task.share(len(X))
    return X[own.start : own.stop], labels[own.start : own.stop]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from xbackend.engines.spec import Task
from xbackend.errors import ClusterError
from xbackend.program.dtypes import as_dtype
from xbackend.program.host import host_array
from xbackend.wording import counted

Made = TypeVar("Made", bound=Callable[..., Any])
GuardFor = Callable[[str], AbstractContextManager[None]]  # around the job's own functions


class Job:
    """One step of each task of a cluster; made by `job`, above its function.

    Attributes:
        function: ``function(task, *arrays)`` with traced arrays; called once for each task.
        name, summary: the function's name and the first line of its docstring.
        steps: the default number of steps of each worker.

    >>> @xb.job(steps=3)
    ... def step(task, x):
    ...     return xb.all_reduce([xb.sum(x)], across=task)[0]
    >>> @step.data
    ... def data(task, number):
    ...     return [np.full(2, float(number))]
    >>> step.name, step.steps
    ('step', 3)
    >>> from xbackend.engines.spec import Task
    >>> arrays = step.arrays(Task("worker", index=0, count=2), 5)
    >>> arrays
    [array([5., 5.])]
    >>> xb.trace(step.of(Task("worker", index=0, count=2)), *arrays).nodes[-1].op
    'all_reduce'
    """

    def __init__(self, function: Callable[..., Any], *, steps: int = 1) -> None:
        if not callable(function):
            raise ClusterError(f"{function!r:.60} is no function: xb.job is of one that returns a step's results")
        self.name = str(getattr(function, "__name__", "job"))
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ClusterError(f"job {self.name}: steps={steps!r:.40}: a whole number from 1 up is needed")
        self.function = function
        self.summary = (inspect.getdoc(function) or "").partition("\n")[0]
        self.steps = steps
        self._data: Callable[..., Any] | None = None
        self.__doc__ = inspect.getdoc(function)

    def __call__(self, task: Task, *arrays: Any) -> Any:
        return self.function(task, *arrays)

    def of(self, task: Task) -> Callable[..., Any]:
        """The function of one task's arrays, with the name, parameters and line of the job's function."""

        def own(*arrays: Any) -> Any:
            return self.function(task, *arrays)

        own.__name__ = self.name
        own.__wrapped__ = self.function  # type: ignore[attr-defined]
        own.__signature__ = self._signature  # type: ignore[attr-defined]
        return own

    @cached_property
    def _signature(self) -> inspect.Signature:
        """The function's signature without the task."""
        found = inspect.signature(self.function)
        own = list(found.parameters.values())
        if not own or own[0].kind in (own[0].KEYWORD_ONLY, own[0].VAR_KEYWORD):
            raise ClusterError(f"job {self.name}{found} takes no task: write def {self.name}(task, ...)")
        return found.replace(parameters=own if own[0].kind is own[0].VAR_POSITIONAL else own[1:])

    def __repr__(self) -> str:
        return f"<job {self.name}, {self.steps} steps>"

    def data(self, function: Made) -> Made:
        """Register ``function(task, number)``: the arrays of a task for step ``number``, counted from 0."""
        self._data = function
        return function

    def arrays(self, task: Task, number: int) -> list[np.ndarray]:
        """The arguments of a task's function at a step.

        Raises `ShapeError` and `DTypeError` for data that are no arrays, `ClusterError` for a wrong number of them.
        """
        made = () if self._data is None else self._data(task, number)
        if not isinstance(made, list | tuple):
            made = (made,)
        what = f"data of {task} for step {number}"
        try:
            self._signature.bind(*made)
        except TypeError as error:
            takes = f"{self.name}(task, {str(self._signature).lstrip('(')}"
            if self._data is None:
                raise ClusterError(
                    f"{takes} takes arrays, and there are none: write @{self.name}.data above a function of (task, "
                    "number) that returns them"
                ) from None
            raise ClusterError(f"{takes} and the {what}, {counted(len(made), 'array')}: {error}") from None
        arrays = [host_array(array, f"array {k} of the {what}") for k, array in enumerate(made)]
        for k, array in enumerate(arrays):
            as_dtype(array.dtype, f"array {k} of the {what}: dtype")
        return arrays


def job(function: Callable[..., Any] | None = None, *, steps: int = 1) -> Any:
    """Make a `Job` of a function: ``@xb.job`` or ``@xb.job(steps=100)``. Raises `ClusterError`.

    >>> @xb.job(steps=100)
    ... def step(task, x):
    ...     "The sum over all tasks."
    ...     return xb.all_reduce([x], "sum", across=task)[0]
    >>> step.summary, step.steps
    ('The sum over all tasks.', 100)
    """
    if function is not None:
        return Job(function, steps=steps)
    return lambda own: Job(own, steps=steps)
