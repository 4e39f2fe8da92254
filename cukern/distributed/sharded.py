"""Modules whose parameters are sharded over ranks and gathered when they are used (ZeRO stage 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np

from .. import namespace as ops
from .. import pytree
from ..array import Array
from ..array.creation import asarray, empty, zeros
from ..array.deferred import Arriving
from ..autodiff import tape
from ..autodiff.cotangents import written
from ..autodiff.recompute import Again
from ..autodiff.tape import stop_recording
from ..device import capture_hooks
from ..nn.module import Module
from ..nn.parameter import Parameter
from .checkpoint import Piece
from .collectives import broadcast, gathered, reduce_scatter, scattered
from .flat import Flat
from .group import Group, world

__all__ = ["Shard", "ShardedModule", "load_model_state", "model_state", "shard_module"]

#: For each group, the modules whose parameters were gathered since the first of them was called.
_passes: WeakKeyDictionary[Group, list[ref[ShardedModule]]] = WeakKeyDictionary()


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


class _State:
    """What a module knows of its passes; no parameter of it.

    Attributes:
        before, following: the modules that were called before and after this one.
        passed: whether a pass has ended in which it was called, so that ``following`` is right.
        coming: the parameters that are on their way, for which recording of a graph, of which versions of the shards.
    """

    def __init__(self) -> None:
        self.before: Callable[[], ShardedModule | None] = _nothing
        self.following: Callable[[], ShardedModule | None] = _nothing
        self.passed = False
        self.coming: tuple[Any, list[int], list[Callable[[], Array]]] | None = None


def _nothing() -> None:
    """In the place of a reference to another module."""


class _Again:
    """A module's whole parameters for its backward pass, from the first that is read to the last."""

    def __init__(self, module: ShardedModule) -> None:
        self._module = module
        self._values: list[Array] | None = None

    def values(self) -> list[Array]:
        """The parameters; those of the module before are on their way then."""
        if self._values is None:
            self._values = self._module._whole()
            if (before := self._module._state.before()) is not None:
                before._ahead()
        return self._values

    def drop(self) -> None:
        """Let them go."""
        self._values = None


