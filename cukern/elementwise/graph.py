"""Elementwise expressions as typed, hash-consed graphs, which :mod:`.print_cxx` prints as C++.

A graph's leaves are inputs (arrays), tables (arrays of which elements are picked), scalars (kernel arguments) and
constants (text). Its nodes are casts, rows of :mod:`.table`, and elements of tables. float16 and bfloat16 values are
computed in float32; only a cast, or a store to an array, rounds them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from .. import dtypes
from ..array.operators import FUNCTIONS, Operators
from ..autodiff.state import state
from ..dtypes import DType
from ..kernel.strides import broadcasts, contiguous_steps
from .row import FLOAT, INEXACT, Row, Scalar, convert_scalar, is_scalar


class Node:
    """A node of a graph; equal nodes are the same object.

    Attributes:
        kind: ``"input"``, ``"view"``, ``"table"``, ``"pieces"``, ``"scalar"``, ``"constant"``, ``"cast"``, ``"call"``,
            ``"picked"``, ``"product"``, ``"called"``, ``"gathered"`` or ``"reduced"``.
        row: the row of a call.
        args: the operands; of what is picked the table, and the place, in elements from the table's first one.
        dtype: the dtype of the value.
        value: the number of an input, a table or a scalar; the value of a constant; the factors of a product;
            a :class:`View`; :class:`Pieces`; :class:`Called`; :class:`Gathered`; a :class:`Stage`.
        weak: whether it takes the dtype of the other operands, as a Python number does.
    """

    __slots__ = ("__weakref__", "args", "dtype", "kind", "row", "value", "weak")

    kind: str
    row: Row | None
    args: tuple[Node, ...]
    dtype: DType
    value: Any
    weak: bool


_nodes: WeakValueDictionary[Any, Node] = WeakValueDictionary()
_making = threading.Lock()


def _node(
    kind: str,
    dtype: DType,
    args: tuple[Node, ...] = (),
    row: Row | None = None,
    value: Any = None,
    weak: bool = False,
) -> Node:
    key = (kind, dtype, tuple(map(id, args)), row, repr(value), weak)
    node = _nodes.get(key)
    if node is not None:
        return node
    with _making:
        node = _nodes.get(key)
        if node is None:
            node = Node()
            node.kind, node.dtype, node.args = kind, dtype, args
            node.row, node.value, node.weak = row, value, weak
            _nodes[key] = node
        return node


def input_node(k: int, dtype: DType) -> Node:
    """The ``k``-th array."""
    return _node("input", dtype, value=k)


def scalar_node(k: int, dtype: DType, weak: bool = False) -> Node:
    """The ``k``-th scalar argument."""
    return _node("scalar", dtype, value=k, weak=weak)


def table_node(k: int, dtype: DType) -> Node:
    """The ``k``-th array as a whole, of which elements are picked."""
    return _node("table", dtype, value=k)


def picked_node(table: Node, place: Node) -> Node:
    """The element of a table at a place, which an integer expression computes."""
    return _node("picked", table.dtype, (table, place))


def constant(value: Scalar, dtype: DType) -> Node:
    """A number that becomes part of the text."""
    return _node("constant", dtype, value=convert_scalar(value, dtype))


def cast(node: Node, dtype: DType) -> Node:
    """``node`` as another dtype."""
    if node.dtype == dtype and not node.weak:
        return node
    if node.kind == "constant":
        return constant(node.value, dtype)
    return _node("cast", dtype, (node,))


def _sample(node: Node) -> DType | Scalar:
    """A node's operand for dtype promotion: its dtype, or a Python number of its kind."""
    if not node.weak:
        return node.dtype
    return {"b": False, "i": 0, "f": 0.0, "c": 0j}[dtypes.info(node.dtype).kind]


def _weak_constant(value: Scalar) -> Node:
    kinds = (
        (bool, dtypes.bool_),
        (int, dtypes.int64),
        (float, dtypes.float64),
        (complex, dtypes.complex128),
    )
    dtype = next(dtype for kind, dtype in kinds if isinstance(value, kind))
    return _node("constant", dtype, value=value, weak=True)


def call(row: Row, operands: Sequence[Node | Scalar]) -> Node:
    """Apply ``row`` to nodes and Python numbers, with the casts that dtype promotion requires.

    Raises:
        TypeError: ``row`` is not defined for these dtypes.
        OverflowError: a Python integer is out of the range of the dtype in which it is computed.
    """
    nodes = [o if isinstance(o, Node) else _weak_constant(o) for o in operands]
    if row.name in COMPARISONS and _differ_in_sign(nodes):
        return _compared(row, nodes)
    wanted, result = row.resolve([_sample(node) for node in nodes])
    weak = all(node.weak for node in nodes)
    if weak:
        # As Python does: in double, whatever the dtype of the other operands.
        whole = row.types in (FLOAT, INEXACT)
        wanted, result = row.resolve(
            [dtypes.float64 if whole and node.dtype not in dtypes.COMPLEX else node.dtype for node in nodes]
        )
    args = tuple(cast(node, dtype) for node, dtype in zip(nodes, wanted, strict=True))
    folded = _fold(row, args)
    return _node("call", result, args, row, weak=weak) if folded is None else folded


