"""The walk through a jaxpr: for every equation, the row of its primitive makes nodes of the program.

A variable that depends on constants only is computed by JAX where a row asks for it: starts of slices, indices, the
number of a branch. A row names the attributes that it reads, or that do not change values. Any other one is an error,
unless it is `None` or a sharding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.tracer import current
from xbackend.bring import dtypes
from xbackend.bring.lines import is_users
from xbackend.errors import GraphError, XBackendError

Function = Callable[[Any, Any, list[Any]], Any]


@dataclass(frozen=True)
class PrimitiveRow:
    """How the equations of a primitive come in.

    Attributes:
        function: makes nodes of an equation, see `row`.
        attributes: the names of the attributes that it knows; `None` for all.
        inner: the names of the attributes that are jaxprs, which it walks.
        wraps: whether results of small integer dtypes are wrapped to their range.
        together: whether an equation is walked for all positions of a mesh at once.
        lacks: what to write instead of an equation that no program has; empty for one that comes in.
    """

    function: Function
    attributes: frozenset[str] | None
    inner: tuple[str, ...]
    wraps: bool
    together: bool
    lacks: Callable[[Any], str]


ROWS: dict[str, PrimitiveRow] = {}  # by the name of the primitive
REFUSED: dict[str, str] = {}  # what to write instead, by the name of the primitive
OWN: dict[str, Function] = {}  # by name: functions of jax.numpy.linalg whose jaxprs are not walked
EXPANDED = "call_hi_primitive"  # from JAX 0.11 on
# Casts of types in the body of a `shard_map`: whether a value may differ from device to device.
CASTS = (
    *("pvary", "reduced_vary_cast", "reduced_vary_cast_p"),
    *("vary_unreduced_cast", "vary_unreduced_cast_p", "preduced"),
)


def row(
    *names: str,
    attributes: Sequence[str] | None = (),
    inner: Sequence[str] = (),
    wraps: bool = False,
    together: bool = False,
    lacks: Callable[[Any], str] = lambda equation: "",
) -> Callable[[Function], Function]:
    """Make a function the row of these primitives. It gets the walk, the equation and the operands, and returns the
    result, or a list of all results. The options are attributes of `PrimitiveRow`."""

    def put(function: Function) -> Function:
        known = None if attributes is None else frozenset((*attributes, *inner))
        ROWS.update(dict.fromkeys(names, PrimitiveRow(function, known, tuple(inner), wraps, together, lacks)))
        return function

    return put


def is_literal(atom: Any) -> bool:
    """Whether an operand is a literal: a number or an array in the jaxpr itself."""
    return hasattr(atom, "val")


def opened(closed: Any) -> tuple[Any, Sequence[Any]]:
    """A jaxpr and its constants."""
    return (closed.jaxpr, closed.consts) if hasattr(closed, "consts") else (closed, ())


class JaxprWalk:
    """The variables of one jaxpr with their values: traced arrays, or arrays of NumPy."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self.outer: dict[Any, Callable[[], Any]] = {}  # by constant input: what gives its value outside
        self.found: dict[Any, np.ndarray] = {}  # values of constant variables, once computed
        self.made: dict[Any, Any] = {}  # by variable: the equation whose result it is
        self.shards: dict[int, Any] = {}  # by `id`: the shards of arrays that a `shard_map` returned
        self.position: Any = None  # in the body of a `shard_map`: the mesh, and the position there
        self._constants: set[Any] = set()  # variables that depend on constants only

    def results(self, closed: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of a jaxpr for these inputs. Raises `GraphError`."""
        jaxpr, _ = opened(closed)
        self.begin(closed, arguments)
        for equation in live(jaxpr):
            self.walked(equation)
        return [self.value(one) for one in jaxpr.outvars]

    def begin(self, closed: Any, arguments: Sequence[Any]) -> None:
        """Give the inputs of a jaxpr their values."""
        jaxpr, consts = opened(closed)
        self.values.update(_paired(jaxpr.invars, arguments))
        for variable, one in zip(jaxpr.constvars, consts, strict=True):
            self.note(variable, np.asarray(one))

    def inside(self, closed: Any, atoms: Sequence[Any]) -> list[Any]:
        """The results of an inner jaxpr whose inputs are these operands of an equation."""
        return self.within(closed, atoms).results(closed, [self.value(one) for one in atoms])

    def within(self, closed: Any, atoms: Sequence[Any]) -> JaxprWalk:
        """The walk of an inner jaxpr whose first inputs are the operands ``atoms``; `None` stands for none."""
        inner = JaxprWalk()
        inner.shards, inner.position = self.shards, self.position
        for variable, atom in zip(opened(closed)[0].invars, atoms, strict=False):
            if atom is not None and self.is_constant(atom):
                inner.outer[variable] = partial(self.known, atom)
                inner._constants.add(variable)
        return inner

    def each(self, function: Callable[..., Any], *values: Any) -> Any:
        """The result of a function of values of this walk."""
        return function(*values)

    def note(self, variable: Any, found: np.ndarray) -> None:
        """Note the value of a constant variable."""
        self.found[variable] = found
        self._constants.add(variable)

    def value(self, atom: Any) -> Any:
        """The value of an operand, as functions of `xbackend.api` take it."""
        if is_literal(atom):
            return dtypes.array(np.asarray(atom.val, atom.aval.dtype))
        if atom not in self.values:
            self.values[atom] = xb.asarray(dtypes.array(self.found[atom]))
        return self.values[atom]

    def is_constant(self, atom: Any) -> bool:
        """Whether an operand is known to depend on constants only."""
        return is_literal(atom) or atom in self._constants

    def known(self, atom: Any) -> np.ndarray | None:
        """The value of a constant operand, computed by JAX; `None` for another one."""
        if is_literal(atom):
            return np.asarray(atom.val, atom.aval.dtype)
        if atom not in self._constants:
            return None
        if atom not in self.found and atom in self.outer:
            self.found[atom] = self.outer[atom]()
        self._compute(atom)
        return self.found[atom]

    def made_by(self, atom: Any, *primitives: str) -> Any:
        """The equation whose result an operand is, if its primitive is one of these, else `None`."""
        made = None if is_literal(atom) else self.made.get(atom)
        return made if made is not None and made.primitive.name in primitives else None

    def _compute(self, atom: Any) -> None:
        """Compute a constant variable and its predecessors, once each."""
        todo = [atom]
        while todo:
            if todo[-1] in self.found:
                todo.pop()
                continue
            equation = self.made[todo[-1]]
            own = [one for one in equation.invars if not is_literal(one) and one in self.made]
            if missing := [one for one in own if one not in self.found]:
                todo += missing
                continue
            each, primitive = [self.known(one) for one in equation.invars], equation.primitive
            if primitive.name not in CASTS:  # JAX computes them in the body of a `shard_map` only
                params = primitive.get_bind_params(equation.params)
                functions, params = ((), params) if isinstance(params, dict) else params  # functions: before JAX 0.10
                made = primitive.bind(*functions, *each, **params)
                each = made if primitive.multiple_results else [made]
            self.found.update(zip(equation.outvars, map(np.asarray, each), strict=True))

    def walked(self, equation: Any) -> None:
        """Give the results of an equation their values. Raises `GraphError`."""
        line = line_of(equation)
        current().source = line or current().source
        if not equation.effects and not together(equation) and all(self.is_constant(one) for one in equation.invars):
            self._constants.update(equation.outvars)
        try:
            found = self._made(equation)
        except XBackendError as error:
            if isinstance(error.__cause__, XBackendError):  # it names its equation
                raise
            raise GraphError(f"{equation.primitive}{f' (at {line})' if line else ''}: {error}") from error
        self.put(equation, found)

    def put(self, equation: Any, found: Sequence[Any]) -> None:
        self.values.update(zip(equation.outvars, found, strict=True))
        self.made.update(dict.fromkeys(equation.outvars, equation))

    def _made(self, equation: Any) -> list[Any]:
        values = [self.value(one) for one in equation.invars]
        own, used = own_function(equation), ROWS[equation.primitive.name]
        if own is None and used.attributes is not None:
            rest = [(name, value) for name, value in equation.params.items() if name not in used.attributes]
            # `None` changes no values, nor does a sharding, which says where they are.
            unknown = [f"{n}={value!r:.60}" for n, value in rest if value is not None and not n.endswith("sharding")]
            if unknown:
                raise GraphError(f"the attribute {', '.join(unknown)} has no row")
        made = (own or used.function)(self, equation, values)
        each = made if isinstance(made, list | tuple) else [made]

        def checked(one: Any, variable: Any) -> Any:
            kept = dtypes.in_range(one, dtype_of(variable)) if used.wraps else one
            dtypes.check(kept, variable.aval.shape, dtype_of(variable))
            return kept

        pairs = _paired(equation.outvars, each)
        return [self.each(partial(checked, variable=variable), one) for variable, one in pairs]


def _paired(variables: Sequence[Any], values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The variables of a jaxpr with their values. Raises `GraphError`."""
    if len(variables) != len(values):
        raise GraphError(f"its row gives {len(values)} values, and the framework takes {len(variables)}: report this")
    return list(zip(variables, values, strict=True))


def dtype_of(variable: Any) -> str:
    """The name of the dtype of an operand or a result."""
    return str(variable.aval.dtype.name)


def own_function(equation: Any) -> Function | None:
    """The function of `OWN` for a call of its function of `jax.numpy.linalg`; `None` for other equations."""
    name = equation.params.get("name")
    if equation.primitive.name not in ("jit", "pjit") or name not in OWN:
        return None
    traced = _traced(name, tuple(one.aval for one in equation.invars), _is_wide())
    return OWN[name] if str(equation.params["jaxpr"]) in traced else None


def _is_wide() -> bool:
    """Whether JAX has 64-bit numbers now. What it traces depends on that, so it is in the keys of the caches."""
    import jax

    return bool(jax.config.jax_enable_x64)


@lru_cache(maxsize=256)
def _traced(name: str, avals: tuple[Any, ...], wide: bool) -> frozenset[str]:
    """The jaxprs, as text, of a function of `jax.numpy.linalg`, alone and under `jax.vmap`. A name is not enough: its
    gradient, or a function of the user, may have it."""
    import jax

    examples = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in avals]
    function, found = getattr(jax.numpy.linalg, name), set[str]()
    for called in (function, jax.vmap(function)):
        try:
            equations = jax.make_jaxpr(called)(*examples).jaxpr.eqns
        except (TypeError, ValueError):  # arrays of other ranks than the function takes
            continue
        found |= {str(one.params["jaxpr"]) for one in equations if one.params.get("name") == name}
    return frozenset(found)


