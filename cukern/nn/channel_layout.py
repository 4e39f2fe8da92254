"""Where the channels of an array lie in memory, and how the threads of the norms' kernels share them."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

from .. import dtypes
from ..device import Device
from ..kernel import Kernel
from ..kernel.bound import BoundKernel
from ..kernel.sizes import index_type


class ChannelLayout(NamedTuple):
    """How an array lies in memory: as (instances, outer, channels, inner), after its axes were taken in ``order``.

    Attributes:
        together: the number of neighbouring channels of an instance that share statistics.
    """

    order: tuple[int, ...]
    instances: int
    outer: int
    channels: int
    inner: int
    together: int

    @property
    def groups(self) -> int:
        """The number of statistics of all instances."""
        return self.instances * self.channels // self.together


class Share(NamedTuple):
    """How threads share an array: the template variables of walk.cuh that depend on its sizes.

    Attributes:
        block: threads of a block.
        across: those that have neighbouring packs of channels.
        width: elements of a pack.
        unroll: packs of each array that a thread has on their way.
        last: whether channels lie innermost.
        resident: blocks that a multiprocessor has at a time.
    """

    block: int
    across: int
    width: int
    unroll: int
    last: bool
    resident: int = 1

    @property
    def step(self) -> int:
        """Elements of a channel that a block has at a time."""
        return self.block // self.across * (1 if self.last else self.width)


def packed_sizes(
    layout: ChannelLayout, step: int, each: int, blocks: int, before: int = 1
) -> tuple[bytes, str]:
    """The kernels' struct Sizes, and the type of its numbers.

    Args:
        step: elements of a channel that a block has at a time.
        each: those of a part.
        blocks: blocks of an instance.
        before: parts of the kernel before, which this one takes backwards.
    """
    row = layout.channels * layout.inner
    index = index_type(layout.instances * layout.outer * row + (step // layout.inner + 2) * row)
    numbers = (layout.outer, layout.channels, layout.inner, each, blocks, layout.together, before)
    return struct.pack(f"7{'i' if index == 'int' else 'q'}", *numbers), index


@cache
def bound(kernel: Kernel, device: Device, name: str, **variables: Any) -> BoundKernel:
    cxx = {
        k: dtypes.info(variables.pop(k)).cxx for k in ("out", "param", "running", "grad") if k in variables
    }
    return kernel.bind(device, name=name, **cxx, **variables)