#: The result of each comparison of a negative and a non-negative number, with the negative one first or second.
COMPARISONS = {
    "less": (True, False),
    "less_equal": (True, False),
    "greater": (False, True),
    "greater_equal": (False, True),
    "equal": (False, False),
    "not_equal": (True, True),
}
#: The rows that :func:`call` treats specially, by name.
SIMPLIFIED = frozenset({*COMPARISONS, "multiply", "divide", "conj"})


def _differ_in_sign(nodes: Sequence[Node]) -> bool:
    """Whether one node is a signed integer and the other a uint64."""
    kinds = sorted(dtypes.info(node.dtype).kind for node in nodes if not node.weak)
    return kinds == ["i", "u"] and any(node.dtype == dtypes.uint64 for node in nodes)


def _compared(row: Row, nodes: Sequence[Node]) -> Node:
    """The exact comparison of a signed integer and a uint64; their common dtype, float64, would round them."""
    first = 0 if dtypes.info(nodes[0].dtype).kind == "i" else 1
    negative = call(FUNCTIONS["less"], (nodes[first], 0))
    same_sign = call(row, [cast(node, dtypes.uint64) for node in nodes])
    if COMPARISONS[row.name][first]:
        return call(FUNCTIONS["logical_or"], (negative, same_sign))
    return call(FUNCTIONS["logical_and"], (call(FUNCTIONS["logical_not"], (negative,)), same_sign))


def _fold(row: Row, args: tuple[Node, ...]) -> Node | None:
    """Replace x * 1, 1 * x, x / 1 and conj(conj(x)) by x, and functions of a constant's parts by constants."""
    if row.name == "conj":
        if args[0].kind == "constant":
            return constant(args[0].value.conjugate(), args[0].dtype)
        return args[0].args[0] if args[0].row is row else None
    if row.name in ("multiply", "divide") and args[0].dtype in dtypes.INEXACT:
        if args[1].kind == "constant" and args[1].value == 1:
            return args[0]
        if row.name == "multiply" and args[0].kind == "constant" and args[0].value == 1:
            return args[1]
    return None


@contextmanager
def tracing(name: str, shapes: Sequence[tuple[int, ...]] = ()) -> Iterator[list[str]]:
    """Within it a function runs on symbols of arrays with these shapes.

    Gives what it has that no kernel can, also if it catches the error.
    """
    outer = state.fusing, state.refused, state.shapes
    state.fusing, state.refused, state.shapes = name, [], shapes
    try:
        yield state.refused
    finally:
        state.fusing, state.refused, state.shapes = outer


class NotFused(TypeError):
    """What a fused function cannot have in its kernels, so that its operations are called one by one.

    Args:
        what: that has no place in a kernel.
        instead: the way out.
    """

    def __init__(self, what: str, instead: str = "apply it before or after the function") -> None:
        super().__init__(f"{what}, which is not elementwise: {instead}")
        if state.fusing is not None:
            state.refused.append(str(self))


