"""Optimizers, which update all their parameters in place in a few launches, and learning-rate schedules."""

from .. import nn as _nn  # noqa: F401 - whole, before a module of it: threads may import at once
from ..namespace.hints import MODULES as _MODULES
from ..namespace.hints import missing as _missing
from .clip import clip_by_global_norm
from .optimizer import Optimizer
from .rules import SGD, Adam, AdamW, RMSprop
from .schedules import CosineDecay, LinearDecay, StepDecay, WarmUp

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "CosineDecay",
    "LinearDecay",
    "Optimizer",
    "RMSprop",
    "StepDecay",
    "WarmUp",
    "clip_by_global_norm",
]

__getattr__, __dir__ = _missing(__name__, __all__, _MODULES["optim"])
