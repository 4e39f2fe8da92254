"""The demo's first part: compare each fused operation and its gradients with its reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import namespace as ops
from .. import nn
from ..array import Array
from ..array.creation import asarray
from ..nn.layer_norm.reference import layer_norm_reference
from ..nn.pooling.problem import Windows
from ..nn.pooling.reference import avg_pool2d_reference, max_pool2d_reference
from ..testing import GradcheckError, gradcheck
from ..transforms import vjp

#: The tolerance for sums of a few dozen products in float64.
_TOLERANCE = 1e-11


class Check(NamedTuple):
    """A fused operation, its composition of basic operations, and the shapes of arguments for both."""

    name: str
    fused: Callable[..., Any]
    reference: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


class Outcome(NamedTuple):
    """The distances of values and gradients from the reference's, and the result of finite differences."""

    name: str
    value_error: float
    gradient_error: float
    difference: str
    seconds: float

    @property
    def good(self) -> bool:
        """Whether the operation passed all checks."""
        return max(self.value_error, self.gradient_error) <= _TOLERANCE and self.difference == "agree"


_WINDOWS = Windows(kernel=(3, 2), stride=(2, 1), padding=(1, 1))


def _lltm(inputs: Array, weights: Array, bias: Array, h: Array, cell: Array) -> tuple[Array, Array, Array]:
    """An LLTM, step by step."""
    outputs = []
    for x in ops.unstack(inputs):
        gates = ops.split(ops.concat([h, x], axis=1) @ weights.T + bias, 3, axis=1)
        cell = cell + ops.elu(gates[2]) * ops.sigmoid(gates[0])
        h = ops.tanh(cell) * ops.sigmoid(gates[1])
        outputs.append(h)
    return ops.stack(outputs), h, cell


CHECKS = (
    Check(
        "matmul_add_relu",
        nn.matmul_add_relu,
        lambda lhs, rhs, bias: ops.relu(lhs @ rhs + bias),
        ((2, 5, 7), (7, 6), (6,)),
    ),
    Check(
        "layer_norm",
        lambda x, weight, bias: nn.layer_norm(x, 9, weight, bias),
        lambda x, weight, bias: layer_norm_reference(x, 1, weight, bias),
        ((4, 9), (9,), (9,)),
    ),
    Check("linear", nn.linear, lambda x, weight, bias: x @ weight.T + bias, ((5, 7), (6, 7), (6,))),
    Check("lltm", nn.lltm, _lltm, ((3, 4, 5), (18, 11), (18,), (4, 6), (4, 6))),
    Check(
        "avg_pool2d",
        lambda x: nn.avg_pool2d(x, (3, 2), stride=(2, 1), padding=1),
        lambda x: avg_pool2d_reference(x, _WINDOWS),
        ((2, 6, 7),),
    ),
    Check(
        "max_pool2d",
        lambda x: nn.max_pool2d(x, (3, 2), stride=(2, 1), padding=1),
        lambda x: max_pool2d_reference(x, _WINDOWS),
        ((2, 6, 7),),
    ),
)


def run() -> Iterator[Outcome]:
    """Run all checks on the current device, in float64."""
    for check in CHECKS:
        start = time.perf_counter()
        rng = np.random.default_rng(0)
        args = [asarray(rng.normal(size=shape)) for shape in check.shapes]
        fused, reference_ = _with_gradients(check.fused, args), _with_gradients(check.reference, args)
        errors = [float(np.abs(one - other).max()) for one, other in zip(fused, reference_, strict=True)]
        outputs = len(errors) - len(args)
        try:
            gradcheck(check.fused, args)
            difference = "agree"
        except GradcheckError as error:
            difference = f"DISAGREE: {error}"
        seconds = time.perf_counter() - start
        yield Outcome(check.name, max(errors[:outputs]), max(errors[outputs:]), difference, seconds)


def _with_gradients(f: Callable[..., Any], args: list[Array]) -> list[npt.NDArray[Any]]:
    """The outputs of ``f``, and the gradients of its arguments for fixed cotangents."""
    result, pullback = vjp(f, *args)
    outputs = list(result) if isinstance(result, tuple) else [result]
    rng = np.random.default_rng(1)
    cotangents = [asarray(rng.normal(size=output.shape)) for output in outputs]
    gradients = pullback(tuple(cotangents) if isinstance(result, tuple) else cotangents[0])
    return [array.numpy() for array in (*outputs, *gradients)]
