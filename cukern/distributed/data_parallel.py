"""Data-parallel training: each rank has its own batch; gradients are averaged in buckets during the backward pass."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal
from weakref import ref

import numpy as np

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import full
from ..autodiff.tape import Tape, stop_recording
from ..elementwise.fuse import fuse
from ..nn.module import Module
from ..optim.clip import clip_by_global_norm, norm_of, scaled_by
from ..optim.optimizer import Optimizer
from .blocks import divide_blocks, like, require_no_steps
from .buckets import Bucket, planned
from .checkpoint import Piece
from .collectives import all_reduce, broadcast, form, reduced, scattered
from .group import Group, world
from .parts import Parts
from .sharded import Shard, named_members, whole_members

__all__ = ["DataParallel"]


class DataParallel:
    """An optimizer whose gradients are averaged over ranks, each of which has a batch of its own.

    The parameters' values are those of the group's first rank. Gradients travel in buckets; a bucket is reduced as
    soon as the backward pass has finished its gradients, while the pass goes on. The result is the same, bit by bit,
    from run to run with the same number of ranks, and up to rounding for any number.

    Args:
        optimizer: of the parameters that all ranks have. It has taken no step yet, or was loaded with the same state on
            all ranks.
        group: the ranks; all when None.
        shard: 0: every rank keeps the optimizer's whole state. 1: every rank keeps and updates an equal part of it,
            and the updated parameters are gathered (ZeRO stage 1: Rajbhandari et al., "ZeRO: Memory Optimizations
            Toward Training Trillion Parameter Models", SC 2020). 3: it also keeps an equal part of the parameters and
            gradients of the model's blocks alone (stage 3), which are gathered as :func:`shard_module` does; the
            blocks are the modules in the model's lists, tuples and dicts that share no parameter with others and
            have no buffers. Parameters that :func:`shard_module` divided are updated where they are in all cases.
        model: with ``shard=3`` the model that has the optimizer's parameters. Its blocks are replaced in place.
        sums: the dtype in which gradients travel and are summed, such as float32 or bfloat16; that of each parameter
            when None. The averaged gradients have this dtype. Those of divided blocks travel in their own.
        bucket_bytes: the size at which a bucket is complete; the last ones are smaller, as nothing is computed while
            they are reduced. A parameter of 32 MiB or more is a bucket of its own.

    Raises:
        ValueError: ``shard`` is not 0, 1 or 3, ``bucket_bytes`` is not positive, or ``sums`` is not floating;
            ``shard=3`` is given without ``model``, or one without blocks.
        TypeError: ``optimizer`` is not an optimizer, or ``model`` not a Module.
        DistributedError: the ranks' parameters differ in number, dtype or shape; or ``shard`` is not 0 and the
            optimizer has taken steps.

    Attributes:
        optimizer: the optimizer that takes the steps: the given one, or one like it for this rank's part. Its options,
            such as ``lr``, may be set between steps.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> w = ck.nn.Parameter(ck.asarray([1.0, 2.0]))
    >>> training = DataParallel(ck.optim.SGD([w], lr=0.5))
    >>> with ck.Tape() as tape:
    ...     loss = (w * w).sum()
    >>> training.step(training.gradient(tape, loss))
    >>> w.tolist()
    [0.0, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        group: Group | None = None,
        *,
        shard: Literal[0, 1, 3] = 0,
        model: Module | None = None,
        sums: Any = None,
        bucket_bytes: int = 96 << 20,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"DataParallel: optimizer: expected an Optimizer, got {type(optimizer).__name__}")
        if shard not in (0, 1, 3):
            raise ValueError(f"DataParallel: shard: expected 0, 1 or 3, got {shard!r}")
        if shard == 3 and not isinstance(model, Module):
            raise TypeError(f"DataParallel: model: shard=3 expects a Module, got {type(model).__name__}")
        if bucket_bytes <= 0:
            raise ValueError(f"DataParallel: bucket_bytes: expected a positive number, got {bucket_bytes!r}")
        self.group = world() if group is None else group
        self.shard = shard
        self._sums = None if sums is None else dtypes.as_dtype(sums)
        if self._sums is not None and dtypes.info(self._sums).kind != "f":
            raise ValueError(f"DataParallel: sums: expected a floating dtype, got {self._sums}")
        if shard:
            require_no_steps(optimizer)
        self._members: dict[int, list[str]] = {}
        self._meet(optimizer)
        if shard == 3 and model is not None:
            optimizer, self._members = divide_blocks(model, optimizer, self.group)
        self._given = optimizer
        self._parameters = optimizer.parameters
        self._members = self._member_names(self._members)
        self._divided = [i for i, one in enumerate(self._parameters) if isinstance(one, Shard)]
        self._most, self._buckets = bucket_bytes, planned(optimizer, self.group.size, bucket_bytes)
        self._agree()
        #: The buckets in the order in which their gradients are finished, as the first backward pass has it.
        self._finish_order: list[int] | None = None
        #: Whether gradients are clipped: their squares are added up as they arrive, from the first :meth:`clip` on. The
        #: sum for the last gradients, and these with their versions.
        self._clips = False
        self._square: Array | None = None
        self._returned: list[Any] = []
        #: The parameters or parts that the optimizer has, in its order.
        self._order = list(range(len(self._parameters)))
        self.optimizer = optimizer if shard == 0 else self._sharded()

    def _member_names(self, known: Mapping[int, list[str]]) -> dict[int, list[str]]:
        """For each shard, the names of its parts: those of the undivided model, unless two parts would share one."""
        names, shards = (
            self._given.names,
            [(i, one) for i, one in enumerate(self._parameters) if isinstance(one, Shard)],
        )
        members = {i: known[i] if i in known else named_members(names[i], one) for i, one in shards}
        every = [name for i, name in enumerate(names) if i not in members]
        every += [name for own in members.values() for name in own]
        if len(set(every)) == len(every):
            return members
        return {
            i: known[i] if i in known else [f"{names[i]}.{part.name}" for part in one.members]
            for i, one in shards
        }

    def _meet(self, optimizer: Optimizer) -> None:
        """Check that all ranks have the same parameters."""
        text = "; ".join(
            f"{name} {form(one)}" for name, one in zip(optimizer.names, optimizer.parameters, strict=True)
        )
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.group.meet(
            "DataParallel", f"{len(optimizer.parameters)} parameters, sha256 {digest}, shard {self.shard}"
        )

    def _agree(self) -> None:
        """Give all ranks the parameters' values of the first."""
        for bucket in self._buckets:
            first = bucket.packed(self._parameters, self._parameters)
            bucket.unpack(broadcast(first, 0, self.group), self._parameters)

    def gradient(self, tape: Tape, loss: Any) -> list[Array | None]:
        """The gradients of ``loss``, averaged over the ranks.

        A parameter on which the loss of a rank does not depend has a gradient of zeros there.

        Args:
            tape: recorded ``loss``.
            loss: an array, or a pytree of arrays; the mean over this rank's batch.

        Returns:
            What :meth:`step` takes: with ``shard=0`` the gradient of each parameter of the optimizer, else this
            rank's part of each bucket, and of each parameter that is divided itself.

        Raises:
            DistributedError: a rank is gone, or does not come in time.
        """
        gradients: list[Array | None] = [None] * len(self._parameters)
        waiting = [len(bucket.members) for bucket in self._buckets]
        bucket_of = {i: number for number, bucket in enumerate(self._buckets) for i in bucket.members}
        order, finished = self._finish_order or range(len(self._buckets)), list[int]()
        begun: dict[int, Callable[[], Array]] = {}

        def arrived(i: int, gradient: Array | None) -> None:
            gradients[i] = gradient
            finished.append(i)
            if i in bucket_of:
                waiting[bucket_of[i]] -= 1
            while len(begun) < len(order) and not waiting[number := order[len(begun)]]:
                begun[number] = self._begin(self._buckets[number], gradients)

        tape.gradient(loss, self._parameters, finished=arrived)
        with stop_recording():
            averaged = self._averaged(gradients, begun)
        if self._finish_order is None:
            self._learn(finished)
        if self._square is not None:
            self._returned = [one if one is None else (ref(one), one._storage.version) for one in averaged]
        return averaged

    def _learn(self, order: list[int]) -> None:
        """Let all ranks' buckets follow the order in which the first rank's gradients were finished.

        Those of divided state remain, and begin to travel in this order.
        """
        text = ",".join(map(str, order))
        _, texts = self.group.meet("DataParallel.gradient", "the first", text)
        order = [int(one) for one in texts[0].split(",")] if text else order
        if not self.shard:
            self._buckets = planned(self._given, self.group.size, self._most, order)
        turn = {i: number for number, i in enumerate(order)}
        last = [max(turn[i] for i in bucket.members) for bucket in self._buckets]
        self._finish_order = sorted(range(len(last)), key=last.__getitem__)

    def _begin(self, bucket: Bucket, gradients: Sequence[Array | None]) -> Callable[[], Array]:
        """Begin to average a bucket beside launches; the function that waits for the mean, or this rank's part."""
        with stop_recording():
            flat = bucket.packed(gradients, self._parameters, self._sums)
            note = f" of the gradients of {self._given.names[bucket.members[0]]!r} and {len(bucket.members) - 1} more"
            if self.shard:
                return scattered(flat, "mean", self.group, note, aside=True)
            own = len(bucket.members) > 1  # else it may be a gradient's memory
            return reduced(flat, "mean", self.group, note, aside=True, out=flat if own else None)

    def _averaged(
        self, gradients: list[Array | None], begun: Mapping[int, Callable[[], Array]]
    ) -> list[Array | None]:
        divided = [gradients[i] for i in self._divided]
        if divided and self.group.size > 1:
            divided = self._scaled(divided, self._number(1 / self.group.size))
        self._square = None
        if self._clips and begun:  # the squares of others are added up while the last bucket travels
            *before, last = begun.values()
            arrays = [*divided, *(arrive() for arrive in before)], (arrive() for arrive in (last,))
            apart = self.shard or self._divided
            self._square = self._sum_of_squares(*arrays) if apart else self._squares(*arrays)
        flats = [begun[number]() for number in range(len(begun))]
        if self.shard:
            return [*flats, *divided]
        averaged: list[Array | None] = [None] * len(gradients)
        for i, one in zip(self._divided, divided, strict=True):
            averaged[i] = one
        for bucket, flat in zip(self._buckets, flats, strict=True):
            for i, part in zip(bucket.members, bucket.cut(flat), strict=True):
                averaged[i] = part
        return averaged

    def _sum_of_squares(self, *own: Iterable[Array | None]) -> Array:
        """The sum over ranks of the squares of what each has a part of; each iterable is read after the one before."""
        return all_reduce(self._squares(*own), group=self.group)

    def _squares(self, *arrays: Iterable[Array | None]) -> Array:
        total = self._number(0.0)
        for some in arrays:
            if given := [one for one in some if one is not None]:
                total = _added_square(total, norm_of(given))
        return total

    def _number(self, value: float) -> Array:
        return full((), value, dtype="float64", device=self._parameters[0].device)

    def _scaled(self, arrays: Sequence[Array | None], factor: Array) -> list[Array | None]:
        given = [one for one in arrays if one is not None]
        made = iter(scaled_by(given, factor) if given else ())
        return [None if one is None else next(made) for one in arrays]

    def norm(self, gradients: Sequence[Array | None]) -> Array:
        """The 2-norm of all gradients together, the same on every rank of the group, as float32.

        Where layers are divided over another group, as :class:`ColumnLinear` is, it is that of this rank's parts, and
        differs between the ranks of that group: scale nothing by it that they share.

        Args:
            gradients: of :meth:`gradient`.
        """
        return _root(self._square_of(gradients), 1.0)[0]

    def _square_of(self, gradients: Sequence[Array | None]) -> Array:
        if self.shard:
            return self._sum_of_squares(gradients)
        apart = set(self._divided)
        shared = self._squares([one for i, one in enumerate(gradients) if i not in apart])
        return shared + self._sum_of_squares([gradients[i] for i in apart]) if apart else shared

    def clip(self, gradients: Sequence[Array | None], max_norm: float) -> tuple[list[Array | None], Array]:
        """Scale gradients by one factor so that their :meth:`norm` is at most ``max_norm``.

        Nothing is copied to the host, so that a captured step may clip.

        Args:
            gradients: of :meth:`gradient`, as they are or changed on all ranks: these sum up their squares again, for
                which a rank that changes its own alone would wait in vain.
            max_norm: the largest norm; gradients with a smaller one are not scaled.

        Returns:
            The scaled gradients, and the norm before.

        Raises:
            ValueError: ``max_norm`` is not positive.
            DistributedError: a rank is gone, or does not come in time.
        """
        if not max_norm > 0:
            raise ValueError(f"DataParallel.clip: max_norm: expected a positive number, got {max_norm!r}")
        if self.group.size == 1 and any(one is not None for one in gradients):
            return clip_by_global_norm(list(gradients), max_norm)
        self._clips = True
        with stop_recording():
            square = self._square if self._unchanged(gradients) else None
            norm, factor = _root(self._square_of(gradients) if square is None else square, max_norm)
            return self._scaled(gradients, factor), norm

    def _unchanged(self, gradients: Sequence[Array | None]) -> bool:
        """Whether these are what :meth:`gradient` has returned last, and nothing has written to them."""
        return len(gradients) == len(self._returned) and all(
            one is None if was is None else was[0]() is one and was[1] == one._storage.version
            for one, was in zip(gradients, self._returned, strict=True)
        )

    def step(self, gradients: Sequence[Array | None]) -> None:
        """Update the parameters of all ranks.

        Args:
            gradients: of :meth:`gradient`, possibly scaled, by the same factor on every rank.

        Raises:
            DistributedError: a rank is gone, or does not come in time.
        """
        if not self.shard:
            self.optimizer.step(list(gradients))
        else:
            self._parts.step(self.optimizer, [gradients[k] for k in self._order])

    def _sharded(self) -> Optimizer:
        """An optimizer like the given one, of this rank's parts of the buckets."""
        given = self._given
        # First the largest, as the last one is gathered when nothing is left to update.
        largest = sorted(range(len(self._buckets)), key=lambda k: -self._buckets[k].size)
        self._parts = Parts([self._buckets[k] for k in largest], self._parameters, self.group)
        shards = [self._parts.shards[largest.index(k)] for k in range(len(largest))]
        parts: list[Any] = [*shards, *(self._parameters[i] for i in self._divided)]
        group_of = [bucket.group for bucket in self._buckets]
        group_of += [
            next(number for number, one in enumerate(given.groups) if i in one.members) for i in self._divided
        ]
        self._order = sorted(range(len(parts)), key=lambda k: group_of[k])
        groups = [
            {"params": [parts[k] for k in self._order if group_of[k] == number], **one.options}
            for number, one in enumerate(given.groups)
            if number in group_of
        ]
        made = like(given, groups)
        made._part_of = {
            position: largest.index(k) if k < len(largest) else len(largest)
            for position, k in enumerate(self._order)
        }
        return made

    def state_dict(self) -> dict[str, Array | Piece]:
        """The optimizer's state for :func:`save_checkpoint`, by the names that the plain optimizer gives it.

        Arrays of which this rank has a part are pieces.
        """
        names, own = self._given.names, self.optimizer.state_dict()
        state: dict[str, Array | Piece] = {"steps": own["steps"]}
        for number, k in enumerate(self._order):
            label = self.optimizer.names[number]
            slots = {
                key.rpartition(".")[2]: value for key, value in own.items() if key.rpartition(".")[0] == label
            }
            if self.shard and k < len(self._buckets):
                self._add_pieces(state, self._buckets[k], slots)
                continue
            i = self._divided[k - len(self._buckets)] if self.shard else k
            one: Any = self._parameters[i]
            for slot, value in slots.items():
                if not isinstance(one, Shard):
                    state[f"{names[i]}.{slot}"] = value
                    continue
                own_names = [f"{name}.{slot}" for name in self._members[i]]
                state |= (
                    dict.fromkeys(own_names, value) if slot == "updates" else one.pieces(value, own_names)
                )
        return state

    def _add_pieces(
        self, state: dict[str, Array | Piece], bucket: Bucket, slots: Mapping[str, Array]
    ) -> None:
        for i, piece in self._pieces(bucket):
            for slot, value in slots.items():
                if slot == "updates":
                    state[f"{self._given.names[i]}.{slot}"] = value
                elif piece is not None:
                    begin, end, start = piece
                    one = Piece(value[begin:end], self._parameters[i].shape, start)
                    state[f"{self._given.names[i]}.{slot}"] = one

    def _pieces(self, bucket: Bucket) -> list[tuple[int, tuple[int, int, int] | None]]:
        """For each member, the begin and end of its elements in this rank's part, and the first one's index."""
        share = bucket.size // self.group.size
        low = self.group.rank * share
        pieces: list[tuple[int, tuple[int, int, int] | None]] = []
        for i, offset in zip(bucket.members, bucket.offsets, strict=True):
            begin, end = max(offset, low), min(offset + self._parameters[i].size, low + share)
            pieces.append((i, (begin - low, end - low, begin - offset) if begin < end else None))
        return pieces

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state of :meth:`state_dict` of any number of ranks and either ``shard``, with whole arrays.

        Raises:
            ValueError: as :meth:`.Optimizer.load_state_dict`.
        """
        own: dict[str, Any] = {"steps": state["steps"]}
        for number, k in enumerate(self._order):
            label = self.optimizer.names[number]
            if self.shard and k < len(self._buckets):
                own.update(self._part_of(self._buckets[k], label, state))
                continue
            i = self._divided[k - len(self._buckets)] if self.shard else k
            one: Any = self._parameters[i]
            names = self._members[i] if isinstance(one, Shard) else [self._given.names[i]]
            for key in [key for key in state if key.rpartition(".")[0] == names[0]]:
                slot = key.rpartition(".")[2]
                if isinstance(one, Shard) and slot != "updates":
                    whole = whole_members(one, [f"{name}.{slot}" for name in names], state)
                    own[f"{label}.{slot}"] = one.part(whole)
                else:
                    own[f"{label}.{slot}"] = state[key]
        self.optimizer.load_state_dict(own)

    def _part_of(self, bucket: Bucket, label: str, state: Mapping[str, Any]) -> dict[str, Any]:
        """This rank's part of a bucket's state, from whole arrays."""
        names = self._given.names
        parts: dict[str, Any] = {}
        share = bucket.size // self.group.size
        for i, piece in self._pieces(bucket):
            for key in [key for key in state if key.rpartition(".")[0] == names[i]]:
                slot = key.rpartition(".")[2]
                if slot == "updates":
                    parts[f"{label}.updates"] = state[key]
                    continue
                whole, shape = np.asarray(state[key]), self._parameters[i].shape
                if whole.shape != shape:
                    raise ValueError(f"state: {key!r} has shape {whole.shape}, expected {shape}")
                values = whole.reshape(-1)
                flat = parts.setdefault(f"{label}.{slot}", np.zeros(share, values.dtype))
                if piece is not None:
                    begin, end, start = piece
                    flat[begin:end] = values[start : start + end - begin]
        return parts


@fuse
def _added_square(total: Array, norm: Array) -> Array:
    wide = ops.astype(norm, "float64")
    return total + wide * wide


@fuse
def _root(square: Array, max_norm: float) -> tuple[Array, Array]:
    """A norm, and the factor that clips it."""
    norm = ops.sqrt(square)
    # In this order neither a norm of 0 nor an infinite max_norm gives a NaN.
    return ops.astype(norm, "float32"), 1.0 / ops.maximum(norm / max_norm, 1.0)
