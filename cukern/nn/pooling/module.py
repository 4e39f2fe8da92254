"""Pooling as modules."""

from __future__ import annotations

from ..module import OfFunction
from . import adaptive, function


class AvgPool1d(OfFunction, of=function.avg_pool1d): ...


class AvgPool2d(OfFunction, of=function.avg_pool2d): ...


class AvgPool3d(OfFunction, of=function.avg_pool3d): ...


class MaxPool1d(OfFunction, of=function.max_pool1d): ...


class MaxPool2d(OfFunction, of=function.max_pool2d): ...


class MaxPool3d(OfFunction, of=function.max_pool3d): ...


class AdaptiveAvgPool1d(OfFunction, of=adaptive.adaptive_avg_pool1d): ...


class AdaptiveAvgPool2d(OfFunction, of=adaptive.adaptive_avg_pool2d): ...


class AdaptiveAvgPool3d(OfFunction, of=adaptive.adaptive_avg_pool3d): ...


class AdaptiveMaxPool1d(OfFunction, of=adaptive.adaptive_max_pool1d): ...


class AdaptiveMaxPool2d(OfFunction, of=adaptive.adaptive_max_pool2d): ...


class AdaptiveMaxPool3d(OfFunction, of=adaptive.adaptive_max_pool3d): ...
