"""Sparse matrices: CSR, COO and BSR arrays, whose products have derivatives of any order.

The gradient with respect to the values, ``A.data``, is a sampled dense-dense product; positions are constants.
"""

from __future__ import annotations

from ..namespace.hints import MODULES as _MODULES
from ..namespace.hints import missing as _missing
from .array import SparseArray, bsr_array, coo_array, csr_array, issparse

__all__ = ["SparseArray", "bsr_array", "coo_array", "csr_array", "issparse"]


__getattr__, __dir__ = _missing(__name__, __all__, _MODULES["sparse"])
