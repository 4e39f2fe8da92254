"""How threads share the elements of channels: packs of a thread, parts of a channel, and what kernels know of both."""

from __future__ import annotations

from typing import NamedTuple

from ...device.interface import Properties
from ...kernel.sizes import ACCESS, divide_up, index_type, power_of_two
from ...launch import cost
from ...launch.params import Given, Params
from .problem import ChannelNorm, Places

_NUMBERS = ("outer", "channels", "inner", "each", "blocks", "together", "before")
_SIZES = Params("Sizes", **dict.fromkeys(_NUMBERS, "index"))

#: Threads of a block of a GPU, and those that neighbouring packs of channels have at most.
_BLOCK, _ACROSS = 256, 32
#: The most channels of a thread that lie innermost, where it holds several numbers of each.
_WIDTH = 4
#: Packs of each array that a thread has on their way.
_UNROLL = 4
#: Elements of a part on the host, and parts at most; the most elements of a pack there.
_HOST_PART, _HOST_PARTS, _HOST_WIDTH = 4096, 8, 64


class Share(NamedTuple):
    """How the threads of a block share an array: template variables of places.cuh.

    Attributes:
        block: threads of a block.
        across: those that have neighbouring packs of channels.
        width: elements of a pack.
        unroll: packs of each array that a thread has on their way.
        last: whether channels lie innermost.
        resident: blocks that a multiprocessor has at a time.
        lanes: sums of each channel of a thread, side by side, of which the host's compiler makes vectors.
    """

    block: int
    across: int
    width: int
    unroll: int
    last: bool
    resident: int = 1
    lanes: int = 1

    @property
    def step(self) -> int:
        """Elements of a channel that a block has at a time."""
        return self.block // self.across * (1 if self.last else self.width)

    def whole(self, part: int) -> int:
        """Elements of a part of a channel, at least so many, that are whole packs."""
        return part if self.last else divide_up(part, self.width) * self.width

    def blocks(self, places: Places) -> int:
        """Those of an instance, each of which has channels of its own."""
        return divide_up(places.channels, self.across * self.width) if self.last else places.channels


#: How threads of a GPU share results of constants, by whether channels lie innermost: few numbers each, as of
#: elementwise functions.
_OF_CONSTANTS = {False: Share(128, 1, 1, 4, False, 8), True: Share(128, 1, 1, 4, True, 6)}


def width_of(neighbours: int, most: int) -> int:
    """Elements of a pack, of neighbours that are whole packs."""
    while neighbours % most:
        most //= 2
    return most


def share_of(problem: ChannelNorm, item: int, limits: Properties) -> Share:
    """How threads share arrays, of which the widest has elements of so many bytes."""
    places, of_constants = problem.places, problem.constant and problem.dy is None
    last, neighbours = places.last, places.channels if places.last else places.inner
    most = ACCESS // item if of_constants or not last else min(ACCESS // item, _WIDTH)
    if cost.is_host(limits):
        most = _HOST_WIDTH
    width = width_of(neighbours, most if problem.aligned else 1)
    if cost.is_host(limits):
        return Share(1, 1, width, 1, last, lanes=1 if last else width)
    across = min(_ACROSS, power_of_two(neighbours // width)) if last else 1
    if of_constants:
        return _OF_CONSTANTS[last]._replace(across=across, width=width)
    narrow = last and item * width < ACCESS
    unroll = 2 * _UNROLL if narrow and problem.dy is None else _UNROLL
    return Share(_BLOCK, across, width, unroll, last, 3 if last and not narrow else 4)


class Cut(NamedTuple):
    """Blocks along x, parts along y, and the kernels' Sizes and the type of their numbers."""

    blocks: int
    parts: int
    sizes: Given
    integer: str


def sizes_of(places: Places, step: int, each: int, blocks: int, before: int = 1) -> tuple[Given, str]:
    """The kernels' Sizes, and the type of their numbers.

    Args:
        step: elements of a channel that a block has at a time.
        each: those of a part.
        blocks: those of an instance.
        before: parts of the kernel before, which this one takes backwards.
    """
    row = places.channels * places.inner
    index = index_type(places.instances * places.outer * row + (step // places.inner + 2) * row)
    numbers = (places.outer, places.channels, places.inner, each, blocks, places.together, before)
    return _SIZES(**dict(zip(_NUMBERS, numbers, strict=True))), index


def cut(places: Places, share: Share, limits: Properties, busy: int, least: int, before: int = 1) -> Cut:
    """How the sequences of channels are cut.

    Args:
        busy: blocks a multiprocessor.
        least: packs of a thread, unless there is one part only.
        before: parts of the kernel before, which this one takes backwards.
    """
    blocks = share.blocks(places)
    if cost.is_host(limits):
        parts = min(_HOST_PARTS, places.sequence // _HOST_PART)
    else:
        wanted = busy * limits.multiprocessors // (blocks * places.instances)
        parts = min(wanted, divide_up(places.sequence, share.step * least), limits.max_grid[1])
    turns = max(1, parts // before)
    each = share.whole(divide_up(divide_up(places.sequence, before), turns))
    sizes, index = sizes_of(places, share.step, each, blocks, before)
    parts = divide_up(places.sequence, each) if before == 1 else before * turns
    return Cut(blocks * places.instances, parts, sizes, index)


def cut_of_sums(places: Places, share: Share, limits: Properties) -> Cut:
    """How sums are cut: as many blocks as are resident."""
    return cut(places, share, limits, share.resident, 2 * share.unroll)


def cut_after_sums(places: Places, share: Share, limits: Properties, busy: int) -> Cut:
    """How results are cut that take the parts of sums backwards."""
    before = cut_of_sums(places, share, limits).parts
    return cut(places, share, limits, busy, share.unroll, before)
