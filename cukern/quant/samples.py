"""What results of products with quantised weights are compared with, and problems for which variants are measured."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import dtypes
from .. import namespace as ops
from .. import random as numbers_of
from ..array import Array
from ..array.creation import ones
from ..array.layout import fresh_layout
from ..device import Device, device
from ..kernel.plan import serial
from .array import QuantArray, from_blocks
from .kinds import KINDS
from .problem import MOST_ROWS, Quantised
from .rows import plane_layouts, rounding
from .variants import Dense

#: Outputs and inputs of the matrices of Llama 3 of 8 billion weights.
_MODELS = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096))
#: Where blocks have their scales, in float16.
_SCALES = {"Q4_0": (0,), "Q8_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}
#: Products of weights and rows at most, on a GPU and on the host.
_MOST, _MOST_ON_HOST = 2**38, 2**24


def _rounded(x: Array) -> Array:
    """Each 32 neighbours as multiples of 1/127 of the largest of them, float32."""
    x = ops.reshape(ops.astype(x, dtypes.float32), (x.shape[0], -1, 32))
    largest = ops.max(ops.abs(x), axis=-1, keepdims=True)
    inverse = ops.where(largest > 0, 127 / largest, 0)
    made: Array = ops.reshape(ops.rint(x * inverse) * (largest / 127), (x.shape[0], -1))
    return made


def product(problem: Quantised) -> Callable[..., Array]:
    """The product with dequantised weights, in float32 where activations are rounded to 8 bits."""
    limits, wide = problem.device.properties, dtypes.float32
    if not problem.rounds(limits):
        return Dense().plan(problem, limits)
    layout = fresh_layout(problem.device, wide, problem.x.shape)
    dense = Dense().plan(problem._replace(x=layout, exact=True), limits)

    def compute(x: Array, blocks: Array, *bias: Array) -> Array:
        made: Array = ops.astype(
            dense(_rounded(x), blocks, *(ops.astype(one, wide) for one in bias)), x.dtype
        )
        return made

    return compute


def settled(problem: Quantised) -> Callable[..., Array]:
    """The same of a decoder's step, with what comes before and behind."""
    kind = problem.kind

    def compute(
        blocks: Array, x: Any, numbers: Any, factors: Any, added: Any, norm: Any, eps: float
    ) -> Array:
        if problem.given == "rounded":
            scales = Array._wrap(factors._data.view(dtypes.float32), problem.device)[:, :1]
            each = ops.reshape(ops.astype(numbers, dtypes.float32), (-1, kind.scaled))
            own = ops.reshape(each * scales, numbers.shape)
        else:
            own = x if norm is None else x / ops.sqrt(ops.mean(x * x) + eps) * norm
            own = _rounded(ops.reshape(own, (1, -1)))
        w = QuantArray._of(blocks, kind, problem.weights)._dense(dtypes.float32)
        y = ops.matmul(own, ops.matrix_transpose(w))
        if problem.gate:
            half = problem.sizes[1]
            y = getattr(ops, problem.gate)(y[:, :half]) * y[:, half:]
        result: Array = y if added is None else y + added
        return result

    return compute


def _weights(
    where: Device, seed: int, rows_of: Callable[[random.Random], int]
) -> Iterator[tuple[random.Random, int, QuantArray]]:
    """Weights of models, then others without end, in random blocks, and numbers of rows for them."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    shapes = iter([one for one in _MODELS for _ in range(6)])
    while True:
        outputs, inputs = next(shapes, None) or (
            2 ** draw.randint(6, 14) * draw.choice((2, 3)) // 2,
            2 ** draw.randint(8, 14),
        )
        name, rows = draw.choice(tuple(_SCALES)), rows_of(draw)
        if rows * outputs * inputs > (_MOST_ON_HOST if where.addressable else _MOST):
            continue
        kind = KINDS[name]
        blocks = rng.integers(0, 256, (outputs, inputs // kind.weights, kind.bytes), np.uint8)
        for at in _SCALES[name]:
            scales = (0.01 * rng.standard_normal((*blocks.shape[:2], 1))).astype(np.float16)
            blocks[..., at : at + 2] = scales.view(np.uint8)
        yield draw, rows, from_blocks(blocks, (outputs, inputs), name, where)


def products(where: Device, seed: int) -> Iterator[tuple[Quantised, tuple[Array, ...]]]:
    """Problems of calls, without end: of the few rows of a step, and of the many of a prompt."""
    for draw, rows, w in _weights(where, seed, lambda draw: 2 ** draw.choice((0, 1, 3, *range(4, 12)))):
        dtype, transposed = draw.choice((dtypes.bfloat16, dtypes.float32)), draw.random() < 0.2
        with device(where):
            rng = numbers_of.default_rng(rows)
            x = ops.astype(rng.standard_normal((rows, w.shape[int(not transposed)]), dtype="float32"), dtype)
            bias = (ones(w.shape[0], dtype),) if draw.random() < 0.5 and not transposed else ()
        yield (
            Quantised(x._planned(), w._row, w.shape, bool(bias), transposed=transposed),
            (x, w.blocks, *bias),
        )


def steps(where: Device, seed: int) -> Iterator[tuple[Quantised, tuple[Any, ...]]]:
    """Problems of a decoder's step, without end."""
    for draw, rows, w in _weights(where, seed, lambda draw: draw.choice((1, 1, 1, 2, MOST_ROWS))):
        given = "rounded" if rows > 1 else draw.choice(("rounded", "normed", "plain"))
        gate = draw.choice(("", "silu")) if given == "normed" else ""
        with device(where):
            x = numbers_of.default_rng(rows).standard_normal((rows, w.shape[1]), dtype="float32")
            arrays: tuple[Any, ...] = (x, None, None)
            if given == "rounded":
                planes = [Array._made(one) for one in plane_layouts(where, x.shape, w._row)]
                rounding(x._planned(), w._row, serial(where))[1]((x, *planes))
                arrays = (None, *planes)
            norm = ones(w.shape[1]) if given == "normed" else None
        problem = Quantised(x._planned(), w._row, w.shape, given=given, gate=gate)
        yield problem, (w.blocks, *arrays, None, norm, 1e-5)
