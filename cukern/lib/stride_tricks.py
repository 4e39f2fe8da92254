"""Views of an array's memory by other strides, as :mod:`numpy.lib.stride_tricks`."""

from __future__ import annotations

from ..namespace.hints import missing as _missing
from ..ops.slices import as_strided, sliding_window_view

__all__ = ["as_strided", "sliding_window_view"]


__getattr__, __dir__ = _missing(__name__, __all__, {}, "numpy.lib.stride_tricks")
