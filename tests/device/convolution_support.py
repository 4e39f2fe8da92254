"""The definition of convolutions in NumPy, in float64, and what a convolution and its gradients are compared with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from nn_support import Sized, close, random

import cukern as ck
from cukern import nn


def several(value: Any, axes: int) -> tuple[int, ...]:
    return (value,) * axes if isinstance(value, int) else tuple(value)


class Definition:
    """A convolution of an image (N, C, ...) with weights, tap by tap."""

    def __init__(
        self, axes: int, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, **_: Any
    ) -> None:
        self.groups = groups
        self.stride, self.dilation = several(stride, axes), several(dilation, axes)
        pairs = padding if isinstance(padding, list) else [(p, p) for p in several(padding, axes)]
        self.padding = [(0, 0), (0, 0), *pairs]

    def output(self, size: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        given = zip(size, kernel, self.stride, self.padding[2:], self.dilation, strict=True)
        return tuple((n + sum(p) - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in given)

    def taps(self, kernel: Sequence[int], output: Sequence[int]) -> Any:
        """Each tap, and the elements of the padded image that it reads."""
        for tap in itertools.product(*map(range, kernel)):
            starts = [t * d for t, d in zip(tap, self.dilation, strict=True)]
            given = zip(starts, output, self.stride, strict=True)
            yield (..., *tap), (..., *(slice(a, a + (n - 1) * s + 1, s) for a, n, s in given))

    def forward(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        output = self.output(x.shape[2:], w.shape[2:])
        x = self.grouped(np.pad(x, self.padding), 1)
        y = np.zeros((x.shape[0], self.groups, w.shape[0] // self.groups, *output))
        for tap, read in self.taps(w.shape[2:], output):
            y += np.einsum("ngc...,gfc->ngf...", x[read], self.grouped(w[tap], 0))
        return y.reshape(x.shape[0], w.shape[0], *output)

    def image(self, dy: np.ndarray, w: np.ndarray, size: Sequence[int]) -> np.ndarray:
        """The image's gradient, and the transposed convolution."""
        whole = [n + sum(p) for n, p in zip(size, self.padding[2:], strict=True)]
        dx = np.zeros((dy.shape[0], self.groups, w.shape[1], *whole))
        for tap, read in self.taps(w.shape[2:], dy.shape[2:]):
            dx[read] += np.einsum("ngf...,gfc->ngc...", self.grouped(dy, 1), self.grouped(w[tap], 0))
        inner = tuple(slice(p[0], p[0] + n) for p, n in zip(self.padding[2:], size, strict=True))
        return dx.reshape(dy.shape[0], self.groups * w.shape[1], *whole)[(..., *inner)]

    def weights(self, dy: np.ndarray, x: np.ndarray, kernel: Sequence[int]) -> np.ndarray:
        x, dy = self.grouped(np.pad(x, self.padding), 1), self.grouped(dy, 1)
        dw = np.zeros((self.groups, dy.shape[2], x.shape[2], *kernel))
        axes = "xyz"[: len(kernel)]
        for tap, read in self.taps(kernel, dy.shape[3:]):
            dw[tap] = np.einsum(f"ngf{axes},ngc{axes}->gfc", dy, x[read])
        return dw.reshape(dw.shape[0] * dw.shape[1], *dw.shape[2:])

    def grouped(self, x: np.ndarray, axis: int) -> np.ndarray:
        return x.reshape(*x.shape[:axis], self.groups, x.shape[axis] // self.groups, *x.shape[axis + 1 :])


def innermost(x: ck.Array) -> ck.Array:
    """The same array with channels innermost in memory."""
    return ck.moveaxis(ck.moveaxis(x, 1, -1).contiguous(), -1, 1)


def check(
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    dtype: str = "float32",
    last: bool = False,
    transposed: bool = False,
    ulps: float | None = None,
    output_padding: Any = 0,
    **options: Any,
) -> None:
    """Value and gradients of a convolution with a bias, in the memory order of ``x``."""
    axes = len(w_shape) - 2
    x, w = random(0, x_shape, dtype), random(1, w_shape, dtype)
    filters = w_shape[1] * options.get("groups", 1) if transposed else w_shape[0]
    bias = random(2, (filters,), dtype)
    if last:
        x, w = innermost(x), innermost(w)
    if transposed:
        function = getattr(nn, f"conv_transpose{axes}d")
        options["output_padding"] = output_padding
    else:
        function = getattr(nn, f"conv{axes}d")
    y, pull = ck.vjp(lambda x, w, bias: function(x, w, bias, **options), x, w, bias)
    dy = random(3, y.shape, dtype)
    found = (y, *pull(innermost(dy) if last else dy))
    a, b, c, d = (one.numpy().astype(np.float64) for one in (x, w, bias, dy))
    of = Definition(axes, **options)

    def results(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
        if transposed:
            made = of.image(a, b, y.shape[2:]), of.forward(d, b), of.weights(a, d, w_shape[2:])
        else:
            made = of.forward(a, b), of.image(d, b, x_shape[2:]), of.weights(d, a, w_shape[2:])
        return [made[0] + c.reshape(-1, *(1,) * axes), *made[1:], d.sum((0, *range(2, 2 + axes)))]

    # The results are sums of products: the squares of the terms show the size of what is rounded.
    squares = results(a * a, b * b, c * c, d * d)
    for one, want, square in zip(found, results(a, b, c, d), squares, strict=True):
        assert one.dtype == x.dtype
        close(one, Sized(want, np.sqrt(square)), ulps)
    for one in found[:2]:
        assert not last or one.shape[1] == 1 or not one.size or one.strides[1] == one.itemsize
