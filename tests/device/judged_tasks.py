"""Tasks for the judge's tests, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

import cukern as ck

Task = ck.testing.Task


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layer_norm(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + eps) * weight + bias


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def swish(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def sum_all(x: Any) -> Any:
    return np.sum(x, keepdims=True)


def bins(keys: Any) -> Any:
    return np.bincount(keys, minlength=16)


def keys(rng: np.random.Generator, shape: tuple[int, ...], sizes: dict[str, int]) -> Any:
    return rng.integers(0, 16, shape)


def rows_of(rng: np.random.Generator, shape: tuple[int, ...], sizes: dict[str, int]) -> Any:
    return rng.integers(0, sizes["rows"], shape)


FINITE = ["normal", "zeros", "sparse", "repeated", "permuted", "offset", "small", "denormal"]

TASKS = {
    "scale": Task(
        "scale(const float x[n], float y[n], int n, float a, float b)",
        lambda x, a, b: a * x + b,
        [{"n": 1024}],
        scalars={"a": 1.5, "b": -0.25},
    ),
    "gelu": Task(
        "gelu(const T x[n], T y[n], int n)",
        gelu,
        [{"n": 512}],
        dtypes=["float32", "float16"],
        aligned=False,
        values=[*FINITE, "nan", "inf"],
    ),
    "add": Task(
        "add(inout float y[n], const float x[n], int n)", lambda y, x: y + x, [{"n": 512}], deterministic=True
    ),
    "sum": Task(
        "sum(const float x[n], float y[1], int n)", sum_all, [{"n": 4096}, {"n": 1000}], values=FINITE
    ),
    "row_sums": Task(
        "row_sums(const float x[rows][columns], float y[rows], int rows, int columns)",
        lambda x: np.sum(x, axis=1),
        [{"rows": 32, "columns": 256}],
        large=[{"rows": 40000, "columns": 50000}],
    ),
    "softmax": Task(
        "softmax(const float x[rows][columns], float y[rows][columns], int rows, int columns)",
        softmax,
        [{"rows": 16, "columns": 128}],
    ),
    "layer_norm": Task(
        "layer_norm(const float x[rows][columns], const float weight[columns], const float bias[columns], "
        "float y[rows][columns], int rows, int columns, float eps)",
        layer_norm,
        [{"rows": 16, "columns": 128}],
        scalars={"eps": 1e-5},
        values=["normal", "zeros", "repeated", "permuted", "offset", "small", "nan"],
    ),
    "matmul": Task(
        "matmul(const float a[m][k], const float b[k][n], float c[m][n], int m, int n, int k)",
        lambda a, b: a @ b,
        [{"m": 64, "n": 48, "k": 32}],
        values=["normal", "zeros", "repeated", "permuted", "nan"],
    ),
    "transpose": Task(
        "transpose(const T x[rows][columns], T y[columns][rows], int rows, int columns)",
        lambda x: np.transpose(x),
        [{"rows": 64, "columns": 96}],
        dtypes=["float32", "float64"],
        large=[{"rows": 50000, "columns": 50000}],
    ),
    "scan": Task(
        "scan(const float x[rows][columns], float y[rows][columns], int rows, int columns)",
        lambda x: np.cumsum(x, axis=1),
        [{"rows": 4, "columns": 256}],
        values=FINITE,
    ),
    "histogram": Task(
        "histogram(const int keys[n], int counts[16], int n)",
        bins,
        [{"n": 2000}],
        draw={"keys": keys},
        values=[],
    ),
    "gather": Task(
        "gather(const float x[rows][columns], const int index[n], float y[n][columns], int rows, int columns, int n)",
        lambda x, index: x[index],
        [{"rows": 50, "columns": 32, "n": 70}],
        draw={"index": rows_of},
    ),
    "swish": Task(
        "swish(const float x[n], float y[n], int n)",
        swish,
        [{"n": 300}],
        backward="swish_backward(const float x[n], const float g_y[n], float d_x[n], int n)",
        values=FINITE,
    ),
    "softmax_grad": Task(
        "softmax(const float x[rows][columns], float y[rows][columns], int rows, int columns)",
        softmax,
        [{"rows": 8, "columns": 40}],
        backward="softmax_backward(const float y[rows][columns], const float g_y[rows][columns], "
        "float d_x[rows][columns], int rows, int columns)",
        values=["normal", "offset"],
    ),
}
