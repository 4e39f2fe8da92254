"""The function of a score as a program, and its derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...elementwise.graph import Expr, Node, call, constant, input_node, order
from ...elementwise.logic import logical_not
from ...elementwise.print_cxx import Statement, compute_type, statements
from ...elementwise.program import Program, program, roots_from
from ..fused import is_int
from .cheaper import Given, Unit, cheaper, finite

#: Inputs of the program before the arrays: the score, and its batch, head, query and key.
PLACES = 5


class Lookup(NamedTuple):
    """An element of a table that a score reads.

    Attributes:
        table: the number of the table.
        shape: that of the table.
        places: the index along each axis.
        value: the element, as an input of the program.
    """

    table: int
    shape: tuple[int, ...]
    places: tuple[Node, ...]
    value: Node


def _key(key: object, table: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The index of each axis.

    Raises:
        TypeError: the key is not one integer for each axis.
    """
    places = key if isinstance(key, tuple) else (key,)
    whole = all(
        is_int(one) or (hasattr(one, "dtype") and dtypes.info(one.dtype).kind in "iu") for one in places
    )
    if not whole or len(places) != len(shape):
        raise TypeError(
            f"attention: score: tables[{table}]: expected an integer for each axis of shape {shape}, got {key!r}"
        )
    return places


class _Traced:
    """A table while a score is traced."""

    def __init__(self, table: int, like: Array, first: int, found: list[Lookup]) -> None:
        self.table, self.shape, self.dtype, self.first, self.found = (
            table,
            like.shape,
            like.dtype,
            first,
            found,
        )

    def __getitem__(self, key: object) -> Expr:
        places = tuple(
            one.node if isinstance(one, Expr) else constant(min(max(int(one), 0), n - 1), dtypes.int32)
            for one, n in zip(_key(key, self.table, self.shape), self.shape, strict=True)
        )
        value = input_node(self.first + len(self.found), self.dtype)
        known = [one.value for one in self.found if (one.table, one.places) == (self.table, places)]
        if not known:
            self.found.append(Lookup(self.table, self.shape, places, value))
        return Expr(known[0] if known else value)


class Table:
    """A table of which a score of arrays reads elements."""

    def __init__(self, table: int, values: Array) -> None:
        self.table, self.values = table, values

    def __getitem__(self, key: object) -> Array:
        shape = self.values.shape
        places = [
            ops.clip(one, 0, n - 1) if isinstance(one, Array) else min(max(int(one), 0), n - 1)
            for one, n in zip(_key(key, self.table, shape), shape, strict=True)
        ]
        return self.values[tuple(places)]


def changed(
    score: Callable[..., Any] | None,
    s: Any,
    places: Sequence[Any],
    arrays: Sequence[Any],
    bias: Any,
    mask: Any,
) -> Any:
    """The score after the function of it, the bias and the mask; of symbols or of arrays."""
    dtype = s.dtype
    if score is not None:
        s = score(s, *places, *arrays)
        if not hasattr(s, "astype"):
            raise TypeError(
                f"attention: score: expected a function that returns a score, got {type(s).__name__}"
            )
        s = s.astype(dtype)
    if bias is not None:
        s = (s + bias).astype(dtype)
    return s if mask is None else ops.where(mask, s, -math.inf)


def traced(
    score: Callable[..., Any] | None,
    arrays: Sequence[dtypes.DType],
    given: tuple[bool, bool],
    acc: dtypes.DType,
    tables: Sequence[Array],
) -> tuple[Program | None, tuple[Lookup, ...]]:
    """The program of a score, or None if the score stays as it is, and what it reads of the tables.

    Args:
        score: the function of it.
        arrays: the dtypes of its arrays, and of a bias and a mask if they are given.
        given: whether there is a bias, and whether there is a mask.
        acc: the dtype of the score.
        tables: arrays that the function indexes.
    """
    if score is None and not any(given):
        return None, ()
    inputs = [acc, *[dtypes.int32] * (PLACES - 1), *arrays]
    symbols = [Expr(input_node(k, dtype)) for k, dtype in enumerate(inputs)]
    rest = symbols[PLACES:]
    mask = rest.pop() if given[1] else None
    bias = rest.pop() if given[0] else None
    found: list[Lookup] = []
    opened = [_Traced(k, one, len(inputs), found) for k, one in enumerate(tables)]
    made = changed(score, symbols[0], symbols[1:PLACES], [*rest, *opened], bias, mask)
    if not isinstance(made, Expr):
        raise TypeError(
            f"attention: score: expected an elementwise function of its arguments, got {type(made).__name__}"
        )
    if made.node is symbols[0].node:
        return None, ()
    inputs += [one.value.dtype for one in found]
    return program("attention_score", (made.node,), inputs), tuple(found)


class Printed(NamedTuple):
    """The text of a score.

    Attributes:
        lines: the statements.
        values: the names of its value, slope and derivatives by arrays; in parts, of the value and what shifts it.
        constant_slope: whether the slope is a number.
        finite_slope: whether the slope is finite, whatever the score is.
        unit: in parts, or as a multiple, what the value is to be multiplied by, and so on.
    """

    lines: list[Statement]
    values: list[str]
    constant_slope: bool
    finite_slope: bool = True
    unit: Unit = Unit()


