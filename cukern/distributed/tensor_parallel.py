"""Tensor and sequence parallelism: layers whose weights are divided over ranks that compute one result together.

Sources: Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism", 2019;
with ``sequence=True``, Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022.
All ranks of the group have the same inputs, results and loss, which counts once: unlike the gradients of the
collectives themselves, those of these layers are the gradients of the loss of one rank.

By default what lies between two such layers is whole on every rank. With ``sequence=True`` each rank has an equal part
of its positions, along the last axis but one: the layers that begin gather the positions, those that end add up the
ranks' results and keep a part of the positions each. As many bytes travel, and what lies between, norms and
residuals, takes a share of the time and memory; :class:`SequenceParallel` holds its modules.
"""

from __future__ import annotations

from typing import Any

from .. import namespace as ops
from .. import pytree
from ..array import Array
from ..autodiff.tape import stop_recording
from ..elementwise.operands import normalize_axis, recorded
from ..function import Function
from ..nn.attention.module import MultiHeadAttention, scaled_dot_product_attention
from ..nn.embedding import Embedding, embedding
from ..nn.linear import Linear, linear
from ..nn.module import Module
from ..nn.parameter import Parameter
from .collectives import all_gather, all_reduce, check_divisible, reduce_scatter
from .group import Group

__all__ = ["ColumnLinear", "ParallelAttention", "ParallelEmbedding", "RowLinear", "SequenceParallel"]

#: The axis of the positions of a sequence.
_POSITIONS = -2


class _Enter(Function):
    """The identity into a parallel region (Megatron's f): gradients of the ranks are summed."""

    @staticmethod
    def forward(ctx: Any, x: Array, group: Group) -> Array:
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx: Any, grad: Array) -> Any:
        return all_reduce(grad, group=ctx.group), None


def _require(what: str, layer: object, kind: type[Module], group: object) -> None:
    """Refuse a layer or a group of another kind.

    Raises:
        TypeError: it is one.
    """
    if not isinstance(layer, kind):
        raise TypeError(
            f"{what}: {'module' if kind is Module else 'layer'}: expected a {kind.__name__}, got {type(layer).__name__}"
        )
    if not isinstance(group, Group):
        raise TypeError(f"{what}: group: expected a Group, got {type(group).__name__}")


def _with_positions(what: str, x: Array) -> None:
    """Refuse an array that has no axis of positions.

    Raises:
        ValueError: it has one axis or none.
    """
    if x.ndim < 2:
        raise ValueError(
            f"{what}: sequence=True expects an axis of positions before the last, got shape {x.shape}"
        )


def _entered(what: str, x: Array, group: Group, sequence: bool) -> Any:
    if not sequence:
        return _Enter.apply(x, group)
    _with_positions(what, x)
    return all_gather(x, axis=_POSITIONS, group=group)


def _left(what: str, x: Array, group: Group, sequence: bool) -> Any:
    """The sum of the ranks' parts, whole or at this rank's positions.

    Raises:
        ValueError: the number of positions is not divisible by the number of ranks, or there is no axis of them.
    """
    if sequence:
        _with_positions(what, x)
        check_divisible(what, x, _POSITIONS, group)
        return reduce_scatter(x, axis=_POSITIONS, group=group)
    with stop_recording():
        total = all_reduce(x, group=group)
    return recorded("leave", x, total, lambda g: g)  # Megatron's g


def _joined(x: Array, group: Group) -> Array:
    """The ranks' parts along the last axis, on every rank."""
    with stop_recording():
        whole = all_gather(x, axis=-1, group=group)
    return recorded("join", x, whole, lambda g: ops.split(g, group.size, axis=-1)[group.rank])


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
        return _trained_as(values, ops.split(values, group.size, axis=axis)[group.rank])


def _trained_as(old: Array, values: Array) -> Parameter:
    """A parameter that is trained if ``old`` is."""
    parameter = Parameter(values)
    parameter.trainable = not isinstance(old, Parameter) or old.trainable
    return parameter


