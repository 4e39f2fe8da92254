"""Products of many rows with quantised weights: some weights are dequantised while the product with others is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..array import Array
from ..array.layout import Layout
from ..device import Device
from ..kernel.plan import allocate, on, remember
from ..kernel.sizes import divide_up
from ..launch.variant import prepared
from ..linear import tma
from ..linear.problem import Factor, Gemm
from ..linear.variants import ProductPlan
from .array import QuantArray
from .blocks import dequantized
from .tiles import ended

#: Rows at most: with more the product takes so long that it does not matter what is done beside it. Estimated.
_MOST_ROWS = 1024
_TILE = tma.TMA_TILES[0]


def first_outputs(rows: int, outputs: int, device: Device) -> int:
    """The outputs of the first of two products, which leaves the multiprocessors idle that the second keeps busy.

    The second has as many tiles as fill whole turns of all multiprocessors, the first the rest of them. The weights of
    the second are dequantised by those that the first leaves idle. 0 if all tiles are made in one turn.
    """
    multiprocessors = device.properties.multiprocessors // _TILE.cluster * _TILE.cluster
    down = divide_up(rows, _TILE.tile_m * _TILE.cluster) * _TILE.cluster
    across = divide_up(outputs, _TILE.tile_n)
    turns = divide_up(down * across, multiprocessors) - 1
    second = turns * multiprocessors // down * _TILE.tile_n
    return max(0, outputs - second) if turns else 0


def are_quicker(x: Array, w: QuantArray) -> bool:
    """Whether :func:`product` is sooner than one product after all weights have been dequantised."""
    device = x.device
    if device.style == "serial" or device.properties.compute_capability[0] != 9:
        return False
    fits = x.dtype.itemsize == 2 and w._row.dtype is None and 0 < x.shape[0] <= _MOST_ROWS and w.ndim == 2
    if not fits or w.shape[0] % _TILE.tile_n or not (first := first_outputs(x.shape[0], w.shape[0], device)):
        return False
    return tma.takes(_gemm(x.shape[0], first, x.shape[1], False))


def _gemm(m: int, n: int, k: int, biased: bool) -> Gemm:
    return Gemm(1, m, n, k, Factor(0, k, True), Factor(0, k, True), ((0, 0, 1),) if biased else ())


_plans: dict[tuple[Layout, Layout, bool], ProductPlan] = {}


def _planned(x: Layout, out: Layout, biased: bool) -> ProductPlan:
    key = (x, out, biased)
    plan = _plans.get(key)
    if plan is None:
        (m, k), n, limits = x.shape, out.shape[1], x.device.properties
        tile = replace(_TILE, blocks=max(limits.multiprocessors, _TILE.cluster), with_next=True)
        gemm, result = _gemm(m, n, k, biased), ended(x.dtype, biased)
        launch = tile.launch_of(gemm, result, x.dtype, limits)
        launch = replace(launch, maps=tile.maps(gemm, result, x.dtype, out.strides[-2]))
        with on(x.device):
            plan = remember(_plans, key, ProductPlan(result, (out,), [prepared(tile, launch, x.device)]))
    return plan


def product(x: Array, w: QuantArray, bias: Array | None, first: int) -> Array:
    """``x @ W.T + bias``, of weights rounded to the dtype of ``x``.

    Args:
        x: shape (rows, inputs), float16 or bfloat16, contiguous and aligned.
        w: its kind is one of blocks.
        bias: contiguous, of the dtype of ``x``.
        first: the outputs of the first product, a multiple of 8.
    """
    outputs, inputs = w.shape
    blocks = w._rows()
    with on(x.device):
        data = x.device.backend.empty((x.shape[0], outputs), x.dtype)
        # Allocated before the first launch: kernels that had this memory before, whichever thread launched them, have
        # ended when the first product begins.
        second = allocate(x.device, (outputs - first, inputs), x.dtype)
        for part, into in ((slice(0, first), None), (slice(first, outputs), second)):
            rows = Array._wrap(blocks._data[part], x.device)
            weights = dequantized(rows, w._row, (part.stop - part.start, inputs), x.dtype, into=into)
            result = Array._wrap(data[:, part], x.device)
            given: list[Any] = [x, weights, *([] if bias is None else [bias[part]])]
            layouts = [one._planned() for one in (*given, result)]
            _planned(layouts[0], layouts[-1], bias is not None).run(given, (), result)
    return Array._wrap(data, x.device)
