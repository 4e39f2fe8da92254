"""Optimizers: each updates its parameters in place, one kernel launch per parameter and step."""

from .adam import Adam, AdamW
from .clip import clip_by_global_norm
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "clip_by_global_norm"]