class ColumnLinear(Module):
    """A linear layer of which each rank computes a part of the outputs.

    Args:
        layer: the whole layer, the same on every rank; its parameters are copied in parts.
        group: the ranks.
        join: whether every rank gets all outputs; else its own part, which a :class:`RowLinear` takes.
        sequence: whether the input has this rank's positions alone; the outputs have all.

    Raises:
        TypeError: ``layer`` is not a Linear, or ``group`` not a Group.
        ValueError: the number of outputs is not divisible by the number of ranks.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> layer = ColumnLinear(ck.nn.Linear(3, 4, rng=0), world)
    >>> layer(ck.ones((2, 3))).shape[-1] == 4 // world.size
    True
    """

    def __init__(self, layer: Linear, group: Group, join: bool = False, sequence: bool = False) -> None:
        _require("ColumnLinear", layer, Linear, group)
        self._group, self._join, self._sequence = group, join, sequence
        self.activation = layer.activation
        self.weight = _part(layer.weight, 0, group, "ColumnLinear: outputs")
        self.bias = None if layer.bias is None else _part(layer.bias, 0, group, "ColumnLinear: outputs")

    def forward(self, x: Array) -> Array:
        """The outputs (..., outputs / ranks), or (..., outputs) if they are joined, of ``x`` (..., inputs)."""
        entered = _entered("ColumnLinear", x, self._group, self._sequence)
        own = linear(entered, self.weight, self.bias, activation=self.activation)
        return _joined(own, self._group) if self._join else own


class RowLinear(Module):
    """A linear layer of which each rank has a part of the inputs; every rank gets the whole result.

    Args:
        layer: the whole layer, the same on every rank; its weight is copied in parts.
        group: the ranks.
        sequence: whether each rank gets the result at its positions alone.

    Raises:
        TypeError: ``layer`` is not a Linear, or ``group`` not a Group.
        ValueError: the number of inputs is not divisible by the number of ranks, or the layer has an activation.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> layer = RowLinear(ck.nn.Linear(4, 3, rng=0), world)
    >>> layer(ck.ones((2, 4 // world.size))).shape
    (2, 3)
    """

    def __init__(self, layer: Linear, group: Group, sequence: bool = False) -> None:
        _require("RowLinear", layer, Linear, group)
        if layer.activation is not None:
            raise ValueError("RowLinear: layer: expected one without an activation")
        self._group, self._sequence = group, sequence
        self.weight = _part(layer.weight, 1, group, "RowLinear: inputs")
        self.bias = None if layer.bias is None else _trained_as(layer.bias, layer.bias)

    def forward(self, x: Array) -> Array:
        """The outputs (..., outputs) of this rank's part ``x`` (..., inputs / ranks)."""
        y: Array = _left("RowLinear", linear(x, self.weight, None), self._group, self._sequence)
        if self.bias is None:
            return y
        return y + (_Enter.apply(self.bias, self._group) if self._sequence else self.bias)


class ParallelEmbedding(Module):
    """An embedding of which each rank has a part of the rows.

    Args:
        layer: the whole embedding, the same on every rank; its weight is copied in parts.
        group: the ranks.
        sequence: whether each rank gets the rows of its positions alone.

    Raises:
        TypeError: ``layer`` is not a Embedding, or ``group`` not a Group.
        ValueError: the number of rows is not divisible by the number of ranks.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> layer = ParallelEmbedding(ck.nn.Embedding(8, 3, rng=0), world)
    >>> layer(ck.asarray([1, 7])).shape
    (2, 3)
    """

    def __init__(self, layer: Embedding, group: Group, sequence: bool = False) -> None:
        _require("ParallelEmbedding", layer, Embedding, group)
        self._group, self._sequence = group, sequence
        self.weight = _part(layer.weight, 0, group, "ParallelEmbedding: rows")

    def forward(self, tokens: Array) -> Array:
        """The rows (..., features) of ``tokens``, integers of any shape."""
        rows = self.weight.shape[0]
        own = tokens - self._group.rank * rows
        here = ops.logical_and(own >= 0, own < rows)
        rows_here = embedding(ops.where(here, own, 0), self.weight)
        result: Array = _left(
            "ParallelEmbedding", ops.where(here[..., None], rows_here, 0.0), self._group, self._sequence
        )
        return result


