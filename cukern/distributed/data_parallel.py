"""Data-parallel training: each rank has its own batch; gradients are averaged in buckets during the backward pass."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import empty, zeros
from ..autodiff.tape import Tape, stop_recording
from ..dtypes import DType
from ..elementwise.fuse import fuse
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..optim.clip import clip_by_global_norm
from ..optim.multi import Copies
from ..optim.optimizer import Optimizer
from ..shape.copy import contiguous
from .blocks import divide_blocks, like, require_no_steps
from .buckets import Bucket, planned
from .checkpoint import Piece
from .collectives import all_reduce, broadcast, form, gathered, reduced, scattered
from .group import Group, world
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
        bucket_bytes: the size at which a bucket is complete.

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
        bucket_bytes: int = 25 << 20,
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
        self._buckets = planned(optimizer, self.group.size, bucket_bytes)
        #: The launches that pack or unpack a bucket.
        self._copies: dict[tuple[Bucket, DType], Copies] = {}
        self._agree()
        self._versions: list[int] = []
        self._shards: list[Parameter] = []
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
            first = broadcast(self._packed(bucket, self._parameters), 0, self.group)
            self._unpack(bucket, first)

    def _packed(self, bucket: Bucket, arrays: Sequence[Array | None], dtype: Any = None) -> Array:
        """The arrays of a bucket's members in flat memory; zeros for None and between them."""
        like = self._parameters[bucket.members[0]]
        wanted = like.dtype if dtype is None else dtype
        members = [self._parameters[i] for i in bucket.members]
        given = []
        for one, parameter in zip([arrays[i] for i in bucket.members], members, strict=True):
            values = zeros(parameter.shape, dtype=wanted, device=like.device) if one is None else one
            given.append(values.astype(wanted, copy=False).contiguous())
        if len(given) == 1 and given[0].size == bucket.size:
            return given[0].reshape(-1)
        flat = empty(bucket.size, dtype=wanted, device=like.device)
        for begin, end in bucket.gaps([one.size for one in members]):
            flat[begin:end] = 0
        self._copy(bucket, given, self._cut(bucket, flat))
        return flat

    def _copy(self, bucket: Bucket, given: Sequence[Array], results: Sequence[Array]) -> None:
        """Copy the members' values between them and the bucket."""
        key = bucket, given[0].dtype
        if key not in self._copies:
            sizes = [self._parameters[i].size for i in bucket.members]
            self._copies[key] = Copies(given[0].device, given[0].dtype, sizes)
        self._copies[key](given, results)

    def _cut(self, bucket: Bucket, flat: Array) -> list[Array]:
        """The members' parts of flat memory, as views in their shapes."""
        parts = []
        for i, offset in zip(bucket.members, bucket.offsets, strict=True):
            one = self._parameters[i]
            parts.append(flat[offset : offset + one.size].reshape(one.shape))
        return parts

    def _unpack(self, bucket: Bucket, flat: Array) -> None:
        members = [self._parameters[i] for i in bucket.members]
        with stop_recording():
            values = self._cut(bucket, flat)
            for k, one in enumerate(members):
                if not one.is_contiguous:  # its memory is in another order
                    values[k] = contiguous(values[k], one._planned().order)
            self._copy(bucket, values, members)
            for one in members:
                one._bump("DataParallel.step")

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
        begun: list[Callable[[], Array]] = []

        def arrived(i: int, gradient: Array | None) -> None:
            gradients[i] = gradient
            if i in bucket_of:
                waiting[bucket_of[i]] -= 1
            while len(begun) < len(waiting) and waiting[len(begun)] == 0:
                begun.append(self._begin(self._buckets[len(begun)], gradients))

        tape.gradient(loss, self._parameters, finished=arrived)
        with stop_recording():
            return self._averaged(gradients, [finish() for finish in begun])

    def _begin(self, bucket: Bucket, gradients: Sequence[Array | None]) -> Callable[[], Array]:
        with stop_recording():
            flat = self._packed(bucket, gradients, self._sums)
            fresh = len(bucket.members) > 1  # else it may be a gradient's memory
            note = f" of the gradients of {self._given.names[bucket.members[0]]!r} and {len(bucket.members) - 1} more"
            if self.shard:
                return scattered(flat, "mean", self.group, note, aside=True)
            return reduced(flat, "mean", self.group, note, reuse=fresh, aside=True)

    def _averaged(self, gradients: list[Array | None], means: Sequence[Array]) -> list[Array | None]:
        share = 1 / self.group.size
        for i in self._divided:
            one = gradients[i]
            gradients[i] = None if one is None else one * share
        if self.shard:
            return [*means, *(gradients[i] for i in self._divided)]
        averaged: list[Array | None] = [
            gradients[i] if i in self._divided else None for i in range(len(gradients))
        ]
        for bucket, mean in zip(self._buckets, means, strict=True):
            for i, part in zip(bucket.members, self._cut(bucket, mean), strict=True):
                averaged[i] = part
        return averaged

    def norm(self, gradients: Sequence[Array | None]) -> Array:
        """The 2-norm of all gradients together, the same on every rank of the group, as float32.

        Where layers are divided over another group, as :class:`ColumnLinear` is, it is that of this rank's parts, and
        differs between the ranks of that group: scale nothing by it that they share.

        Args:
            gradients: of :meth:`gradient`.
        """
        given = [(i, one) for i, one in enumerate(gradients) if one is not None]
        apart = range(len(gradients)) if self.shard else self._divided
        own = [_squares(one) for i, one in given if i in apart]
        shared = [_squares(one) for i, one in given if i not in apart]
        total = zeros((), dtype="float32", device=self._parameters[0].device)
        for one in own:
            total = total + one
        if len(apart):
            total = all_reduce(total, group=self.group)
        for one in shared:
            total = total + one
        return ops.sqrt(total)

    def clip(self, gradients: Sequence[Array | None], max_norm: float) -> tuple[list[Array | None], Array]:
        """Scale gradients by one factor so that their :meth:`norm` is at most ``max_norm``.

        Nothing is copied to the host, so that a captured step may clip.

        Args:
            gradients: of :meth:`gradient`.
            max_norm: the largest norm; gradients with a smaller one are not scaled.

        Returns:
            The scaled gradients, and the norm before.

        Raises:
            ValueError: ``max_norm`` is not positive.
        """
        if not max_norm > 0:
            raise ValueError(f"DataParallel.clip: max_norm: expected a positive number, got {max_norm!r}")
        if not self.shard and not self._divided and any(one is not None for one in gradients):
            return clip_by_global_norm(list(gradients), max_norm)
        norm = self.norm(gradients)
        factor = 1.0 / ops.maximum(norm / max_norm, 1.0)
        return [None if one is None else _times(one, factor) for one in gradients], norm

    def step(self, gradients: Sequence[Array | None]) -> None:
        """Update the parameters of all ranks.

        Args:
            gradients: of :meth:`gradient`, possibly scaled, by the same factor on every rank.

        Raises:
            DistributedError: a rank is gone, or does not come in time.
        """
        if not self.shard:
            self.optimizer.step(list(gradients))
            return
        if self._versions != self._written():
            self._take_parameters()
        self.optimizer.step(self._ordered(gradients))
        with stop_recording():
            begun = [gathered(part, self.group, aside=True) for part in self._shards]
            for bucket, finish in zip(self._buckets, begun, strict=True):
                self._unpack(bucket, finish())
        self._versions = self._written()

    def _written(self) -> list[int]:
        return [one._storage.version for one in self._parameters]

    def _take_parameters(self) -> None:
        """Set this rank's parts to the present values of the parameters."""
        with stop_recording():
            for bucket, part in zip(self._buckets, self._shards, strict=True):
                part[...] = self._own(bucket, self._packed(bucket, self._parameters))
        self._versions = self._written()

    def _own(self, bucket: Bucket, flat: Array) -> Array:
        share = bucket.size // self.group.size
        return flat[self.group.rank * share : (self.group.rank + 1) * share]

    def _sharded(self) -> Optimizer:
        """An optimizer like the given one, of this rank's parts of the buckets."""
        given = self._given
        for bucket in self._buckets:
            self._shards.append(Parameter(self._own(bucket, self._packed(bucket, self._parameters))))
        self._versions = self._written()
        parts: list[Any] = [*self._shards, *(self._parameters[i] for i in self._divided)]
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
        return like(given, groups)

    def _ordered(self, values: Sequence[Any]) -> list[Any]:
        return [values[k] for k in self._order]

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
def _squares(x: Array) -> Array:
    return ops.sum(x * x, dtype="float32")


@fuse
def _times(x: Array, factor: Array) -> Array:
    return ops.astype(x * factor, x.dtype)
