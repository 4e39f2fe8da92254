"""Random order: elements sorted by random words, and those of equal words shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ..array import Array
from ..device import Device
from ..device.interface import CompiledFunction
from ..index.sort import sorted_rows
from ..kernel import Kernel
from ..kernel.plan import launch
from ..kernel.sizes import divide_up

_TIES = Kernel("random/ties.cu", block=256)
#: Elements that a thread looks at, on the host and on a GPU.
_PIECES = {"serial": 1 << 16, "simt": 16}


@cache
def _shuffling(device: Device, in_memory: bool, block: int) -> CompiledFunction:
    return _TIES.bind(device, name=f"random_ties_{block}", block=block, live=in_memory).function


def random_order(words: Array, counter: Any, key: Sequence[int]) -> Array:
    """The numbers below n in an order by ``words`` (n,), random ones of 32 bits, as int64.

    Args:
        words: uint32.
        counter: where the stream is that orders those of equal ``words``, or an ndarray that holds this.
        key: the stream's key.
    """
    device, n = words.device, words.size
    keys, indices = sorted_rows(words, True, False)
    assert indices is not None
    if n > 1:
        block = 1 if device.style == "serial" else 256
        piece = _PIECES[device.style]
        function = _shuffling(device, not isinstance(counter, int), block)
        values = (keys._data, indices._data, n, piece, counter, *key)
        launch(device, function, divide_up(n, block * piece), block, values)
    return indices