def live(jaxpr: Any) -> list[Any]:
    """The equations that the results depend on, or that have effects."""
    needed = {one for one in jaxpr.outvars if not is_literal(one)}
    found = []
    for equation in reversed(jaxpr.eqns):
        acts = any(type(one).__name__ != "NamedAxisEffect" for one in equation.effects)  # that needs an axis of a mesh
        if acts or any(one in needed for one in equation.outvars):
            found.append(equation)
            needed.update(one for one in equation.invars if not is_literal(one))
    return found[::-1]


def together(equation: Any) -> bool:
    """Whether an equation, or one inside of it, is walked for all positions of a mesh at once."""
    return ROWS[equation.primitive.name].together or any(spreads(one) for one in inner_jaxprs(equation))


_SPREADS: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # an entry ends with its jaxpr


def spreads(jaxpr: Any) -> bool:
    """Whether a jaxpr has an equation that is walked for all positions of a mesh at once."""
    if jaxpr not in _SPREADS:
        _SPREADS[jaxpr] = any(together(one) for one in jaxpr.eqns if one.primitive.name in ROWS)
    return _SPREADS[jaxpr]


def inner_jaxprs(equation: Any) -> list[Any]:
    """The jaxprs that the row of an equation walks; none for a search in a vector, which is one op."""
    if equation.primitive.name == EXPANDED:
        own = equation.params["_prim"]
        is_search = type(own).__name__ == "SearchSorted" and len(equation.invars[0].aval.shape) == 1
        return [] if is_search else [opened(expanded(equation))[0]]
    names = ROWS[equation.primitive.name].inner
    each = [equation.params[name] for name in names if name in equation.params]
    return [opened(one)[0] for value in each for one in (value if isinstance(value, tuple) else (value,))]


