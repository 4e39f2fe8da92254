"""Pooling as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ...array import Array
from ..module import Module
from . import adaptive, function
from .adaptive import Output
from .function import Sizes


class _Pool(Module):
    """A function of an array and the options that a module of it has."""

    _function: ClassVar[Callable[..., Array]]
    _arguments: ClassVar[str] = "its arguments are those"
    options: tuple[Any, ...]

    def __init_subclass__(cls, of: Callable[..., Array] | None = None) -> None:
        super().__init_subclass__()
        if of is not None:
            cls._function = staticmethod(of)
            cls.__doc__ = f":func:`{of.__name__}` as a module; {cls._arguments} of the function."

    def forward(self, x: Array) -> Array:
        """The pooled ``x``."""
        return type(self)._function(x, *self.options)


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.options = (kernel_size, stride, padding, ceil_mode, count_include_pad)


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.options = (kernel_size, stride, padding, dilation, ceil_mode)


class _Adaptive(_Pool):
    _arguments = "its argument is that"

    def __init__(self, output_size: Output) -> None:
        self.options = (output_size,)


class AvgPool1d(_AvgPool, of=function.avg_pool1d): ...


class AvgPool2d(_AvgPool, of=function.avg_pool2d): ...


class AvgPool3d(_AvgPool, of=function.avg_pool3d): ...


class MaxPool1d(_MaxPool, of=function.max_pool1d): ...


class MaxPool2d(_MaxPool, of=function.max_pool2d): ...


class MaxPool3d(_MaxPool, of=function.max_pool3d): ...


class AdaptiveAvgPool1d(_Adaptive, of=adaptive.adaptive_avg_pool1d): ...


class AdaptiveAvgPool2d(_Adaptive, of=adaptive.adaptive_avg_pool2d): ...


class AdaptiveAvgPool3d(_Adaptive, of=adaptive.adaptive_avg_pool3d): ...


class AdaptiveMaxPool1d(_Adaptive, of=adaptive.adaptive_max_pool1d): ...


class AdaptiveMaxPool2d(_Adaptive, of=adaptive.adaptive_max_pool2d): ...


class AdaptiveMaxPool3d(_Adaptive, of=adaptive.adaptive_max_pool3d): ...