def printed(
    of: Program,
    lookups: Sequence[Lookup],
    sizes: Sequence[int],
    wanted: Sequence[int] | None,
    given: Given | None = None,
) -> Printed:
    """The text of a score.

    Args:
        of: the program of the score.
        lookups: what it reads of tables.
        sizes: how many batches, heads, queries and keys there are.
        wanted: the inputs whose derivatives are needed besides the score's; None if not even that one is.
        given: of scores of 16-bit elements.
    """
    roots = of.outputs if wanted is None else _with_slopes(of, wanted)
    ahead: list[Statement] = []
    unit = Unit()
    if given is not None:
        roots, ahead, unit = cheaper(roots, len(of.inputs), given)
    body, names = looked_up(lookups, roots, sizes)
    of_slope = None if wanted is None else roots[1]
    constant_slope = of_slope is not None and of_slope.kind == "constant"
    return Printed(
        [*ahead, *body], names, constant_slope, of_slope is not None and finite(of_slope, ahead), unit
    )


@lru_cache(maxsize=1024)
def curved(of: Program) -> bool:
    """Whether the derivative of a score by the one it is made of is no constant."""
    return _with_slopes(of, ())[1].kind != "constant"


def by_place(shape: Sequence[int]) -> bool:
    """Whether an array of the score, of this shape, depends on the query or the key."""
    return any(n > 1 for n in shape[-2:])


@lru_cache(maxsize=1024)  # each launch asks
def without_mask(of: Program, place: int) -> Program | None:
    """The program of a score without the mask, the input at ``place``; None if the score stays as it is."""
    score, mask = of.outputs[0], input_node(place, of.inputs[place])
    if score.kind == "call" and score.args[0] is mask:
        score = score.args[1]
    return None if score is input_node(0, of.inputs[0]) else program(of.name, (score,), of.inputs)


def reached(lookups: Sequence[Lookup], roots: Sequence[Node]) -> frozenset[int]:
    """The inputs on which nodes depend, by what they read of tables too."""
    places = {one.value.value: one.places for one in lookups}
    found: set[int] = set()
    while roots:
        new = {node.value for node in order(roots) if node.kind == "input"} - found
        found |= new
        roots = [place for k in new for place in places.get(k, ())]
    return frozenset(found)


def unless_excluded(score: Node) -> tuple[Node, Node] | None:
    """The condition under which a score is another one, and that; elsewhere it is -inf. None of any other score."""
    if not (score.kind == "call" and score.row is not None and score.row.name == "where"):
        return None
    holds, one, other = score.args
    if other.kind == "constant" and other.value == -math.inf:
        return holds, one
    if one.kind == "constant" and one.value == -math.inf:
        return call(logical_not, (holds,)), other
    return None


def _attended(score: Node) -> Node:
    """What a score is where no condition makes it -inf: elsewhere its weight is 0, and its derivatives do not count."""
    while (found := unless_excluded(score)) is not None:
        _, score = found
    return score


def _with_slopes(of: Program, wanted: Sequence[int]) -> tuple[Node, ...]:
    """The score, its slope, and its derivatives by arrays."""
    acc = of.inputs[0]
    needs = tuple(k == 0 or k in wanted for k in range(len(of.inputs)))
    attended = program(of.name, tuple(map(_attended, of.outputs)), of.inputs)
    # The derivative is linear in the cotangent, with which the kernel multiplies it.
    roots, results = roots_from(attended, [constant(1.0, acc)], needs, needs)

    def root(k: int) -> Node:
        result = results[k]
        return constant(0.0, acc) if result is None else roots[result[1]]

    return (*of.outputs, root(0), *(root(k) for k in wanted))


def _range(node: Node, sizes: Sequence[int]) -> tuple[int, int] | None:
    """The least and the largest value of an integer made of places; None if they are not known, or fit no int."""
    if node.kind == "input" and 0 < node.value < PLACES:
        return 0, max(0, sizes[node.value - 1] - 1)
    if node.kind == "constant" and dtypes.info(node.dtype).kind in "iu":
        return int(node.value), int(node.value)
    known = [_range(one, sizes) for one in node.args]
    if dtypes.info(node.dtype).kind != "i" or node.row is None or None in known:
        return None
    ends = [one for one in known if one is not None]
    name, (low, high) = node.row.name, ends[0]
    if name == "negative":
        low, high = -high, -low
    elif name == "abs":
        low, high = max(low, -high, 0), max(-low, high)
    elif name == "add":
        low, high = low + ends[1][0], high + ends[1][1]
    elif name == "subtract":
        low, high = low - ends[1][1], high - ends[1][0]
    elif name in ("minimum", "maximum"):
        take = min if name == "minimum" else max
        low, high = take(low, ends[1][0]), take(high, ends[1][1])
    else:
        return None
    return (low, high) if low >= -(2**31) and high < 2**31 else None


def looked_up(
    lookups: Sequence[Lookup], roots: Sequence[Node], sizes: Sequence[int]
) -> tuple[list[Statement], list[str]]:
    """The statements of the roots, where elements of tables are loaded as soon as their indices are known."""
    inputs = reached(lookups, roots)
    lookups = [one for one in lookups if one.value.value in inputs]
    body, names = statements([*(place for one in lookups for place in one.places), *roots])
    ready = {line.name: i for i, line in enumerate(body, 1)}
    loads: dict[int, list[Statement]] = {}
    places = iter(names)
    for one in lookups:
        own = [next(places) for _ in one.places]
        offset = "0"
        for name, node, n in zip(own, one.places, one.shape, strict=True):
            ends = _range(node, sizes)
            inside = ends is not None and ends[0] >= 0 and ends[1] < n
            offset = f"({offset}) * {n} + " + (f"index({name})" if inside else f"clipped({name}, {n})")
        kind = compute_type(one.value.dtype)
        load = Statement(kind, f"a{one.value.value}", f"cast<{kind}>(t{one.table}[{offset}])")
        at = ready[load.name] = max(ready.get(name, 0) for name in own)
        loads.setdefault(at, []).append(load)
    lines = [line for i in range(len(body) + 1) for line in (*loads.get(i, ()), *body[i : i + 1])]
    return lines, list(places)
