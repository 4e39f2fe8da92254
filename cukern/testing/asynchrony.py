"""Scheduling of asynchronous copies and products on the host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal, get_args

from ..device.host.asynchrony import choose
from ..errors import require_choice, require_int

When = Literal["at_once", "late", "random"]


@contextlib.contextmanager
def asynchrony(when: When, seed: int = 0) -> Iterator[None]:
    """A with-block that chooses when the host does the asynchronous work of kernels; elsewhere it is ``"late"``.

    A GPU may do an asynchronous copy, a product of a warpgroup or a bulk store at any time between its issue and the
    wait that covers it. A kernel is right if its result is the same whenever that is: a wait that is missing, leaves
    too many groups or is for the wrong phase gives a wrong number when the work is done late, or threads that wait for
    each other, which is an error that names them.

    Args:
        when: ``"at_once"`` at issue, ``"late"`` when the wait needs it and no earlier, ``"random"`` at a random time in
            between, drawn for each block from ``seed`` and its index in the grid.
        seed: an integer in [0, 2**64).

    Raises:
        TypeError: ``seed`` is not an integer.
        ValueError: ``when`` or ``seed`` is none of these.

    The block applies to all threads of the process, and not to GPUs.

    >>> with asynchrony("random", seed=1):
    ...     pass
    """
    names = get_args(When)
    require_choice("asynchrony: when", when, names)
    number = require_int("asynchrony: seed", seed, 0, 2**64 - 1)
    earlier = choose((names.index(when), number))
    try:
        yield
    finally:
        choose(earlier)
