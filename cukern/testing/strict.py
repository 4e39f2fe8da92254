"""A block in which operations that silently lose gradients are errors."""

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
#: The threads inside such a block, once per nested block.
_threads: list[int] = []


def _refuse(array: Array, what: str) -> None:
    if threading.get_ident() in _threads and tape.recording((array,)):
        raise GradientError(
            f"{what} of {describe(array)} that a tape tracks: to the tape that is a constant, which strict_tape "
            "refuses; if that is meant, take it of cukern.stop_gradient of the array"
        )


@contextlib.contextmanager
def strict_tape() -> Iterator[None]:
    """A with-block in which it is an error to take constants from an array that a tape tracks.

    No gradient flows through the results of ``float(x)``, ``int(x)``, ``x.item()``, ``x.tolist()``, ``x.numpy()``,
    pickle and the functions that save arrays (``numpy.asarray(x)`` and DLPack are errors everywhere). A loss computed
    from them has a wrong gradient, without an error: run a training step in this block to find the cause. Showing or
    testing an array is allowed: ``repr``, ``print``, ``f"{x:.3f}"``, ``bool(x)`` and ``if x > 0``; so is any use of
    :func:`stop_gradient` of an array, and anything in :func:`stop_recording` or outside of tapes. The block applies to
    its thread.

    Raises:
        GradientError: in the block, if such a constant is taken from an array that an active tape tracks.

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
        capture_hooks.watch_reads(_refuse, True)
    try:
        yield
    finally:
        with _lock:
            _threads.remove(threading.get_ident())
            capture_hooks.watch_reads(_refuse, bool(_threads))
