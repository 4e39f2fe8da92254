"""Convolutions with trained weights, as modules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from ...array import Array
from ...device import Device
from ...errors import require_choice
from ...shape.copy import laid_out
from .. import init
from ..fused import Activation, require_activation, require_sizes, several
from ..module import Module, Parameter
from .function import (
    PADDING_MODES,
    Sizes,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)

#: Halves in 16 bytes. Tensor cores read filters of a multiple of so many channels as they lie if channels are innermost
#: in memory, and write their gradient so.
_PACK = 8


class _Layer(Module):
    """What all convolutions have: weight and bias, initially uniform in ±1 / sqrt(numbers of a window)."""

    #: The function, the axes over which its windows move, and whether it is a transpose.
    _function: ClassVar[Callable[..., Array]]
    _axes: ClassVar[int]
    _transposed: ClassVar[bool] = False
    #: The arguments of the function behind the bias.
    options: tuple[Any, ...]
    padding_mode: str
    activation: Activation | None

    def __init_subclass__(cls, of: Callable[..., Array] | None = None, axes: int = 0) -> None:
        super().__init_subclass__()
        if of is not None:
            cls._function, cls._axes = staticmethod(of), axes

    def _start(
        self,
        inputs: int,
        outputs: int,
        kernel_size: Sizes,
        groups: int,
        bias: bool,
        dtype: Any,
        device: Device | str | None,
        rng: init.Rng,
    ) -> None:
        """Check the arguments, and make the parameters.

        Raises:
            TypeError: a number of channels is not an int, or the activation is no function.
            ValueError: a number is negative, or no multiple of ``groups``, or there is no such mode of padding.
        """
        name = type(self).__name__
        require_sizes(name, inputs=inputs, outputs=outputs, groups=groups)
        if groups < 1 or inputs % groups or outputs % groups:
            raise ValueError(
                f"{name}: groups: expected a divisor of inputs {inputs} and outputs {outputs}, got {groups}"
            )
        require_choice(f"{name}: padding_mode", self.padding_mode, PADDING_MODES)
        require_activation(name, self.activation)
        kernel = several(kernel_size, self._axes, name, "kernel_size", 1)
        shape = (inputs, outputs // groups) if self._transposed else (outputs, inputs // groups)
        generator, window = init.generator(rng), shape[1] * math.prod(kernel)
        bound = 1 / math.sqrt(window) if window else 0.0
        self.weight = Parameter(init.uniform((*shape, *kernel), -bound, bound, dtype, device, generator))
        if self.weight.size and math.prod(kernel) > 1 and shape[1] % _PACK == 0:
            self.weight._replace(laid_out(self.weight, (0, *range(2, self._axes + 2), 1)))
        self.bias = (
            Parameter(init.uniform((outputs,), -bound, bound, dtype, device, generator)) if bias else None
        )

    def forward(self, x: Array) -> Array:
        """The outputs (N, outputs, ...) of ``x`` (N, inputs, ...); N may be missing."""
        more = {"padding_mode": self.padding_mode, "activation": self.activation}
        return type(self)._function(x, self.weight, self.bias, *self.options, **more)


class _Conv(_Layer):
    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: Any = None,
        device: Device | str | None = None,
        rng: init.Rng = None,
        activation: Activation | None = None,
    ) -> None:
        self.options = (stride, padding, dilation, groups)
        self.padding_mode, self.activation = padding_mode, activation
        self._start(inputs, outputs, kernel_size, groups, bias, dtype, device, rng)


class Conv1d(_Conv, of=conv1d, axes=1):
    """:func:`conv1d` with trained weight and bias; its arguments are those of :class:`Conv2d`.

    >>> import cukern as ck
    >>> ck.nn.Conv1d(3, 8, 3, padding="same", rng=0)(ck.zeros((2, 3, 6))).shape
    (2, 8, 6)
    """


class Conv2d(_Conv, of=conv2d, axes=2):
    """:func:`conv2d` with trained weight and bias, initially uniform in ±1 / sqrt(numbers of a window).

    The weight lies in memory with its channels innermost if they are a multiple of 8; in files it is in C order.

    Args:
        inputs: channels of the image.
        outputs: filters, channels of the result.
        kernel_size: rows and columns of a window; an int for both.
        stride: see :func:`conv2d`, as the next three and ``padding_mode``.
        padding: a number, one for each axis, ``"same"`` or ``"valid"``.
        dilation: from one element of a window to the next.
        groups: a divisor of ``inputs`` and ``outputs``; equal to ``inputs``, each channel has its own filters.
        bias: whether there is a bias.
        padding_mode: what the padding is.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.
        rng: the source of the initial parameters, see :mod:`cukern.nn.init`.
        activation: an elementwise function that is applied to the outputs.

    >>> import cukern as ck
    >>> ck.nn.Conv2d(3, 8, 3, padding=1, rng=0)(ck.zeros((2, 3, 6, 5))).shape
    (2, 8, 6, 5)
    """


class Conv3d(_Conv, of=conv3d, axes=3):
    """:func:`conv3d` with trained weight and bias; its arguments are those of :class:`Conv2d`.

    >>> import cukern as ck
    >>> ck.nn.Conv3d(3, 8, 3, padding="same", rng=0)(ck.zeros((2, 3, 4, 4, 4))).shape
    (2, 8, 4, 4, 4)
    """


class _ConvTranspose(_Layer):
    _transposed = True

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        dtype: Any = None,
        device: Device | str | None = None,
        rng: init.Rng = None,
        activation: Activation | None = None,
    ) -> None:
        self.options = (stride, padding, output_padding, groups, dilation)
        self.padding_mode, self.activation = padding_mode, activation
        self._start(inputs, outputs, kernel_size, groups, bias, dtype, device, rng)


class ConvTranspose1d(_ConvTranspose, of=conv_transpose1d, axes=1):
    """:func:`conv_transpose1d` with trained weight and bias; its arguments are those of :class:`ConvTranspose2d`.

    >>> import cukern as ck
    >>> ck.nn.ConvTranspose1d(3, 8, 3, rng=0)(ck.zeros((2, 3, 6))).shape
    (2, 8, 8)
    """


class ConvTranspose2d(_ConvTranspose, of=conv_transpose2d, axes=2):
    """:func:`conv_transpose2d` with trained weight and bias, initially uniform in ±1 / sqrt(numbers of a window).

    Args:
        inputs: channels of the image.
        outputs: filters, channels of the result.
        kernel_size: rows and columns of a window; an int for both.
        stride: see :func:`conv_transpose2d`, as the next three, ``dilation`` and ``padding_mode``.
        padding: rows and columns cut off around the result; a number, one for each axis, ``"same"`` or ``"valid"``.
        output_padding: rows and columns of the result after those.
        groups: a divisor of ``inputs`` and ``outputs``.
        bias: whether there is a bias.
        dilation: from one element of a window to the next.
        padding_mode: what becomes of the rows and columns cut off.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.
        rng: the source of the initial parameters, see :mod:`cukern.nn.init`.
        activation: an elementwise function that is applied to the outputs.

    >>> import cukern as ck
    >>> ck.nn.ConvTranspose2d(3, 8, 4, stride=2, padding=1, rng=0)(ck.zeros((2, 3, 6, 5))).shape
    (2, 8, 12, 10)
    """


class ConvTranspose3d(_ConvTranspose, of=conv_transpose3d, axes=3):
    """:func:`conv_transpose3d` with trained weight and bias; its arguments are those of :class:`ConvTranspose2d`.

    >>> import cukern as ck
    >>> ck.nn.ConvTranspose3d(3, 8, 3, rng=0)(ck.zeros((2, 3, 4, 4, 4))).shape
    (2, 8, 6, 6, 6)
    """
