"""Quantised arrays, in the blocks of GGML that GGUF files have, and products with them."""

from .. import nn as _nn  # noqa: F401 - whole, before a module of it: threads may import at once
from ..namespace.hints import missing as _missing
from .array import QuantArray, from_blocks, quantize
from .module import Linear
from .product import linear, take

__all__ = ["Linear", "QuantArray", "from_blocks", "linear", "quantize", "take"]

__getattr__, __dir__ = _missing(__name__, __all__)
