"""Counting copies between host and devices while something runs: those of xbackend, and those of the framework itself.

Seen are: calls of the adapter's ``put``, ``get`` and of its storage; of JAX, conversions to NumPy in the thread that
counts, and any copy of host memory to a device, which its transfer guard stops; of TensorFlow, conversions of eager
tensors to NumPy and of host memory to eager tensors. Copies that a framework makes inside of a compiled graph are in
the records of the placement instead.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from xbackend.backends.contract import Backend

_BUILTIN = type(len)
_OWN = ("put", "get", "read_storage", "write_storage")


@contextlib.contextmanager
def counted(backend: Backend) -> Iterator[Counter[str]]:
    """The copies, counted by their origin. JAX raises its own error for a copy to a device, which is counted too."""
    found: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        for name in _OWN:
            _watch(stack, found, backend, name, f"xbackend: {name}")
        if "jax" in sys.modules:
            _watch_jax(stack, found)
        if "tensorflow" in sys.modules:
            _watch_tensorflow(stack, found)
        yield found


def _watch(stack: contextlib.ExitStack, found: Counter[str], owner: Any, name: str, label: str) -> None:
    """Count the calls of a method or of a function of a module."""
    own = name in vars(owner)
    right: Callable[..., Any] = vars(owner)[name] if own else getattr(owner, name)

    def watched(*arguments: Any, **options: Any) -> Any:
        found[label] += 1
        return right(*arguments, **options)

    setattr(owner, name, watched)
    stack.callback(setattr, owner, name, right) if own else stack.callback(delattr, owner, name)


def _watch_jax(stack: contextlib.ExitStack, found: Counter[str]) -> None:
    import jax

    # On the CPU its guard lets copies to the host pass, for they may be views. Of Python's ways there, NumPy's
    # constructors read the memory themselves; the others, as `float` and `__array__`, go through `_value`.
    constructors = {np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.frombuffer, np.from_dlpack}

    def called(frame: object, event: str, function: Any) -> None:
        if event == "c_call" and function.__class__ is _BUILTIN and function in constructors:
            found[f"jax: numpy.{function.__name__}"] += 1

    before = sys.getprofile()
    stack.callback(sys.setprofile, before)
    array = type(jax.numpy.zeros(()))
    right: Any = vars(array)["_value"]

    def value(self: Any) -> Any:
        found["jax: Array to NumPy"] += 1
        return right.fget(self)

    setattr(array, "_value", property(value))  # noqa: B010
    stack.callback(setattr, array, "_value", right)
    stack.enter_context(jax.transfer_guard_host_to_device("disallow_explicit"))
    stack.enter_context(_errors(found))
    sys.setprofile(called)


@contextlib.contextmanager
def _errors(found: Counter[str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if "isallowed host-to-device" in str(error):
            found["jax: host to device"] += 1
        raise


def _watch_tensorflow(stack: contextlib.ExitStack, found: Counter[str]) -> None:
    import tensorflow as tf
    from tensorflow.python.framework import constant_op, ops

    for owner in type(tf.constant(0)).__mro__:
        for name in ("numpy", "__array__", "_numpy"):
            if name in vars(owner) and callable(vars(owner)[name]) and owner.__module__.startswith("tensorflow"):
                with contextlib.suppress(TypeError):  # a type of C cannot be changed; its methods call those of Python
                    _watch(stack, found, owner, name, f"tensorflow: {name}")
    for module in (constant_op, ops):
        if "convert_to_eager_tensor" in vars(module):
            _watch(stack, found, module, "convert_to_eager_tensor", "tensorflow: host to eager tensor")
