"""Operators that the tests of ``python -m cukern export`` write."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import cukern as ck

_forward = ck.Kernel(
    """
extern "C" __global__ void << name >>(
    const << elem >>* x, const << elem >>* w, << elem >>* y, << acc >>* sums, int rows, int columns) {
    const int column = blockIdx.x * << block >> + threadIdx.x;
    if (column >= columns) return;
    << acc >> sum = 0;
    for (int row = 0; row < rows; ++row) sum += << acc >>(x[row * columns + column]);
    atomicAdd(&sums[column], sum);
    for (int row = 0; row < rows; ++row) y[row * columns + column] = << acc >>(w[column]) * sum;
}""",
    name="column_sums",
    block=16,
)
_backward = ck.Kernel(
    """
extern "C" __global__ void << name >>(const << elem >>* w, const << acc >>* sums, const << elem >>* g,
                                      << elem >>* dx, << elem >>* dw, int rows, int columns) {
    const int column = blockIdx.x * << block >> + threadIdx.x;
    if (column >= columns) return;
    << acc >> sum = 0;
    for (int row = 0; row < rows; ++row) sum += << acc >>(g[row * columns + column]);
    dw[column] = sum * sums[column];
    for (int row = 0; row < rows; ++row) dx[row * columns + column] = << acc >>(w[column]) * sum;
}""",
    name="column_sums_backward",
    block=16,
)


class ColumnSums(ck.Function):
    """The sums of columns times weights, in each row; all kernels are its own."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        rows, columns = x.shape
        y, sums = ck.empty_like(x), ck.zeros(columns, dtype="float32")
        _forward(x, w, y, sums, rows, columns, grid=-(-columns // 16))
        ctx.save_for_backward(w, sums)
        ctx.rows = rows
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        w, sums = ctx.saved_arrays
        dx, dw = ck.empty_like(g), ck.empty_like(w)
        _backward(w, sums, g, dx, dw, ctx.rows, w.size, grid=-(-w.size // 16))
        return dx, dw


class Scaled(ck.Function):
    """Two outputs by kernels of the library, with a constant."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return ck.softmax(x * factor), ck.argmax(x, axis=-1)

    @staticmethod
    def backward(ctx: Any, g: Any, indices: Any) -> Any:
        (x,) = ctx.saved_arrays
        y = ck.softmax(x * ctx.factor)
        return ctx.factor * y * (g - ck.sum(g * y, axis=-1, keepdims=True)), None


def by_numpy(x: Any) -> Any:
    """What no kernel computes."""
    return ck.asarray(np.exp(x.numpy()), device=x.device) + 1.0


with contextlib.suppress(ImportError):  # PyTorch is not everywhere
    twice = ck.Kernel(
        """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n, float factor) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = factor * << acc >>(x[i]);
}""",
        name="twice",
    ).to_torch(lambda x, n, factor: x, name="exported::twice")

_copy = ck.Kernel(
    """
extern "C" __global__ void << name >>(const float* x, const int* table, float* y, int n, bool even) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = x[i] * table[0] + even;
}""",
    name="copy",
)


class Table(ck.Function):
    """With a constant that depends on sizes, and a number that depends on divisibility in the backward."""

    @staticmethod
    def forward(ctx: Any, stream: Any) -> Any:
        y, size = ck.empty_like(stream), np.array([stream.size], np.int32)
        _copy(stream, ck.asarray(size, device=stream.device), y, stream.size, True)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        dx, one = ck.empty_like(grad), ck.asarray(np.array([1], np.int32), device=grad.device)
        _copy(grad, one, dx, grad.size, grad.size % 4 == 0)
        return dx


#: Not a function.
number = 3
