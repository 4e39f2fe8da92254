"""Layer norm and its gradient by single operations: for derivatives of higher order, and to compare kernels with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ... import random as numbers
from ...array import Array
from ...array.creation import zeros
from ...device import Device, device
from .problem import Normalization


def layer_norm_reference(
    x: Array,
    normalized_ndim: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    centered: bool = True,
) -> Array:
    """:func:`.layer_norm` of checked arguments, or unless ``centered`` :func:`.rms_norm`, as a composition."""
    axes = tuple(range(-normalized_ndim, 0))
    apart = ops.subtract(x, ops.mean(x, axis=axes, keepdims=True)) if centered else x
    variance = ops.mean(ops.square(apart), axis=axes, keepdims=True)
    y = ops.divide(apart, ops.sqrt(ops.add(variance, eps)))
    y = y if weight is None else ops.multiply(y, weight)
    return y if bias is None else ops.add(y, bias)


def normalization(problem: Normalization) -> Callable[..., list[Array]]:
    """What computes the result, and the statistics as ``templates/nn/layer_norm/statistics.cuh`` has them."""
    groups, columns = problem.groups or 1, problem.columns
    channels = groups, columns // problem.inner, 1

    def compute(x: Array, *given: Any) -> list[Array]:
        *residual, weight, bias, eps = given
        x = ops.add(x, residual[0]) if residual else x
        rows = ops.reshape(ops.astype(x, problem.acc), (-1, columns))
        mean = (
            ops.mean(rows, axis=1, keepdims=True)
            if problem.centered
            else zeros((problem.rows, 1), problem.acc, x.device)
        )
        rstd = 1 / ops.sqrt(ops.mean((rows - mean) ** 2, axis=1, keepdims=True) + eps)
        y = ops.reshape((rows - mean) * rstd, (-1, *channels[:2], problem.inner))
        y = y if weight is None else y * ops.reshape(weight, channels)
        y = y if bias is None else y + ops.reshape(bias, channels)
        first = rows[:, :1] if problem.centered else 0 * mean
        found = [first, mean - first, rstd][0 if problem.groups else 1 :]
        made = [ops.astype(ops.reshape(y, x.shape), x.dtype), ops.concat(found, axis=1)]
        return [*made, x] if residual else made

    return compute


def gradient(problem: Normalization) -> Callable[..., list[Array]]:
    """What computes the gradients that are wanted, of statistics as :func:`normalization` has them."""

    def mean(x: Array) -> Array:
        return ops.mean(x, axis=1, keepdims=True)

    def compute(x: Array, dy: Array, weight: Array | None, statistics: Array, *plus: Array) -> list[Array]:
        rows, given = (ops.reshape(ops.astype(one, problem.acc), (-1, problem.columns)) for one in (x, dy))
        first = rows[:, :1] if problem.centered else 0.0
        normal = (rows - first - statistics[:, :1]) * statistics[:, 1:]
        g = given if weight is None else given * ops.astype(weight, problem.acc)
        apart = g - normal * mean(g * normal) - (mean(g) if problem.centered else 0.0)
        sums = [
            ops.sum(one, axis=0)
            for one, want in zip((given * normal, given), problem.wanted, strict=True)
            if want
        ]
        dx = ops.reshape(apart * statistics[:, 1:], x.shape)
        gradients = [ops.add(dx, plus[0]) if plus else dx, *sums]
        return [ops.astype(one, x.dtype) for one in gradients]

    return compute


#: Rows and columns of models: GPT-2, BERT, Llama, ViT and Swin, and heads whose queries are normalized.
_MODELS = (
    (16384, 768),
    (8192, 1024),
    (4096, 4096),
    (12608, 768),
    (50176, 128),
    (131072, 64),
    (4096, 8192),
    (64, 768),
)
#: The most elements on a GPU.
_MOST = 2**26
#: The most elements on the host.
_MOST_ON_HOST = 2**20


def samples(of_gradient: bool) -> Any:
    """Problems of layer norm, or of its gradient, those of models first, without end."""

    def drawn(where: Device, seed: int) -> Iterator[tuple[Normalization, tuple[Any, ...]]]:
        draw, own, models = random.Random(seed), numbers.default_rng(seed), iter(_MODELS)
        while True:
            rows, columns = next(models, None) or (
                2 ** draw.randint(0, 16),
                draw.randint(1, 2 ** draw.randint(4, 17)),
            )
            dtype, centered = (
                draw.choice((dtypes.bfloat16, dtypes.float16, dtypes.float32)),
                draw.random() < 0.6,
            )
            rows = min(rows, (_MOST_ON_HOST if where.addressable else _MOST) // columns)

            def normal(*shape: int, dtype: dtypes.DType = dtype) -> Array:
                return ops.astype(own.standard_normal(shape, dtype="float32"), dtype)

            with device(where):
                x, dy, weight = normal(rows, columns), normal(rows, columns), normal(columns)
                residual = normal(rows, columns) if draw.random() < 0.3 else None
                more = () if residual is None else (residual,)
                bias = normal(columns) if centered else None
                forward = Normalization(
                    x._planned(),
                    weight._planned(),
                    None if bias is None else bias._planned(),
                    columns,
                    centered,
                    residual=None if residual is None else residual._planned(),
                )
                arguments: tuple[Any, ...] = (x, *more, weight, bias, 1e-5)
                if not of_gradient:
                    yield forward, arguments
                    continue
                _, statistics, *total = normalization(forward)(*arguments)
                wanted = draw.random() < 0.8, centered
            problem = forward._replace(bias=None, dy=dy._planned(), wanted=wanted)
            yield problem, (*(total or (x,)), dy, weight, statistics, *more)

    return drawn
