"""The linear layer, and the ReLU of a matrix product and a bias."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from .. import namespace as ops
from ..array import Array
from ..array.layout import Layout
from ..cache import Cache
from ..device import Device
from ..elementwise.fuse import Fused, fuse
from ..function import checkpoint
from . import init
from .fused import Activation, in_common_dtype, layouts_of, require_shape, require_sizes
from .module import Module, Parameter


@lru_cache(maxsize=256)
def _fused(activation: Activation | None) -> Fused[[Array, Array, Array | None], Array]:
    def linear(x: Array, weight: Array, bias: Array | None) -> Array:
        y = x @ weight.T
        if bias is not None:
            y = y + bias
        return y if activation is None else activation(y)

    return fuse(linear)


#: The layouts of checked arguments of one dtype that need no reshape.
_plain: Cache[tuple[Layout | None, ...] | None, None] = Cache()


def linear(
    x: Array, weight: Array, bias: Array | None = None, *, activation: Activation | None = None
) -> Array:
    """``activation(x @ weight.T + bias)``, as one product over all leading axes.

    :func:`cukern.fuse` says when that is one launch.

    Args:
        x: shape (..., inputs), a floating dtype.
        weight: shape (outputs, inputs).
        bias: shape (outputs,); none is added when None.
        activation: an elementwise function, such as :func:`cukern.gelu`; none is applied when None.

    Returns:
        Shape (..., outputs), in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit.

    >>> import cukern as ck
    >>> ck.nn.linear(ck.asarray([1.0, 2.0]), ck.asarray([[3.0, 4.0]]), ck.asarray([0.5])).tolist()
    [11.5]
    """
    layouts = layouts_of(x, weight, bias)
    if layouts in _plain:
        return _fused(activation)(x, weight, bias)
    x, weight, bias = in_common_dtype("linear", {"x": x, "weight": weight}, {"bias": bias})
    require_shape("linear", "weight", weight, "outputs", "inputs")
    outputs, inputs = weight.shape
    require_shape("linear", "x", x, ..., inputs, note=f" for weight {weight.shape}")
    require_shape("linear", "bias", bias, outputs)
    by_rows = x.device.addressable or not x.is_contiguous  # NumPy takes a matrix in less time
    if x.ndim == 2 or (x.ndim > 2 and not by_rows):
        if layouts is not None and layouts == layouts_of(x, weight, bias):
            _plain.keep(layouts, None)
        return _fused(activation)(x, weight, bias)
    y = _fused(activation)(ops.reshape(x, (math.prod(x.shape[:-1]), inputs)), weight, bias)
    return ops.reshape(y, (*x.shape[:-1], outputs))


@fuse
def _sum_relu(lhs: Array, rhs: Array, bias: Array) -> Array:
    return ops.relu(lhs @ rhs + bias)


#: By strategy.
_STRATEGIES: dict[str, Callable[[Array, Array, Array], Array]] = {
    "save": _sum_relu,
    "recompute": checkpoint(_sum_relu),
}


def matmul_add_relu(
    lhs: Array, rhs: Array, bias: Array, *, strategy: Literal["save", "recompute"] = "save"
) -> Array:
    """The larger of ``lhs @ rhs + bias`` and 0, as one expression: see :func:`cukern.fuse`.

    Args:
        lhs: shape (..., M, K), a floating dtype.
        rhs: shape (..., K, N).
        bias: any shape that broadcasts with the product: a scalar, a row (N,), or full.
            The batch axes of all three broadcast.
        strategy: how the gradient finds the ReLU's mask: ``"save"`` saves the output,
            ``"recompute"`` saves only the arguments and computes the output again.

    Returns:
        Shape (..., M, N), in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or there is no such strategy.

    >>> import cukern as ck
    >>> lhs, rhs = ck.asarray([[1.0, 2.0]]), ck.asarray([[3.0, -3.0], [4.0, -4.0]])
    >>> ck.nn.matmul_add_relu(lhs, rhs, ck.asarray([0.5, 0.5])).tolist()
    [[11.5, 0.0]]
    """
    name = "matmul_add_relu"
    lhs, rhs, bias = in_common_dtype(name, {"lhs": lhs, "rhs": rhs, "bias": bias})
    if strategy not in ("save", "recompute"):
        raise ValueError(f"{name}: strategy: expected 'save' or 'recompute', got {strategy!r}")
    for argument, one in (("lhs", lhs), ("rhs", rhs)):
        if one.ndim < 2:
            raise ValueError(f"{name}: {argument}: expected at least 2 axes, got shape {one.shape}")
    if lhs.shape[-1] != rhs.shape[-2]:
        raise ValueError(
            f"{name}: rhs: expected {lhs.shape[-1]} rows, as many as lhs {lhs.shape} has columns, "
            f"got {rhs.shape}"
        )
    try:
        batch = np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
        np.broadcast_shapes((*batch, lhs.shape[-2], rhs.shape[-1]), bias.shape)
    except ValueError:
        raise ValueError(
            f"{name}: shapes do not broadcast: lhs {lhs.shape}, rhs {rhs.shape}, bias {bias.shape}"
        ) from None
    return _STRATEGIES[strategy](lhs, rhs, bias)


class Linear(Module):
    """:func:`linear` with trained weight and bias, initially uniform in ±1 / sqrt(inputs).

    Args:
        inputs: elements of an input.
        outputs: elements of an output.
        bias: whether there is a bias.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.
        rng: the source of the initial parameters, see :mod:`cukern.nn.init`.
        activation: an elementwise function that is applied to the outputs, see :func:`linear`.

    >>> import cukern as ck
    >>> ck.nn.Linear(3, 2, rng=0)(ck.zeros((5, 3))).shape
    (5, 2)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        bias: bool = True,
        dtype: Any = None,
        device: Device | str | None = None,
        rng: init.Rng = None,
        activation: Activation | None = None,
    ) -> None:
        require_sizes("Linear", inputs=inputs, outputs=outputs)
        self.activation = activation
        generator = init.generator(rng)
        bound = 1 / math.sqrt(inputs) if inputs else 0.0
        self.weight = Parameter(init.uniform((outputs, inputs), -bound, bound, dtype, device, generator))
        self.bias = (
            Parameter(init.uniform((outputs,), -bound, bound, dtype, device, generator)) if bias else None
        )

    def forward(self, x: Array) -> Array:
        """The outputs (..., outputs) of ``x`` (..., inputs)."""
        return linear(x, self.weight, self.bias, activation=self.activation)
