"""The precision of matrix products of float32 on GPUs: IEEE or tf32."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import require_choice

_PRECISIONS = ("highest", "direct", "tf32")


class _Local(threading.local):
    precision: str | None = None


_local = _Local()
_of_process = "highest"


def _checked(precision: str) -> str:
    require_choice("precision", precision, _PRECISIONS)
    return precision


def get_matmul_precision() -> str:
    """The precision of float32 products: that of :func:`matmul_precision`'s block in this thread, else the process's.

    >>> get_matmul_precision()
    'highest'
    """
    chosen = _local.precision
    return _of_process if chosen is None else chosen


def set_matmul_precision(precision: str) -> None:
    """Allow GPUs to multiply float32 matrices with less precision, in the whole process.

    Args:
        precision: ``"highest"``, as it is initially, computes products of float32 in float32. ``"tf32"`` allows GPUs of
            compute capability 8.0 and later to round the factors to 10 bits of mantissa, those of float16, with
            float32's range, which lets tensor cores multiply them; sums stay in float32. It is a permission: the host
            and older GPUs do not round, nor does the kernel of up to 4 rows. ``"direct"`` is ``"highest"`` without the
            transforms by which some convolutions multiply less often, see :func:`cukern.nn.conv2d`. Other dtypes are
            not affected.

    It applies to all products that run meanwhile: those of :func:`cukern.matmul`, ``einsum``, layers, ``linalg``, and
    of gradients that are computed meanwhile. A captured step keeps the precision with which it was recorded.

    Raises:
        ValueError: there is no such precision.

    >>> import cukern as ck
    >>> ck.set_matmul_precision("tf32")
    >>> ck.get_matmul_precision()
    'tf32'
    >>> ck.set_matmul_precision("highest")
    """
    global _of_process
    _of_process = _checked(precision)


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Set the precision of float32 products within the block, in this thread; see :func:`set_matmul_precision`.

    Args:
        precision: ``"highest"``, ``"direct"`` or ``"tf32"``.

    Raises:
        ValueError: there is no such precision.

    >>> import cukern as ck
    >>> with ck.matmul_precision("tf32"):
    ...     ck.matmul(ck.ones((2, 3)), ck.ones((3, 1))).tolist()
    [[3.0], [3.0]]
    """
    before, _local.precision = _local.precision, _checked(precision)
    try:
        yield
    finally:
        _local.precision = before


def allows_tf32() -> bool:
    """Whether products of float32 may be rounded to tf32 now."""
    return get_matmul_precision() == "tf32"