class ShardedModule(Module):
    """A module of which this rank keeps an equal part of the parameters; from :func:`shard_module`.

    A call gathers the parameters from all ranks, calls the module and lets them go. The backward pass gathers them
    again, and gives each rank the summed gradient of its part. While a module computes, those of the next one travel:
    of the module that came after it in an earlier pass, in the backward pass before it. At most two are whole at once.

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
        self._flats = [Flat([named[i][1].shape for i in own], group.size) for own in self._indices]
        self.shards = [
            self._divided([named[i] for i in own], flat)
            for own, flat in zip(self._indices, self._flats, strict=True)
        ]
        for _, one in named:
            one._replace(empty((0,), dtype=one.dtype, device=one.device))
        self._state = _State()

    def __getattr__(self, name: str) -> Any:
        hidden = vars(self).get("_hidden")
        if hidden is not None and hasattr(hidden.module, name):
            raise AttributeError(
                f"{type(self).__name__}: {name}: the parameters of this {type(hidden.module).__name__} are divided "
                "over ranks and whole only while it is called; model_state(model) gathers them"
            )
        return super().__getattr__(name)

    def _divided(self, named: list[tuple[str, Parameter]], flat: Flat) -> Shard:
        first, group = named[0][1], self._group
        with stop_recording():
            whole = broadcast(flat.pack([one for _, one in named], first.dtype, first.device), 0, group)
            shard = Shard(flat.own(whole, group))
        shard.members = tuple(
            Member(name, one.shape, begin) for (name, one), begin in zip(named, flat.offsets, strict=True)
        )
        shard.start, shard.trainable = group.rank * shard.size, first.trainable
        return shard

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the module with all of its parameters."""
        module, state = self._hidden.module, self._state
        if module.training != self.training:
            module.train(self.training)
        self._follow()
        values, following = self._whole(), state.following()
        if following is not None:
            following._ahead()
        tracking = tape.tracked(self.shards)
        if tracking is not None:
            self._record(values, tracking)
        result = pytree.replace(module, values)(*args, **kwargs)
        if tracking is not None and following is None and state.passed:
            self._ahead()  # the backward pass begins with it
        return result

    def _follow(self) -> None:
        """Note which module was called before this one."""
        others = _passes.setdefault(self._group, [])
        if any(one() is self for one in others):
            for one in others:
                if (module := one()) is not None:
                    module._state.passed = True
            others.clear()
        if others and (before := others[-1]()) is not None:
            before._state.following, self._state.before = ref(self), ref(before)
        others.append(ref(self))

    def _gather(self) -> None:
        """Begin to gather the parameters while launches go on."""
        state, recorder = self._state, capture_hooks.recorder()
        if state.coming is None or state.coming[0] is not recorder or state.coming[1] != self._versions():
            what = f"all_gather of a {type(self._hidden.module).__name__}'s parameters"
            with stop_recording(), self._group.together(self.shards[0].device, what):
                flats = [gathered(one, self._group, aside=True) for one in self.shards]
            state.coming = recorder, self._versions(), flats
            capture_hooks.joined(self._drop)

    def _ahead(self) -> None:
        """Begin to gather the parameters for a later call, if launches go on meanwhile."""
        if not self.shards[0].device.addressable:
            self._gather()

    def _drop(self) -> None:
        """Wait for what is on its way, and let it go."""
        if self._state.coming is not None:
            for arrive in self._state.coming[2]:
                arrive()
            self._state.coming = None

    def _versions(self) -> list[int]:
        return [one._storage.version for one in self.shards]

    def _whole(self) -> list[Array]:
        """The parameters, gathered."""
        self._gather()
        assert self._state.coming is not None
        (*_, flats), self._state.coming = self._state.coming, None
        values: list[Any] = [None] * sum(map(len, self._indices))
        with stop_recording():
            for arrive, flat, indices in zip(flats, self._flats, self._indices, strict=True):
                for i, one in zip(indices, flat.cut(arrive()), strict=True):
                    values[i] = Array._wrap(one._data, one.device)  # to tapes with memory of its own
        return values

    def _record(self, values: list[Array], tracking: tape.Tracking) -> None:
        """Record the parameters as results of the shards, which tapes do not keep but gather again."""
        versions, again = self._versions(), _Again(self)

        def compute(i: int) -> Array:
            for one, version in zip(self.shards, versions, strict=True):
                if one._storage.version != version:
                    raise written(one)
            return again.values()[i]

        def backward(
            cotangents: Sequence[Array | None], saved: object, needs: Sequence[bool]
        ) -> list[Array | None]:
            parts = [
                self._joined([cotangents[i] for i in own], flat, shard) if needed else None
                for own, flat, shard, needed in zip(
                    self._indices, self._flats, self.shards, needs, strict=True
                )
            ]
            if tape.recording([one for one in parts if one is not None]):
                return [one if one is None else reduce_scatter(one, group=self._group) for one in parts]
            return self._summed(parts)

        tape.record("ShardedModule", self.shards, values, backward, materialize=False, tracking=tracking)
        for i, value in enumerate(values):
            Again.note(value, partial(compute, i), again.drop, tracking[2])

    def _joined(self, cotangents: Sequence[Array | None], flat: Flat, shard: Shard) -> Array:
        """The gradients of what a shard has parts of, in flat memory."""
        if not tape.recording([one for one in cotangents if one is not None]):
            with stop_recording():
                return flat.pack(cotangents, shard.dtype, shard.device)
        parts: list[Array] = []
        ends = (*flat.offsets[1:], flat.size)
        for one, shape, begin, end in zip(cotangents, flat.shapes, flat.offsets, ends, strict=True):
            own = zeros(shape, dtype=shard.dtype, device=shard.device) if one is None else one
            parts += [
                own.reshape(-1),
                zeros(end - begin - own.size, dtype=shard.dtype, device=shard.device),
            ]
        return ops.concat(parts)

    def _summed(self, flats: Sequence[Array | None]) -> list[Array | None]:
        """This rank's parts of the sums over ranks; on a GPU they arrive when they are read."""
        device = self.shards[0].device
        what = f"reduce_scatter of the gradients of a {type(self._hidden.module).__name__}"
        with stop_recording(), self._group.together(device, what):
            begun = [one if one is None else scattered(one, "sum", self._group, aside=True) for one in flats]
        found: list[Array | None] = []
        for shard, part in zip(self.shards, begun, strict=True):
            if part is None or device.addressable:
                found.append(None if part is None else part())
            else:
                capture_hooks.joined(part)
                found.append(Arriving.of(shard._planned(), part))
        return found

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
