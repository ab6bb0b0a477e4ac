"""Programs of what `jax.export` exported."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.inputs import fits
from xbackend.bring.jax.programs import from_jaxpr
from xbackend.bring.stablehlo import arrays, regions  # noqa: F401  # fill ROWS
from xbackend.bring.stablehlo.known import module_of
from xbackend.bring.stablehlo.modules import Module, dtype_of
from xbackend.bring.stablehlo.walk import called
from xbackend.errors import GraphError


@dataclass(frozen=True)
class ShapedExport:
    """An export for arguments of known shapes.

    Attributes:
        exported: the `jax.export.Exported`.
        function: its ops as a function that JAX can trace, from the arguments as a flat list to the results as one.
        specs: the shape and dtype of each argument, as `jax.ShapeDtypeStruct`.
        names: the name of each argument.
    """

    exported: Any
    function: Callable[..., list[Any]]
    specs: Sequence[Any]
    names: Sequence[str]

    def program(self, name: str) -> TracedProgram:
        """The program of the export. Raises `GraphError` with all ops that have no row."""
        import jax

        with jax.enable_x64(True):  # a file may have 64-bit numbers
            try:
                closed = jax.make_jaxpr(self.function)(*self.specs)
            except RecursionError:
                raise GraphError(f"{name} has functions or regions in one another in too long a row") from None
            return from_jaxpr(closed, self.names, name, self.exported.out_tree.unflatten)


def from_exported(exported: Any, *examples: Any, name: str | None = None) -> TracedProgram:
    """The program of a `jax.export.Exported`. Symbols in its shapes need examples. Raises `GraphError`."""
    import jax

    given = jax.tree.leaves(examples) or None
    return graph_of(exported, given).program(name or str(exported.fun_name))


def graph_of(exported: Any, given: Sequence[Any] | None) -> ShapedExport:
    """The graph for arrays of these shapes; `None` will do unless shapes have symbols. Raises `GraphError`."""
    import jax

    named = str(exported.fun_name)
    if exported.nr_devices != 1:
        raise GraphError(
            f"{named} was exported for {exported.nr_devices} devices: bring the function, whose shard_map comes in, or "
            "export it for one"
        )
    if effects := [*exported.ordered_effects, *exported.unordered_effects]:
        raise GraphError(
            f"{named} has side effects ({effects[0]}): leave out callbacks and prints, and export it again"
        )
    symbolic = any(not isinstance(n, int) for one in exported.in_avals for n in one.shape)
    if symbolic and given is None:
        said = ", ".join(f"{one.dtype}{list(map(str, one.shape))}".replace("'", "") for one in exported.in_avals)
        raise GraphError(f"{named} has symbols in its shapes, {said}: give arrays, with --input or as examples")
    platform = "cpu" if "cpu" in exported.platforms else exported.platforms[0]
    given = exported.in_avals if given is None else given
    if len(given) != len(exported.in_avals):
        raise GraphError(f"{named} takes {len(exported.in_avals)} arrays, {len(given)} are given")
    for one, spec in zip(given, exported.in_avals, strict=True):
        dtype, shape = getattr(one, "dtype", spec.dtype), np.shape(one)  # a number of Python has no dtype
        same = dtype == spec.dtype or jax.numpy.result_type(dtype) == spec.dtype  # as JAX takes it, perhaps in 32 bits
        if not same or not fits([n if isinstance(n, int) else None for n in spec.shape], shape):
            raise GraphError(f"{named} takes {spec.dtype}{list(spec.shape)}, and {dtype}{list(shape)} is given")
    specs = [
        jax.ShapeDtypeStruct(np.shape(one), spec.dtype) for one, spec in zip(given, exported.in_avals, strict=True)
    ]
    with jax.enable_x64(True):
        module = Module(_refined(exported, specs, platform) if symbolic else module_of(exported), platform)
    module.check_size()
    kept = range(len(specs)) if symbolic else exported.module_kept_var_idx
    types = [one.type for one in module.functions["main"].regions[0].blocks[0].arguments]
    first: list[Any] = []
    if len(exported.platforms) > 1 and not symbolic:  # the first argument is the number of the platform
        first = [np.asarray(exported.platforms.index(platform), dtype_of(types[0]))]
    if any(dtype_of(one) != specs[i].dtype for i, one in zip(kept, types[len(first) :], strict=True)):
        wide = 'jax.config.update("jax_enable_x64", True)'
        raise GraphError(f"{named} has 64-bit arguments, and JAX read it with 32-bit numbers: write {wide} before that")

    def function(*values: Any) -> list[Any]:
        found = called(module, "main", [*first, *(values[i] for i in kept)])
        module.missing.check(named)
        return found

    return ShapedExport(exported, function, specs, names_of(exported))


def _refined(exported: Any, specs: Sequence[Any], platform: str) -> Any:
    """The module with numbers in place of symbols, as JAX makes it before it compiles."""
    import jax

    arguments, keywords = jax.tree.unflatten(exported.in_tree, specs)
    try:
        traced = jax.jit(exported.call, keep_unused=True).trace(*arguments, **keywords)
    except ValueError as error:  # one length for two numbers, or a constraint that is broken
        said, shapes = " ".join(str(error).split()), ", ".join(str(one.shape) for one in specs)
        raise GraphError(f"{exported.fun_name} was not exported for arrays of {shapes}: {said:.300}") from error
    lowered = traced.lower(lowering_platforms=(platform,)).compiler_ir("stablehlo")
    with lowered.context:  # JAX has no public name for it
        return import_module("jax._src.interpreters.mlir").refine_polymorphic_shapes(lowered)


def names_of(exported: Any) -> list[str]:
    """The names of the arguments; ``x0``, ``x1`` and so on where the file has none."""
    module = Module(module_of(exported), "")
    places = [str(one.location) for one in module.functions["main"].regions[0].blocks[0].arguments]
    kept, names = exported.module_kept_var_idx, [""] * len(exported.in_avals)
    for i, place in zip(kept, places[len(places) - len(kept) :], strict=True):
        found = re.fullmatch(r'loc\("([^"]*)"\)', place)
        names[i] = re.sub(r"\W+", "_", found[1]).strip("_") if found else ""
    return [name or f"x{i}" for i, name in enumerate(names)]
