"""Loops and branches that Python decides, step by step, and whose gradients keep few of the steps' states.

The backward of n steps runs parts of the loop again from states that were kept, by binomial checkpointing (Griewank and
Walther, "Algorithm 799: revolve", ACM Transactions on Mathematical Software 26(1), 2000): no schedule of as many states
runs fewer steps again. Here it consists of :func:`~cukern.checkpoint` within ``checkpoint``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import comb
from typing import Any, TypeAlias, TypeVar

import numpy as np

from .. import pytree
from ..array import Array
from ..array.creation import asarray, device_of
from ..autodiff.cotangents import describe, is_array
from ..function import checkpoint, recording_gradients
from ..shape.joins import concat, stack, unstack

__all__ = ["cond", "fori_loop", "scan", "switch", "while_loop"]

T = TypeVar("T")

#: Steps that the backward records at once.
_BLOCK = 16
#: The least number of states that are kept of a long loop.
_FEW_STATES = 16
#: How often a step runs again at most, the last time recorded, where the number of states is not given.
_AGAIN = 2

#: The leaves of a carry or of a part of xs, and the arrays of a part of ys.
_Leaves: TypeAlias = Sequence[Array]


def _most(states: int, again: int) -> int:
    """The blocks that ``states`` kept states suffice for, if each runs ``again`` times before it is recorded."""
    return comb(states + again, states) if again >= 0 else int(not states)


def _parts(blocks: int, states: int) -> list[int]:
    """The numbers of blocks from each kept state to the next, in their order, and the 1 after the last kept state."""
    again = next(i for i in range(blocks) if _most(states, i) >= blocks)
    more = blocks - _most(states, again - 1)
    lengths = []
    for left in range(states, -1, -1):
        least = _most(left, again - 2)
        added = min(more, _most(left, again - 1) - least)
        more -= added
        lengths.append(least + added)
    return [length for length in lengths if length]


def _needed(blocks: int) -> int:
    """The states to keep where their number is not given."""
    states = _FEW_STATES
    while _most(states, _AGAIN) < blocks:
        states += 1
    return states


class _Form:
    """The containers of a tree of arrays, and shape, dtype and device of each: what every step must keep.

    Args:
        name: what has the form, in errors.
        tree: arrays and numbers, which become arrays beside the others.
    """

    def __init__(self, name: str, tree: Any) -> None:
        self.name, self._tree = name, tree
        found = pytree.leaves(tree)
        self._is_leaf = len(found) == 1 and found[0] is tree
        device = device_of(one for one in found if is_array(one))
        self.leaves = [one if is_array(one) else asarray(one, device=device) for one in found]
        self._layouts = [one._planned() for one in self.leaves]
        #: Numbers, which take the dtype of what the first step gives.
        self._numbers = {i for i, one in enumerate(found) if not is_array(one)}

    def __call__(self, tree: Any, step: int) -> list[Array]:
        """The arrays of a tree of this form, which step number ``step`` gave.

        Raises:
            TypeError: a dtype differs.
            ValueError: containers, a shape or a device differ.
        """
        if tree is None and self._tree is None:
            return []
        alone = self._is_leaf and is_array(tree)
        found = [tree] if alone else pytree.aligned(self._tree, tree, f"{self.name} after step {step}")
        for i, (value, form) in enumerate(zip(found, self._layouts, strict=True)):
            if not is_array(value):
                found[i] = value = asarray(value, device=form.device)
            if value._layout is form:
                continue
            same = (value.shape, value.device) == (form.shape, form.device)
            if same and i in self._numbers:
                self._layouts[i] = value._planned()
            elif not same or value.dtype != form.dtype:
                path = list(pytree.leaves_with_path(self._tree, self.name))[i].path
                raise (TypeError if same else ValueError)(
                    f"{path}: expected {form.dtype} of shape {form.shape} on {form.device} after each step, got "
                    f"{value.dtype} of shape {value.shape} on {value.device} after step {step}"
                )
        self._numbers.clear()
        return found

    def tree(self, leaves: _Leaves) -> Any:
        """The tree with other leaves."""
        return leaves[0] if self._is_leaf else pytree.replace(self._tree, leaves)


class Loop:
    """Steps that lead from carry to carry.

    Args:
        name: of the function, for errors.
        init: the first carry.
        step: takes the step's number, the carry and a tree of ``xs``; returns carry and ``y``.
        xs: a tree of arrays with a row for each step.
        states: how many carries a tape keeps; by default as few as let each step run again at most twice.
            All steps are recorded at once if it is 0.
    """

    def __init__(
        self,
        name: str,
        init: Any,
        step: Callable[[int, Any, Any], tuple[Any, Any]],
        xs: Any = None,
        states: int | None = None,
        reverse: bool = False,
    ) -> None:
        if states is not None and (states := operator.index(states)) < 0:
            raise ValueError(f"{name}: states: expected 0 or more, got {states}")
        self.name, self.carry, self._step, self._xs = name, _Form(f"{name}: carry", init), step, xs
        self._states, self._reverse = states, reverse
        self.y: _Form | None = None

    def __call__(self, carry: _Leaves, xs: _Leaves, start: int, n: int) -> tuple[_Leaves, _Leaves]:
        """The carry after ``n`` steps, and the arrays of ``ys``."""
        blocks = -(-n // _BLOCK)
        states = blocks if self._states == 0 else self._states or _needed(blocks)
        keep: Callable[..., Any] = checkpoint if self._states != 0 and recording_gradients() else lambda f: f
        return self._part(carry, xs, start, n, states, keep)

    def _part(
        self,
        carry: _Leaves,
        xs: _Leaves,
        start: int,
        n: int,
        states: int,
        keep: Callable[..., Any],
        again: bool = False,
    ) -> tuple[_Leaves, _Leaves]:
        if n <= _BLOCK:
            return self._block(carry, xs, start, n)
        lengths = _parts(-(-n // _BLOCK), states)
        ends = [min(end * _BLOCK, n) for end in accumulate(lengths)]
        parts: list[_Leaves] = []
        done = 0
        for i, end in enumerate(ends):
            own = [x[done:end] for x in xs]
            # A backward begins with the last part, a block, that it has just reached.
            part = self._part if again and end == n else keep(self._part)
            carry, ys = part(carry, own, start + done, end - done, states - i, keep, True)
            parts.append(ys)
            done = end
        return carry, [concat(each) for each in self._columns(parts)]

    def _block(self, carry: _Leaves, xs: _Leaves, start: int, n: int) -> tuple[_Leaves, _Leaves]:
        rows = list(zip(*map(unstack, xs), strict=True)) if xs else [()] * n
        found: list[_Leaves] = []
        for i, row in enumerate(rows, start):
            given = pytree.replace(self._xs, row) if row else None
            returned = self._step(i, self.carry.tree(carry), given)
            if not isinstance(returned, tuple) or len(returned) != 2:
                got = type(returned).__name__
                raise TypeError(f"{self.name}: f: expected a pair (carry, y) from step {i}, got {got}")
            carry = self.carry(returned[0], i)
            self.y = self.y or _Form(f"{self.name}: y", returned[1])
            found.append(self.y(returned[1], i))
        return carry, [stack(each) for each in self._columns(found)]

    def _columns(self, parts: list[_Leaves]) -> list[list[Array]]:
        columns = [list(column) for column in zip(*parts, strict=True)]
        return [column[::-1] for column in columns] if self._reverse else columns

    def until(self, first: Callable[[_Leaves, int, int], tuple[_Leaves, int]], carry: _Leaves) -> _Leaves:
        """The carry after as many steps as ``first`` takes.

        Each part of the loop is as long as all before it, so that few states are kept of any number of steps.

        Args:
            first: takes a carry, its number, and the most steps to take; returns a carry and the steps that it took.
                Where gradients run a part of the loop again, its steps are the loop's.
        """
        if self._states == 0 or not recording_gradients():
            return first(carry, 0, -1)[0]
        done, most, steps = 0, _BLOCK, _BLOCK
        while steps == most:
            taken: list[int] = []

            def part(carry: _Leaves, start: int, most: int, taken: list[int] = taken) -> _Leaves:
                if taken:
                    return self(carry, (), start, taken[0])[0]
                carry, steps = first(carry, start, most)
                taken.append(steps)
                return carry

            most = max(done, _BLOCK)
            carry = checkpoint(part)(carry, done, most)
            (steps,) = taken
            done += steps
        return carry


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    states: int | None = None,
) -> tuple[Any, Any]:
    """Carry a state through steps, and stack what each gives: ``jax.lax.scan``.

    A tape keeps few of the carries, and gradients of any order run the steps between them again; ``f`` must then give
    the same, which it does with draws from :mod:`cukern.random` too. What ``f`` reads, as parameters, gets its
    gradient. Nothing is kept where no tape records.

    Args:
        f: takes the carry and a row of ``xs``, or None without ``xs``; returns a pair of the next carry, of the same
            containers, shapes and dtypes, and of ``y``, a pytree of arrays of which each step gives the same shapes,
            or None.
        init: the first carry: an array, a number, or a pytree of these. A number becomes an array, which has the dtype
            that the first step gives from then on.
        xs: an array, or a pytree of arrays, with a row for each step in the first axis.
        length: the number of steps; that of the rows by default.
        reverse: whether the last row is the first step's, and the first step's ``y`` the last row of the result.
        states: how many carries a tape keeps of a loop of more than 16 steps, beside that before the last steps. The
            default lets each step run again twice at most, and is 34 for 10000 steps; fewer states take more time. With
            0 every step is recorded, as in Python's ``for``: fastest, and all that the steps save is kept.

    Returns:
        The last carry, and the ``y`` of all steps, stacked along a new first axis.

    Raises:
        TypeError: ``f`` returns no pair, or the dtype of an array changes from step to step; xs has a leaf that is no
            array.
        ValueError: there is no step, ``xs`` differ in length, or containers or shapes change from step to step.

    >>> import cukern as ck
    >>> def f(total, x):
    ...     total = total + x
    ...     return total, total * total
    >>> last, squares = scan(f, 0.0, ck.asarray([1.0, 2.0, 3.0]))
    >>> last.item(), squares.tolist()
    (6.0, [1.0, 9.0, 36.0])
    >>> ck.grad(lambda x: scan(f, 0.0, x)[1].sum())(ck.asarray([1.0, 2.0, 3.0])).tolist()
    [20.0, 18.0, 12.0]
    """
    rows: list[Array] = []
    n = None if length is None else operator.index(length)
    source = "length"
    for path, x in pytree.leaves_with_path(xs, "xs"):
        if isinstance(x, np.ndarray):
            x = asarray(x, device=device_of(pytree.leaves((init, xs))))
        if not is_array(x):
            raise TypeError(f"scan: {path}: expected an array, got {type(x).__name__}")
        if not x.ndim:
            raise ValueError(f"scan: {path}: expected a row for each step, got shape ()")
        if n is None:
            n, source = x.shape[0], path
        if x.shape[0] != n:
            raise ValueError(f"scan: {path}: expected {n} rows, as {source} has, got {x.shape[0]}")
        rows.append(x[::-1] if reverse else x)
    if n is None:
        raise ValueError("scan: expected xs, or length, the number of steps; got neither")
    if n < 1:
        raise ValueError(
            f"scan: {source}: expected at least one step, got {n}: ys have the shape of a step's y"
        )
    loop = Loop("scan", init, lambda i, carry, x: f(carry, x), xs, states, reverse)
    carry, ys = loop(loop.carry.leaves, rows, 0, n)
    assert loop.y is not None
    return loop.carry.tree(carry), loop.y.tree(ys)


def fori_loop(
    lower: int, upper: int, body: Callable[[int, Any], Any], init: Any, *, states: int | None = None
) -> Any:
    """The carry after ``carry = body(i, carry)`` for each ``i`` of ``range(lower, upper)``; ``init`` if there is none.

    Args:
        lower, upper: integers, or arrays of one, which are read on the host.
        body: takes an int and the carry; returns the next carry, of the same containers, shapes and dtypes.
        init, states: as in :func:`scan`, and so are gradients and errors.

    >>> import cukern as ck
    >>> ck.grad(lambda x: fori_loop(0, 3, lambda i, y: y * x, 1.0))(ck.asarray(2.0)).item()
    12.0
    """
    first, n = operator.index(lower), operator.index(upper) - operator.index(lower)
    loop = Loop("fori_loop", init, lambda i, carry, x: (body(first + i, carry), None), states=states)
    leaves = loop.carry.leaves
    return loop.carry.tree(loop(leaves, (), 0, n)[0] if n > 0 else leaves)


def _truth(value: Any, name: str) -> bool:
    """The truth of one number, read on the host."""
    if getattr(value, "shape", ()) != () or isinstance(value, (list, tuple, dict)) or value is None:
        got = f"shape {value.shape}" if hasattr(value, "shape") else type(value).__name__
        raise TypeError(f"{name}: expected a bool, or an array of one of shape (), got {got}")
    return bool(value)


def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Any],
    init: Any,
    max_steps: int | None = None,
    *,
    states: int | None = None,
) -> Any:
    """The carry after ``carry = body(carry)`` for as long as ``cond(carry)`` is true.

    The host reads the condition at each step: it waits for a GPU there, and :func:`~cukern.capture` records no graph of
    such a step. As the number of steps is known afterwards, the loop has gradients, which JAX's has not; they run the
    same number of steps, and do not read the condition again.

    Args:
        cond: takes the carry; returns a bool, or an array of one of shape ().
        body: takes the carry; returns the next, of the same containers, shapes and dtypes.
        init: as in :func:`scan`.
        max_steps: the most steps.
        states: with 0 every step is recorded. Else a tape keeps more carries with each doubling of the number of
            steps; how many within a part of the loop, as in :func:`scan`.

    Raises:
        RuntimeError: the condition holds after ``max_steps`` steps.
        TypeError: the condition is not one bool, or a dtype changes from step to step.
        ValueError: containers or shapes change from step to step.

    >>> import cukern as ck
    >>> halved = lambda x: while_loop(lambda y: y > 1, lambda y: y / 2, x)
    >>> halved(ck.asarray(5.0)).item(), ck.grad(halved)(ck.asarray(5.0)).item()
    (0.625, 0.125)
    """
    loop = Loop("while_loop", init, lambda i, carry, x: (body(carry), None), states=states)
    make = loop.carry.tree

    def first(carry: _Leaves, start: int, most: int) -> tuple[_Leaves, int]:
        steps = 0
        while steps != most and _truth(cond(make(carry)), "while_loop: cond"):
            if max_steps is not None and start + steps >= max_steps:
                raise RuntimeError(
                    f"while_loop: max_steps: expected the condition to be false after {max_steps} steps, it is true"
                )
            carry = loop.carry(body(make(carry)), start + steps)
            steps += 1
        return carry, steps

    return make(loop.until(first, loop.carry.leaves))


def cond(pred: Any, true_fn: Callable[..., T], false_fn: Callable[..., T], *operands: Any) -> T:
    """``true_fn(*operands)`` if ``pred`` is true, else ``false_fn(*operands)``: the other does not run.

    The host reads ``pred``, as ``if`` does, and waits for a GPU. For a choice of elements see :func:`~cukern.where`.

    Raises:
        TypeError: ``pred`` is not a bool, a number or an array of shape ().

    >>> import cukern as ck
    >>> x = ck.asarray(-3.0)
    >>> ck.grad(lambda x: cond(x > 0, ck.sin, ck.square, x))(x).item()
    -6.0
    """
    return (true_fn if _truth(pred, "cond: pred") else false_fn)(*operands)


def switch(index: Any, branches: Sequence[Callable[..., T]], *operands: Any) -> T:
    """``branches[index](*operands)``, with ``index`` clipped to the branches that there are; the others do not run.

    Raises:
        TypeError: ``index`` is not an integer, or an array of one.
        ValueError: there is no branch.

    >>> import cukern as ck
    >>> switch(ck.asarray(7), [ck.sin, ck.cos, ck.square], ck.asarray(3.0)).item()
    9.0
    """
    if not branches:
        raise ValueError("switch: branches: expected at least one function, got none")
    try:
        chosen = operator.index(index)
    except TypeError:
        got = describe(index) if is_array(index) else type(index).__name__
        raise TypeError(f"switch: index: expected an integer, or an array of one, got {got}") from None
    return branches[min(max(chosen, 0), len(branches) - 1)](*operands)
