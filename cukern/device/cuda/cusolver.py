"""Factorisations of cuSOLVER in place, without the passes over a matrix that CuPy's functions make before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cublas import LETTERS
from .libraries import needed

#: CUBLAS_FILL_MODE_LOWER: of a matrix in column-major order. The upper one takes 2.6 times as long on an H200.
_LOWER = 0


def factor(cupy: Any, a: Any) -> None:
    """Overwrite the lower triangle of a Hermitian matrix with its Cholesky factor; the rest keeps its values.

    Where a pivot is not positive, it stays unfinished: that pivot is on the diagonal.

    Args:
        a: the transpose of the matrix, a CuPy ndarray (n, n), float32 or wider, real or complex, contiguous in C order.
    """
    with needed(cupy, "cusolver"):
        from cupy_backends.cuda.libs import cusolver

        handle = cupy.cuda.device.get_cusolver_handle()
    n, letter = len(a), LETTERS[a.dtype.char]
    given = handle, _LOWER, n, a.data.ptr, n
    size = getattr(cusolver, f"{letter}potrf_bufferSize")(*given)
    workspace, info = cupy.empty(size, a.dtype), cupy.empty(1, np.int32)
    getattr(cusolver, f"{letter}potrf")(*given, workspace.data.ptr, size, info.data.ptr)
