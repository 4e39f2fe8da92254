"""The one difference between NumPy's dtypes and cukern's: where floats come from."""

from __future__ import annotations

from typing import Any

import numpy as np

import cukern as ck
from cukern import dtypes


def ruled(theirs: Any, *operands: Any) -> Any:
    """The dtype of cukern's result where NumPy's is ``theirs``.

    A floating or complex result is of the floating and complex dtypes among the operands; the real one that NumPy makes
    of complex operands is NumPy's. Without any it is of the default dtype, or of
    NumPy's where that is smaller. Whatever is not floating is NumPy's.

    Args:
        theirs: a dtype, or the error that NumPy raises.
        operands: dtypes, and Python numbers, which count for nothing.
    """
    if not isinstance(theirs, np.dtype) or theirs not in dtypes.INEXACT:
        return theirs
    floats = [one for one in operands if isinstance(one, np.dtype) and one in dtypes.INEXACT]
    if theirs in dtypes.FLOATS and any(one in dtypes.COMPLEX for one in floats):
        return theirs
    if floats:
        return np.result_type(*floats)
    default = ck.get_default_dtype()
    return theirs if theirs.itemsize < default.itemsize else default
