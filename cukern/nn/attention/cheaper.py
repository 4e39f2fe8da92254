"""Forms of a score's expressions that take fewer instructions, for scores made of 16-bit elements.

Integers of places become floats by sums of floats, exactly. What depends on the score is rounded a few times more or
less than its function says: that moves it by some 1e-6 of its largest term.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ... import dtypes
from ...elementwise import table
from ...elementwise.graph import Node, call, cast, constant, input_node, order, substitute
from ...elementwise.print_cxx import Statement, literal

#: What the kernels call a score's batch, head, query and key, in two parts: what a loop over elements keeps, and
#: what is known of each element when the kernel is compiled.
_KEPT = ("at.batch", "at.head", "at.row", "at.key")
_KNOWN = {2: "at.more_row", 3: "at.more_key"}
#: Whole numbers that float32 holds, less what a tile has beyond the end.
_WHOLE = 2**24 - 2**12
#: Twice this in an exponent of e is far from a subnormal number of float32 and bfloat16.
_LIMIT = 40.0
_THROUGH = frozenset({"abs", "negative", "maximum", "minimum", "add", "subtract"})
_Linear = tuple[tuple[int, int, int, int], int]


class Given(NamedTuple):
    """What is known of a score of 16-bit elements besides its function.

    Attributes:
        sizes: how many batches, heads, queries and keys there are.
        uniform: the inputs that are the same for all queries and keys of a head.
        near: whether a tanh may be that of the device's own instruction, to within 5e-4 of its value.
        shifted: whether the kernel wants the score in parts; see :class:`Parts`.
        gained: whether it multiplies the score by a gain, without a shift.
        ahead: the inputs that are made ahead, by themselves or divided by the scale of the scores.
    """

    sizes: Sequence[int]
    uniform: Collection[int]
    near: bool = False
    shifted: bool = False
    gained: bool = False
    ahead: Collection[int] = ()


class Unit(NamedTuple):
    """In what a score is made.

    Attributes:
        gain: what it is multiplied by, above 0.
        scaled: whether the gain is to be multiplied by the scale of the scores, which is above 0.
        limited: whether no value is above 1, and exponentials of differences of scores are far from subnormal.
        divided: of the inputs made ahead, those that are to be divided by the scale.
    """

    gain: float = 1.0
    scaled: bool = False
    limited: bool = False
    divided: frozenset[int] = frozenset()


class Parts(NamedTuple):
    """A score as ``gain * (value + shift)``, where the shift is the same for all keys of a tile.

    Attributes:
        value, shift: the parts.
        unit: the gain, and what is known of the value.
    """

    value: Node
    shift: Node
    unit: Unit


def cheaper(
    roots: Sequence[Node], first: int, given: Given
) -> tuple[tuple[Node, ...], list[Statement], Unit]:
    """Nodes with the values of ``roots``, and statements of the inputs that they read besides.

    Where ``given.shifted``, the only root becomes value and shift of Parts, whose unit is the last result; where
    ``given.gained``, the first root is to be multiplied by the unit's gain.

    Args:
        roots: of float32, of which input 0 is the score and 1 to 4 are its places.
        first: the number of the first new input.
        given: what is known of the score.
    """
    made = _Inputs(first, given)
    for rule in (made.as_sum, made.apart, _simpler):
        roots = _rewritten(roots, rule)
    unit = Unit()
    if given.shifted:
        parts = made.in_parts(roots[0])
        roots, unit = (parts.value, parts.shift), parts.unit
    elif given.gained:
        gain, value = _factor(roots[0]) or (1.0, roots[0])
        if gain > 0:
            roots, unit = (value, *roots[1:]), Unit(gain, limited=_named(value, "tanh") and gain <= _LIMIT)
    known = frozenset(node for node in order(roots) if _named(node, "tanh"))
    for rule in (lambda node: _by_tanh(node, known), _simpler, made.tanh, made.scaled):
        roots = _rewritten(roots, rule)
    return tuple(roots), made.lines, unit


def _rewritten(roots: Sequence[Node], rule: Callable[[Node], Node | None]) -> Sequence[Node]:
    """The roots where every node for which the rule has another one is replaced by it."""
    while True:
        found = next(((node, new) for node in order(roots) if (new := rule(node)) is not None), None)
        if found is None:
            return roots
        roots = substitute(roots, dict([found]))


def finite(root: Node, lines: Sequence[Statement]) -> bool:
    """Whether a node is sums and products of constants and of tanh."""
    tanh = {line.name for line in lines if line.code.startswith("tanh")}
    return all(
        _named(one, "add", "subtract", "multiply")
        or (one.kind == "constant" and math.isfinite(one.value))
        or (one.kind == "input" and f"a{one.value}" in tanh)
        for one in order((root,))
    )


def _named(node: Node, *names: str) -> bool:
    return node.row is not None and node.row.name in names


def _depends(node: Node) -> bool:
    """Whether a node depends on the score."""
    return any(one.kind == "input" and one.value == 0 for one in order((node,)))


def _factor(node: Node) -> tuple[float, Node] | None:
    """The constant and the other factor of a product or quotient of floats."""
    if not _named(node, "multiply", "divide") or node.dtype != dtypes.float32:
        return None
    x, y = node.args
    if _named(node, "multiply") and x.kind == "constant":
        x, y = y, x
    if y.kind != "constant" or x.kind == "constant":
        return None
    if _named(node, "multiply"):
        return y.value, x
    if not _fits(y.value) or not _fits(1 / y.value):
        return None
    return 1 / y.value, x


def _product(x: Node, by: Node) -> Node:
    if by.kind == "constant" and by.value == 1:
        return x
    return call(table.multiply, (x, by))


def _terms(node: Node, factor: float) -> Iterator[tuple[float, Node]]:
    """The summands of a float and their factors."""
    found = _factor(node)
    if _named(node, "add", "subtract") and node.dtype == dtypes.float32:
        yield from _terms(node.args[0], factor)
        yield from _terms(node.args[1], -factor if _named(node, "subtract") else factor)
    elif _named(node, "negative"):
        yield from _terms(node.args[0], -factor)
    elif found is not None and _fits(found[0] * factor):
        yield from _terms(found[1], found[0] * factor)
    else:
        yield factor, node


def _fits(value: float) -> bool:
    """Whether float32 has a number with all its digits."""
    return 2.0**-126 <= abs(value) < 2.0**127


def _simpler(node: Node) -> Node | None:
    """Products in place of quotients by constants, and one constant in place of two."""
    found = _factor(node)
    if found is None:
        return _number(node)
    by, x = found
    exact = abs(math.frexp(by)[0]) == 0.5
    if _named(node, "divide") and (exact or _depends(x)):
        return call(table.multiply, (constant(by, dtypes.float32), x))
    inner = _factor(x) if _named(x, "multiply") and _depends(x) else None
    if inner is None or not _fits(by * inner[0]):
        return None
    if by * inner[0] == 1:
        return inner[1]
    return call(table.multiply, (constant(by * inner[0], dtypes.float32), inner[1]))


def _by_tanh(node: Node, known: Collection[Node]) -> Node | None:
    """The derivative of a known tanh by that tanh itself.

    That of sigmoid stays as it is: functions such as log(sigmoid(x)) divide it by what may be as small.
    """
    if not _named(node, "logistic_density") or node.dtype != dtypes.float32 or not _depends(node):
        return None
    by, x = _factor(node.args[0]) or (1.0, node.args[0])
    half = x if by == 2 else call(table.multiply, (constant(0.5 * by, dtypes.float32), x))
    t = call(table.tanh, (half,))
    if t not in known:
        return None
    one_less = call(table.subtract, (1.0, call(table.multiply, (t, t))))
    return call(table.multiply, (0.25, one_less))


def _number(node: Node) -> Node | None:
    """A product or quotient of constants."""
    if not _named(node, "multiply", "divide") or any(one.kind != "constant" for one in node.args):
        return None
    x, y = (one.value for one in node.args)
    if node.dtype != dtypes.float32 or not (_fits(x) and _fits(y)):
        return None
    return constant(x * y if _named(node, "multiply") else x / y, dtypes.float32)


class _Inputs:
    """The inputs that stand for what is computed ahead, and their statements."""

    def __init__(self, first: int, given: Given) -> None:
        self.lines: list[Statement] = []
        self._first, self._given = first, given
        self._known: dict[str, Node] = {}
        self._kept: set[Node] = set()

    def _input(self, code: str) -> Node:
        if code not in self._known:
            node = input_node(self._first + len(self.lines), dtypes.float32)
            self.lines.append(Statement("float", f"a{node.value}", code))
            self._known[code] = node
        return self._known[code]

    def scaled(self, node: Node) -> Node | None:
        """The score times a constant: the product of query and key, times one factor."""
        found = _factor(node)
        if found is None or found[1] != input_node(0, dtypes.float32):
            return None
        return self._input(f"product * (scale * {literal(found[0], dtypes.float32)})")

    def tanh(self, node: Node) -> Node | None:
        """The tanh of the score times a constant, likewise."""
        found = _factor(node.args[0]) if _named(node, "tanh") else None
        if found is None or found[1] != input_node(0, dtypes.float32):
            return None
        if self._given.near:
            return self._input(f"tanh_near(product * (scale * {literal(found[0], dtypes.float32)}))")
        by = found[0] * 2 / math.log(2)
        return self._input(f"tanh_of_power(product * (scale * {literal(by, dtypes.float32)}))")

    def in_parts(self, root: Node) -> Parts:
        """A score in parts; as a whole where it is no sum with one summand of the score, of a factor above 0."""
        terms = list(_terms(root, 1.0))
        own = [one for one in terms if _depends(one[1])]
        if len(own) != 1 or not own[0][0] > 0:
            return Parts(root, constant(0.0, dtypes.float32), Unit())
        ((gain, value),) = own
        scaled = value == input_node(0, dtypes.float32)
        made = {True: constant(0.0, dtypes.float32), False: self._input("product") if scaled else value}
        users = Counter(one for node in order((root,)) for one in node.args)
        divided = {
            term
            for _, term in terms
            if scaled
            and users[term] == 1
            and self._is_ahead(term)
            and all(
                by == gain for by, one in terms if one == term
            )  # a sum with many users has it with several factors
        }
        for factor, term in terms:
            if term is value:
                continue
            if term in divided:
                made[False] = call(table.add, (made[False], term))
                continue
            by: Node = constant(factor / gain, dtypes.float32)
            if scaled:
                by = _product(by, self._input("inverse"))
            keeps = self._is_kept(term)
            made[keeps] = call(table.add, (made[keeps], self._times(term, by)))
        limited = self._given.near and _named(made[False], "tanh") and gain <= _LIMIT
        unit = Unit(gain, scaled, limited, frozenset(one.value for one in divided))
        return Parts(made[False], made[True], unit)

    def _is_ahead(self, node: Node) -> bool:
        return node.kind == "input" and node.value in self._given.ahead

    def _times(self, term: Node, by: Node) -> Node:
        """A product, of which what is uniform is made ahead."""
        if _named(term, "multiply"):
            for x, y in (term.args, term.args[::-1]):
                if self._is_uniform(y):
                    return _product(x, _product(y, by))
        return _product(term, by)

    def _is_kept(self, node: Node) -> bool:
        """Whether a term is the same for all keys of a tile, and finite."""
        leaves = [one for one in order((node,)) if not one.args]
        if node.kind == "constant":
            return math.isfinite(node.value)
        of_place = [one for one in leaves if one in self._kept]
        return bool(of_place) and all(one in self._kept or self._is_uniform(one) for one in leaves)

    def apart(self, node: Node) -> Node | None:
        """A sum as from :meth:`as_sum` times what is uniform: one product that a loop keeps, and one added to it."""
        if not _named(node, "multiply") or node.dtype != dtypes.float32:
            return None
        for by, of in (node.args, node.args[::-1]):
            if (
                _named(of, "add")
                and all(one in self._known.values() for one in of.args)
                and self._is_uniform(by)
            ):
                row = node.row
                assert row is not None and of.row is not None
                return call(of.row, [call(row, (by, one)) for one in of.args])
        return None

    def _is_uniform(self, node: Node) -> bool:
        leaves = [one for one in order((node,)) if not one.args]
        return all(one.kind == "constant" or one.value in self._given.uniform for one in leaves)

    def as_sum(self, node: Node) -> Node | None:
        """The float of an integer: of what a loop keeps, and of what is known."""
        if node.kind != "cast" or node.dtype != dtypes.float32 or node.args[0].dtype != dtypes.int32:
            return None
        found = self._float(node.args[0])
        # Where no place is linear, the sum would be the same cast.
        return None if found is None or found[0] == node else found[0]

    def _float(self, node: Node) -> tuple[Node, int] | None:
        """An integer as a float, and how large it may be; None if it may be too large, or is no sum of places."""
        found = self._linear(node)
        if found is not None:
            return found
        if not _named(node, *_THROUGH):
            return None
        parts = [self._float(one) for one in node.args]
        if any(one is None for one in parts):
            return None
        most = sum(one[1] for one in parts if one)
        assert node.row is not None
        return (call(node.row, [one[0] for one in parts if one]), most) if most < _WHOLE else None

    def _linear(self, node: Node) -> tuple[Node, int] | None:
        found = linear_in_places(node)
        if found is None:
            return None
        factors, more = found
        most = abs(more) + sum(abs(c) * n for c, n in zip(factors, self._given.sizes, strict=True))
        if most >= _WHOLE:
            return None
        if not any(factors):
            return cast(constant(more, dtypes.int32), dtypes.float32), most
        kept = [f"({c}) * {name}" for c, name in zip(factors, _KEPT, strict=True) if c]
        code = f"settled(float({' + '.join([*kept, f'({more})'])}))"
        known = [f"({factors[k]}) * {name}" for k, name in _KNOWN.items() if factors[k]]
        made = self._input(code)
        self._kept.add(made)
        if known:
            made = call(table.add, (made, self._input(f"float({' + '.join(known)})")))
        return made, most


@lru_cache(maxsize=4096)  # of a node that many nodes use, once
def linear_in_places(node: Node) -> _Linear | None:
    """The factors of the places, and the constant, of an integer that is a sum of them; None of another node."""
    if node.dtype != dtypes.int32:
        return None
    if node.kind == "constant":
        return (0, 0, 0, 0), int(node.value)
    if node.kind == "input" and 1 <= node.value <= 4:
        batch, head, query, key = (int(node.value == k) for k in range(1, 5))
        return (batch, head, query, key), 0
    if not _named(node, "add", "subtract", "negative", "multiply"):
        return None
    parts = [linear_in_places(one) for one in node.args]
    if any(one is None for one in parts):
        return None
    (a, x), *rest = (one for one in parts if one)
    if not rest:
        return _combined(-1, a, x, 0, a, x)
    ((b, y),) = rest
    if not _named(node, "multiply"):
        return _combined(1, a, x, -1 if _named(node, "subtract") else 1, b, y)
    if any(a) and any(b):
        return None
    return _combined(y, a, x, 0, b, y) if any(a) else _combined(0, a, x, x, b, y)


def _combined(s: int, a: tuple[int, ...], x: int, t: int, b: tuple[int, ...], y: int) -> _Linear:
    batch, head, query, key = (s * one + t * other for one, other in zip(a, b, strict=True))
    return (batch, head, query, key), s * x + t * y
