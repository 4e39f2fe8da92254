"""The activation functions as modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from .. import namespace as ops
from ..array import Array
from ..elementwise.fuse import fuse
from ..elementwise.operands import normalize_axis, require_array
from ..errors import require_choice
from .fused import common_dtype
from .module import OfFunction


class Activation(OfFunction):
    """A function of one array, with options, as a module.

    Raises:
        TypeError: the function lacks an option.
        ValueError: an option does not have such a value.
    """

    #: The allowed values of options with named values.
    _choices: Mapping[str, Sequence[str]] = MappingProxyType({})

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for option, known in type(self)._choices.items():
            require_choice(f"{type(self).__name__}: {option}", self.options[option], known)

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


def _activation(
    name: str,
    function: Callable[..., Any],
    shown: str,
    choices: Mapping[str, Sequence[str]] = MappingProxyType({}),
    **defaults: Any,
) -> type[Activation]:
    """A module of ``function``, whose options follow the array in the order of ``defaults``."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    options = [inspect.Parameter(option, kind, default=value) for option, value in defaults.items()]
    members = {
        "__doc__": f":func:`{shown}` as a module.",
        "__module__": __name__,
        "_options": inspect.Signature(options),
        "_choices": choices,
        "_function": staticmethod(function),
    }
    return type(name, (Activation,), members)


def _gelu(x: Array, approximate: str) -> Array:
    return ops.gelu_tanh(x) if approximate == "tanh" else ops.gelu(x)


def glu(x: Array, axis: int = -1) -> Array:
    """The gated linear unit: the first half of ``x`` along an axis, times the sigmoid of the second.

    Args:
        x: an array whose size along the axis is even, a floating dtype.
        axis: the axis that is halved.

    Raises:
        TypeError: ``x`` is not a floating array.
        ValueError: the size is odd.
        AxisError: there is no such axis.

    Source: Dauphin and others, "Language modeling with gated convolutional networks", 2017.

    >>> import cukern as ck
    >>> ck.nn.glu(ck.asarray([1.0, 2.0, 0.0, 0.0])).tolist()
    [0.5, 1.0]
    """
    x = require_array(x, "glu")
    common_dtype("glu", {"x": x})
    axis = normalize_axis(axis, x.ndim, "glu")
    if x.shape[axis] % 2:
        raise ValueError(f"glu: x: expected an even size along axis {axis}, got shape {x.shape}")
    return _gated(*ops.split(x, 2, axis=axis))


@fuse
def _gated(x: Any, gate: Any) -> Any:
    return x * ops.sigmoid(gate)


def swiglu(gate: Array, up: Array) -> Array:
    """``silu(gate) * up`` as one kernel, and its derivative as another: the gate of a feed-forward network.

    In a function that :func:`cukern.fuse` compiles it becomes a part of that kernel.

    Args:
        gate: floating.
        up: of a shape that broadcasts with that of ``gate``.

    Returns:
        The shape and the dtype of the product.

    Raises:
        ValueError: the shapes do not broadcast.

    Source: Shazeer, "GLU variants improve Transformer", 2020.

    >>> import cukern as ck
    >>> ck.nn.swiglu(ck.asarray([0.0, 100.0]), ck.asarray([3.0, 2.0])).tolist()
    [0.0, 200.0]
    """
    return _swiglu(gate, up)


@fuse
def _swiglu(gate: Any, up: Any) -> Any:
    return ops.silu(gate) * up


ELU = _activation("ELU", ops.elu, "cukern.elu", alpha=1.0)
GELU = _activation("GELU", _gelu, "cukern.gelu", {"approximate": ("none", "tanh")}, approximate="none")
GLU = _activation("GLU", glu, "cukern.nn.glu", axis=-1)
Hardsigmoid = _activation("Hardsigmoid", ops.hardsigmoid, "cukern.hardsigmoid")
Hardswish = _activation("Hardswish", ops.hardswish, "cukern.hardswish")
LeakyReLU = _activation("LeakyReLU", ops.leaky_relu, "cukern.leaky_relu", negative_slope=0.01)
LogSigmoid = _activation("LogSigmoid", ops.log_sigmoid, "cukern.log_sigmoid")
LogSoftmax = _activation("LogSoftmax", ops.log_softmax, "cukern.log_softmax", axis=-1)
Mish = _activation("Mish", ops.mish, "cukern.mish")
ReLU = _activation("ReLU", ops.relu, "cukern.relu")
ReLU6 = _activation("ReLU6", ops.relu6, "cukern.relu6")
SELU = _activation("SELU", ops.selu, "cukern.selu")
SiLU = _activation("SiLU", ops.silu, "cukern.silu")
Sigmoid = _activation("Sigmoid", ops.sigmoid, "cukern.sigmoid")
Softmax = _activation("Softmax", ops.softmax, "cukern.softmax", axis=-1)
Softplus = _activation("Softplus", ops.softplus, "cukern.softplus")
Softsign = _activation("Softsign", ops.softsign, "cukern.softsign")
Tanh = _activation("Tanh", ops.tanh, "cukern.tanh")

__all__ = [
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardsigmoid",
    "Hardswish",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
]
