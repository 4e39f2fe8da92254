"""Programs whose steps are many small launches, or follow indices.

Sources: Mnih and others, "Human-level control through deep reinforcement learning", 2015; Velickovic and others, "Graph
attention networks", 2018.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from . import in_jax
from .program import Program


def mlp(lib: Any, scale: int) -> Any:
    """A perceptron of two hidden layers of 256."""
    sizes = (784, 256 // scale, 256 // scale, 10)

    class MLP(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = lib.modules([lib.Linear(a, b) for a, b in pairwise(sizes)])

        def loss(self, x: Any, labels: Any) -> Any:
            for layer in self.layers[:-1]:
                x = lib.relu(layer(x))
            return lib.cross_entropy(self.layers[-1](x), labels)

    return MLP()


def mlp_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Pixels and digits."""
    batch = max(8, 128 // scale)
    return [rng.random((batch, 784), np.float32), rng.integers(0, 10, batch)]


def dqn(lib: Any, scale: int) -> Any:
    """Deep Q-learning: a network's action values, those of a network that follows it slowly, and Huber's loss."""
    widths, features, actions = [max(8, one // scale) for one in (32, 64, 64)], 512 // scale, 6

    class Values(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = lib.modules(
                [
                    lib.Conv2d(4, widths[0], 8, 4),
                    lib.Conv2d(widths[0], widths[1], 4, 2),
                    lib.Conv2d(widths[1], widths[2], 3, 1),
                ]
            )
            self.wide, self.head = lib.Linear(49 * widths[2], features), lib.Linear(features, actions)

        def forward(self, frames: Any) -> Any:
            x = frames / 255
            for layer in self.layers:
                x = lib.relu(layer(x))
            return self.head(lib.relu(self.wide(x.reshape(x.shape[0], -1))))

    class DQN(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.values, self.target = Values(), lib.frozen(Values())

        def loss(self, frames: Any, actions: Any, rewards: Any, following: Any, ended: Any) -> Any:
            best = lib.constant(lib.largest(self.target(following), 1))
            wanted = rewards + 0.99 * best * (1 - ended)
            return lib.huber_loss(lib.taken_along(self.values(frames), actions[:, None], 1)[:, 0], wanted)

        def finish(self) -> None:
            pairs = zip(lib.parameters(self.target), lib.parameters(self.values), strict=True)
            for old, new in pairs:
                lib.assign(old, 0.995 * old + 0.005 * new)

    return DQN()


def dqn_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Frames, actions, rewards, the frames that followed, and where a game ended."""
    batch = max(4, 256 // scale)
    first, following = (rng.integers(0, 256, (batch, 4, 84, 84)).astype(np.float32) for _ in range(2))
    ended = (rng.random(batch) < 0.1).astype(np.float32)
    return [first, rng.integers(0, 6, batch), rng.standard_normal(batch, np.float32), following, ended]


def gat(lib: Any, scale: int) -> Any:
    """Two layers of graph attention of 8 heads: softmax over the edges that end in a node."""
    features, heads, size, classes = 128 // min(scale, 4), 8, 32 // min(scale, 4), 40

    class Layer(lib.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.linear, self.outputs = lib.Linear(inputs, heads * outputs, bias=False), outputs
            self.of_source, self.of_target = (lib.weight((heads, outputs), outputs**-0.5) for _ in range(2))

        def forward(self, x: Any, source: Any, target: Any) -> Any:
            count = x.shape[0]
            x = self.linear(x).reshape(count, heads, self.outputs)
            scores = lib.sum(x * self.of_source, -1)[source] + lib.sum(x * self.of_target, -1)[target]
            scores = lib.leaky_relu(scores, 0.2)
            scores = lib.exp(scores - lib.constant(lib.segment_max(scores, target, count))[target])
            weights = scores / lib.segment_sum(scores, target, count)[target]
            return lib.segment_sum(x[source] * weights[:, :, None], target, count)

    class GAT(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = lib.modules([Layer(features, size), Layer(heads * size, classes)])

        def loss(self, x: Any, source: Any, target: Any, labels: Any) -> Any:
            x = self.layers[0](x, source, target)
            x = lib.elu(x.reshape(x.shape[0], -1))
            x = lib.mean(self.layers[1](x, source, target), 1)
            return lib.cross_entropy(x, labels)

    return GAT()


def gat_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Nodes' features, both ends of edges of which each node has one to itself, and nodes' labels."""
    nodes, edges = 20000 // scale, 320000 // scale
    source, target = (np.concatenate([rng.integers(0, nodes, edges), np.arange(nodes)]) for _ in range(2))
    x = rng.standard_normal((nodes, 128 // min(scale, 4)), np.float32)
    return [x, source, target, rng.integers(0, 40, nodes)]


PROGRAMS = (
    Program("MLP of 256", mlp, mlp_inputs, "float32", jax=in_jax.mlp),
    Program("DQN", dqn, dqn_inputs, "float32"),
    Program("graph attention network", gat, gat_inputs, "float32"),
)