def expanded(equation: Any) -> Any:
    """The jaxpr to which JAX expands a primitive later. The cache has the types of operands in its key, as primitives
    that differ in them only are equal."""
    own = equation.params["_prim"]
    return _expanded(own, tuple(own.in_avals_flat), own.in_tree, _is_wide())


@lru_cache(maxsize=64)
def _expanded(own: Any, taken: tuple[Any, ...], tree: Any, wide: bool) -> Any:
    import jax

    avals = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in taken]
    return jax.make_jaxpr(lambda *flat: jax.tree.leaves(own.expand(*jax.tree.unflatten(tree, flat))))(*avals)


def line_of(equation: Any) -> str:
    """``file:line`` of the user's code that made an equation; empty where JAX has none."""
    traceback = getattr(equation.source_info, "traceback", None)
    frames = getattr(traceback, "frames", None) or ()
    return next((f"{one.file_name}:{one.line_num}" for one in frames if is_users(str(one.file_name))), "")


def mapping(names: Mapping[str, Callable[..., Any]], attributes: Sequence[str] = (), wraps: bool = False) -> None:
    """Add rows of primitives that are one function of their operands."""

    def made(function: Callable[..., Any]) -> Function:
        return lambda walk, equation, values: function(*values)

    for name, function in names.items():
        row(name, attributes=attributes, wraps=wraps)(made(function))
