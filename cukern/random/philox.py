"""Philox4x32-10: random bits from a key and a counter.

So a stream does not depend on the number of threads that draw it, and different keys give independent streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from .. import dtypes
from ..array import Array
from ..device import Device
from ..device.interface import CompiledFunction
from ..kernel import Kernel
from ..kernel.plan import launch, threads
from ..kernel.sizes import divide_up

_KERNEL = Kernel("random/bits.cu", block=256)
#: Groups of integers that the host draws at once, in vectors.
_STRETCH = 64
#: Groups of four words that a host thread draws in sequence.
_HOST_PIECE = 4096
#: The most groups that a thread of a GPU draws in sequence.
_PIECE = 8
#: Blocks that keep a GPU busy.
_BLOCKS = 1056
WORD = 0xFFFFFFFF


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox4x32-10 of four counter words and two key words, as Python integers."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ k0, q & WORD, (p >> 32) ^ d ^ k1, p & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return [a, b, c, d]


@cache
def _bound(
    device: Device, dtype: dtypes.DType, kind: str, in_memory: bool, located: bool
) -> tuple[CompiledFunction, int]:
    """The kernel for a kind of number, and its block size."""
    info = dtypes.info(dtype)
    block = threads(device, 256)
    each, whole = numbers(dtype, kind), kind.removeprefix("short ")
    variables = {"elem": dtype, "block": block, "kind": whole, "each": each, "live": in_memory}
    variables["located"] = located
    variables["stretch"] = _STRETCH if block == 1 and kind == "short integers" else 1
    if info.kind == "f":
        variables["digits"] = info.digits
    elif kind == "geometric":
        variables |= {"acc": "double", "digits": 53}
    name = f"random_{kind.replace(' ', '_')}_{info.name}_{block}" + "_located" * located
    return _KERNEL.bind(device, name=name, **variables).function, block


def numbers(dtype: dtypes.DType, kind: str) -> int:
    """How many numbers four words give."""
    if kind == "short integers":
        return 4
    return 2 if kind == "integers" or dtype.itemsize == 8 else 4


def draw(
    device: Device,
    kind: str,
    dtype: dtypes.DType,
    result: Array,
    groups: int,
    counter: Any,
    rest: Sequence[float],
    located: tuple[float, float] | tuple[()] = (),
) -> None:
    """Fill an array with numbers of a kind.

    Args:
        groups: of four random words.
        counter: the stream's counter, or an ndarray that holds it.
        rest: the key, and further arguments of the kind.
        located: of floats, a number to add and one by which each is multiplied first.
    """
    function, block = _bound(device, dtype, kind, not isinstance(counter, int), bool(located))
    piece = _HOST_PIECE if block == 1 else max(1, min(_PIECE, groups // (block * _BLOCKS)))
    launch(
        device,
        function,
        divide_up(groups, piece * block),
        block,
        (result, result.size, piece, counter, *rest, *located),
    )
