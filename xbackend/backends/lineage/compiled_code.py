"""The frameworks' cache of compiled C code, where several processes fill it at once."""

from __future__ import annotations

from types import ModuleType

# In `Backend.added`.
CACHED = "compiled code that two processes put into the cache at once"


def share_cache(cmodule: ModuleType) -> None:
    """Let a module of the cache be known by a key already when one process finds it that another one has made.

    `KeyData.add_key` asserts that it is not (theano/gof/cmodule.py, link/c/cmodule.py of Aesara and PyTensor): of two
    processes that compile the same code into an empty cache one failed there, without a message.
    """
    data = cmodule.KeyData
    add = data.add_key
    if getattr(add, "shared", False):
        return

    def add_key(self: object, key: object, save_pkl: bool = True) -> None:
        if key not in self.keys:  # type: ignore[attr-defined]
            add(self, key, save_pkl)

    add_key.shared = True  # type: ignore[attr-defined]
    data.add_key = add_key
