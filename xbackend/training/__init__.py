"""``xbackend.training``: a model in training; optimisers, schedules, layers, batches of a data set, checkpoints.

A model is its loss, a plain function of arrays, and its initial weights (`xbackend.strategies`).
"""

from xbackend.training import checkpoints, layers, schedules, sources
from xbackend.training.batches import Batches
from xbackend.training.events import Events
from xbackend.training.loop import Epoch, Training
from xbackend.training.model import Model
from xbackend.training.optimizers import SGD, Adam, Optimizer, RMSProp
from xbackend.training.sources import Stream

__all__ = [
    "SGD",
    "Adam",
    "Batches",
    "Epoch",
    "Events",
    "Model",
    "Optimizer",
    "RMSProp",
    "Stream",
    "Training",
    "checkpoints",
    "layers",
    "schedules",
    "sources",
]
