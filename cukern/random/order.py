"""Random permutations: a sort by random 32-bit keys; runs of equal keys are then shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..array import Array
from ..index.sort import sorted_rows
from ..kernel import Kernel
from ..kernel.plan import compiled, launch, threads
from ..kernel.sizes import divide_up

_TIES = Kernel("random/ties.cu", block=256)
#: Elements per thread, on the host and on a GPU.
_PIECES = {"serial": 1 << 16, "simt": 16}


def random_order(words: Array, counter: Any, key: Sequence[int]) -> Array:
    """A random permutation of the integers below n, int64: they are sorted by random ``words``, (n,).

    Args:
        words: uint32.
        counter: the counter of the stream that orders those of equal ``words``, or an ndarray that holds it.
        key: the stream's key.
    """
    device, n = words.device, words.size
    keys, indices = sorted_rows(words, True, False)
    if n > 1:
        block = threads(device, 256)
        piece = _PIECES[device.style]
        form = {"name": f"random_ties_{block}", "block": block, "live": not isinstance(counter, int)}
        values = (keys._data, indices._data, n, piece, counter, *key)
        launch(device, compiled(_TIES, device, **form), divide_up(n, block * piece), block, values)
    return indices
