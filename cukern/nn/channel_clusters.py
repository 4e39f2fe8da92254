"""Batch and group normalization in one launch, where a cluster of blocks, or the grid, has whole groups of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from .. import dtypes
from ..array import Array
from ..array.creation import empty
from ..array.layout import ALIGNMENT, address
from ..device import Device
from ..device.interface import Properties
from ..kernel import Kernel
from ..kernel.sizes import ACCESS, divide_up, power_of_two
from .channel_layout import ChannelLayout, Share, bound, packed_sizes

_apply = Kernel("nn/channel_norm/cluster_apply.cu")
_gradients = Kernel("nn/channel_norm/cluster_gradients.cu")

#: The most channels that a block takes one after another.
_MEMBERS = 32
#: The most threads that have neighbouring packs of channels.
_ACROSS = 32
#: Packs of an array that a thread keeps, unless clusters have too few blocks.
_KEPT = 25
#: Bytes of a block's other shared memory.
_OTHER = 8 << 10
#: The least part of the multiprocessors that gets a block.
_BUSY = 0.9
#: Waves of clusters from which on blocks are persistent over units.
_TURNS = 1.2
#: Waves of one block a multiprocessor from which on keeping pays, unless all run at once.
_PAYS = 2.5
#: The most blocks of a cluster that fits on every multiprocessor.
_PLACED = 2
#: The most blocks of a multiprocessor that, of one array, prefetch the next unit.
_ASKING = 2
#: Threads per block.
_BLOCK = 256
#: Packs of each array in flight per thread.
_UNROLL = 4
#: Elements of a pack of innermost channels.
_WIDTH = 4
#: The fewest bytes of one array in a cluster, if blocks share it.
_LEAST = 96 << 10
#: The most bytes of one array in a cluster.
_MOST = 1 << 20
#: The most bytes of one array in a single block.
_ALONE = 64 << 10
#: Bytes of a kept row that a block has.
_SECTION = 128
#: Bytes of arrays that are too few to keep rows.
_FEW = 3 << 20
#: The most blocks of a cluster for kept rows.
_SMALL = 2
#: Units of kept rows up to which each may have all blocks, in any dtype.
_ALONE_TURNS = 2
#: The same for one array of float32.
_ALONE_FLOATS = 8
#: Bytes of a block's other shared memory besides sums, for kept rows.
_RESERVED = 1 << 10
#: Bytes of a channel of which a result needs more than four blocks.
_FEW_RESULTS = 512 << 10
#: Bytes of a channel of which a derivative does.
_FEW_DERIVATIVES = 128 << 10
#: Bytes of a channel of which it needs more threads.
_FEW_THREADS = 320 << 10


class Form(NamedTuple):
    """How clusters share an array.

    Attributes:
        share: how the threads of a block do.
        cluster: blocks of a cluster.
        members: channels that a block takes one after another.
        kept: packs of each array that a thread keeps of a channel; 0 if it reads them again.
        turns: units of channels that a cluster takes one after another.
        wide: whether what is said of clusters holds for all blocks of a grid that have the same channels.
        asked: of those kept of the next unit, packs that are sent for while blocks wait for each other.
    """

    share: Share
    cluster: int
    members: int
    kept: int = 0
    turns: int = 1
    wide: bool = False
    asked: int = 0

    def here(self) -> int:
        """Channels of a block."""
        return self.share.across * self.share.width if self.share.last else self.members

    def each(self, layout: ChannelLayout) -> int:
        """Elements of a channel that a block has."""
        grain = 1 if self.share.last else self.share.width
        return divide_up(divide_up(layout.outer * layout.inner, self.cluster), grain) * grain

    def keeping(self, layout: ChannelLayout) -> Form:
        """The form that keeps what it reads."""
        return self._replace(kept=divide_up(self.each(layout), self.share.step))

    def asking(self, whole: bool = False) -> Form:
        """The form that asks for what it keeps next, or half of it, while blocks wait for each other."""
        return self._replace(asked=self.kept if whole else self.kept // 2)

    def memory(self, items: int) -> int:
        """Bytes of dynamic shared memory, of elements of so many bytes in all arrays together."""
        return self.members * self.kept * self.share.block * self.share.width * items

    def sums(self, acc: int) -> int:
        """Bytes of other shared memory, for sums of so many bytes: two a warp of each channel, and a few numbers."""
        return (2 * self.share.block // 32 + 12) * self.here() * acc


def form_of(
    layout: ChannelLayout, arrays: Sequence[Array], item: int, acc: dtypes.DType, derivative: bool
) -> Form | None:
    """How clusters share an array; None where kernels for sums and results do better, or no block has whole groups.

    Args:
        item: bytes of an element of the widest of all arrays.
        acc: the dtype of sums.
        derivative: whether the kernel computes gradients.
    """
    device, last = arrays[0].device, layout.inner == 1
    if device.style == "serial" or not all(address(one._data) % ALIGNMENT == 0 for one in arrays):
        return None
    items = sum(one.itemsize for one in arrays)
    if layout.instances == layout.together == 1:
        key = layout, device.properties, item
        if last:
            return kept_rows(*key, items, acc.itemsize)
        return kept_channels(*key, items, acc.itemsize) or _of_channels(*key, derivative)
    if last and (form := kept_rows(layout, device.properties, item, items, acc.itemsize)):
        return form
    units = layout.instances if last else layout.groups
    bytes_of_unit = layout.outer * layout.channels * layout.inner * layout.instances // units * item
    if last:
        width = _width(layout.channels, min(_WIDTH, ACCESS // item))
        across = layout.channels // width
        busy = 8 * units >= device.properties.multiprocessors and _LEAST <= bytes_of_unit <= _MOST
        if (
            across > _ACROSS
            or across & (across - 1)
            or device.properties.max_blocks_per_cluster < 8
            or not busy
        ):
            return None
        return Form(Share(_BLOCK, across, width, _UNROLL, True, 4), 8, 1)
    small = bytes_of_unit <= _ALONE and layout.together <= _MEMBERS
    if not derivative or not small or units < 4 * device.properties.multiprocessors:
        return None
    width = _width(layout.inner, ACCESS // item)
    packs = divide_up(layout.outer * layout.inner, width)
    # That of which the fewest threads have nothing in the last round.
    block = min(range(_BLOCK // 2, _BLOCK + 1, 32), key=lambda threads: divide_up(packs, threads) * threads)
    form = Form(Share(block, 1, width, _UNROLL, False, 4), 1, layout.together)
    return _fitting(form.keeping(layout), device.properties, items, acc.itemsize) or form


def _fitting(form: Form, limits: Properties, items: int, acc: int) -> Form | None:
    """The form, with as many blocks of a multiprocessor as its shared memory lets; None if it has too little."""
    other = max(_OTHER // form.share.resident, form.sums(acc))
    resident = min(form.share.resident, limits.max_shared_memory_per_block // (form.memory(items) + other))
    return form._replace(share=form.share._replace(resident=resident)) if resident else None


def kept_channels(layout: ChannelLayout, limits: Properties, item: int, items: int, acc: int) -> Form | None:
    """How clusters keep the channels of a batch, which do not lie innermost; None where that is slow or does not fit.

    Args:
        item: bytes of an element of the widest of all arrays.
        items: bytes of an element of each array that is read, together.
        acc: bytes of a sum.
    """
    processors, most = limits.multiprocessors, min(8, limits.max_blocks_per_cluster)
    width, cluster = _width(layout.inner, ACCESS // item), 1

    def keeping(block: int) -> Form:
        share = Share(block, 1, width, _UNROLL, False, 4 * _BLOCK // block)
        return Form(share, cluster, 1).keeping(layout)

    def is_busy(parts: int) -> bool:
        return layout.channels * cluster >= _BUSY * parts * processors

    while cluster < most and not (keeping(_BLOCK).kept <= _KEPT and is_busy(1)):
        cluster *= 2
    wide = keeping(_BLOCK).kept > _KEPT
    if not wide and cluster > 1 and is_busy(2) and layout.channels * cluster <= 2 * processors:
        cluster, wide = cluster // 2, True  # a block of more threads on each multiprocessor
    if _PLACED < cluster < most and layout.channels * cluster > 2 * processors:
        cluster = most  # of small blocks, for which there is a place on more multiprocessors
    form = _fitting(keeping(2 * _BLOCK if wide else _BLOCK), limits, items, acc)
    if form is None or not is_busy(1):
        return None
    rounds = layout.channels * cluster / (processors * form.share.resident)
    if form.share.resident == 1 < rounds < _PAYS:
        return None
    if rounds < _TURNS:
        return form
    form = form._replace(turns=max(2, math.ceil(rounds)) if cluster <= _PLACED else 2)
    return form.asking() if items > item or form.share.resident <= _ASKING else form


@cache
def kept_rows(layout: ChannelLayout, limits: Properties, item: int, items: int, acc: int) -> Form | None:
    """How blocks that all run at once keep channels that lie innermost; None where that is slow or does not fit.

    Args:
        item: bytes of an element of the widest of all arrays.
        items: bytes of an element of each array that is read, together.
        acc: bytes of a sum, of which arrays besides these may decide, as running statistics do.
    """
    width, blocks = _width(layout.channels, ACCESS // item), limits.multiprocessors
    packs = layout.channels // width
    across = min(packs, _SECTION // (width * item))
    bytes_read = layout.instances * layout.outer * layout.channels * items
    if bytes_read < _FEW or across & (across - 1) or packs % across or across * width % layout.together:
        return None
    units, share = layout.instances * packs // across, Share(_BLOCK, across, width, _UNROLL, True)
    for beside in range(min(units, blocks), 0, -1):
        turns, alone = units // beside, beside == 1 and units > _ALONE_TURNS
        if units % beside or (alone and (items > 4 or item < 4 or turns > _ALONE_FLOATS)):
            continue
        form = Form(
            share._replace(block=2 * _BLOCK) if alone else share, blocks // beside, 1, turns=turns, wide=True
        )
        if form.cluster <= min(_SMALL, limits.max_blocks_per_cluster):
            form = form._replace(cluster=power_of_two(form.cluster + 1) // 2, wide=False)
        form = form.keeping(layout)
        if turns > 1:
            form = form.asking(whole=alone)
        if form.memory(items) + form.sums(acc) + _RESERVED <= limits.max_shared_memory_per_block:
            return form
    return None


def _of_channels(layout: ChannelLayout, limits: Properties, item: int, derivative: bool) -> Form | None:
    """How clusters share the channels of a batch, which do not lie innermost, and read them again."""
    bytes_of_channel = layout.outer * layout.inner * item
    if limits.max_blocks_per_cluster < 8 or not _LEAST <= bytes_of_channel <= _MOST:
        return None
    cluster = 8 if bytes_of_channel > (_FEW_DERIVATIVES if derivative else _FEW_RESULTS) else 4
    if layout.channels * cluster < limits.multiprocessors:
        return None
    block = 2 * _BLOCK if derivative and bytes_of_channel > _FEW_THREADS else _BLOCK
    width = _width(layout.inner, ACCESS // item)
    return Form(Share(block, 1, width, _UNROLL, False, 4 * _BLOCK // block), cluster, 1)


def _width(neighbours: int, most: int) -> int:
    """Elements of a pack, of neighbours that are whole packs."""
    while neighbours % most:
        most //= 2
    return most


def _grid(form: Form, layout: ChannelLayout) -> tuple[tuple[int, int], tuple[bytes, int], str]:
    """The grid, the kernels' struct Sizes and the number of units, and the type of the sizes."""
    blocks = divide_up(layout.channels, form.here())
    sizes, index = packed_sizes(layout, form.share.step, form.each(layout), blocks)
    units = layout.instances * blocks
    return (divide_up(units, form.turns), form.cluster), (sizes, units), index


