"""How kernels see the keys of sorts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import DType

#: The row length from which indices need 64 bits; below it, sums of a few indices still fit 32 bits, and so do a count
#: and two bits.
_LONGEST_ROW = 2**29
UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def index_of(n: int) -> tuple[str, DType]:
    """The C++ type and the dtype of indices in rows of ``n`` elements."""
    return ("long long", dtypes.int64) if n > _LONGEST_ROW else ("int", dtypes.int32)


def key_variables(dtype: DType, stage: str, index: str, indexed: bool, descending: bool) -> dict[str, Any]:
    """The template variables of keys of a dtype."""
    bits = np.dtype(f"{'u' if dtypes.info(dtype).kind in 'bu' else 'i'}{dtype.itemsize}")
    what = ("argsort" if indexed else "sort") + ("_descending" if descending else "")
    pair = dtype == dtypes.complex64
    named = dtypes.info(dtype).name if pair or dtype in dtypes.FLOATS else bits.name
    # C++ promotes narrow integers to int.
    width = "long long" if bits.itemsize == 8 else "int"
    return {
        "name": f"{what}_{stage.replace('_', f'_{named}_', 1)}",
        "elem": bits,
        "order": f"unsigned {width}" if bits.kind == "u" and bits.itemsize >= 4 else width,
        "index": index,
        "infinity": dtypes.info(dtypes.float32 if pair else dtype).infinity,
        "pair": pair,
        "indexed": indexed,
        "descending": descending,
    }
