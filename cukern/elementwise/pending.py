"""Traces: elementwise functions and views of arrays make expressions, which few kernels compute later.

While a :class:`Trace` is open in a thread, an elementwise function returns a :class:`Pending` array at once. Its value is an
expression of arrays that are there; when anything reads its memory, one kernel computes it. What is not elementwise runs as
it always does, so any program can be traced: tapes record as usual, and the derivatives of elementwise functions wait, too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..array import Array, deferred
from ..array.deferred import Deferred, settled
from ..array.array import Storage
from ..array.layout import Layout, fresh_layout, layout, layout_of
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..cache import Cache
from ..device import Device
from ..dtypes import COMPLEX, DType
from ..kernel.plan import on, one_device
from .graph import (
    Expr,
    Node,
    NotFused,
    Reshaped,
    Swapped,
    cast,
    input_node,
    order,
    read_views,
    scalar_node,
    spread,
    substitute,
    tracing,
    array_reads,
)
from .plan import Plan, make_plan, run_into
from .program import Program, compact, program

_MEMORY = vars(Array)["_memory"]
_BASIC = frozenset((int, slice, type(None), type(...)))
#: Arrays that one kernel reads: beyond this many, operands are computed first.
MOST_INPUTS = 16
#: Nodes of one kernel's expression: beyond this many, operands are computed first.
MOST_NODES = 512
#: Reads of arrays by an expression whose views read these again: of others, the views are of computed arrays.
MOST_VIEWED = 3
#: Results of one kernel.
MOST_OUTPUTS = 8


class Expression:
    """What an array will be.

    Attributes:
        trace: the trace whose arrays and numbers the node counts.
        node: the expression.
        layout: the array's.
        reads: the arrays that the expression reads.
        depth: of the operations behind one another from these arrays.
        base: what the array is a view of, and the view of an ndarray; None of others.
        owner: the array, as long as there is one.
    """

    __slots__ = ("base", "depth", "layout", "node", "owner", "reads", "trace")

    owner: Callable[[], Array | None]

    def __init__(
        self, trace: Trace, node: Node, layout: Layout, reads: tuple[Array, ...], depth: int, base: Any = None
    ) -> None:
        self.trace, self.node, self.layout, self.reads = trace, node, layout, reads
        self.depth, self.base = depth, base

    @property
    def whole(self) -> bool:
        """Whether it is a view of all elements of another array, so that computing that one takes no longer."""
        return self.base is not None and self.base[0].size <= self.layout.size

    def __call__(self) -> Array:
        if self.base is not None:
            base, take = self.base
            if self.whole or type(base) is not Pending:  # the same memory takes no longer
                return Array._wrap(take(base._data), base.device)
        return self.trace.compute([self])[0]


class Pending(Deferred):
    """An array whose value is an expression; an ordinary one from when its memory is read on."""

    __slots__ = ()

    def _seen(self, layout: Layout, offset: int = 0) -> Array:
        _ = self._operand
        return self._seen(layout, offset)

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        return FUNCTIONS["basic_view" if _BASIC.issuperset(map(type, parts)) else "getitem"](self, key)


def expression(x: Array) -> Expression | None:
    """That of an array that is not computed yet, or None."""
    found: Expression | None = _MEMORY.__get__(x) if type(x) is Pending else None
    return found


def pending_view(x: Array, take: Callable[[Any], Any]) -> Array | None:
    """The view of a pending array, which waits too; None if it cannot."""
    one = expression(x)
    return None if one is None else one.trace.view(x, take)


def write_pending(x: Array, target: Any, dtype: DType) -> bool:
    """Compute a pending array to an ndarray, and return True; False if that takes a conversion that casts refuse.

    Args:
        x: the array, whose expression does not read the memory of ``target``.
        target: of a shape to which that of ``x`` broadcasts.
        dtype: that of the ndarray.
    """
    one = expression(x)
    if one is None or x.ndim > target.ndim or (x.dtype in COMPLEX and dtype not in COMPLEX):
        return False
    try:
        if np.broadcast_shapes(x.shape, target.shape) != target.shape:
            return False
    except ValueError:
        return False
    one.trace.compute_into(cast(one.node, dtype), target)
    return True


def _around(key: Sequence[Any], shape: tuple[int, ...]) -> list[tuple[slice, ...]] | None:
    """The boxes of an array that are not in the box of a basic key; None for another kind of key."""
    if ... in key:
        at = list(key).index(...)
        key = (*key[:at], *(slice(None),) * (len(shape) - len(key) + 1), *key[at + 1 :])
    key = (*key, *(slice(None),) * (len(shape) - len(key)))
    if len(key) != len(shape):
        return None
    boxes, before = [], []
    for i, (part, n) in enumerate(zip(key, shape, strict=True)):
        if type(part) is int and -n <= part < n:
            start, stop = part % n, part % n + 1
        elif type(part) is slice:
            start, stop, step = part.indices(n)
            if step != 1 or stop <= start:
                return None
        else:
            return None
        rest = (slice(None),) * (len(shape) - i - 1)
        boxes += [(*before, slice(a, b), *rest) for a, b in ((0, start), (stop, n)) if a < b]
        before.append(slice(start, stop))
    return boxes


class Launched(NamedTuple):
    """A launch of a trace.

    Attributes:
        program: what the kernel computes.
        inputs: the layouts of the arrays that it reads.
        outputs: those of what it writes.
    """

    program: Program
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]


class _Written(NamedTuple):
    """What a trace forgets when memory is written.

    Attributes:
        storage: the memory, as long as there are arrays on it.
        numbered: ids of arrays that have numbers.
        nodes: those whose values are in it.
    """

    storage: Callable[[], Storage | None]
    numbered: list[int]
    nodes: list[Node]


class Trace:
    """The arrays and numbers that pending expressions read, and the pending arrays.

    Args:
        name: of the function that is traced.

    Attributes:
        kernels: what has been launched.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.kernels: list[Launched] = []
        self._shapes: list[tuple[int, ...]] = []
        self._arrays: list[Callable[[], Array | None]] = []
        self._numbers: list[Any] = []
        self._number_of: dict[Any, int] = {}
        #: By the ids of arrays, which may be other arrays' by now: their numbers.
        self._known: dict[int, int] = {}
        #: By the ids of storages.
        self._on: dict[int, _Written] = {}
        self._live: list[Callable[[], Array | None]] = []
        #: The arrays that hold the values of nodes.
        self._made: dict[Node, Callable[[], Array | None]] = {}
        #: By the ids of storages: views of pending arrays.
        self._views: dict[int, list[tuple[Callable[[], Array | None], Array, Callable[[Any], Any]]]] = {}
        self._outer: Any = None

    def __enter__(self) -> Trace:
        self._outer = deferred.begin(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        deferred.begin(self._outer)
        if exc_info[0] is None:
            self.settle()

    def settle(self, first: Iterable[Array] = ()) -> None:
        """Compute all that is pending and can still be read; ``first`` what is alike among these arrays, in few kernels."""
        waiting = [one for one in (expression(x) for x in first) if one is not None]
        seen = set(map(id, waiting))
        waiting += [one for _, one in self._alive() if id(one) not in seen]
        self._compute_all(waiting)

    def _compute_all(self, waiting: Sequence[Expression]) -> None:
        """Compute expressions, those of one shape together."""
        groups: dict[Any, list[Expression]] = {}
        for one in waiting:
            if not one.whole:
                groups.setdefault((one.layout.device, one.layout.shape), []).append(one)
        for group in groups.values():
            while group:
                some, read = [], set[int]()
                for one in group:
                    more = read | set(map(id, one.reads))
                    if some and (len(more) > MOST_INPUTS or len(some) == MOST_OUTPUTS):
                        continue
                    some.append(one)
                    read = more
                group = [one for one in group if one not in some]
                self._settle_each(some)
        for one in waiting:
            if one.whole and (x := one.owner()) is not None and type(x) is Pending:
                settled(x, one())

    def _settle_each(self, some: Sequence[Expression]) -> None:
        owned = [(x, one) for one in some if (x := one.owner()) is not None and type(x) is Pending]
        if owned:
            for (x, _), made in zip(owned, self.compute([one for _, one in owned]), strict=True):
                settled(x, made)

    def number(self, x: Array) -> int:
        """The number of an array that is there."""
        k = self._known.get(id(x))
        if k is None or self._arrays[k]() is not x:
            k = len(self._arrays)
            self._arrays.append(weakref.ref(x))
            self._shapes.append(x.shape)
            self._known[id(x)] = k
            self._storage(x).numbered.append(id(x))
        return k

    def _storage(self, x: Array) -> _Written:
        storage = x._storage
        found = self._on.get(id(storage))
        if found is None or found.storage() is not storage:
            found = self._on[id(storage)] = _Written(weakref.ref(storage), [], [])
        return found

    def scalar(self, value: Any, like: Node) -> Node:
        """The node of a number."""
        key = type(value), repr(value)
        k = self._number_of.setdefault(key, len(self._numbers))
        if k == len(self._numbers):
            self._numbers.append(value)
        return scalar_node(k, like.dtype, like.weak)

    def _read(self, x: Array) -> tuple[Node, tuple[Array, ...], int]:
        """The node of an array, what it reads, and its depth."""
        one = expression(x)
        if one is not None and one.trace is self:
            return one.node, one.reads, one.depth
        return input_node(self.number(x), x.dtype), (x,), 0

    def plan(self, program: Program, arrays: Sequence[Array]) -> Waiting:
        """The plan of a program, whose results will be pending."""
        layouts = [one._layout or one._planned() for one in arrays]
        key = program, *layouts
        found = _waiting.get(key)
        if found is None:
            found = _waiting.keep(key, Waiting(program, one_device(program.name, arrays), layouts))
        return found

    def apply(self, plan: Waiting, arrays: Sequence[Array], scalars: Sequence[Any]) -> list[Array]:
        """The results of a program."""
        nodes, reads, depth = self.inlined(plan.program, arrays, scalars)
        results = []
        for node, layout in zip(nodes, plan.layouts, strict=True):
            results.append(self._pending(Expression(self, node, layout, reads, depth)))
        return results

    def rewritten(self, program: Program, arrays: Sequence[Array], scalars: Sequence[Any]) -> bool:
        """Let the first of the arrays be the result of a program from now on, if it is pending and no view shows it."""
        x = arrays[0]
        one = expression(x)
        if one is None or one.trace is not self or one.base is not None or id(x._storage) in self._views:
            return False
        plan = self.plan(program, arrays)
        (node,), reads, depth = self.inlined(program, arrays, scalars)
        if expression(x) is None or plan.layouts[0].shape != one.layout.shape:
            return False
        new = Expression(self, node, one.layout, reads, depth)
        new.owner = one.owner
        _MEMORY.__set__(x, new)
        return True

    def _pending(self, one: Expression) -> Array:
        result = Pending.of(one.layout, one)
        one.owner = weakref.ref(result)
        self._live.append(one.owner)
        return result

    def _alive(self) -> list[tuple[Array, Expression]]:
        """The arrays that are pending, with their expressions."""
        found, live = [], []
        for reference in self._live:
            x = reference()
            one = None if x is None else expression(x)
            if x is not None and one is not None:
                found.append((x, one))
                live.append(reference)
        self._live = live
        return found

    def inlined(
        self, program: Program, arrays: Sequence[Array], scalars: Sequence[Any]
    ) -> tuple[tuple[Node, ...], tuple[Array, ...], int]:
        """The outputs of a program as nodes of this trace, what they read, and their depth."""
        nodes, reads, depth = self._operands(arrays)
        if len(reads) > MOST_INPUTS or (depth >= _DEPTH and len(order(nodes)) > MOST_NODES):
            self._compute_all([one for one in map(expression, arrays) if one is not None])
            nodes, reads, depth = self._operands(arrays)
        replaced = {}
        for leaf in leaves_of(program):
            if leaf.kind == "input":
                replaced[leaf] = nodes[leaf.value]
            else:
                replaced[leaf] = self.scalar(scalars[leaf.value], leaf)
        return substitute(program.outputs, replaced), reads, depth + 1

    def _operands(self, arrays: Sequence[Array]) -> tuple[list[Node], tuple[Array, ...], int]:
        nodes, depth, reads = [], 0, dict[int, Array]()
        for x in arrays:
            node, own, deep = self._read(x)
            nodes.append(node)
            depth = max(depth, deep)
            for one in own:
                reads[id(one)] = one
        return nodes, tuple(reads.values()), depth

    def operands(
        self, program: Program, arrays: Sequence[Array], scalars: Sequence[Any]
    ) -> tuple[Sequence[Array], Sequence[Any], Program]:
        """The arrays, numbers and program that compute the value of a program of arrays that may be pending."""
        if all(expression(x) is None for x in arrays):
            return arrays, scalars, program
        plan = self.plan(program, arrays)
        nodes, _, _ = self.inlined(program, arrays, scalars)
        one, read, numbers = self.kernel(nodes, plan.layouts[0].shape)
        return read, numbers, one

    def view(self, x: Array, take: Callable[[Any], Any]) -> Array | None:
        """The pending view of a pending array; None if its expression has no such view."""
        one = expression(x)
        if one is None or one.trace is not self:
            return None
        own = one.layout
        like = take(np.lib.stride_tricks.as_strided(np.empty(1, own.dtype), own.shape, own.strides))
        node = self._viewed(one, take, like)
        if node is None:
            return None
        whole = like.size >= own.size
        new = (
            layout(own.device, own.dtype, like.shape, like.strides, True)
            if whole
            else fresh_layout(own.device, own.dtype, like.shape)
        )
        result = self._pending(Expression(self, node, new, one.reads, one.depth, (x, take)))
        result._storage = x._storage
        result._viewed = x if x._viewed is None else x._viewed
        self._views.setdefault(id(x._storage), []).append((weakref.ref(result), x, take))
        return result

    def _viewed(self, one: Expression, take: Callable[[Any], Any], like: Any) -> Node | None:
        """The node of a view, which is that of the views of all arrays."""
        with tracing(self.name, self._shapes):
            if one.depth and len(array_reads(one.node)) > MOST_VIEWED:
                return None
            try:
                seen = take(Expr(one.node, one.layout.shape))
                seen = seen.plain if isinstance(seen, Swapped) else seen
            except (NotFused, AttributeError):
                flat = like.size == one.layout.size and one.layout.contiguous and like.flags.c_contiguous
                return self._reshaped(one, like.shape) if flat else None
            return seen.node if isinstance(seen, Expr) and seen.shape == like.shape else None

    def _reshaped(self, one: Expression, shape: tuple[int, ...]) -> Node | None:
        """The node of another shape, if that is the one of the same shape of each array."""
        views = {}
        for leaf, view in array_reads(one.node):
            array = self._arrays[view.array]()
            if array is None or view.shape != one.layout.shape or view.steps or not array.is_contiguous:
                return None
            views[leaf] = view.then(Reshaped(shape))
        return substitute((one.node,), {leaf: view.node(leaf.dtype) for leaf, view in views.items()})[0]

    def write(self, x: Array) -> None:
        """Compute what reads the memory of ``x``, which is about to be written."""
        storage = x._storage
        for reference, base, take in self._views.pop(id(storage), ()):
            if (view := reference()) is not None:
                data = take(base._data)
                view.__class__ = Array  # type: ignore[assignment]
                view._ndarray, view._memory, view._layout = data, None, None
                view._planned()
                view._memory = data if x.device.addressable else data.data
        self._compute_all(
            [
                one
                for reader, one in self._alive()
                if reader is x or any(each._storage is storage for each in one.reads)
            ]
        )
        on = self._on.pop(id(storage), None)
        for key in () if on is None else on.numbered:
            self._known.pop(key, None)
        for node in () if on is None else on.nodes:
            self._made.pop(node, None)

    def compute(self, some: Sequence[Expression]) -> list[Array]:
        """New arrays of expressions of one shape, by one kernel."""
        shape, device = some[0].layout.shape, some[0].layout.device
        program, arrays, numbers = self.kernel([one.node for one in some], shape)
        outs = tuple([one.layout for one in some])
        plan = _plan(program, device, arrays, outs)
        made = plan.run(arrays, numbers)
        self._note(program, arrays, outs)
        for one in some:
            owner = one.owner()
            if owner is not None and one.node.kind not in ("input", "view"):
                self._made[one.node] = one.owner
                self._storage(owner).nodes.append(one.node)
        return made

    def compute_into(self, node: Node, target: Any) -> None:
        """Compute an expression to an ndarray, to whose shape it broadcasts and whose memory it does not read."""
        program, arrays, numbers = self.kernel([node], target.shape)
        with on(arrays[0].device):
            run_into(program, arrays[0].device, [one._data for one in arrays], numbers, target)
        self._note(program, arrays, [layout_of(arrays[0].device, target)])

    def _note(self, program: Program, arrays: Sequence[Array], outs: Sequence[Layout]) -> None:
        layouts = tuple([one._layout or one._planned() for one in arrays])
        self.kernels.append(Launched(program, layouts, tuple(outs)))

    def assign(self, x: Array, key: Any, value: Any) -> bool:
        """``x[key] = value`` of a large pending array by kernels that each write a part; False where that is not so."""
        one = expression(x)
        if one is None or one.trace is not self or one.base is not None or id(x._storage) in self._views:
            return False
        boxes = _around(key if isinstance(key, tuple) else (key,), x.shape)
        values = isinstance(value, Array) and value.device is x.device and value.dtype == x.dtype
        if not values or boxes is None or x.nbytes < _MANY_BYTES or tape.recording((x, value)):
            return False
        at = (*key, ...) if isinstance(key, tuple) and ... not in key else key
        with tracing(self.name, self._shapes):
            try:
                parts = [Expr(one.node, x.shape)[box].node for box in boxes]
            except NotFused:
                return False
        with on(x.device):
            made = Array._made(one.layout)
        target = made._data[at]
        if type(value) is not Pending:
            copy = program("copy", (input_node(0, value.dtype),), (value.dtype,))
            (value,) = self.apply(self.plan(copy, (value,)), (value,), ())
        if not write_pending(value, target, x.dtype):
            return False
        for box, node in zip(boxes, parts, strict=True):
            self.compute_into(node, made._data[box])
        settled(x, made)
        x._bump("setitem")
        return True

    def kernel(
        self, nodes: Sequence[Node], shape: tuple[int, ...]
    ) -> tuple[Program, list[Array], list[Any]]:
        """The program of nodes of a shape, and the arrays and numbers that it takes."""
        nodes = self._reused(nodes, shape)
        with tracing(self.name, self._shapes):
            roots, views = read_views(spread(nodes, shape), len(self._shapes))
        program, inputs, scalars = compact(_named(roots), roots)
        arrays = []
        for k in inputs:
            if k < len(self._shapes):
                arrays.append(self._array(k))
            else:
                view = views[k - len(self._shapes)]
                arrays.append(view.of(self._array(view.array)))
        return program, arrays, [self._numbers[k] for k in scalars]

    def _array(self, k: int) -> Array:
        found = self._arrays[k]()
        assert found is not None
        return found

    def _reused(self, nodes: Sequence[Node], shape: tuple[int, ...]) -> Sequence[Node]:
        """The nodes with the arrays that hold the values of some of them in place of these."""
        if not self._made:
            return nodes
        there = {}
        for node in order(nodes):
            reference = self._made.get(node)
            x = None if reference is None else reference()
            if x is not None and type(x) is not Pending:
                there[node] = input_node(self.number(x), x.dtype)
        return substitute(nodes, there) if there else nodes


#: Bytes of an array from which its parts are written by kernels of their own, which takes more launches.
_MANY_BYTES = 1 << 20
#: Operations behind one another from which the nodes of an expression are counted.
_DEPTH = 32


class Waiting(Plan):
    """The plan of a program whose results wait."""

    __slots__ = ()

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any] = ()) -> list[Array]:
        """See :class:`Plan`."""
        for convert, value in zip(self.converters, scalars, strict=True):
            convert(value)  # raises of what is out of range
        active = deferred.trace()
        return active.apply(self, arrays, scalars)


_waiting: Cache[Any, Waiting] = Cache()
_leaves: Cache[Program, tuple[Node, ...]] = Cache()
_plans: Cache[Any, Plan] = Cache()


def leaves_of(program: Program) -> tuple[Node, ...]:
    """The inputs and scalars of a program."""
    found = _leaves.get(program)
    if found is None:
        nodes = order(program.outputs)
        found = _leaves.keep(program, tuple([one for one in nodes if one.kind in ("input", "scalar")]))
    return found


def _plan(program: Program, device: Device, arrays: Sequence[Array], outs: tuple[Layout, ...]) -> Plan:
    """The plan of a kernel with results of these layouts."""
    operands = tuple([one._layout or one._planned() for one in arrays])
    key = program, operands, outs
    found = _plans.get(key)
    return _plans.keep(key, make_plan(program, device, operands, outs)) if found is None else found


def _named(roots: Sequence[Node]) -> str:
    """A name of the functions of a kernel."""
    names = dict.fromkeys(node.row.name for node in order(roots) if node.row is not None)
    few = list(names)[-3:]
    return "_".join(few) if few else "copy"
