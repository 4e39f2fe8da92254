"""Modules applied in sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .module import Module


class Sequential(Module):
    """Calls each layer with the result of the previous one.

    Args:
        layers: modules, or functions of one array such as ``cukern.relu``.

    >>> import cukern as ck
    >>> model = ck.nn.Sequential(ck.nn.Linear(3, 4, rng=0), ck.tanh, ck.nn.Linear(4, 1, rng=1))
    >>> model(ck.zeros((2, 3))).shape
    (2, 1)
    """

    def __init__(self, *layers: Callable[[Any], Any]) -> None:
        self.layers = layers

    def __repr__(self) -> str:
        lines = []
        for i, layer in enumerate(self.layers):
            text = repr(layer) if isinstance(layer, Module) else getattr(layer, "__name__", repr(layer))
            lines.append(f"layers.{i}: {text}")
        if not lines:
            return f"{type(self).__name__}()"
        body = "\n".join(lines).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {body}\n)"

    def forward(self, x: Any) -> Any:
        """The result of the last layer."""
        for layer in self.layers:
            x = layer(x)
        return x
