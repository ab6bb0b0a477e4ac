"""`to_callable`: the function of a `to_source` script, in an interpreter that has the framework."""

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

    The arguments are the program's inputs, in their order. The results have the program's structure; PyTensor gives the
    only result, or a list of all.

    - ``"jax"``: a jitted function, also for `jax.grad` and `jax.vmap`. It is not jitted if the program names devices.
      Shared variables are further arguments. Their new values are one more result, a tuple if there are several.
    - ``"tensorflow"``: a `tf.function`, also for `tf.GradientTape` and Keras. Its shared variables are `tf.Variable`
      objects of its own.
    - ``"pytensor"``: arrays give arrays, by a function that the first such call compiles. If an argument is a variable
      of PyTensor, the results are variables for your graph. The updates of shared variables follow, if there are any.
    - ``"numpy"``: a function of NumPy, with shared variables as in JAX.

    Args:
        program: a program, or a function, which is traced with the ``examples`` as by `xbackend.trace`.
        framework: one of these four names.

    Raises `UsageError` if this interpreter lacks the framework, if the program has 64-bit dtypes and JAX is left in 32
    bits, and for examples beside a program; also what `to_source` and `trace` raise.

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
        if framework in _CHECKS:
            _CHECKS[framework](program)
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


def _check_precision(program: Program) -> None:
    """Raises `UsageError` if JAX would halve the precision. The setting is left to the user: it concerns all arrays."""
    import jax

    wide = sorted(one.value for one in dtypes(program) & {DType.int64, DType.float64})
    if wide and not jax.config.jax_enable_x64:
        raise UsageError(
            f"{program.name} has {' and '.join(wide)}, and JAX is left in 32 bits here: write "
            'jax.config.update("jax_enable_x64", True) first, or give float32 and int32'
        )


def _of_pytensor(program: Program) -> AbstractContextManager[Any]:
    """The program's ``floatX`` until the block ends."""
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


_CHECKS = {"jax": _check_precision}  # before the execution of the script
_AROUND = {"pytensor": _of_pytensor}  # around it
_MADE = {"pytensor": _graph_or_arrays}  # from the script's function to the returned one