class Expr(Operators):
    """A symbol, with which fused functions and derivatives of rows compute.

    Attributes:
        node: the node of the graph.
        shape: the shape of the value.
        shared: whether another symbol is a view of the same memory, to which nothing may be written in place then.
    """

    __slots__ = ("node", "shape", "shared")

    def __init__(self, node: Node, shape: tuple[int, ...] = (), shared: bool = False) -> None:
        self.node = node
        self.shape = shape
        self.shared = shared

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return self.node.dtype

    @property
    def ndim(self) -> int:
        """The number of axes of the value."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements of the value."""
        return math.prod(self.shape)

    def astype(self, dtype: Any, /, *, copy: bool = True) -> Expr:
        """The symbol as another dtype."""
        wanted = dtypes.as_dtype(dtype)
        dtypes.refuse_real("astype", self.dtype, wanted)
        return Expr(cast(self.node, wanted), self.shape)

    def __repr__(self) -> str:
        return f"Expr({dtypes.info(self.dtype).name}, shape={self.shape})"

    @property
    def T(self) -> Any:
        """A matrix's transpose."""
        if self.ndim != 2:
            raise TypeError(f"T in a fused function: expected a matrix, got shape {self.shape}; see mT")
        return Swapped(self)

    @property
    def mT(self) -> Any:
        """The symbol with its last two axes swapped."""
        if self.ndim < 2:
            raise TypeError(f"mT in a fused function: expected at least 2 axes, got shape {self.shape}")
        return Swapped(self)

    def permuted(self, order: Sequence[int]) -> Any:
        """The symbol with its axes in another order."""
        places = list(range(self.ndim))
        if self.ndim > 1 and list(order) == [*places[:-2], *places[:-3:-1]]:
            return Swapped(self)
        return self.moved(order)

    def broadcast(self, shape: tuple[int, ...]) -> Expr:
        """The symbol as what its kernel broadcasts to ``shape``.

        Raises:
            ValueError: it does not broadcast to that shape.
        """
        _require_shapes("broadcast_to")
        self.shared = True
        wide = np.broadcast_to(np.broadcast_to(np.False_, self.shape), shape).shape
        return Expr(self.node, wide, shared=True)

    def contiguous(self) -> Expr:
        """The symbol itself: kernels write in C order."""
        return self

    def moved(self, order: Sequence[int]) -> Expr:
        """The expression of arrays whose axes are in another order."""
        return _viewed(self, Moved(tuple(order)), f"a permutation of axes by {tuple(order)}")

    def require_own(self, name: str) -> None:
        """Raise unless this alone changes if ``name`` is done in place.

        Raises:
            NotFused: another symbol is a view of the same memory.
        """
        if self.shared:
            raise NotFused(f"{name} in place of an array and a view of it")

    def _refuse(self, what: str) -> TypeError:
        return NotFused(f"{what} of an array", "use cukern.where for choices by value")

    def __bool__(self) -> bool:
        raise self._refuse("the truth")

    def __int__(self) -> int:
        raise self._refuse("the integer")

    def __float__(self) -> float:
        raise self._refuse("the number")

    def __iter__(self) -> Any:
        raise NotFused("a loop over an array")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return FUNCTIONS["array_ufunc"](ufunc, method, inputs, options)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array with 0 axes")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """The expression of parts of arrays: integers, slices, None and ``...`` make views."""
        parts = list(key) if isinstance(key, tuple) else [key]
        for part in parts:
            if not (
                part is None or part is ... or type(part) in (int, slice) or isinstance(part, np.integer)
            ):
                raise NotFused("an index by an array")
        used = sum(part is not None and part is not ... for part in parts)
        at = next((i for i, part in enumerate(parts) if part is ...), len(parts))
        parts[at : at + 1] = [slice(None)] * max(0, self.ndim - used)
        return _viewed(self, Indexed(tuple(parts)), "an index")


class Moved(NamedTuple):
    """A view with its axes in another order."""

    order: tuple[int, ...]

    def shape(self, of: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the view of an array."""
        return tuple([of[axis] for axis in self.order])

    def of(self, x: Any) -> Any:
        """The view of an array."""
        return FUNCTIONS["permute_dims"](x, self.order)


