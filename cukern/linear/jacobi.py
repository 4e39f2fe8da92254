"""The singular value decomposition of one matrix on a GPU by Jacobi's method, whose rotations run beside each other.

Source: Golub and Van Loan, "Matrix computations", 2013, sections 8.6 and, for tall matrices, 5.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..array import Array
from ..device.cuda.libraries import needed
from ..kernel.plan import on

#: The largest smaller side; beyond it the library's default, by bidiagonal matrices, has as little work.
_LARGEST = 1024


def by_jacobi(a: Array, full_matrices: bool) -> list[Array] | None:
    """U, S and Vh of a matrix; None for a batch and where there is no cuSOLVER."""
    device, xp = a.device, a.device.xp
    if device.addressable or hasattr(xp, "products") or a.ndim > 2 or not 0 < min(a.shape) <= _LARGEST:
        return None
    with on(device), needed(xp, "cusolver"):
        from cupyx.cusolver import gesvdj

        parts = decomposed(xp, gesvdj, a._data, full_matrices)
        return [Array._wrap(xp.asarray(part, order="C"), device) for part in parts]


def decomposed(xp: Any, rotate: Callable[..., Any], a: Any, full_matrices: bool) -> tuple[Any, Any, Any]:
    """U, S and Vh of an ndarray by ``rotate``, which returns U, S and V; of a tall matrix, by those of its triangle."""
    m, n = a.shape
    if m < n:
        v, s, uh = decomposed(xp, rotate, a.conj().T, full_matrices)
        return uh.conj().T, s, v.conj().T
    if m >= 2 * n and not full_matrices:
        q, r = xp.linalg.qr(a)
        u, s, v = rotate(r, False)
        return q @ u, s, v.conj().T
    u, s, v = rotate(a, full_matrices)
    return u, s, v.conj().T
