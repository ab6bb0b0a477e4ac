"""P4: choose a device, place a shared variable on it, call a function without arguments on another device.

    python examples/p4_shared_variable.py [backend ...]

With x = [1,2,3] the function gives [2,4,6]. In Theano 1.0.5 this reads ``shared(v, target='dev0')`` and
``x.transfer('dev1')``, with ``contexts=dev0->cuda0;dev1->cuda1`` in the flags.
"""

import sys

import numpy as np

import xbackend as xb

x = xb.shared(np.array([1, 2, 3], np.float32), name="x", device="dev0")


def doubled():
    with xb.device("dev1"):
        return x * 2


def increment():
    xb.update(x, x + 1)


def main(names):
    for name in names:
        with xb.open(name, virtual_devices=2) as backend:
            bindings = {"dev0": "cpu:0", "dev1": "cpu:1"}
            run = backend.compile(doubled, devices=bindings)
            print(f"{name}: doubled {run().tolist()}")
            backend.compile(increment, devices={"dev0": "cpu:0"})()
            print(f"{name}: x is now {backend.get_value(x).tolist()}, doubled {run().tolist()}")


if __name__ == "__main__":
    main(sys.argv[1:] or xb.backend_names())
