"""A block in which what a gradient is lost by without a word is an error."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from ..array import Array
from ..autodiff import tape
from ..autodiff.cotangents import describe
from ..device import capture_hooks
from ..errors import GradientError

_lock = threading.Lock()
#: The threads that are in such a block, once for each.
_threads: list[int] = []


def _refuse(array: Array, what: str) -> None:
    if threading.get_ident() in _threads and tape.recording((array,)):
        raise GradientError(
            f"{what} of {describe(array)} that a tape tracks: to the tape that is a constant, which strict_tape "
            "refuses; take it of cukern.stop_gradient of the array where it is one"
        )


@contextlib.contextmanager
def strict_tape() -> Iterator[None]:
    """A with-block in which it is an error to make of a tracked array what is a constant to its tape.

    ``float(x)``, ``int(x)``, ``x.item()``, ``x.tolist()``, ``x.numpy()``, ``numpy.asarray(x)``, DLPack, pickles and the
    savers give numbers that no gradient goes through. Where a result is made of them, that is a fault that shows in
    nothing but a wrong gradient: run a training step in this block to find it. What only shows or compares an array is
    allowed: ``repr``, ``print``, ``f"{x:.3f}"``, ``bool(x)`` and ``if x > 0``. So is all that is done to
    :func:`stop_gradient` of an array, in :func:`stop_recording`, and outside of tapes. It holds for the thread that
    enters it.

    Raises:
        GradientError: in the block, when such a number is made of an array that an active tape tracks.

    >>> import cukern as ck
    >>> x = ck.asarray([1.0, 2.0])
    >>> with strict_tape(), ck.Tape() as active:
    ...     active.watch(x)
    ...     y = x * float(x.sum())
    Traceback (most recent call last):
    ...
    cukern.errors.GradientError: a float of an array of float32, shape () that a tape tracks: ...
    """
    with _lock:
        _threads.append(threading.get_ident())
        capture_hooks.refuse = _refuse
    try:
        yield
    finally:
        with _lock:
            _threads.remove(threading.get_ident())
            capture_hooks.refuse = _refuse if _threads else None
