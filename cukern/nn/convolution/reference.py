"""Convolutions and their gradients by their definition, tap by tap: what the kernels are compared with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import zeros
from ...elementwise.function import evaluate
from .problem import Convolution, WeightsGradient, Windows


def _grouped(x: Array, axis: int, groups: int) -> Array:
    return ops.reshape(x, (*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :]))


def _taps(windows: Windows, kernel: Sequence[int], output: Sequence[int]) -> Iterator[tuple[Any, Any]]:
    """Each tap, and the elements of the padded image that it reads."""
    for tap in itertools.product(*map(range, kernel)):
        starts = [t * d for t, d in zip(tap, windows.dilation, strict=True)]
        axes = zip(starts, output, windows.stride, strict=True)
        yield (..., *tap), (..., *(slice(a, a + (n - 1) * s + 1, s) for a, n, s in axes))


def _padded(windows: Windows, kernel: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
    """The size of an image with its padding, as far as windows read it."""
    axes = zip(windows.stride, windows.dilation, kernel, output, strict=True)
    return tuple((n - 1) * s + d * (k - 1) + 1 for s, d, k, n in axes)


def _image(x: Array, windows: Windows, size: Sequence[int]) -> Array:
    """An image with padding, of this size: cut where windows do not read."""
    before = [(0, 0), (0, 0)]
    for n, pad, whole in zip(x.shape[2:], windows.padding, size, strict=True):
        before.append((pad, max(0, whole - pad - n)))
    return ops.pad(x, before)[(..., *(slice(0, n) for n in size))]


def convolution(problem: Convolution) -> Any:
    """What computes a convolution, or the gradient of its image, and its epilogue by single operations."""
    windows, kernel, size, groups = problem.windows, problem.kernel, problem.size, problem.windows.groups
    acc = dtypes.info(problem.elem).acc
    axes = "xyz"[: len(kernel)]

    def forward(x: Array, w: Array) -> Any:
        image = _grouped(_image(x, windows, _padded(windows, kernel, size)), 1, groups)
        y = zeros((x.shape[0], groups, problem.filters, *size), acc, device=x.device)
        for tap, read in _taps(windows, kernel, size):
            y = y + ops.einsum(f"ngc{axes},gfc->ngf{axes}", image[read], _grouped(w[tap], 0, groups))
        return y

    def transposed(dy: Array, w: Array) -> Any:
        whole = _padded(windows, kernel, dy.shape[2:])
        whole = tuple(max(n, p + m) for n, p, m in zip(whole, windows.padding, size, strict=True))
        dx = zeros((dy.shape[0], groups, w.shape[1], *whole), acc, device=dy.device)
        for tap, read in _taps(windows, kernel, dy.shape[2:]):
            dx[read] += ops.einsum(
                f"ngf{axes},gfc->ngc{axes}", _grouped(dy, 1, groups), _grouped(w[tap], 0, groups)
            )
        inner = (slice(p, p + n) for p, n in zip(windows.padding, size, strict=True))
        return dx[(..., *inner)]

    def compute(x: Array, w: Array, *rest: Any) -> Array:
        result = (transposed if problem.transposed else forward)(ops.astype(x, acc), ops.astype(w, acc))
        y = ops.astype(ops.reshape(result, problem.shape), problem.elem)
        if problem.epilogue is None:
            return y
        count = len(problem.epilogue.inputs) - 1
        columns = [
            one if one.ndim == y.ndim else ops.reshape(one, (*one.shape, *(1,) * (y.ndim - 2)))
            for one in rest[:count]
        ]
        return evaluate(problem.epilogue, (y, *columns), rest[count:])[0]

    return compute


def weights_gradient(problem: WeightsGradient) -> Any:
    """What computes the gradient of a convolution's weights by single operations."""
    windows, kernel, groups = problem.windows, problem.kernel, problem.windows.groups
    acc = dtypes.info(problem.elem).acc
    axes = "xyz"[: len(kernel)]

    def compute(dy: Array, x: Array) -> Array:
        size = dy.shape[2:]
        image = _grouped(_image(ops.astype(x, acc), windows, _padded(windows, kernel, size)), 1, groups)
        of_output = _grouped(ops.astype(dy, acc), 1, groups)
        dw = zeros((groups, problem.filters, problem.channels, *kernel), acc, device=x.device)
        for tap, read in _taps(windows, kernel, size):
            dw[tap] = ops.einsum(f"ngf{axes},ngc{axes}->gfc", of_output, image[read])
        return ops.astype(ops.reshape(dw, problem.shape), problem.dtype)

    return compute
