"""Layers whose weights are divided over ranks that compute one result together.

Source: Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism", 2019.
All ranks of the group have the same inputs, results and loss, which counts once: unlike the gradients of the
collectives themselves, those of these layers are the gradients of the loss of one rank.
"""

from __future__ import annotations

from typing import Any

from .. import namespace as ops
from ..array import Array
from ..autodiff.tape import stop_recording
from ..function import Function
from ..nn.attention.module import MultiHeadAttention, scaled_dot_product_attention
from ..nn.embedding import Embedding, embedding
from ..nn.linear import Linear, linear
from ..nn.module import Module
from ..nn.parameter import Parameter
from .collectives import all_gather, all_reduce
from .group import Group

__all__ = ["ColumnLinear", "ParallelAttention", "ParallelEmbedding", "RowLinear"]


class _Enter(Function):
    """The same array on every rank, of which each computes another part of the result: gradients are summed."""

    @staticmethod
    def forward(ctx: Any, x: Array, group: Group) -> Array:
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx: Any, grad: Array) -> Any:
        return all_reduce(grad, group=ctx.group), None


class _Leave(Function):
    """The sum of the ranks' parts, on every rank."""

    @staticmethod
    def forward(ctx: Any, x: Array, group: Group) -> Array:
        return all_reduce(x, group=group)

    @staticmethod
    def backward(ctx: Any, grad: Array) -> Any:
        return grad, None


class _Join(Function):
    """The ranks' parts along the last axis, on every rank."""

    @staticmethod
    def forward(ctx: Any, x: Array, group: Group) -> Array:
        ctx.group = group
        return all_gather(x, axis=-1, group=group)

    @staticmethod
    def backward(ctx: Any, grad: Array) -> Any:
        return ops.split(grad, ctx.group.size, axis=-1)[ctx.group.rank], None


def _part(values: Array, axis: int, group: Group, what: str) -> Parameter:
    """This rank's equal part along an axis.

    Raises:
        ValueError: the axis is not divisible.
    """
    if values.shape[axis] % group.size:
        raise ValueError(
            f"{what}: {values.shape[axis]} is not divisible by the {group.size} ranks of the group"
        )
    with stop_recording():
        return Parameter(ops.split(values, group.size, axis=axis)[group.rank])


class ColumnLinear(Module):
    """A linear layer of which each rank computes a part of the outputs.

    Args:
        layer: the whole layer, the same on every rank; its parameters are copied in parts.
        group: the ranks.
        join: whether every rank gets all outputs; else its own part, which a :class:`RowLinear` takes.

    Raises:
        ValueError: the number of outputs is not divisible by the number of ranks.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> layer = ColumnLinear(ck.nn.Linear(3, 4, rng=0), world)
    >>> layer(ck.ones((2, 3))).shape[-1] == 4 // world.size
    True
    """

    def __init__(self, layer: Linear, group: Group, join: bool = False) -> None:
        self._group, self._join, self.activation = group, join, layer.activation
        self.weight = _part(layer.weight, 0, group, "ColumnLinear: outputs")
        self.bias = None if layer.bias is None else _part(layer.bias, 0, group, "ColumnLinear: outputs")

    def forward(self, x: Array) -> Array:
        """The outputs (..., outputs / ranks), or (..., outputs) if they are joined, of ``x`` (..., inputs)."""
        made = linear(_Enter.apply(x, self._group), self.weight, self.bias, activation=self.activation)
        joined: Array = _Join.apply(made, self._group) if self._join else made
        return joined