def _variables(form: Form, layout: ChannelLayout, index: str, device: Device) -> dict[str, object]:
    own = {
        "cluster": form.cluster,
        "wide": form.wide,
        "whole": layout.channels % form.here() == 0,
        # On the host the blocks that wait for each other are a cluster.
        "dims": 1 if form.wide and device.style == "simt" else form.cluster,
        "members": form.members,
        "kept": form.kept,
        "asked": form.asked,
        "streaming": True,
        "backwards": False,
        "index": index,
    }
    return {**own, **form.share._asdict()}


def _partials(form: Form, units: int, like: Array, numbers: int) -> tuple[Array, ...]:
    """Where the blocks of a wide form leave some numbers of each channel of each unit."""
    return (empty((units, form.cluster, form.here(), numbers), like.dtype, like.device),) if form.wide else ()


def normalized(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running: Sequence[Array | None],
    momentum: float,
    layout: ChannelLayout,
    form: Form,
    result: dtypes.DType,
    acc: dtypes.DType,
    eps: float,
) -> tuple[Array, Array] | None:
    """The normalized ``x`` and the statistics of groups, of ``x`` as it lies in memory.

    None from a recorded GPU's grid, whose blocks do not meet: its kernel is only compiled.

    Args:
        running: the running mean and variance, and momentum, or None each.
    """
    y, statistics = empty(x.shape, result, x.device), empty((layout.groups, 3), acc, x.device)
    grid, sizes, index = _grid(form, layout)
    types = {
        "elem": x.dtype,
        "out": result,
        "acc": acc,
        "param": next((one.dtype for one in (weight, bias) if one is not None), x.dtype),
        "running": acc if running[0] is None else running[0].dtype,
    }
    kernel = bound(
        _apply,
        x.device,
        "channel_norm",
        derivative=False,
        **types,
        **_variables(form, layout, index, x.device),
    )
    if form.wide and not x.device.backend.grids_meet:
        return None
    partials = _partials(form, sizes[1], statistics, 3)
    arguments = (x, weight, bias, statistics, *running, y, *sizes, *partials, eps, momentum)
    kernel(arguments, grid, form.memory(x.itemsize))
    return y, statistics


def differentiated(
    x: Array,
    dy: Array,
    weight: Array | None,
    statistics: Array,
    outputs: Sequence[Array | None],
    layout: ChannelLayout,
    form: Form,
    scale: float,
) -> bool:
    """Write the gradients ``outputs``, of weight and bias for each instance, and of ``x``, or None each.

    Returns:
        False from a recorded GPU's grid, whose blocks do not meet: its kernel is only compiled.
    """
    grid, sizes, index = _grid(form, layout)
    acc = statistics.dtype
    types = {
        "elem": x.dtype,
        "out": dy.dtype,
        "acc": acc,
        "param": acc if weight is None else weight.dtype,
        "grad": next((one.dtype for one in outputs[:2] if one is not None), acc),
    }
    kernel = bound(
        _gradients,
        x.device,
        "channel_norm_gradients",
        derivative=True,
        **types,
        **_variables(form, layout, index, x.device),
    )
    if form.wide and not x.device.backend.grids_meet:
        return False
    partials = _partials(form, sizes[1], statistics, 2)
    arguments = (x, dy, statistics, weight, *outputs, *sizes, *partials, scale)
    kernel(arguments, grid, form.memory(x.itemsize + dy.itemsize))
    return True
