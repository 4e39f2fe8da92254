"""The linear layer."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from .. import namespace as ops
from ..array import Array
from ..array.layout import Layout
from ..cache import Cache
from ..device import Device
from ..elementwise.fuse import Fused, fuse
from ..elementwise.operands import require_array, require_arrays
from . import init
from .fused import Activation, common_dtype, layouts_of, require_sizes
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
    x, weight = require_arrays((x, weight), "linear", ("x", "weight"))
    bias = None if bias is None else require_array(bias, "linear", "bias", x)
    dtype = common_dtype("linear", {"x": x, "weight": weight}, {"bias": bias})
    if weight.ndim != 2:
        raise ValueError(f"linear: weight: expected shape (outputs, inputs), got {weight.shape}")
    outputs, inputs = weight.shape
    if not x.ndim or x.shape[-1] != inputs:
        raise ValueError(
            f"linear: x: expected shape (..., {inputs}) for weight {weight.shape}, got {x.shape}"
        )
    if bias is not None and bias.shape != (outputs,):
        raise ValueError(f"linear: bias: expected shape ({outputs},), got {bias.shape}")
    x, weight = ops.astype(x, dtype, copy=False), ops.astype(weight, dtype, copy=False)
    bias = None if bias is None else ops.astype(bias, dtype, copy=False)
    by_rows = x.device.addressable or not x.is_contiguous  # NumPy takes a matrix in less time
    if x.ndim == 2 or (x.ndim > 2 and not by_rows):
        if layouts is not None and layouts == layouts_of(x, weight, bias):
            _plain.keep(layouts, None)
        return _fused(activation)(x, weight, bias)
    y = _fused(activation)(ops.reshape(x, (math.prod(x.shape[:-1]), inputs)), weight, bias)
    return ops.reshape(y, (*x.shape[:-1], outputs))


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


__all__ = ["Linear", "linear"]
