"""The one difference between NumPy's dtypes and cukern's: where floats come from."""

from __future__ import annotations

from typing import Any

import numpy as np

import cukern as ck
from cukern import dtypes


def ruled(theirs: Any, *operands: Any) -> Any:
    """The dtype of cukern's result where NumPy's is ``theirs``.

    A floating result is of the floating dtypes among the operands. Without any it is of the default dtype, or of
    NumPy's where that is smaller. Whatever is not floating is NumPy's.

    Args:
        theirs: a dtype, or the error that NumPy raises.
        operands: dtypes, and Python numbers, which count for nothing.
    """
    if not isinstance(theirs, np.dtype) or theirs not in dtypes.FLOATS:
        return theirs
    floats = [one for one in operands if isinstance(one, np.dtype) and one in dtypes.FLOATS]
    if floats:
        return np.result_type(*floats)
    default = ck.get_default_dtype()
    return theirs if theirs.itemsize < default.itemsize else default
