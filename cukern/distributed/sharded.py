"""Modules whose parameters are divided over ranks and gathered when they are used (ZeRO stage 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import namespace as ops
from .. import pytree
from ..array import Array
from ..array.creation import asarray, empty, zeros
from ..autodiff.tape import stop_recording
from ..function import checkpoint
from ..nn.module import Module
from ..nn.parameter import Parameter
from .checkpoint import Piece
from .collectives import all_gather, broadcast
from .group import Group, world

__all__ = ["Shard", "ShardedModule", "load_model_state", "model_state", "shard_module"]

#: Parameters begin at multiples of so many elements, so that kernels may read 16 bytes at once.
_ALIGNED = 16


class Shard(Parameter):
    """This rank's part of parameters that are divided over ranks.

    Attributes:
        total: the number of elements of all parts, without those that make the parts equal.
        start: which of them is this part's first.
    """

    __slots__ = ("start", "total")
    total: int
    start: int

    def piece(self, values: Array) -> Piece:
        """This rank's elements of an array that is divided in the same way."""
        count = max(0, min(self.total - self.start, self.size))
        return Piece(values[:count], (self.total,), min(self.start, self.total))

    def part(self, whole: Any) -> Array:
        """This rank's elements of a whole array, and zeros behind its end."""
        values = np.asarray(whole).reshape(-1)[self.start : self.start + self.size]
        padded = np.concatenate([values, np.zeros(self.size - values.size, values.dtype)])
        return asarray(padded, device=self.device)


class _Hidden:
    """Holds a module whose parameters have no memory, so that they are no parameters of what holds it."""

    def __init__(self, module: Module) -> None:
        self.module = module


class ShardedModule(Module):
    """A module of which this rank keeps an equal part of the parameters; made by :func:`shard_module`.

    A call gathers the parameters from all ranks, calls the module and lets them go. The backward pass gathers them
    again, computes the module's results again, and gives each rank the summed gradient of its part.

    Attributes:
        shards: this rank's parts, one for each dtype.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> isinstance(shard_module(ck.nn.Linear(3, 2, rng=0)), ShardedModule)
    True
    """

    def __init__(self, module: Module, group: Group) -> None:
        self._group, self._hidden = group, _Hidden(module)
        parameters = module.parameters()
        self._forms = [(one.shape, one.dtype) for one in parameters]
        kinds: dict[Any, list[int]] = {}
        for i, one in enumerate(parameters):
            kinds.setdefault(one.dtype, []).append(i)
        self._members = list(kinds.values())
        self.shards = [self._divided([parameters[i] for i in members]) for members in self._members]
        for one in parameters:
            one._replace(empty((0,), dtype=one.dtype, device=one.device))

    def _divided(self, parameters: list[Parameter]) -> Shard:
        first, group = parameters[0], self._group
        parts: list[Array] = []
        for one in parameters:
            parts += [one.reshape(-1), zeros(-one.size % _ALIGNED, dtype=one.dtype, device=one.device)]
        total = sum(part.size for part in parts)
        whole = -(-total // (_ALIGNED * group.size)) * _ALIGNED * group.size
        with stop_recording():
            parts.append(zeros(whole - total, dtype=first.dtype, device=first.device))
            flat = broadcast(ops.concat(parts), 0, group)
        share = whole // group.size
        made = Shard(flat[group.rank * share : (group.rank + 1) * share])
        made.total, made.start = total, group.rank * share
        return made

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the module with all of its parameters."""
        return checkpoint(self._whole)(self.shards, *args, **kwargs)

    def _whole(self, shards: list[Shard], *args: Any, **kwargs: Any) -> Any:
        found: list[Any] = [None] * len(self._forms)
        for shard, members in zip(shards, self._members, strict=True):
            flat, offset = all_gather(shard, group=self._group), 0
            for i in members:
                shape, _ = self._forms[i]
                size = int(np.prod(shape, dtype=np.int64))
                found[i] = flat[offset : offset + size].reshape(shape)
                offset += -(-size // _ALIGNED) * _ALIGNED
        return pytree.replace(self._hidden.module, found)(*args, **kwargs)

    def extra_repr(self) -> str:
        """The number of elements here and in all."""
        here = sum(one.size for one in self.shards)
        return f"{type(self._hidden.module).__name__}, {here:,} of {sum(one.total for one in self.shards):,} elements"


def shard_module(module: Module, group: Group | None = None) -> ShardedModule:
    """Divide a module's parameters over ranks, and let them be gathered for each call (ZeRO stage 3).

    Divide the parts of a model that are called one after another, such as the blocks of a transformer, before its
    optimizer is made: ``model.blocks = [shard_module(block) for block in model.blocks]``. At any time one of them is
    whole. The optimizer of such a model updates this rank's parts; give it to :class:`DataParallel`, which averages
    their gradients. The values are those of the group's first rank.

    Args:
        module: takes and returns pytrees of arrays. Its own parameters have no elements afterwards.
        group: the ranks; all when None.

    Raises:
        TypeError: ``module`` is not a Module.
        ValueError: it has no parameters.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> layer = shard_module(ck.nn.Linear(3, 2, rng=0))
    >>> layer(ck.ones((1, 3))).shape
    (1, 2)
    >>> [shard.shape for shard in layer.parameters()]
    [(32,)]
    """
    if not isinstance(module, Module):
        raise TypeError(f"shard_module: module: expected a Module, got {type(module).__name__}")
    if not module.parameters():
        raise ValueError("shard_module: module: it has no parameters")
    return ShardedModule(module, world() if group is None else group)


def model_state(model: Module) -> dict[str, Array | Piece]:
    """The parameters and buffers of a model for :func:`save_checkpoint`: divided ones as this rank's pieces.

    Args:
        model: a module, parts of which may be divided by :func:`shard_module`.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> sorted(model_state(ck.nn.Linear(3, 2, rng=0)))
    ['bias', 'weight']
    """
    shards = {name: one for name, one in model.named_parameters() if isinstance(one, Shard)}
    state: dict[str, Array | Piece] = {}
    for name, value in model.state_dict().items():
        state[name] = shards[name].piece(value) if name in shards else value
    return state


def load_model_state(model: Module, state: Mapping[str, Any]) -> None:
    """Load the arrays of :func:`model_state`, which any number of ranks may have saved.

    Args:
        model: of the same structure as the one that was saved, with the same parts divided.
        state: whole arrays by name, as :meth:`.Checkpoint.under` returns them.

    Raises:
        ValueError: as :meth:`.Module.load_state_dict`.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> first, second = ck.nn.Linear(3, 2, rng=0), ck.nn.Linear(3, 2, rng=1)
    >>> load_model_state(second, model_state(first))
    >>> bool((first.weight == second.weight).all())
    True
    """
    shards = {name: one for name, one in model.named_parameters() if isinstance(one, Shard)}
    for name, one in shards.items():
        if name in state and np.asarray(state[name]).size != one.total:
            raise ValueError(f"{name!r} has {np.asarray(state[name]).size} elements, expected {one.total}")
    model.load_state_dict(
        {name: shards[name].part(value) if name in shards else value for name, value in state.items()}
    )
