"""The modules of ``numpy.lib`` that programs use: views by strides, and the addresses and axes of arrays."""

from __future__ import annotations

from ..namespace.hints import missing as _missing
from . import array_utils, stride_tricks

__all__ = ["array_utils", "stride_tricks"]


__getattr__, __dir__ = _missing(__name__, __all__, {}, "numpy.lib")
