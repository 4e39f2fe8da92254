"""Modules whose parameters are sharded over ranks and gathered when they are used (ZeRO stage 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

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
ALIGNED = 16


class Member(NamedTuple):
    """A whole parameter, of which the ranks' shards have parts.

    Attributes:
        name: in the module that was divided.
        shape: of the whole parameter.
        begin: the index of its first element in the concatenation of all shards.
    """

    name: str
    shape: tuple[int, ...]
    begin: int

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


class Shard(Parameter):
    """This rank's part of parameters that lie one after another and are divided over ranks.

    Attributes:
        members: the parameters.
        start: the index of this shard's first element in the concatenation of all shards.
    """

    __slots__ = ("members", "start")
    members: tuple[Member, ...]
    start: int

    def pieces(self, values: Array, names: Sequence[str]) -> dict[str, Piece]:
        """This rank's elements of each member, by ``names``, of an array that is divided in the same way."""
        pieces = {}
        for name, one in zip(names, self.members, strict=True):
            begin, end = self._within(one)
            if begin < end or not one.size:
                pieces[name] = Piece(values[begin:end], one.shape, max(0, self.start + begin - one.begin))
        return pieces

    def part(self, wholes: Sequence[Any]) -> Array:
        """This rank's elements of the members' whole arrays, and zeros between and behind them."""
        arrays = [np.asarray(whole) for whole in wholes]
        own = np.zeros(self.size, np.result_type(*arrays))
        for whole, one in zip(arrays, self.members, strict=True):
            begin, end = self._within(one)
            first = self.start + begin - one.begin
            own[begin:end] = whole.reshape(-1)[first : first + end - begin] if begin < end else 0
        return asarray(own, device=self.device)

    def _within(self, one: Member) -> tuple[int, int]:
        """Where this rank's elements of a member begin and end here."""
        begin, end = one.begin - self.start, one.begin + one.size - self.start
        return min(max(begin, 0), self.size), min(max(end, 0), self.size)


class _Hidden:
    """Holds a module whose parameters have no memory, so that they are no parameters of what holds it."""

    def __init__(self, module: Module) -> None:
        self.module = module


