"""Names that users of NumPy, Theano, TensorFlow, PyTorch and JAX type by habit, and mistyped ones: what to write."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from xbackend.errors import ArgumentError
from xbackend.wording import meant

P = ParamSpec("P")
R = TypeVar("R")

# Functions that have another name here. Names of NumPy's ufuncs also say which function the ufunc becomes.
RENAMED = {
    **dict.fromkeys(("absolute", "fabs"), "abs"),
    **dict.fromkeys(("true_divide", "truediv", "div"), "divide"),
    "power": "pow",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "rint": "round",
    **dict.fromkeys(("invert", "bitwise_not"), "bitwise_invert"),
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "mul": "multiply",
    "sub": "subtract",
    "neg": "negative",
    "sqr": "square",
    "sgn": "sign",
    "mod": "remainder",
    "eq": "equal",
    "neq": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lt": "less",
    "le": "less_equal",
    "lgamma": "gammaln",
    "psi": "digamma",
    "sigmoid": "expit",
    "range": "arange",
    "identity": "eye",
    "movedim": "moveaxis",
    "inner": "vecdot",
    "batched_dot": "matmul",
    "clip_by_value": "clip",
    "switch": "where",
    **dict.fromkeys(("array", "tensor", "constant", "as_tensor_variable", "convert_to_tensor"), "asarray"),
}

_COMPILED = 'backend.compile(f, *arrays), with backend = xb.open("jax"): it is traced and compiled once'
_ARGUMENT = "an argument of the function that is traced: xb.trace(f, xb.ArraySpec(shape, dtype))"
_DTYPE = "xb.float32 or xb.float64; of integers there is xb.int32, xb.int64, xb.uint8 and xb.uint32"
_SOFTMAX = "xb.exp(x - xb.logsumexp(x, axis=-1, keepdims=True))"

# Names without one function as their counterpart, methods of arrays included.
INSTEAD = {
    **dict.fromkeys(("dot", "mm", "vdot"), "x @ y, or xb.matmul(x, y)"),
    **dict.fromkeys(("flatten", "ravel"), "xb.reshape(x, (-1,))"),
    **dict.fromkeys(("view", "cast"), "xb.astype(x, dtype)"),
    **dict.fromkeys(("item", "tolist", "numpy", "eval"), "return x, and look at what the call returns"),
    **dict.fromkeys(("transpose", "swapaxes"), "xb.permute_dims(x, axes)"),
    **dict.fromkeys(("get_value", "read_value"), "backend.get_value(w); inside of a program w itself"),
    **dict.fromkeys(("set_value", "assign"), "xb.update(w, value); outside of a program backend.set_value(w, array)"),
    "assign_add": "xb.update(w, w + value)",
    "assign_sub": "xb.update(w, w - value)",
    "dimshuffle": "xb.permute_dims(x, axes) and xb.expand_dims(x, axis=0)",
    **dict.fromkeys(("transfer", "to_gpu", "cuda", "device_put"), 'xb.to_device(x, "dev1")'),
    **{one: f"x.{one}" for one in ("shape", "size", "ndim", "dtype")},
    "copy": "x itself: arrays of a program never change",
    **dict.fromkeys(("concatenate", "append"), "xb.concat([x, y])"),
    "pad": "xb.concat([xb.zeros(1), x, xb.zeros(2)])",
    **dict.fromkeys(("vstack", "row_stack"), "xb.concat([a, b], axis=0), of vectors xb.stack([x, y])"),
    "column_stack": "xb.stack([x, y], axis=1)",
    "hstack": "xb.concat([a, b], axis=1), of vectors xb.concat([x, y])",
    "split": "x[:n] and x[n:], or xb.unstack(x)",
    "gather": "xb.take(x, indices, axis=0)",
    "cumsum": "xb.cumulative_sum(x, axis=0)",
    "amax": "xb.max(x)",
    "amin": "xb.min(x)",
    "cumprod": "xb.cumulative_prod(x, axis=0)",
    "norm": "xb.linalg.vector_norm(x)",
    "lstsq": "xb.linalg.pinv(a) @ b",
    "outer": "x[:, None] * y[None, :]",
    "kron": "xb.reshape(a[:, None, :, None] * b[None, :, None, :], shape)",
    "diag": "xb.linalg.diagonal(a); of a vector xb.eye(n) * v",
    "logdet": "xb.linalg.slogdet(a).logabsdet",
    "cov": "c.T @ c / (n - 1), with c = x - xb.mean(x, axis=0)",
    "cbrt": "xb.sign(x) * xb.abs(x) ** (1 / 3)",
    "exp2": "2.0 ** x",
    "heaviside": "xb.where(x > 0.0, 1.0, 0.0)",
    "average": "xb.sum(w * x) / xb.sum(w)",
    "ptp": "xb.max(x) - xb.min(x)",
    "divmod": "x // y, x % y",
    "trapezoid": "xb.sum((y[1:] + y[:-1]) / 2.0 * xb.diff(x))",
    "polyval": "(c[0] * x + c[1]) * x + c[2], by a loop of Python over the coefficients",
    "interp": "xb.searchsorted(grid, x), and xb.take of both neighbours",
    **dict.fromkeys(("deg2rad", "radians"), "x * (math.pi / 180)"),
    **dict.fromkeys(("rad2deg", "degrees"), "x * (180 / math.pi)"),
    "nansum": "xb.sum(xb.where(xb.isnan(x), 0.0, x))",
    "nanmean": "xb.sum(xb.where(xb.isnan(x), 0.0, x)) / xb.sum(xb.where(xb.isnan(x), 0.0, 1.0))",
    "nan_to_num": "xb.where(xb.isnan(x), 0.0, x)",
    "array_equal": "xb.all(x == y)",
    "isclose": "xb.abs(x - y) <= atol + rtol * xb.abs(y)",
    "allclose": "xb.all(xb.abs(x - y) <= atol + rtol * xb.abs(y))",
    **dict.fromkeys(
        ("median", "quantile", "percentile", "partition", "kthvalue"), "xb.sort(x)[k], with k such as n // 2"
    ),
    **dict.fromkeys(("top_k", "topk"), "xb.flip(xb.sort(x))[:k]"),
    "argpartition": "xb.argsort(x)",
    "bincount": "xb.count_nonzero(i[:, None] == xb.arange(n), axis=0)",
    **dict.fromkeys(("segment_sum", "scatter_add", "index_add"), "xb.at(xb.zeros(n))[i].add(x)"),
    **dict.fromkeys(("select", "choose", "piecewise", "case"), "xb.where, once for each case"),
    **dict.fromkeys(
        ("nonzero", "argwhere", "flatnonzero", "compress", "extract", "boolean_mask"),
        "xb.where(mask, x, 0.0): the shape of a result is known while tracing",
    ),
    "unique": "xb.sort(x): the shape of a result is known while tracing",
    "softmax": _SOFTMAX,
    "log_softmax": "x - xb.logsumexp(x, axis=-1, keepdims=True)",
    "relu": "xb.maximum(x, 0.0)",
    "leaky_relu": "xb.where(x > 0.0, x, 0.01 * x)",
    "elu": "xb.where(x > 0.0, x, xb.expm1(xb.minimum(x, 0.0)))",
    **dict.fromkeys(("silu", "swish"), "x * xb.expit(x)"),
    "gelu": "x * 0.5 * xb.erfc(-x / math.sqrt(2))",
    **dict.fromkeys(("log_sigmoid", "logsigmoid"), "-xb.logaddexp(-x, 0.0)"),
    "softplus": "xb.logaddexp(x, 0.0)",
    "one_hot": "xb.astype(labels[:, None] == xb.arange(classes), xb.float64)",
    **dict.fromkeys(
        ("stop_gradient", "disconnected_grad", "detach"), "an argument of its own: xb.grad(loss, wrt) is of wrt"
    ),
    **dict.fromkeys(("value_and_grad", "GradientTape", "gradients"), "xb.grad(loss, wrt), inside of the function"),
    "gradient": "xb.grad(loss, wrt), inside of the function; NumPy's differences are xb.diff(x)",
    **dict.fromkeys(("Variable", "variable"), "xb.shared(value, name)"),
    "ifelse": "xb.cond(p, f, g, x)",
    **dict.fromkeys(
        ("random", "normal", "uniform"),
        "rng.normal(size=n) of NumPy outside of the program, and give it as an argument",
    ),
    **dict.fromkeys(("function", "jit", "compile", "Session"), _COMPILED),
    **dict.fromkeys(("placeholder", "scalar", "vector", "matrix", "dvector", "dmatrix", "fmatrix"), _ARGUMENT),
    **dict.fromkeys(("float16", "bfloat16", "complex64", "complex128", "int8", "int16", "uint16", "uint64"), _DTYPE),
    **dict.fromkeys(
        ("map", "vmap", "vectorize", "apply_along_axis", "foldl", "reduce"),
        "axes of arrays, or xb.scan(step, state, arrays)",
    ),
    **dict.fromkeys(("fori_loop", "for_loop", "while"), "xb.scan, or xb.while_loop where values decide on the end"),
    **dict.fromkeys(("nn", "math", "T"), "the functions of xb, such as xb.tanh; layers are in xb.training.layers"),
    **dict.fromkeys(("config", "list_devices"), "xb.open(name).devices; xbackend devices, a command, has them of all"),
    **dict.fromkeys(("save", "load"), "program.to_json() and xb.Program.from_json(text); xb.training.checkpoints"),
}
# Modules whose package has another name.
PACKAGES = {
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "PIL": "pillow",
    "cv2": "opencv-python",
    "yaml": "pyyaml",
}
_KEYWORDS = {
    **dict.fromkeys(("device_count", "num_devices", "devices", "cpus"), "virtual_devices"),
    **dict.fromkeys(("num_threads", "n_threads", "n_jobs"), "threads"),
    "timeout": "limit",
    "target": "device",
    **dict.fromkeys(("dim", "dims", "reduction_indices"), "axis"),
    **dict.fromkeys(("keep_dims", "keepdim"), "keepdims"),
}


def instead(name: str, names: Iterable[str], default: str = "") -> str:
    """What to write in place of a missing name, as ``write xb.pow(...)`` or ``did you mean xb.softmax?``.

    ``names`` are the existing ones below ``xb``, as in ``linalg.inv``. Returns ``default`` where none is similar.
    """
    there = {one.rpartition(".")[2]: one for one in names}
    for own in (name, RENAMED.get(name), name.removeprefix("reduce_")):
        if own in there and name not in INSTEAD:
            return f"write xb.{there[own]}" + ("" if "." in there[own] else "(...)")
    if name in INSTEAD:
        return f"write {INSTEAD[name]}"
    renamed = [old for old, own in RENAMED.items() if own in there]
    alike = meant(name, [*there, *renamed, *INSTEAD])
    if alike in there:
        return f"did you mean xb.{there[alike]}?"
    return f"for {alike} {instead(alike, there.values())}" if alike else default


def keywords(function: Callable[P, R]) -> Callable[P, R]:
    """The function; for an unknown keyword it raises `ArgumentError`, which names the right one."""
    own = list(inspect.signature(function).parameters)

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in own:
                raise ArgumentError(f"xb.{function.__name__} takes no {name}: {_keyword(name, own)}")
        return function(*args, **kwargs)

    return called


def of_call(error: TypeError, functions: Mapping[str, Callable[..., object]]) -> str:
    """What to write in place of a wrong call of one of these functions; empty for other errors.

    ``functions`` are by their names below ``xb``, as in ``linalg.inv``.
    """
    said = re.match(r"(\w+)\(\) ((?:missing|takes|got) .*)", str(error))
    name = next((one for one in functions if said and one.rpartition(".")[2] == said[1]), "")
    if said is None or not name or _is_another(error, said[1], functions[name]):
        return ""
    signature = inspect.signature(functions[name])
    taken = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    if unknown := re.match(r"got an unexpected keyword argument '(\w+)'", said[2]):
        own = [one.name for one in taken if one.kind != one.POSITIONAL_ONLY]
        return f"xb.{name} takes no {unknown[1]}: {_keyword(unknown[1], own)}"
    return f"xb.{name}{signature.replace(parameters=taken, return_annotation=signature.empty)} {said[2]}"


def _is_another(error: TypeError, name: str, function: Callable[..., object]) -> bool:
    """Whether the wrong call is of another function with this name."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    there = {**at.tb_frame.f_globals, **at.tb_frame.f_locals}.get(name) if at is not None else None
    return callable(there) and there is not function


def _keyword(name: str, own: list[str]) -> str:
    habit = _KEYWORDS.get(name, "")
    if habit in own:
        return f"write {habit}=..."
    alike = meant(name, own)
    return f"did you mean {alike}=?" if alike else f"it takes {', '.join(own) or 'none'}"
