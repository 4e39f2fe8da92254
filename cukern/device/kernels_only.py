"""A mode in which the library's own kernels compute what NumPy, a BLAS or cuBLAS would compute faster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from .host.checked import mode
from .host.checked.mode import modes

if TYPE_CHECKING:
    from . import Device

_on: ContextVar[bool] = ContextVar(
    "kernels_only", default=os.environ.get("CUKERN_KERNELS_ONLY", "0") not in ("", "0")
)


@contextmanager
def kernels_only() -> Iterator[None]:
    """Have templates compute what NumPy, a BLAS or cuBLAS computes otherwise, within the block, in this thread.

    The host's NumPy and the devices' libraries are faster for some calls, such as joins of large arrays and matrix
    products. In the block these run the kernels whose text the other device, or another dtype, has. What has no kernel
    stays with a library: FFTs, decompositions, triangular solves, and a few functions that create arrays.

    ``CUKERN_KERNELS_ONLY=1`` does the same for the whole process, and :func:`cukern.testing.checked` for its block.

    >>> import cukern as ck
    >>> with ck.kernels_only():
    ...     (ck.ones((2, 3)) @ ck.ones((3, 1))).tolist()
    [[3.0], [3.0]]
    """
    token = _on.set(True)
    try:
        yield
    finally:
        _on.reset(token)


def active() -> bool:
    """Whether kernels alone compute now, in this thread."""
    return _on.get() or (bool(modes) and mode.active())


#: Whether that was asked for, and is not on because launches are checked or traced.
asked = _on.get


def allows_numpy(device: Device) -> bool:
    """Whether NumPy may compute with arrays of a device: those of the host, unless kernels alone compute."""
    return device.addressable and not (_on.get() or (modes and mode.active()))
