"""Scripts for several devices from tutorials of Theano, one after the other, for an importer."""

# ruff: noqa: B905 - it is old code

import os
import time

os.environ["THEANO_FLAGS"] = "contexts=dev0->cuda0;dev1->cuda1,floatX=float32"

import numpy as np
import theano
import theano.tensor as T

A = np.array([[1, 2, 3], [4, 5, 6]], "float32")
B = np.array([[1, 2], [3, 4], [5, 6]], "float32")

# A product on a device.
a, b = theano.shared(A, target="dev1"), theano.shared(B, target="dev1")
product = theano.function([], T.dot(a, b))

# The product without a device.
default_product = theano.function([], T.dot(theano.shared(A), theano.shared(B)))

# The same product on two devices, and the sum.
x, y = T.fmatrix("x"), T.fmatrix("y")
both = [T.dot(x.transfer(device), y.transfer(device)) for device in ("dev0", "dev1")]
two_products = both[0].transfer("cpu") + both[1].transfer("cpu")


# A^n + B^n.
def power(matrix, n):
    result = matrix
    for _ in range(n - 1):
        result = T.dot(result, matrix)
    return result


powers = theano.function([x, y], power(x.transfer("dev0"), 10) + power(y.transfer("dev1"), 10))

# On one device and on two, both timed.
both = (power(x.transfer("dev0"), 10).transfer("cpu"), power(y.transfer("dev0"), 10).transfer("cpu"))
single = theano.function([x, y], both[0] + both[1])
both = (power(x.transfer("dev0"), 10).transfer("cpu"), power(y.transfer("dev1"), 10).transfer("cpu"))
multi = theano.function([x, y], both[0] + both[1])
X = np.random.rand(4, 4).astype("float32")
for title, f in (("one device", single), ("two devices", multi)):
    f(X, X)
    begin = time.time()
    f(X, X)
    print(title, time.time() - begin)

# A variable on one device, used on another.
v = theano.shared(np.array([1, 2, 3], "float32"), "v", target="dev0")
doubled = theano.function([], (v.transfer("dev1") * 2).transfer("cpu"))

# Two parts of a model on two devices, trained.
target = T.fmatrix("target")
generator = np.random.RandomState(1)
weights, parts = [], []
for device in ("dev0", "dev1"):
    w = theano.shared(generator.uniform(-0.5, 0.5, (3, 4)).astype("float32"), f"w_{device}", target=device)
    u = theano.shared(generator.uniform(-0.5, 0.5, (4, 2)).astype("float32"), f"u_{device}", target=device)
    parts.append(T.dot(T.tanh(T.dot(x, w)), u))
    weights += [w, u]
loss = T.mean(T.sqr(parts[0] + parts[1] - target))
gradients = T.grad(loss, weights)
model_parallel = theano.function(
    [x, target], loss, updates=[(w, w - np.float32(0.1) * g) for w, g in zip(weights, gradients)]
)

# The rows split over two devices.
w = theano.shared(np.array([[1], [1], [2]], "float32"), "w")
rows = [x[2 * i : 2 * i + 2].transfer(f"dev{i}") for i in range(2)]
replicated = theano.function([x], T.concatenate([T.dot(part, w.transfer(f"dev{i}")) for i, part in enumerate(rows)]))

# Towers: a gradient on each device, averaged, applied once.
s = theano.shared(np.zeros((3, 3), "float32"), "s")
feeds, losses, slopes = [], [], []
for i in range(2):
    images, labels = T.fmatrix(f"images_{i}"), T.ivector(f"labels_{i}")
    p = T.nnet.softmax(T.dot(images.transfer(f"dev{i}"), s.transfer(f"dev{i}")))
    losses.append(T.nnet.categorical_crossentropy(p, labels).mean())
    slopes.append(T.grad(losses[-1], s))
    feeds += [images, labels]
mean = (slopes[0] + slopes[1]) / np.float32(2)
towers = theano.function(feeds, losses, updates=[(s, s - np.float32(0.5) * mean)])