class Indexed(NamedTuple):
    """A view by a basic index: for each axis an integer or a slice, between which there are Nones for new axes."""

    key: tuple[Any, ...]

    def shape(self, of: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the view of an array.

        Raises:
            IndexError: the index does not fit.
        """
        shape: tuple[int, ...] = np.broadcast_to(np.False_, of)[self.key].shape
        return shape

    def of(self, x: Any) -> Any:
        """The view of an array."""
        return x[self.key]

    def normalised(self, of: tuple[int, ...]) -> Indexed:
        """The index with the same elements of an array, whose numbers are the least that have them."""
        sizes = iter(of)
        key = [part if part is None else _part(range(next(sizes))[part]) for part in self.key]
        return Indexed(tuple(key))

    def behind(self, first: Indexed) -> Indexed | None:
        """The index that has the elements of this one of a view by another, both normalised; None if there is none."""
        key, parts = list[Any](), iter(first.key)
        for part in self.key:
            if part is None:
                key.append(None)
                continue
            while type(own := next(parts)) is int:
                key.append(own)
            if own is not None:
                key.append(_part(range(own.start, -1 if own.stop is None else own.stop, own.step)[part]))
            elif part == slice(0, 1, 1):
                key.append(None)
            elif part != 0:
                return None
        return Indexed((*key, *parts))

    def within(self, own: tuple[int, ...], shape: tuple[int, ...]) -> Indexed:
        """The index of an array of shape ``own``, which is broadcast to ``shape``, for what broadcasts to the view."""
        new = len(shape) - len(own)
        indexed = [i for i, part in enumerate(self.key) if part is not None][new:]
        sizes, key = iter(zip(own, shape[new:], strict=True)), []
        for part in self.key[indexed[0] :] if new and indexed else self.key:
            one = part
            if part is not None:
                size, whole = next(sizes)
                if size != whole and isinstance(part, slice):
                    one = slice(None) if range(whole)[part] else slice(0, 0)
                elif size != whole:
                    one = 0
            key.append(one)
        return Indexed(tuple(key))


def _part(places: int | range) -> int | slice:
    """The integer or slice of an axis that has certain places."""
    if isinstance(places, int):
        return places
    if len(places) < 2:
        return slice(places[0], places[0] + 1, 1) if places else slice(0, 0, 1)
    stop = places[-1] + (1 if places.step > 0 else -1)
    return slice(places[0], None if stop < 0 else stop, places.step)


class Broadcast(NamedTuple):
    """A view broadcast to a shape."""

    sizes: tuple[int, ...]

    def shape(self, of: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the view of an array."""
        return self.sizes

    def of(self, x: Any) -> Any:
        """The view of an array."""
        return FUNCTIONS["broadcast_to"](x, self.sizes)


class Reshaped(NamedTuple):
    """A view of an array in C order in another shape."""

    sizes: tuple[int, ...]

    def shape(self, of: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the view of an array."""
        return self.sizes

    def of(self, x: Any) -> Any:
        """The view of an array."""
        return FUNCTIONS["reshape"](x, self.sizes)


class Rolled(NamedTuple):
    """The elements of an array shifted cyclically along each axis: no view of it, but of a copy with wider borders."""

    shifts: tuple[int, ...]

    def shape(self, of: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what is shifted."""
        return of

    def of(self, x: Any) -> Any:
        """The shifted array."""
        return FUNCTIONS["roll"](x, self.shifts, tuple(range(len(self.shifts))))


Step = Moved | Indexed | Broadcast | Reshaped | Rolled


class View(NamedTuple):
    """What a kernel reads of an array: the number of the array, the views one of another, and the shape of the last."""

    array: int
    steps: tuple[Step, ...]
    shape: tuple[int, ...]

    def of(self, x: Any) -> Any:
        """The view of the array."""
        for step in self.steps:
            x = step.of(x)
        return x

    def of_data(self, data: Any) -> Any:
        """The view of an ndarray of the host."""
        for step in self.steps:
            if isinstance(step, Indexed):
                data = data[(*step.key, ...)]
            elif isinstance(step, Moved):
                data = data.transpose(step.order)
            elif isinstance(step, Reshaped):
                data = data.reshape(step.sizes)
            elif isinstance(step, Rolled):
                data = np.roll(data, step.shifts, tuple(range(data.ndim)))
            else:
                data = np.broadcast_to(data, step.sizes)
        return data

    def then(self, step: Step) -> View:
        """The view of this one; an index of an index is one index, so that views of equal elements are equal."""
        shape, steps = step.shape(self.shape), self.steps
        if isinstance(step, Rolled) and steps and isinstance(steps[-1], Rolled):
            both = zip(steps[-1].shifts, step.shifts, shape, strict=True)
            steps, step = steps[:-1], Rolled(tuple([(a + b) % n for a, b, n in both]))
        if isinstance(step, Rolled) and not any(step.shifts):
            return View(self.array, steps, shape)
        if isinstance(step, Indexed):
            step = step.normalised(self.shape)
            before = steps[-1] if steps else None
            one = step.behind(before) if isinstance(before, Indexed) else None
            if one is not None:
                steps, step = steps[:-1], one
        return View(self.array, (*steps, step), shape)

    def node(self, dtype: DType) -> Node:
        """The node of what is read."""
        return _node("view", dtype, value=self)


def _view_of(leaf: Node) -> View:
    """What is read of an array by an input or a view."""
    view: View = leaf.value if leaf.kind == "view" else View(leaf.value, (), state.shapes[leaf.value])
    return view


def all_of(shape: Sequence[int]) -> tuple[slice, ...]:
    """The box of all of an array."""
    return tuple([slice(0, n) for n in shape])


class Piece(NamedTuple):
    """A box of a joined array, and what is in it: a part of an expression.

    Attributes:
        box: the slices of the box.
        of: the node of the expression, which may be a number.
        shape: that of the expression.
        key: the part: for each axis of the box a slice of an axis of the expression, or None; the part broadcasts to
            the box.
    """

    box: tuple[slice, ...]
    of: Node
    shape: tuple[int, ...]
    key: tuple[slice | None, ...]

    @property
    def is_number(self) -> bool:
        """Whether it has one number everywhere."""
        return all(one.kind in ("scalar", "constant") for one in order((self.of,)) if not one.args)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of the box."""
        return tuple([one.stop - one.start for one in self.box])

    @property
    def node(self) -> Node:
        """The node of the elements of the box."""
        whole = self.key == all_of(self.shape) or self.is_number
        node: Node = self.of if whole else Expr(self.of, self.shape)[self.key].node
        return node

    @property
    def source(self) -> tuple[slice, ...] | None:
        """The box of the expression that has just the elements of this one; None where the part is no such box."""
        own = [part for part in self.key if part is not None]
        if self.is_number or any(part.step is not None for part in own):
            return None
        sizes = [1 if part is None else part.stop - part.start for part in self.key]
        return tuple(own) if sizes == [*self.sizes] else None

    def within(self, part: tuple[slice, ...], box: tuple[slice, ...]) -> Piece:
        """What is in a part of the box, given by slices of the box, as the piece of another array."""
        if self.is_number:
            return self._replace(box=box)
        if self.source is None:
            return Piece(box, self.node, self.sizes, part)
        key = [
            None if own is None else slice(own.start + one.start, own.start + one.stop)
            for own, one in zip(self.key, part, strict=True)
        ]
        return self._replace(box=box, key=tuple(key))

    def joined(self, to: Piece) -> Piece:
        """The piece of an array that has a joined array, of which this is a piece, in the box of ``to``."""
        own, box, key = iter(zip(self.box, self.key or self.box, strict=True)), [], list[slice | None]()
        for at, part in zip(to.box, to.key, strict=True):
            if part is None:
                box.append(at)
                key.append(None)
            else:
                one, of = next(own)
                box.append(slice(at.start + one.start, at.start + one.stop))
                key.append(of)
        return self._replace(box=tuple(box), key=tuple(key))


class Pieces(NamedTuple):
    """An array that is made of others side by side.

    Attributes:
        shape: the array's.
        boxes: the pieces, which together are all of the array.
    """

    shape: tuple[int, ...]
    boxes: tuple[Piece, ...]

    def node(self, dtype: DType) -> Node:
        """The node of the array."""
        return _node("pieces", dtype, value=self)

    def part(self, index: Indexed) -> Node:
        """The node of a part, which is of one piece or of several itself.

        Raises:
            NotFused: the index is not of slices of step 1, or the part is empty.
        """
        shape, found = self.parts(index.key)
        return found[0].node if len(found) == 1 else Pieces(shape, found).node(found[0].of.dtype)

    def parts(self, key: Sequence[Any]) -> tuple[tuple[int, ...], tuple[Piece, ...]]:
        """The shape of a part by slices and new axes, and its pieces.

        Raises:
            NotFused: the index is not of slices of step 1, or the part is empty.
        """
        if None in key:
            shape, found = self.parts([part for part in key if part is not None])
            sizes = iter(shape)
            wide = tuple([1 if part is None else next(sizes) for part in key])
            whole = all_of(wide)
            kept = [None if part is None else own for part, own in zip(key, whole, strict=True)]
            to = Piece(whole, found[0].of, wide, tuple(kept))
            return wide, tuple([one.joined(to) for one in found])
        ends, pieces = [], []
        for part, n in zip(key, self.shape, strict=True):
            start, stop, step = part.indices(n) if isinstance(part, slice) else (0, 0, 0)
            if step != 1:
                raise NotFused("an index of joined arrays by other than slices of step 1")
            ends.append((start, max(start, stop)))
        for one in self.boxes:
            both = [(max(a, own.start), min(b, own.stop)) for (a, b), own in zip(ends, one.box, strict=True)]
            if any(a >= b for a, b in both):
                continue
            own = [slice(a - at.start, b - at.start) for (a, b), at in zip(both, one.box, strict=True)]
            box = [slice(a - start, b - start) for (a, b), (start, _) in zip(both, ends, strict=True)]
            pieces.append(one.within(tuple(own), tuple(box)))
        if not pieces:
            raise NotFused("an empty part of joined arrays")
        return tuple([b - a for a, b in ends]), tuple(pieces)


def reads_within(node: Node) -> int:
    """How many arrays an element of an expression reads."""
    joined = [max(reads_within(own.of) for own in one.boxes) for one in pieces_of((node,))]
    return len(array_reads(node)) + sum(joined)


def pieces_of(nodes: Sequence[Node]) -> list[Pieces]:
    """The joined arrays that expressions read."""
    return [node.value for node in order(nodes) if node.kind == "pieces"]


class Gathered(NamedTuple):
    """Rows of an array, along its first axis, by a vector of indices: the numbers of both, and the shape.

    Attributes:
        array: the number of the array.
        indices: that of the vector of indices.
        shape: the shape of the rows, of which the first axis numbers the indices.
    """

    array: int
    indices: int
    shape: tuple[int, ...]

    def node(self, dtype: DType) -> Node:
        """The node of the rows."""
        return _node("gathered", dtype, value=self)

    def within(self, shape: tuple[int, ...]) -> bool:
        """Whether a kernel of rows of ``shape`` can read them: each in one of its rows, to which it broadcasts."""
        return len(self.shape) == len(shape) and self.shape[0] == shape[0] and broadcasts(self.shape, shape)


class Stage(NamedTuple):
    """A reduction of an expression along its last axes, its rows, which is computed by the kernel of what reads it.

    Attributes:
        reduction: the public one.
        node: the expression.
        shape: the expression's.
        axes: the number of reduced axes.
        out: the shape of the result, which has a number for each row in C order.
        dtype: that of the result.
        parameter: the reduction's parameter.
    """

    reduction: Any
    node: Node
    shape: tuple[int, ...]
    axes: int
    out: tuple[int, ...]
    dtype: DType
    parameter: float

    @property
    def result(self) -> Node:
        """The node of the result."""
        return _node("reduced", self.dtype, value=self)

    @property
    def plain(self) -> tuple[int, ...]:
        """The shape of the result without the reduced axes."""
        return self.shape[: -self.axes]

    @property
    def kept(self) -> Stage:
        """The same, whose result keeps the reduced axes with size 1."""
        return self._replace(out=(*self.plain, *(1,) * self.axes))

    @property
    def keepdims(self) -> bool:
        """Whether the result has the reduced axes, with size 1."""
        return self.out != self.plain

    def viewed(self, step: Moved | Indexed, shape: tuple[int, ...]) -> Node:
        """The node of a view of the result broadcast to ``shape``.

        Raises:
            NotFused: the view does not have all of the result in C order.
        """
        out = (*(1,) * (len(shape) - len(self.out)), *self.out)
        own = step.within(out, shape) if isinstance(step, Indexed) else step
        like = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), out, contiguous_steps(out))
        seen = View(0, (own,), ()).of_data(like)
        if seen.size != like.size or not seen.flags.c_contiguous:
            raise NotFused("a part of a reduction")
        return self._replace(out=seen.shape).result


def stages_of(nodes: Sequence[Node]) -> list[Stage]:
    """The reductions that expressions read."""
    return [node.value for node in order(nodes) if node.kind == "reduced"]


def read_besides(nodes: Sequence[Node], but: Node) -> set[Node]:
    """The nodes that expressions read, also in what is reduced, but for those that ``but`` alone reads."""
    found, waiting = set[Node](), list(nodes)
    but = but.value.kept.result if but.kind == "reduced" else but
    while waiting:
        node = waiting.pop()
        node = node.value.kept.result if node.kind == "reduced" else node
        if node != but and node not in found:
            found.add(node)
            waiting += [node.value.node] if node.kind == "reduced" else node.args
    return found


def array_reads(node: Node) -> list[tuple[Node, View]]:
    """The inputs and views of an expression, with what each reads."""
    return [(leaf, _view_of(leaf)) for leaf in order((node,)) if leaf.kind in ("input", "view")]


def shapes_of(nodes: Sequence[Node]) -> dict[Node, tuple[int, ...]]:
    """The shapes of expressions, and of all that these are computed from."""
    found: dict[Node, tuple[int, ...]] = {}
    for node in order(nodes):
        if node.kind in ("input", "view"):
            found[node] = _view_of(node).shape
        elif node.kind in ("product", "called"):
            found[node] = product_shape_of(node)
        elif node.kind == "reduced":
            found[node] = node.value.out
        elif node.kind in ("pieces", "gathered"):
            found[node] = node.value.shape
        else:
            shapes = {found[arg] for arg in node.args}
            found[node] = np.broadcast_shapes(*shapes) if len(shapes) > 1 else next(iter(shapes), ())
    return found


def _require_shapes(what: str) -> None:
    """Raise NotFused where symbols stand for arrays of any shape, as in the vjp of an elementwise function."""
    if not state.shapes:
        raise NotFused(what if state.fusing is None else f"{what} in {state.fusing}")


def _viewed(x: Expr, step: Moved | Indexed, what: str) -> Expr:
    """A view of an elementwise expression: the expression of the views of its arrays.

    Raises:
        IndexError: an index does not fit.
        NotFused: the expression has a product or no array, or its arrays have no shapes.
    """
    _require_shapes(what)
    if step[0] == (tuple(range(x.ndim)) if isinstance(step, Moved) else (slice(None),) * x.ndim):
        return x
    shape, views = step.shape(x.shape), {}
    x.shared = True
    for leaf in order([x.node]):
        if leaf.kind in ("product", "called", "gathered"):
            raise NotFused(f"{what} of a {leaf.kind} array")
        if leaf.kind == "pieces":
            if not isinstance(step, Indexed):
                raise NotFused(f"{what} of joined arrays")
            views[leaf] = leaf.value.part(step.within(leaf.value.shape, x.shape))
            continue
        if leaf.kind == "reduced":
            views[leaf] = leaf.value.viewed(step, x.shape)
            continue
        if leaf.kind not in ("input", "view"):
            continue
        view = _view_of(leaf)
        if new := x.ndim - len(view.shape):
            view = view.then(Indexed((None,) * new + (slice(None),) * len(view.shape)))
        own = step.within(view.shape, x.shape) if isinstance(step, Indexed) else step
        views[leaf] = _node("view", leaf.dtype, value=view.then(own))
    if not views:
        raise NotFused(f"{what} of a number")
    return Expr(substitute((x.node,), views)[0], shape, shared=True)


def spread(roots: Sequence[Node], shape: tuple[int, ...]) -> Sequence[Node]:
    """The roots of one kernel, which broadcasts an array to ``shape`` if all together broadcast to a smaller one.

    Raises:
        NotFused: it reads products alone.
    """
    arrays = [node for node in order(roots) if node.kind in ("input", "view", "product")]
    own = [product_shape_of(one) if one.kind == "product" else _view_of(one).shape for one in arrays]
    if not arrays or np.broadcast_shapes(*own) == shape:
        return roots
    first = next((one for one in arrays if one.kind != "product"), None)
    if first is None:
        raise NotFused("broadcast_to of a product")
    view = _node("view", first.dtype, value=_view_of(first).then(Broadcast(shape)))
    return substitute(roots, {first: view})


def read_views(roots: Sequence[Node], first: int) -> tuple[tuple[Node, ...], list[View]]:
    """The roots with inputs from number ``first`` on in place of views, also in products, and these views."""
    views: dict[Node, Node] = {}

    def read(nodes: Sequence[Node]) -> tuple[Node, ...]:
        new: dict[Node, Node] = {}
        for node in order(nodes):
            if node.kind == "view":
                new[node] = views.setdefault(node, input_node(first + len(views), node.dtype))
            elif node.kind == "product":
                factors = [one._replace(node=read((one.node,))[0]) for one in node.value]
                new[node] = product_node(node.dtype, factors)
        return substitute(nodes, new)

    return read(roots), [one.value for one in views]


class Reduced(Operators):
    """The symbol of a reduction at the end of a fused function, which may return it but not compute with it.

    Attributes:
        reduction: the public reduction.
        value: the operand, in the dtype of the reduction.
        axes: the reduced axes.
        keepdims: whether they stay, with size 1.
        dtype: the dtype of the result.
        parameter: the reduction's parameter.
        shape: the shape of the result.
    """

    __slots__ = ("axes", "dtype", "keepdims", "parameter", "reduction", "shape", "value")

    def __init__(
        self,
        reduction: Any,
        value: Expr,
        axes: tuple[int, ...],
        keepdims: bool,
        dtype: DType,
        parameter: float,
    ) -> None:
        self.reduction, self.value, self.axes, self.keepdims = reduction, value, axes, keepdims
        self.dtype, self.parameter = dtype, parameter
        kept = (1 if i in axes else n for i, n in enumerate(value.shape) if keepdims or i not in axes)
        self.shape = tuple(kept)

    @property
    def ndim(self) -> int:
        """The number of axes of the result."""
        return len(self.shape)

    def _refused(self, name: str) -> TypeError:
        return NotFused(f"{name} of {self.reduction.name}")

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        raise self._refused(name)

    def _apply(self, name: str, x: Any, y: Any) -> Any:
        raise self._refused(name)

    def __repr__(self) -> str:
        return f"Reduced({self.reduction.name}, {dtypes.info(self.dtype).name}, shape={self.shape})"

    def __bool__(self) -> bool:
        raise self.value._refuse("the truth")

    def __int__(self) -> int:
        raise self.value._refuse("the integer")

    def __float__(self) -> float:
        raise self.value._refuse("the number")


class Factor(NamedTuple):
    """A factor of a product: the node of its elements, their shape, and whether the last two axes are swapped then."""

    node: Node
    shape: tuple[int, ...]
    swapped: bool

    @property
    def in_product(self) -> tuple[int, ...]:
        """The shape in the product."""
        return (*self.shape[:-2], self.shape[-1], self.shape[-2]) if self.swapped else self.shape


class Swapped(Operators):
    """The symbol of a transposed matrix: as the factor of a product it is read as it lies.

    Attributes:
        value: the symbol before the last two axes are swapped.
    """

    __slots__ = ("value",)

    def __init__(self, value: Expr) -> None:
        self.value = value
        value.shared = True

    @property
    def T(self) -> Any:
        """The symbol with the axes in their first order."""
        return self.value

    mT = T

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return self.value.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape with the last two axes swapped."""
        *outer, rows, columns = self.value.shape
        return (*outer, columns, rows)

    @property
    def ndim(self) -> int:
        """The number of axes of the value."""
        return self.value.ndim

    @property
    def plain(self) -> Expr:
        """The expression of arrays whose axes are swapped, where it is no factor."""
        places = range(self.value.ndim)
        return self.value.moved([*places[:-2], *places[:-3:-1]])

    def __bool__(self) -> bool:
        raise self.value._refuse("the truth")

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        return FUNCTIONS[name](self.plain, *args, **options)

    def _apply(self, name: str, x: Any, y: Any) -> Any:
        return product(x, y) if name == "matmul" else FUNCTIONS[name](x, y)

    def __getitem__(self, key: Any) -> Any:
        return self.plain[key]


#: What stands for arrays in a fused function.
SYMBOLS = (Expr, Reduced, Swapped)


def product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the product of two shapes.

    Raises:
        ValueError: they do not fit.
    """
    if not a or not b:
        raise ValueError(f"matmul: expected at least one axis each, got shapes {a} and {b}")
    if a[-1] != b[max(0, len(b) - 2)]:
        raise ValueError(f"matmul: shapes {a} and {b} do not fit: {a[-1]} is not {b[max(0, len(b) - 2)]}")
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ValueError(f"matmul: shapes {a} and {b} do not broadcast") from None
    return (*batch, *a[-2:-1], *b[1:][-1:])


class Called(NamedTuple):
    """A call of a function whose launch may compute what follows, too, as that of a product does.

    Attributes:
        function: the name of one that takes arrays and then what else is given; by this name with ``_plan`` behind it
            there is one that plans the launch with what follows.
        arrays: their numbers.
        given: the other arguments.
        shape: of the result.
    """

    function: str
    arrays: tuple[int, ...]
    given: tuple[Any, ...]
    shape: tuple[int, ...]

    def node(self, dtype: DType) -> Node:
        """The node of the result's elements."""
        return _node("called", dtype, value=self)


def product_node(dtype: DType, factors: Sequence[Factor]) -> Node:
    """The node of a product."""
    return _node("product", dtype, value=tuple(factors))


def products_of(nodes: Sequence[Node]) -> list[Node]:
    """The products that expressions read, and the calls."""
    return [node for node in order(nodes) if node.kind in ("product", "called")]


def gathers_of(nodes: Sequence[Node]) -> list[Node]:
    """The gathered rows that expressions read."""
    return [node for node in order(nodes) if node.kind == "gathered"]


def picked_of(nodes: Sequence[Node]) -> list[Node]:
    """The elements of tables that expressions read."""
    return [node for node in order(nodes) if node.kind == "picked"]


def product_shape_of(node: Node) -> tuple[int, ...]:
    """The shape of a product, or of a call."""
    if node.kind == "called":
        shape: tuple[int, ...] = node.value.shape
        return shape
    return product_shape(*(factor.in_product for factor in node.value))


def product(x1: Any, x2: Any) -> Expr:
    """The symbol of a matrix product of symbols.

    Raises:
        TypeError: an operand is not a symbol.
        ValueError: the shapes do not fit.
    """
    factors = []
    for one in (x1, x2):
        value = one.value if isinstance(one, Swapped) else one
        if isinstance(one, Reduced):
            raise one._refused("matmul")
        if not isinstance(value, Expr):
            raise TypeError(
                f"matmul: a fused function computes with its arguments; got {type(one).__name__} from elsewhere: "
                "pass it as an argument"
            )
        node = spread((value.node,), value.shape)[0] if state.shapes else value.node
        factors.append(Factor(node, value.shape, isinstance(one, Swapped)))
    shape = product_shape(*(one.in_product for one in factors))
    dtype = dtypes.result_type(*(one.node.dtype for one in factors))
    return Expr(product_node(dtype, [one._replace(node=cast(one.node, dtype)) for one in factors]), shape)


def symbolic(row: Row, operands: Sequence[Any]) -> Expr:
    """Apply ``row`` to symbols and Python numbers.

    Raises:
        TypeError: an operand is an array, which a fused function must take as an argument.
        ValueError: the shapes do not broadcast.
    """
    nodes: list[Node | Scalar] = []
    shapes: list[tuple[int, ...]] = []
    for one in operands:
        operand = one.plain if isinstance(one, Swapped) else one
        if isinstance(operand, Expr):
            nodes.append(operand.node)
            shapes.append(operand.shape)
        elif is_scalar(operand):
            nodes.append(operand)
        elif isinstance(operand, Reduced):
            raise operand._refused(row.name)
        else:
            raise NotFused(f"{row.name} of {type(operand).__name__} from elsewhere", "pass it as an argument")
    try:
        shape = shapes[0] if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{row.name}: shapes {', '.join(map(str, shapes))} do not broadcast") from None
    return Expr(call(row, nodes), shape)


def order(roots: Iterable[Node]) -> list[Node]:
    """All nodes reachable from the roots, operands before users."""
    done: dict[Node, None] = {}
    stack = list(roots)[::-1]
    while stack:
        node = stack[-1]
        before = [arg for arg in node.args if arg not in done] if node.args and node not in done else ()
        if before:
            stack += before[::-1]
        else:
            done[stack.pop()] = None
    return list(done)


def substitute(roots: Sequence[Node], replaced: dict[Node, Node]) -> tuple[Node, ...]:
    """The roots with some nodes replaced by others."""
    new = dict(replaced)
    pending = [(root, False) for root in roots]
    while pending:
        node, seen = pending.pop()
        if node in new:
            continue
        if seen or not node.args:
            args = tuple(new[arg] for arg in node.args)
            same = args == node.args
            new[node] = node if same else _node(node.kind, node.dtype, args, node.row, node.value, node.weak)
        else:
            pending.append((node, True))
            pending.extend((arg, False) for arg in node.args)
    return tuple(new[root] for root in roots)