class ParallelAttention(Module):
    """Multi-head self-attention of which each rank computes a part of the heads.

    Args:
        layer: the whole layer, the same on every rank; its parameters are copied in parts.
        group: the ranks.
        sequence: whether the input and the result have this rank's positions alone.

    Raises:
        TypeError: ``layer`` is not a MultiHeadAttention, or ``group`` not a Group.
        ValueError: the number of heads is not divisible by the number of ranks, or the layer drops weights.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> layer = ParallelAttention(ck.nn.MultiHeadAttention(8, 4, rng=0), world)
    >>> layer(ck.ones((2, 5, 8)), is_causal=True).shape
    (2, 5, 8)
    """

    def __init__(self, layer: MultiHeadAttention, group: Group, sequence: bool = False) -> None:
        _require("ParallelAttention", layer, MultiHeadAttention, group)
        if layer.dropout:
            raise ValueError("ParallelAttention: layer: expected one without dropout")
        if layer.heads % group.size:
            raise ValueError(
                f"ParallelAttention: heads: {layer.heads} is not divisible by the {group.size} ranks of the group"
            )
        self._group, self._sequence, self.heads = group, sequence, layer.heads // group.size
        self.in_proj_weight = self._of_heads(layer.in_proj_weight)
        self.in_proj_bias = None if layer.in_proj_bias is None else self._of_heads(layer.in_proj_bias)
        self.out_proj = RowLinear(layer.out_proj, group, sequence)

    def _of_heads(self, values: Array) -> Parameter:
        """The rows of this rank's heads in the projections of queries, keys and values."""
        with stop_recording():
            parts = [ops.split(one, self._group.size)[self._group.rank] for one in ops.split(values, 3)]
            return _trained_as(values, ops.concat(parts))

    def forward(self, x: Array, is_causal: bool = False) -> Array:
        """Attend among the positions of ``x`` (N, L, features); ``is_causal``: to the earlier ones alone."""
        entered = _entered("ParallelAttention", x, self._group, self._sequence)
        parts = ops.split(linear(entered, self.in_proj_weight, self.in_proj_bias), 3, axis=-1)
        shape = (*entered.shape[:2], self.heads, parts[0].shape[-1] // self.heads)
        q, k, v = (ops.moveaxis(part.reshape(shape), 2, 1) for part in parts)
        heads = scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        result: Array = self.out_proj(ops.moveaxis(heads, 1, 2).reshape(*entered.shape[:2], -1))
        return result


class SequenceParallel(Module):
    """A module that treats positions apart, such as a norm, called with this rank's positions.

    Its parameters are the same on every rank. Their gradients are summed over the ranks. Of a module that draws random
    numbers, such as dropout, each rank's draws its own.

    Args:
        module: takes and returns arrays whose positions are along the last axis but one.
        group: the ranks.

    Raises:
        TypeError: ``module`` is not a Module, or ``group`` not a Group.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> norm = SequenceParallel(ck.nn.LayerNorm(4), world)
    >>> norm(norm.part(ck.ones((2, 8, 4)))).shape == (2, 8 // world.size, 4)
    True
    """

    def __init__(self, module: Module, group: Group) -> None:
        _require("SequenceParallel", module, Module, group)
        self._group, self.module = group, module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result at this rank's positions."""
        shared = [_Enter.apply(one, self._group) for one in self.module.parameters()]
        return pytree.replace(self.module, shared)(*args, **kwargs)

    def part(self, x: Array, axis: int = _POSITIONS) -> Array:
        """This rank's positions of what every rank has whole, along an axis.

        Raises:
            ValueError: their number is not divisible by the number of ranks.
            AxisError: ``x`` has no such axis.
        """
        axis = normalize_axis(axis, x.ndim, "SequenceParallel.part")
        check_divisible("SequenceParallel.part: positions", x, axis, self._group)
        return ops.split(x, self._group.size, axis=axis)[self._group.rank]
