"""`to_callable`: what `to_source` writes, as a function in an interpreter that has the framework."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

from xbackend import generated
from xbackend.api.tracing.trace import trace
from xbackend.bring.source.script import written_as
from xbackend.bring.source.traits import dtypes
from xbackend.errors import UsageError
from xbackend.program.dtypes import DType
from xbackend.program.program import Program


def to_callable(program: Program | Callable[..., Any], framework: str, *examples: Any) -> Callable[..., Any]:
    """A program as a function of a framework that this interpreter has.

    It takes the program's inputs in their order and returns the results in their structure:

    - ``"jax"``: a jitted function, for `jax.grad`, `jax.vmap` and the others, too. Shared variables are arguments
      behind the inputs, their new values a result behind the others. It is not jitted where the program names devices.
    - ``"tensorflow"``: a `tf.function`, for a `tf.GradientTape` and Keras, too. Each `tf.Variable` in it is its own.
    - ``"pytensor"``: of arrays it returns arrays, by a function compiled in the first such call. Where an argument is a
      variable of PyTensor, it returns variables, a part of your graph; behind them the updates, if it has some.
    - ``"numpy"``: a function of NumPy.

    Args:
        program: a program, or a function, which is traced with the ``examples`` as by `xbackend.trace`.
        framework: its name.

    Raises `UsageError` where this interpreter does not have the framework, or JAX is left in 32 bits and the program is
    not; what `to_source` raises, and `trace`.

    >>> energy = xb.to_callable(lambda x: xb.sum(x * x), "numpy", np.ones(3))
    >>> float(energy(np.asarray([1.0, 2.0, 3.0])))
    14.0
    """
    if not isinstance(program, Program):
        program = trace(program, *examples)
    elif examples:
        raise UsageError("examples are for a function: a program has its shapes and dtypes already")
    source = written_as(program, framework, loads=False)
    around, make = _AROUND.get(framework), _MADE.get(framework)
    names: dict[str, Any] = {"__name__": f"xbackend_{source.function}", "CONSTANTS": source.constants}
    try:
        with around(program) if around else nullcontext():
            file = generated.execute(f"{program.name} in {framework}", source.text, names)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{sys.executable} has no {error.name}, which {framework}'s code imports: install it there, or run the "
            f"program by xb.open({framework!r})"
        ) from None
    function = make(program, names[source.function], names) if make else names[source.function]
    generated.show_with(function, file)
    return function


def _of_jax(program: Program) -> AbstractContextManager[Any]:
    """Raises `UsageError` where JAX would halve the precision: the setting is the user's, of all of his arrays."""
    import jax

    wide = sorted(one.value for one in dtypes(program) & {DType.int64, DType.float64})
    if wide and not jax.config.jax_enable_x64:
        raise UsageError(
            f"{program.name} has {' and '.join(wide)}, and JAX is left in 32 bits here: write "
            'jax.config.update("jax_enable_x64", True) first, or give float32 and int32'
        )
    return nullcontext()


def _of_pytensor(program: Program) -> AbstractContextManager[Any]:
    """The user's own ``floatX`` is back behind the block."""
    import pytensor

    single = DType.float64 not in dtypes(program) and DType.float32 in dtypes(program)
    changed: AbstractContextManager[Any] = pytensor.config.change_flags(**({"floatX": "float32"} if single else {}))
    return changed


def _graph_or_arrays(program: Program, function: Callable[..., Any], names: Mapping[str, Any]) -> Callable[..., Any]:
    from pytensor.graph.basic import Variable

    compiled: list[Callable[..., Any]] = []

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        with _of_pytensor(program):
            if any(isinstance(one, Variable) for one in (*arguments, *named.values())):
                return function(*arguments, **named)
            if not compiled:
                compiled.append(names["compiled"]())
        return compiled[0](*arguments, **named)

    return called


_AROUND = {"jax": _of_jax, "pytensor": _of_pytensor}  # around the execution of the script
_MADE = {"pytensor": _graph_or_arrays}  # of the script's function