class ShardedModule(Module):
    """A module of which this rank keeps an equal part of the parameters; from :func:`shard_module`.

    A call gathers the parameters from all ranks, calls the module and lets them go. The backward pass gathers them
    again, computes the module's results again, and gives each rank the summed gradient of its part.

    Attributes:
        shards: this rank's parts, one for each dtype.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> isinstance(shard_module(ck.nn.Linear(3, 2, rng=0)), ShardedModule)
    True
    """

    def __init__(self, module: Module, group: Group, kind: Callable[[Parameter], Any] | None = None) -> None:
        self._group, self._hidden, self.training = group, _Hidden(module), module.training
        named = list(module.named_parameters())
        kinds: dict[Any, list[int]] = {}
        for i, (_, one) in enumerate(named):
            more = None if kind is None else kind(one)
            kinds.setdefault((one.dtype, one.device, one.trainable, more), []).append(i)
        self._indices = list(kinds.values())
        self.shards = [self._divided([named[i] for i in indices]) for indices in self._indices]
        for _, one in named:
            one._replace(empty((0,), dtype=one.dtype, device=one.device))

    def __getattr__(self, name: str) -> Any:
        hidden = vars(self).get("_hidden")
        if hidden is not None and hasattr(hidden.module, name):
            raise AttributeError(
                f"{type(self).__name__}: {name}: the parameters of this {type(hidden.module).__name__} are divided "
                "over ranks and whole only while it is called; model_state(model) gathers them"
            )
        return super().__getattr__(name)

    def _divided(self, named: list[tuple[str, Parameter]]) -> Shard:
        first, group = named[0][1], self._group
        parts: list[Array] = []
        members, total = [], 0
        for name, one in named:
            members.append(Member(name, one.shape, total))
            parts += [one.reshape(-1), zeros(-one.size % ALIGNED, dtype=one.dtype, device=one.device)]
            total += one.size + parts[-1].size
        whole = -(-total // (ALIGNED * group.size)) * ALIGNED * group.size
        with stop_recording():
            parts.append(zeros(whole - total, dtype=first.dtype, device=first.device))
            flat = broadcast(ops.concat(parts), 0, group)
        share = whole // group.size
        shard = Shard(flat[group.rank * share : (group.rank + 1) * share])
        shard.members, shard.start, shard.trainable = tuple(members), group.rank * share, first.trainable
        return shard

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the module with all of its parameters."""
        module = self._hidden.module
        if module.training != self.training:
            module.train(self.training)
        return checkpoint(self._whole)(self.shards, *args, **kwargs)

    def _whole(self, shards: list[Shard], *args: Any, **kwargs: Any) -> Any:
        values: list[Any] = [None] * sum(map(len, self._indices))
        for shard, own, indices in zip(shards, self.shards, self._indices, strict=True):
            flat = all_gather(shard, group=self._group)
            for i, one in zip(indices, own.members, strict=True):
                values[i] = flat[one.begin : one.begin + one.size].reshape(one.shape)
        return pytree.replace(self._hidden.module, values)(*args, **kwargs)

    def extra_repr(self) -> str:
        """The number of elements here and in all."""
        here = sum(one.size for one in self.shards)
        whole = sum(one.size for shard in self.shards for one in shard.members)
        return f"{type(self._hidden.module).__name__}, {here:,} of {whole:,} elements"


def shard_module(module: Module, group: Group | None = None) -> ShardedModule:
    """Divide a module's parameters over ranks, and let them be gathered for each call (ZeRO stage 3).

    Divide the parts of a model that are called one after another, such as the blocks of a transformer, before its
    optimizer is created: ``model.blocks = [shard_module(block) for block in model.blocks]``. At any time one of them is
    whole. The optimizer of such a model updates this rank's parts; give it to :class:`DataParallel`, which averages
    their gradients. The values are those of the group's first rank.

    Args:
        module: takes and returns pytrees of arrays. Its own parameters have no elements afterwards.
        group: the ranks; all when None.

    Raises:
        TypeError: ``module`` is not a Module.
        ValueError: it has no parameters, or has buffers, which would not be seen by :func:`model_state`.

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
    if buffers := [name for name, _ in module.named_buffers()]:
        raise ValueError(f"shard_module: module: it has the buffer {buffers[0]!r}; expected parameters alone")
    return ShardedModule(module, world() if group is None else group)


def named_members(name: str, shard: Shard) -> list[str]:
    """The names of a shard's parameters in the model before they were divided, from the shard's name in the model."""
    prefix, inside, _ = name.rpartition("shards.")
    return [f"{prefix}{one.name}" if inside else f"{name}.{one.name}" for one in shard.members]


def _shards(model: Module) -> dict[str, tuple[Shard, list[str]]]:
    """By their names, a model's shards and the names of their parameters."""
    named = model.named_parameters()
    return {name: (one, named_members(name, one)) for name, one in named if isinstance(one, Shard)}


def model_state(model: Module) -> dict[str, Array | Piece]:
    """The parameters and buffers of a model for :func:`save_checkpoint`, by their names before it was divided.

    Args:
        model: a module, parts of which may be divided by :func:`shard_module`; of these, this rank's pieces.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> sorted(model_state(ck.nn.Linear(3, 2, rng=0)))
    ['bias', 'weight']
    """
    shards = _shards(model)
    state: dict[str, Array | Piece] = {}
    for name, value in model.state_dict().items():
        shard, names = shards.get(name, (None, []))
        state |= {name: value} if shard is None else shard.pieces(value, names)
    return state


def load_model_state(model: Module, state: Mapping[str, Any]) -> None:
    """Load the arrays of :func:`model_state`, which any number of ranks may have saved, divided or not.

    Args:
        model: of the same structure as the one that was saved; other parts of it may be divided.
        state: whole arrays by name, as :meth:`.Checkpoint.under` returns them.

    Raises:
        ValueError: as :meth:`.Module.load_state_dict`.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> first, second = ck.nn.Linear(3, 2, rng=0), shard_module(ck.nn.Linear(3, 2, rng=1))
    >>> load_model_state(second, model_state(first))
    >>> bool((second(ck.ones((1, 3))) == first(ck.ones((1, 3)))).all())
    True
    """
    shards = _shards(model)
    taken = {name for _, names in shards.values() for name in names}
    arrays = {name: value for name, value in state.items() if name not in taken}
    for name, (shard, names) in shards.items():
        arrays[name] = shard.part(whole_members(shard, names, state))
    model.load_state_dict(arrays)


def whole_members(shard: Shard, names: Sequence[str], state: Mapping[str, Any]) -> list[Any]:
    """The whole arrays of a shard's members in a state.

    Raises:
        ValueError: one is missing, or has another shape.
    """
    arrays = []
    for name, one in zip(names, shard.members, strict=True):
        if name not in state:
            raise ValueError(f"state: missing {name!r}")
        arrays.append(np.asarray(state[name]))
        if arrays[-1].shape != one.shape:
            raise ValueError(f"state: {name!r} has shape {arrays[-1].shape}, expected {one.shape}")
    return arrays