class RowLinear(Module):
    """A linear layer of which each rank has a part of the inputs; every rank gets the whole result.

    Args:
        layer: the whole layer, the same on every rank; its weight is copied in parts.
        group: the ranks.

    Raises:
        ValueError: the number of inputs is not divisible by the number of ranks, or the layer has an activation.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> layer = RowLinear(ck.nn.Linear(4, 3, rng=0), world)
    >>> layer(ck.ones((2, 4 // world.size))).shape
    (2, 3)
    """

    def __init__(self, layer: Linear, group: Group) -> None:
        if layer.activation is not None:
            raise ValueError("RowLinear: layer: expected one without an activation")
        self._group = group
        self.weight = _part(layer.weight, 1, group, "RowLinear: inputs")
        self.bias = None if layer.bias is None else Parameter(layer.bias)

    def forward(self, x: Array) -> Array:
        """The outputs (..., outputs) of this rank's part ``x`` (..., inputs / ranks)."""
        made: Array = _Leave.apply(linear(x, self.weight, None), self._group)
        return made if self.bias is None else made + self.bias


class ParallelEmbedding(Module):
    """An embedding of which each rank has a part of the rows.

    Args:
        layer: the whole embedding, the same on every rank; its weight is copied in parts.
        group: the ranks.

    Raises:
        ValueError: the number of rows is not divisible by the number of ranks.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> layer = ParallelEmbedding(ck.nn.Embedding(8, 3, rng=0), world)
    >>> layer(ck.asarray([1, 7])).shape
    (2, 3)
    """

    def __init__(self, layer: Embedding, group: Group) -> None:
        self._group = group
        self.weight = _part(layer.weight, 0, group, "ParallelEmbedding: rows")

    def forward(self, tokens: Array) -> Array:
        """The rows (..., features) of ``tokens``, integers of any shape."""
        rows = self.weight.shape[0]
        own = tokens - self._group.rank * rows
        here = ops.logical_and(own >= 0, own < rows)
        found = embedding(ops.where(here, own, 0), self.weight)
        made: Array = _Leave.apply(ops.where(here[..., None], found, 0.0), self._group)
        return made


class ParallelAttention(Module):
    """Multi-head self-attention of which each rank computes a part of the heads.

    Args:
        layer: the whole layer, the same on every rank; its parameters are copied in parts.
        group: the ranks.

    Raises:
        ValueError: the number of heads is not divisible by the number of ranks, or the layer drops weights.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> layer = ParallelAttention(ck.nn.MultiHeadAttention(8, 4, rng=0), world)
    >>> layer(ck.ones((2, 5, 8)), is_causal=True).shape
    (2, 5, 8)
    """

    def __init__(self, layer: MultiHeadAttention, group: Group) -> None:
        if layer.dropout:
            raise ValueError("ParallelAttention: layer: expected one without dropout")
        if layer.heads % group.size:
            raise ValueError(
                f"ParallelAttention: heads: {layer.heads} is not divisible by the {group.size} ranks of the group"
            )
        self._group, self.heads = group, layer.heads // group.size
        self.in_proj_weight = self._of_heads(layer.in_proj_weight)
        self.in_proj_bias = None if layer.in_proj_bias is None else self._of_heads(layer.in_proj_bias)
        self.out_proj = RowLinear(layer.out_proj, group)

    def _of_heads(self, values: Array) -> Parameter:
        """The rows of this rank's heads in the projections of queries, keys and values."""
        with stop_recording():
            parts = [ops.split(one, self._group.size)[self._group.rank] for one in ops.split(values, 3)]
            return Parameter(ops.concat(parts))

    def forward(self, x: Array, is_causal: bool = False) -> Array:
        """Attend among the positions of ``x`` (N, L, features); ``is_causal``: to the earlier ones alone."""
        entered = _Enter.apply(x, self._group)
        parts = ops.split(linear(entered, self.in_proj_weight, self.in_proj_bias), 3, axis=-1)
        shape = (*x.shape[:2], self.heads, parts[0].shape[-1] // self.heads)
        q, k, v = (ops.moveaxis(part.reshape(shape), 2, 1) for part in parts)
        found = scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        made: Array = self.out_proj(ops.moveaxis(found, 1, 2).reshape(*x.shape[:2], -1))
        return made
