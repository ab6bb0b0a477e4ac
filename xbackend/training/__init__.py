"""``xbackend.training``: optimisers, schedules, batches of a data set.

A model is a plain function of arrays, its loss (`xbackend.strategies`); what is here goes on with it.
"""

from xbackend.training import schedules
from xbackend.training.batches import Batches
from xbackend.training.optimizers import SGD, Adam, Optimizer, RMSProp

__all__ = ["SGD", "Adam", "Batches", "Optimizer", "RMSProp", "schedules"]
