"""Padding of planes, and channels exchanged for neighbours: compositions of views and copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import namespace as ops
from ..array import Array
from ..elementwise.operands import require_array
from ..errors import require_choice
from .fused import is_int, require_shape
from .module import OfFunction

#: The modes of :func:`cukern.pad` by PyTorch's names.
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}

#: A width for all axes after the second, or a pair for each of the last axes.
Widths = int | Sequence[tuple[int, int]]


def pad(x: Array, padding: Widths, mode: str = "constant", value: float = 0.0) -> Array:
    """``x`` with further elements before and after those of its last axes, by :func:`cukern.pad`.

    Pairs are in the order of the axes, as NumPy's. PyTorch's flat tuple begins with the last axis: its
    ``(1, 2, 3, 4)`` is ``[(3, 4), (1, 2)]`` here, and is refused.

    Args:
        x: any array.
        padding: the number of elements ``(before, after)`` for each of the last axes, as many pairs as axes are padded;
            or one number for both ends of every axis after the second. Negative numbers cut elements off first.
        mode: ``"constant"``; ``"reflect"`` mirrors without the edge, ``"replicate"`` repeats the edge, ``"circular"``
            continues from the other end.
        value: the constant.

    Raises:
        TypeError: ``padding`` is neither an int nor pairs of ints.
        ValueError: more is cut off than there is, there are more pairs than axes, no such mode, or nothing to repeat.

    >>> import cukern as ck
    >>> ck.nn.pad(ck.asarray([[1, 2, 3]]), [(2, 1)], "reflect").tolist()
    [[3, 2, 1, 2, 3, 2]]
    """
    x = require_array(x, "pad")
    if is_int(padding):
        pairs: list[Any] = [(padding, padding)] * max(0, x.ndim - 2)
    else:
        pairs = list(padding) if isinstance(padding, Sequence) else [padding]
        if not all(
            isinstance(one, (tuple, list)) and len(one) == 2 and all(map(is_int, one)) for one in pairs
        ):
            raise TypeError(
                f"pad: padding: expected an int, or a pair (before, after) for each of the last axes in their order, "
                f"got {padding!r}; PyTorch's (1, 2, 3, 4) is [(3, 4), (1, 2)]"
            )
    if len(pairs) > x.ndim:
        raise ValueError(
            f"pad: padding: expected at most {x.ndim} pairs for shape {x.shape}, got {padding!r}"
        )
    require_choice("pad: mode", mode, _MODES)
    widths = [(0, 0)] * (x.ndim - len(pairs)) + [tuple(one) for one in pairs]
    if any(n < 0 for pair in widths for n in pair):
        ends = [(max(0, -a), n - max(0, -b)) for (a, b), n in zip(widths, x.shape, strict=True)]
        if any(start > stop for start, stop in ends):
            raise ValueError(f"pad: padding: {padding!r} cuts off more than shape {x.shape} has")
        x = x[tuple(slice(*one) for one in ends)]
        widths = [(max(0, a), max(0, b)) for a, b in widths]
    options: dict[str, Any] = {"constant_values": value} if mode == "constant" else {}
    return ops.pad(x, widths, _MODES[mode], **options)


def _require_factor(name: str, x: Array, factor: int) -> Array:
    x = require_array(x, name)
    if not is_int(factor) or factor < 1:
        raise ValueError(f"{name}: factor: expected an int of at least 1, got {factor!r}")
    require_shape(name, "x", x, ..., "C", "H", "W")
    return x


def pixel_shuffle(x: Array, factor: int) -> Array:
    """Channels as neighbours: each ``factor ** 2`` channels become one, with planes ``factor`` times as large.

    Element ``[c, h * factor + i, w * factor + j]`` is ``x[(c * factor + i) * factor + j, h, w]``.

    Args:
        x: shape (..., C * factor ** 2, H, W), any dtype.
        factor: how much a plane grows along each axis.

    Returns:
        Shape (..., C, H * factor, W * factor).

    Raises:
        ValueError: ``factor`` is less than 1, or its square does not divide the channels.

    Source: Shi and others, "Real-time single image and video super-resolution using an efficient sub-pixel
    convolutional neural network", 2016.

    >>> import cukern as ck
    >>> ck.nn.pixel_shuffle(ck.arange(4).reshape(4, 1, 1), 2).tolist()
    [[[0, 1], [2, 3]]]
    """
    x = _require_factor("pixel_shuffle", x, factor)
    *outer, channels, height, width = x.shape
    if channels % factor**2:
        raise ValueError(
            f"pixel_shuffle: x: expected a multiple of {factor**2} channels, got shape {x.shape}"
        )
    n, channels_out = len(outer), channels // factor**2
    split = ops.reshape(x, (*outer, channels_out, factor, factor, height, width))
    permuted = ops.permute_dims(split, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return ops.reshape(permuted, (*outer, channels_out, height * factor, width * factor))


def pixel_unshuffle(x: Array, factor: int) -> Array:
    """The inverse of :func:`pixel_shuffle`: neighbours as channels.

    Args:
        x: shape (..., C, H * factor, W * factor), any dtype.
        factor: how much a plane shrinks along each axis.

    Returns:
        Shape (..., C * factor ** 2, H, W).

    Raises:
        ValueError: ``factor`` is less than 1, or does not divide a plane's sizes.

    >>> import cukern as ck
    >>> ck.nn.pixel_unshuffle(ck.asarray([[[0, 1], [2, 3]]]), 2).tolist()
    [[[0]], [[1]], [[2]], [[3]]]
    """
    x = _require_factor("pixel_unshuffle", x, factor)
    *outer, channels, height, width = x.shape
    if height % factor or width % factor:
        raise ValueError(f"pixel_unshuffle: x: expected planes of multiples of {factor}, got shape {x.shape}")
    n = len(outer)
    split = ops.reshape(x, (*outer, channels, height // factor, factor, width // factor, factor))
    permuted = ops.permute_dims(split, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return ops.reshape(permuted, (*outer, channels * factor**2, height // factor, width // factor))


class Pad(OfFunction, of=pad): ...


class PixelShuffle(OfFunction, of=pixel_shuffle): ...


class PixelUnshuffle(OfFunction, of=pixel_unshuffle): ...
