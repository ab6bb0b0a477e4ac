"""A step of training as users of each framework write it: one module for each environment.

``step(mode, dtype, weights)`` is SGD with momentum (`RATE`, `MOMENTUM`) of a classifier with one hidden layer: of rows
and labels, the loss; the weights and their velocities are updated, as each framework has state.
"""

RATE, MOMENTUM = 0.05, 0.9
