"""Why a call runs the kernels that it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ..kernel.by_numpy import Explained, watchers


class Explanation:
    """What :func:`explain` found: printed, a table for each problem.

    Attributes:
        problems: a family, or what NumPy computes, and a problem of it, for each problem that the call had.
        counts: how often it had each of them.
        result: what the call returned.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, Any]] = Counter()
        self.problems: list[tuple[Explained, Any]] = []
        self.result: Any = None
        self._tables: list[str] = []

    def __repr__(self) -> str:
        if not self.problems:
            return "no family of kernels was asked, nor NumPy: this call has kernels of one form each, or a library's"
        counts = (self.counts[one.name, problem] for one, problem in self.problems)
        return "\n\n".join(f"{n} x {table}" for n, table in zip(counts, self._tables, strict=True))

    def _watch(self, of: Explained, problem: Any) -> None:
        if not self.counts[of.name, problem]:
            self.problems.append((of, problem))
            self._tables.append(of.explain(problem))
        self.counts[of.name, problem] += 1


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Call a function, and tell which kernels computed it, of those that could have, and why.

    For each problem that a family of kernels was given, such as one convolution, the table names all variants: the
    one chosen (``>``), the times of each as its cost model predicts them and as they were measured on this model of
    GPU (see ``python -m cukern tune``), the constants of its template, or why it does not fit. The least time is that
    in which the device's memory moves the arrays, or its units multiply, whichever takes longer. Where NumPy can stand
    in for kernels on the host, two rows say which of them computes, and why.

    Args:
        function: what is called.
        args, kwargs: its arguments.

    Returns:
        An :class:`Explanation`, which prints the tables.

    >>> import cukern as ck
    >>> x, weight = ck.ones((1, 3, 8, 8)), ck.ones((4, 3, 3, 3))
    >>> found = ck.explain(ck.nn.conv2d, x, weight)  # print(found) shows the table
    >>> [family.name for family, problem in found.problems], found.result.shape
    (['convolution'], (1, 4, 6, 6))
    >>> with ck.device("host"), ck.kernels_only():
    ...     print(ck.explain(ck.roll, ck.asarray([3, 1, 2]), 1))
    1 x roll: int64 (3,)
    > kernels
      NumPy    kernels only
    """
    found = Explanation()
    watchers.append(found._watch)
    try:
        found.result = function(*args, **kwargs)
    finally:
        watchers.remove(found._watch)
    return found
