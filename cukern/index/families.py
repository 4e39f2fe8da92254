"""The families of scans and of sorts, their references, and problems for which they are measured."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..device import Device, device
from ..launch.family import Family
from .scan_variants import Columns, Rows, Scanning, Serial, Tiles
from .sort_variants import Merge, Radix, RadixRuns, Sorting


def scan_reference(problem: Scanning) -> Callable[..., Array]:
    """Steps of doubled distances (Hillis and Steele) by NumPy or CuPy, in the dtype in which kernels accumulate."""
    xp, axis = problem.device.xp, problem.axis
    binary = {"cumsum": xp.add, "cumprod": xp.multiply, "cummax": xp.maximum, "cummin": xp.minimum}
    direction = slice(None, None, -1 if problem.reverse else None)

    def compute(*arrays: Array) -> Array:
        states = [x.astype(problem.accumulator)._data for x in arrays]
        states = [xp.moveaxis(x, axis, 0)[direction].copy() for x in states]
        distance = 1
        while distance < len(states[0]):
            before, after = [x[:-distance] for x in states], [x[distance:] for x in states]
            if len(states) == 2:
                made = [before[0] * after[0], xp.where(before[1] == 0, 0, after[0] * before[1]) + after[1]]
            else:
                made = [binary[problem.scan](*before, *after)]
            for x, one in zip(after, made, strict=True):
                x[...] = one
            distance *= 2
        result = states[-1]
        if problem.lead:
            start = xp.full((1, *result.shape[1:]), problem.scan == "cumprod", result.dtype)
            result = xp.concatenate([start, result])
        return Array._wrap(xp.moveaxis(result[direction], 0, axis), problem.device).astype(problem.value)

    return compute


def sort_reference(problem: Sorting) -> Callable[[Array], list[Array]]:
    """NumPy's or CuPy's stable sort; in descending order of reversed rows, as equal elements keep their order."""
    xp, down = problem.device.xp, (..., slice(None, None, -1 if problem.descending else None))

    def compute(x: Array) -> list[Array]:
        data = x.astype(dtypes.float32)._data if x.dtype in dtypes.NARROW else x._data
        order = xp.argsort(data[down], axis=-1, kind="stable")[down]
        order = data.shape[-1] - 1 - order if problem.descending else order
        found = [xp.take_along_axis(data, order, -1), order][: len(problem.results)]
        made = [Array._wrap(one, problem.device) for one in found]
        return [one.astype(of.dtype) for one, of in zip(made, problem.results, strict=True)]

    return compute


#: Shapes of models, scanned or sorted along their middle axes: vectors, probabilities, tokens of experts, sequences.
_MODELS = ((1, 2**24, 1), (64, 151936, 1), (16384, 64, 1), (1, 65536, 64), (8, 4096, 2048), (1, 2**20, 3))


def _drawn(where: Device, seed: int) -> Iterator[tuple[random.Random, Array]]:
    """Numbers below 1 in the shapes of models, then in others without end; with what draws more."""
    draw, numbers, models = random.Random(seed), np.random.default_rng(seed), iter(_MODELS)
    while True:
        inner = draw.choice((1, 2 ** draw.randint(0, 12)))
        n = 1 + draw.randrange(2 ** draw.randint(2, 24)) // inner
        outer, n, inner = next(models, (2 ** draw.randint(0, 14), n, inner))
        outer = min(outer, 2 ** (20 if where.addressable else 26) // (n * inner))
        if outer:
            with device(where):
                yield draw, asarray(numbers.uniform(-1, 1, (outer, n, inner)).astype(np.float32))


def scans(where: Device, seed: int) -> Iterator[tuple[Scanning, tuple[Array, ...]]]:
    """Problems of scans."""
    for draw, x in _drawn(where, seed):
        scan = draw.choice(("cumsum", "cumsum", "cummax", "recurrence"))
        x = x.astype(draw.choice((dtypes.bfloat16, dtypes.float32)))
        arrays = (x, x) if scan == "recurrence" else (x,)
        yield Scanning((x._planned(),) * len(arrays), scan, 1, x.dtype), arrays


def sorts(where: Device, seed: int) -> Iterator[tuple[Sorting, tuple[Array, ...]]]:
    """Problems of sorts."""
    for draw, x in _drawn(where, seed):
        dtype = draw.choice((dtypes.bfloat16, dtypes.float32, dtypes.int32, dtypes.int64))
        x = (2**20 * x).astype(dtype).reshape((-1, x.shape[1]))
        yield Sorting((x._planned(),), draw.random() < 0.5, draw.random() < 0.2), (x,)


SCAN: Family[Scanning] = Family("scan", Serial, Rows, Tiles, Columns, reference=scan_reference, samples=scans)
SORT: Family[Sorting] = Family("sort", Radix, RadixRuns, Merge, reference=sort_reference, samples=sorts)
