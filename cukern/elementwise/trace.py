"""Traces: elementwise functions and views of arrays make expressions, which few kernels compute later.

While a :class:`Trace` is open in a thread, an elementwise function returns a :class:`.Pending` array at once. Its value
is an expression of arrays that are there; when anything reads its memory, one kernel computes it. What is not
elementwise runs as it always does, so any program can be traced: tapes record as usual, and the derivatives of
elementwise functions wait, too.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

import numpy as np

from ..array import Array, deferred
from ..array.deferred import settled
from ..array.layout import ALIGNMENT, Layout, address, fresh_layout, layout
from ..autodiff import tape
from ..cache import Cache
from ..device import kernels_only, trace_hooks
from ..device.precision import get_matmul_precision
from ..dtypes import COMPLEX, FLOATS, DType
from ..errors import CaptureError
from ..kernel.plan import BoundLaunch, one_device
from ..kernel.strides import Strides, broadcast_steps, broadcasts
from . import costs
from .boxes import Box, around, box_of, common
from .graph import (
    Called,
    Expr,
    Factor,
    Gathered,
    Node,
    NotFused,
    Piece,
    Pieces,
    Reshaped,
    Rolled,
    Stage,
    Swapped,
    all_of,
    array_reads,
    cast,
    constant,
    gathers_of,
    input_node,
    order,
    picked_node,
    pieces_of,
    product_node,
    product_shape_of,
    products_of,
    reads_within,
    stages_of,
    substitute,
    table_node,
    tracing,
)
from .launches import MOST_OUTPUTS, Kernel, Launches, Operand, layouts_of
from .pending import Expression, Pending, Waiting, expression, leaves_of, replace
from .program import Program
from .staged import LEAST_ELEMENTS, LEAST_ROWS, MOST_STAGES, SegmentProgram, depth_of, rows_of

Key = tuple[slice | None, ...]
_BASIC = frozenset((int, slice, type(None), type(...)))
#: Arrays that one kernel reads: beyond this many, operands are computed first.
MOST_INPUTS = 16
#: Nodes of one kernel's expression: beyond this many, operands are computed first.
MOST_NODES = 512
#: Operations behind one another from which the nodes of an expression are counted.
_DEPTH = 32
#: Reads of arrays by an expression whose views read these again: of others, the views are of computed arrays.
MOST_VIEWED = 3
#: Launches for one array; operands that would need more are computed first.
_MOST_PIECES = 32


def _joined(nodes: Sequence[Node]) -> bool:
    """Whether expressions read arrays that are made of several."""
    return bool(pieces_of(nodes))


def _staged(nodes: Sequence[Node]) -> bool:
    """Whether expressions read reductions, products or gathered rows."""
    return bool(stages_of(nodes) or products_of(nodes) or gathers_of(nodes))


def _both(some: tuple[Array, ...], others: tuple[Array, ...]) -> tuple[Array, ...]:
    """Arrays of both, each once."""
    return tuple({id(x): x for x in (*some, *others)}.values())


class _Viewed(NamedTuple):
    """A view of a pending array, which has to share its memory when one of both is written.

    Attributes:
        view: it, as long as it is there.
        of: the array's expression.
        take: makes the view of an ndarray.
    """

    view: Callable[[], Array | None]
    of: Expression
    take: Callable[[Any], Any]

    def then(self, view: Array, take: Callable[[Any], Any]) -> _Viewed:
        """A view of the view, which may be gone when its array is written."""
        before = self.take
        return self._replace(view=weakref.ref(view), take=lambda data: take(before(data)))


class Trace(Launches):
    """The pending arrays of a thread, and what they read.

    Args:
        name: of the function that is traced.
        arguments: its arrays.
        strict: whether values of arrays may not become Python numbers, which later calls would not see change.
        lines, given: as of :class:`.Launches`.
    """

    def __init__(
        self,
        name: str,
        arguments: Iterable[Array] = (),
        strict: bool = False,
        lines: bool = False,
        given: Mapping[Any, BoundLaunch] | None = None,
    ) -> None:
        super().__init__(name, arguments, lines, given or {})
        self.strict = strict
        #: By the ids of storages: views of pending arrays.
        self._views: dict[int, list[_Viewed]] = {}
        self._outer: Any = None

    def __enter__(self) -> Trace:
        self._outer = trace_hooks.begin_trace(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        trace_hooks.begin_trace(self._outer)
        with suppress(Exception) if exc_info[0] else nullcontext():
            self.settle()  # what is kept anywhere, as later writes do not ask an ended trace
        self.script.end()

    def read(self, x: Array, what: str) -> None:
        """See :func:`.trace_hooks.reads`."""
        if self.strict and what and not trace_hooks.read_by_library():
            raise CaptureError(
                f"jit: {self.name} reads values of an array of shape {x.shape} by {what} at "
                f"{trace_hooks.user_line()}: later calls repeat what was launched, without its Python. Choose "
                "by value with ck.where, or return the array and read it outside"
            )
        self.script.open = self.script.open or "values of an array are read on the host"

    def settle(self, first: Iterable[Array] = ()) -> None:
        """Compute all that is pending and can still be read, ``first`` these arrays; in few kernels what is alike.

        Views of arrays that can be read have the memory of these.
        """
        views = [one for some in self._views.values() for one in some if one.of.owner() is not None]
        self._views.clear()  # nothing will be written, and they keep arrays alive
        waiting = [one for one in (expression(x) for x in first) if one is not None]
        seen = {id(one) for one in waiting}
        waiting += [one for _, one in self._alive() if id(one) not in seen]
        apart = {id(x) for x in (one.view() for one in views) if x is not None}
        self._compute_all([one for one in waiting if id(one.owner()) not in apart])
        self._join(views)

    def _compute_all(self, waiting: Sequence[Expression]) -> None:
        """Compute expressions, those of one shape together."""
        groups: dict[Any, list[Expression]] = {}
        whole: dict[Any, Any] = {}
        own = [one for one in waiting if one.base is None]
        for one in own:
            if (rows := rows_of(one.node, one.layout.shape)) is not None:
                whole.setdefault((one.layout.device, rows[0]), (one.layout.device, rows))
        for one in own:
            rows = rows_of(one.node, one.layout.shape)
            key: Any = (one.layout.device, one.layout.shape)
            key = (one.layout.device, rows) if rows is not None else whole.get(key, key)
            groups.setdefault(key, []).append(one)
        kernels: list[list[Expression]] = []
        for group in groups.values():
            while group:
                some: list[Expression] = []
                read: set[int] = set()
                for one in group:
                    more = read | set(map(id, one.reads))
                    many = len(more) > MOST_INPUTS or len(some) == MOST_OUTPUTS
                    if some and (many or depth_of([each.node for each in (*some, one)]) > MOST_STAGES):
                        continue
                    some.append(one)
                    read = more
                group = [one for one in group if one not in some]
                kernels.append(some)
        for some in self.compute_alike(kernels):
            self._settle_each(some)
        for one in waiting:
            if one.base is not None and (x := one.owner()) is not None and type(x) is Pending:
                settled(x, one())

    def _settle_each(self, some: Sequence[Expression]) -> None:
        owned = [(x, one) for one in some if (x := one.owner()) is not None and type(x) is Pending]
        if owned:
            for (x, _), made in zip(owned, self.compute([one for _, one in owned]), strict=True):
                settled(x, made)

    def _read(self, x: Array) -> tuple[Node, tuple[Array, ...], int]:
        """The node of an array, what it reads, and its depth."""
        one = expression(x)
        if one is not None and one.trace is self:
            if one.node.kind == "reduced":
                # Its shape may be another than that of the array that has the result.
                return one.node, one.reads, one.depth
            there = self._there(one.node)
            if there is None:
                return one.node, one.reads, one.depth
            x = there
        return input_node(self.number(x), x.dtype), (x,), 0

    def plan(self, program: Program, arrays: Sequence[Array]) -> Waiting:
        """The plan of a program, whose results will be pending."""
        layouts = layouts_of(arrays)
        key = program, *layouts
        found = _waiting.get(key)
        if found is None:
            found = _waiting.keep(key, Waiting(program, one_device(program.name, arrays), layouts))
        return found

    def apply(self, plan: Waiting, arrays: Sequence[Array], scalars: Sequence[Any]) -> list[Array]:
        """The results of a program."""
        shapes, lines = {one.shape for one in plan.layouts}, self.lines_of(arrays)

        def refuses(nodes: Sequence[Node]) -> bool:
            joined = pieces_of(nodes)
            return bool(joined) and (
                {one.shape for one in joined} != shapes
                or len(common(joined, joined[0].shape))
                > min(_MOST_PIECES, 1 + sum(len(one.boxes) for one in joined))
                or _staged(nodes)
            )

        nodes, reads, depth = self.inlined(plan.program, arrays, scalars, refuses)
        results = []
        for node, own in zip(nodes, plan.layouts, strict=True):
            results.append(self._pending(Expression(self, node, own, reads, depth, lines=lines)))
        return results

    def rewritten(self, program: Program, arrays: Sequence[Array], scalars: Sequence[Any]) -> bool:
        """Let the first of the arrays be the result of a program from now on, if it is pending and no view shows it."""
        x = arrays[0]
        one = expression(x)
        if one is None or one.trace is not self or one.base is not None or id(x._storage) in self._views:
            return False
        plan = self.plan(program, arrays)
        (node,), reads, depth = self.inlined(program, arrays, scalars)
        if expression(x) is None or plan.layouts[0].shape != one.layout.shape or pieces_of((node,)):
            return False
        replace(x, Expression(self, node, one.layout, reads, depth, lines=self.lines_of(arrays)))
        return True

    def updated(self, program: Program, arrays: Sequence[Array], scalars: Sequence[Any]) -> bool:
        """Write the result of a program over the first of the arrays by a step; False if no step made its memory."""
        x, *others = arrays
        self._settle_readers(x)
        deferred.computed(x)
        if not self.script.made(x) or not self.script.made(x if x._viewed is None else x._viewed):
            return False
        for one in others:
            if pieces_of(nodes := (self._read(one)[0],)) or _staged(nodes):
                deferred.computed(one)
        if any(one is not x and one._storage is x._storage for one in others):
            return False
        (node,), _, _ = self.inlined(program, arrays, scalars)
        self.compute_into([node], [(x, ...)], self.lines_of(arrays))
        return True

    def _pending(self, one: Expression) -> Array:
        result = Pending.of(one.layout, one)
        one.owner = weakref.ref(result)
        self._live.append(one.owner)
        return result

    def inlined(
        self,
        program: Program,
        arrays: Sequence[Array],
        scalars: Sequence[Any],
        refuses: Callable[[Sequence[Node]], bool] = lambda nodes: False,
    ) -> tuple[tuple[Node, ...], tuple[Array, ...], int]:
        """The outputs of a program as nodes of this trace, what they read, and their depth.

        Args:
            refuses: whether the arrays are to be computed first instead.
        """
        nodes, reads, depth = self._sources(arrays)
        deep = depth >= _DEPTH and (len(order(nodes)) > MOST_NODES or depth_of(nodes) > MOST_STAGES)
        if deep or len(reads) > MOST_INPUTS or refuses(nodes):
            self._compute_all([one for one in map(expression, arrays) if one is not None])
            nodes, reads, depth = self._sources(arrays)
        replaced = {}
        for leaf in leaves_of(program):
            if leaf.kind == "input":
                replaced[leaf] = nodes[leaf.value]
            else:
                replaced[leaf] = self.scalar(scalars[leaf.value], leaf)
        return substitute(program.outputs, replaced), reads, depth + 1

    def _sources(self, arrays: Sequence[Array]) -> tuple[list[Node], tuple[Array, ...], int]:
        nodes, depth, reads = [], 0, dict[int, Array]()
        for x in arrays:
            node, own, deep = self._read(x)
            nodes.append(node)
            depth = max(depth, deep)
            for one in own:
                reads[id(one)] = one
        return nodes, tuple(reads.values()), depth

    def reduced(
        self,
        program: Program,
        arrays: Sequence[Array],
        scalars: Sequence[Any],
        reduction_of: Callable[[Sequence[Array], Program], Any],
        parameter: float,
    ) -> tuple[Array, Any, bool]:
        """The reduction of a program's value.

        Args:
            reduction_of: the plan of the reduction of another program's value.

        Returns:
            The result, the plan that computed it, and whether that is of the given program.
        """
        same = all(expression(x) is None for x in arrays)
        if same:
            own = Kernel(program, [Operand(x, None, x) for x in arrays], scalars)
        else:
            shape = self.plan(program, arrays).layouts[0].shape
            own = self.kernel(self.inlined(program, arrays, scalars, _joined)[0], shape)
        reduction = reduction_of(own.inputs, own.program)
        y = self.reduce(own, reduction, parameter, self.lines_of(arrays))
        return y, reduction, same

    def reduction(
        self,
        reduce: Any,
        program: Program,
        arrays: Sequence[Array],
        scalars: Sequence[Any],
        axes: Sequence[int],
        keepdims: bool,
        dtype: DType,
        parameter: float,
    ) -> Array | None:
        """The reduction of a program's value along its last axes, pending; None if it is to be computed at once."""
        plan = self.plan(program, arrays)
        device, shape = plan.device, plan.layouts[0].shape
        plain = shape[: len(shape) - len(axes)]
        if sorted(axes) != [*range(len(plain), len(shape))] or math.prod(plain) < LEAST_ROWS:
            return None
        (node,), reads, depth = self.inlined(
            program, arrays, scalars, lambda nodes: _joined(nodes) or depth_of(nodes) >= MOST_STAGES
        )
        if math.prod(shape[len(plain) :]) < LEAST_ELEMENTS and not gathers_of((node,)):
            return None
        apart = len(axes) > 1 or reduce.row.parameter
        if any(
            apart or one.kind == "called" or product_shape_of(one) != shape for one in products_of((node,))
        ):
            (node,) = self.reused((node,))
            with tracing(self.name, self._shapes):
                computed = [self._array(view.array) for _, view in array_reads(node)]
            reads = _both(reads, tuple(computed))
        stage = Stage(reduce, node, shape, len(axes), plain, dtype, parameter)
        stage = stage.kept if keepdims else stage
        own = fresh_layout(device, dtype, stage.out)
        return self._pending(Expression(self, stage.result, own, reads, depth + _DEPTH // MOST_STAGES))

    def product(self, a: Any, b: Any, transposed: bool = False) -> Array | None:
        """The product of two arrays, pending; None if it is to be computed at once.

        Args:
            a: the left factor.
            b: the right one.
            transposed: whether the right one's transpose is multiplied.
        """
        if not self._multiplies_later():
            return None
        if not isinstance(a, Array) or not isinstance(b, Array) or min(a.ndim, b.ndim) < 2:
            return None
        if a.device is not b.device or a.dtype != b.dtype or a.dtype not in FLOATS:
            return None
        factors = []
        for x, swapped in ((a, False), (b, transposed)):
            deferred.computed(x)
            factors.append(Factor(input_node(self.number(x), x.dtype), x.shape, swapped))
        node = product_node(a.dtype, factors)
        try:
            own = fresh_layout(a.device, a.dtype, product_shape_of(node))
        except ValueError:
            return None
        return self._awaited(node, own, (a, b), (a, b))

    def called(self, name: str, arrays: Sequence[Array], given: tuple[Any, ...], own: Layout) -> Array | None:
        """The result of a function whose launch may compute what follows, pending; None if it is to be called at once.

        Args:
            name: see :class:`.Called`.
            arrays: its first arguments.
            given: the others.
            own: the layout of the result.
        """
        if not self._multiplies_later():
            return None
        for x in arrays:
            deferred.computed(x)
        of = Called(name, tuple(map(self.number, arrays)), given, own.shape)
        return self._awaited(of.node(own.dtype), own, arrays, arrays)

    def _multiplies_later(self) -> bool:
        """Whether a product computed later is as it would be now."""
        if get_matmul_precision() != self.precision:
            self.script.open = self.script.open or "it multiplies with another precision than its caller"
            return False
        return not kernels_only.active()

    def _awaited(self, node: Node, own: Layout, of: Sequence[Array], reads: Sequence[Array]) -> Array:
        """The array of a product, a call or gathered rows, pending."""
        lines = self.lines_of(of)
        result = self._pending(Expression(self, node, own, _both((), tuple(reads)), 1, lines=lines))
        self._multiplied[node] = weakref.ref(result), lines
        return result

    def gathered(self, x: Array, indices: Array, given: Array) -> Array:
        """The rows of an array at indices, which may lie in the memory of ``given``, pending; a kernel clips them."""
        deferred.computed(x)
        deferred.computed(indices)
        of = Gathered(self.number(x), self.number(indices), (indices.shape[0], *x.shape[1:]))
        own = fresh_layout(x.device, x.dtype, of.shape)
        return self._awaited(of.node(x.dtype), own, (x, indices), (x, indices, given))

    def picked(self, x: Array, places: Callable[[Strides], Array]) -> Array:
        """Elements of an array, pending.

        Args:
            places: where they are behind its first element, all of them in the array, for its steps in elements.
        """
        deferred.computed(x)
        place = places(broadcast_steps(x._planned(), x.shape))
        (node,), reads, depth = self._sources([place])
        if _joined((node,)) or _staged((node,)) or len(reads) >= MOST_INPUTS:
            deferred.computed(place)
            (node,), reads, depth = self._sources([place])
        made, lines = picked_node(table_node(self.number(x), x.dtype), node), self.lines_of([x, place])
        own = fresh_layout(x.device, x.dtype, place.shape)
        return self._pending(Expression(self, made, own, _both((x,), reads), depth + 1, lines=lines))

    def combined(
        self, x: Array, order: Sequence[Array], plan_of: Callable[[SegmentProgram], Any], name: str
    ) -> Array:
        """The rows of an array, those of each segment combined, by kernels that compute the array as they read it.

        Args:
            x: the array, pending or not.
            order: which rows a segment has, as the plan takes it behind the arrays that ``x`` is computed from.
            plan_of: the plan of a segment program.
            name: of the launch.
        """
        node, reads, _ = self._read(x)
        if pieces_of((node,)) or not reads:
            deferred.computed(x)
            node = self._read(x)[0]
        return self.segments(node, x.shape, order, plan_of, name, self.lines_of([x]))

    def view(self, x: Array, take: Callable[[Any], Any]) -> Array | None:
        """The pending view of an array; None if its expression has no such view."""
        one = expression(x)
        if one is None or one.trace is not self:
            own = x._layout or x._planned()
            one = Expression(self, input_node(self.number(x), own.dtype), own, (x,), 0)
        own = one.layout
        start = np.lib.stride_tricks.as_strided(np.empty(1, own.dtype), own.shape, own.strides)
        like = take(start)
        node = self._viewed(one, take, like)
        if node is None and type(x) is Pending:
            deferred.computed(x)
            one = Expression(self, input_node(self.number(x), own.dtype), own, (x,), 0)
            node = self._viewed(one, take, like)
        if node is None:
            return None
        # A part of an array that waits may be all of it that is ever computed.
        new, base = fresh_layout(own.device, own.dtype, like.shape), None
        if type(x) is not Pending or one.base is not None or like.size >= own.size:
            offset = address(like) - address(start) if like.size else 0
            aligned = own.on_host or (own.aligned and offset % ALIGNMENT == 0)
            new, base = layout(own.device, own.dtype, like.shape, like.strides, aligned), (x, take)
        result = self._pending(Expression(self, node, new, one.reads, one.depth, base, one.lines))
        result._storage = x._storage
        if base is not None:
            result._viewed = x if x._viewed is None else x._viewed
        if type(x) is Pending:
            views = self._views.setdefault(id(x._storage), [])
            outer = next((each for each in views if each.view() is x), None)
            views.append(
                _Viewed(weakref.ref(result), one, take) if outer is None else outer.then(result, take)
            )
        return result

    def _viewed(self, one: Expression, take: Callable[[Any], Any], like: Any) -> Node | None:
        """The node of a view, which is that of the views of all arrays."""
        if products_of((one.node,)) or gathers_of((one.node,)):
            return None
        with tracing(self.name, self._shapes):
            if one.depth and reads_within(one.node) > MOST_VIEWED:
                return None
            try:
                seen = take(Expr(one.node, one.layout.shape))
                seen = seen.plain if isinstance(seen, Swapped) else seen
            except (NotFused, AttributeError):
                flat = like.size == one.layout.size and one.layout.contiguous and like.flags.c_contiguous
                return self._reshaped(one, like.shape) if flat else None
            if not isinstance(seen, Expr) or seen.shape != like.shape:
                return None
            return None if one.depth and reads_within(seen.node) > MOST_VIEWED else seen.node

    def _reshaped(self, one: Expression, shape: tuple[int, ...]) -> Node | None:
        """The node of another shape, if that is the one of the same shape of each array."""
        if pieces_of((one.node,)):
            return None
        views = {}
        for leaf, view in array_reads(one.node):
            array = self._arrays[view.array]()
            if array is None or view.shape != one.layout.shape or view.steps or not array.is_contiguous:
                return None
            views[leaf] = view.then(Reshaped(shape)).node(leaf.dtype)
        for stage in stages_of((one.node,)):
            if stage.out != one.layout.shape:
                return None
            views[stage.result] = stage._replace(out=shape).result
        return substitute((one.node,), views)[0]

    def write(self, *arrays: Array) -> None:
        """Compute what reads the memory of arrays that are about to be written."""
        self.script.open = self.script.open or "it writes to an array"
        self._settle_readers(*arrays)

    def write_within(self, *arrays: Array) -> None:
        """:meth:`write` by a function that is called as one step, and writes again when that is repeated."""
        outer = trace_hooks.begin_trace(self)
        try:
            self._settle_readers(*arrays)
        finally:
            trace_hooks.begin_trace(outer)

    def _settle_readers(self, *arrays: Array) -> None:
        storages, own = {id(x._storage): x._storage for x in arrays}, set(map(id, arrays))

        def reads(one: Expression) -> bool:
            return any(id(each._storage) in storages for each in one.reads)

        for key, views in list(self._views.items()):
            if key in storages or any(reads(one.of) for one in views):
                self._join(self._views.pop(key))
        self._compute_all([one for reader, one in self._alive() if id(reader) in own or reads(one)])
        for storage in storages.values():
            self._forget(storage)

    def _join(self, views: Sequence[_Viewed]) -> None:
        """Let views of pending arrays, each of which may have been computed by itself, have the memory of these."""
        bases: dict[int, Array] = {}
        for reference, of, take in views:
            if (view := reference()) is not None:
                base = of.owner()
                if base is None:
                    base = bases[id(of)] if id(of) in bases else bases.setdefault(id(of), of())
                self._link(view, base, take)

    def _link(self, view: Array, base: Array, take: Callable[[Any], Any]) -> None:
        """Let a view that has been an expression by itself share the memory of the array that it is a view of."""
        data = take(base._data)
        view.__class__ = Array
        view._ndarray, view._memory, view._layout = data, None, None
        view._planned()
        view._memory = data if view.device.addressable else data.data
        view._viewed = base if base._viewed is None else base._viewed
        self.script.seen(view, base, take)

    def assign(self, x: Array, key: Any, value: Any) -> bool:
        """``x[key] = value`` of an array that this trace has made, as a part of it; False where that is not so."""
        parts = key if isinstance(key, tuple) else (key,)
        if not _BASIC.issuperset(map(type, parts)) or tape.recording(
            [x, value] if isinstance(value, Array) else [x]
        ):
            return False
        one = expression(x)
        if one is None:
            return self.script.made(x) and self._assign_part(x, parts, value)
        if one.trace is not self or one.base is not None:
            return False
        if any(each.view() is not None for each in self._views.get(id(x._storage), ())):
            return False
        self._views.pop(id(x._storage), None)
        found = box_of(parts, x.shape)
        before, reads, depth = self._read(x)
        if found is None or not self.in_parts(x) or pieces_of((before,)) or _staged((before,)):
            self._compute_all([one])
            return self.assign(x, key, value)
        box, kept = found
        node = self._part_of(x, box, kept, value)
        if node is None:
            return False
        sizes = [one.stop - one.start for one in box]
        pieces = [Piece(box, node[0], tuple(sizes), all_of(sizes))]
        for other in around(box, x.shape):
            pieces.append(Piece(other, before, x.shape, other))
        made = Pieces(x.shape, tuple(pieces)).node(x.dtype)
        lines = self.lines_of([x, value])
        replace(x, Expression(self, made, one.layout, _both(reads, node[1]), depth + 1, lines=lines))
        x._bump("setitem")
        return True

    def _part_of(
        self, x: Array, box: Box, kept: tuple[bool, ...], value: Any
    ) -> tuple[Node, tuple[Array, ...]] | None:
        """The node of what is written to a box of an array, and what it reads; None where casts are to be checked.

        Args:
            kept: which axes of the box the index keeps.
        """
        if (number := self._number_for(x, value)) is not None:
            return number, ()
        if not isinstance(value, Array) or value.device is not x.device or value.dtype != x.dtype:
            return None
        shape = tuple([one.stop - one.start for one, keep in zip(box, kept, strict=True) if keep])
        if not broadcasts(value.shape, shape):
            return None
        node, reads, _ = self._read(value)
        if pieces_of((node,)) or _staged((node,)):
            return None
        if not all(kept):
            if len(value.shape) != len(shape):
                return None
            if any(kept):
                with tracing(self.name, self._shapes):
                    node = Expr(node, value.shape)[
                        tuple([slice(None) if keep else None for keep in kept])
                    ].node
        return node, reads

    def joined(
        self, whole: Layout, parts: Sequence[tuple[Box, Array | complex, Key]], again: Any = None
    ) -> Array:
        """An array that is made of parts of others side by side, pending.

        Args:
            whole: its layout.
            parts: which together are all of it: the box of each, and an array, which is cast, with a basic index of it
                that broadcasts to the box; or a number.
            again: a function that makes it by one launch if nothing else is to be computed with it, the array that it
                takes, and its other arguments.
        """
        arrays = [x for _, x, _ in parts if isinstance(x, Array)]
        nodes, reads, depth = self._sources(arrays)
        made = None if _staged(nodes) else self._side_by_side(parts, nodes, whole.dtype)
        if made is None:
            self._compute_all([one for one in map(expression, arrays) if one is not None])
            nodes, reads, depth = self._sources(arrays)
            made = self._side_by_side(parts, nodes, whole.dtype)
        node, lines = Pieces(whole.shape, tuple(made or ())).node(whole.dtype), self.lines_of(arrays)
        if again is not None and not any(type(x) is Pending for x in arrays):
            function, x, others = again
            self._by_call[node] = function, weakref.ref(x), others
        return self._pending(Expression(self, node, whole, reads, depth + 1, lines=lines))

    def in_parts(self, x: Array) -> bool:
        """Whether an array is written by parts where these are computed differently."""
        return costs.in_parts(x.device, x.nbytes)

    def rolled(self, x: Array, shifts: Sequence[int]) -> Array | None:
        """An array whose elements are shifted cyclically along each axis, pending; None if it is made otherwise."""
        node, reads, depth = self._read(x)
        own = layouts_of([x])[0]
        with tracing(self.name, self._shapes):
            views = [view for _, view in array_reads(node)]
        steps = [step for view in views for step in view.steps]
        again = any(isinstance(step, Rolled) for step in steps)
        if pieces_of((node,)) or not costs.shifts_reads(own, node, again):
            return None
        alike = all(view.shape == own.shape for view in views) and all(
            isinstance(step, Rolled) for step in steps
        )
        if not alike or _staged((node,)):
            deferred.computed(x)
            node, reads, depth = self._read(x)
        step = Rolled(tuple(shifts))
        with tracing(self.name, self._shapes):
            moved = {leaf: view.then(step).node(leaf.dtype) for leaf, view in array_reads(node)}
        new, lines = fresh_layout(own.device, own.dtype, own.shape), self.lines_of([x])
        return self._pending(
            Expression(self, substitute((node,), moved)[0], new, reads, depth + 1, lines=lines)
        )

    def _side_by_side(
        self, parts: Sequence[tuple[Box, Array | complex, Key]], nodes: Sequence[Node], dtype: DType
    ) -> list[Piece] | None:
        """The pieces of :meth:`joined`, ``nodes`` those of its arrays; None where arrays are to be computed first."""
        made, rest = list[Piece](), iter(nodes)
        for box, x, key in parts:
            if not isinstance(x, Array):
                made.append(Piece(box, constant(x, dtype), (), ()))
                continue
            node, sizes = next(rest), iter(x.shape)
            own = [part if part is None else _ends(part, next(sizes)) for part in key]
            one = Piece(box, node, x.shape, tuple(own))
            if not pieces_of((node,)):
                made.append(one)
            elif one.source is None or len(made) > _MOST_PIECES or _twice(x, node):
                return None
            else:
                with tracing(self.name, self._shapes):
                    _, parts_of = Pieces(x.shape, self.pieces(node, x.shape)).parts(one.source)
                made += [each.joined(one) for each in parts_of]
        return [one._replace(of=cast(one.of, dtype)) for one in made]

    def _number_for(self, x: Array, value: Any) -> Node | None:
        """The node of a Python number that is written to an array; None of what is converted or checked first."""
        limits = x._planned().numbers.get(type(value))
        if limits is None or not limits[0] <= value <= limits[1]:
            return None
        return self.scalar(value, constant(0, x.dtype))

    def _assign_part(self, x: Array, parts: tuple[Any, ...], value: Any) -> bool:
        """``x[key] = value`` of an array that the trace has made."""
        if x._planned().repeated or x._storage.constant:
            return False
        at = parts if ... in parts else (*parts, ...)
        try:
            shape = x._data[at].shape
        except IndexError:
            return False  # the general path raises the error
        node = self._number_for(x, value)
        if node is None:
            casts = isinstance(value, Array) and (value.dtype not in COMPLEX or x.dtype in COMPLEX)
            if not casts or value.device is not x.device or not broadcasts(value.shape, shape):
                return False
            if value._storage is x._storage:
                return _is_part(value, x, at)  # what has been written in place by its own operator
        self._settle_readers(x)
        if node is None:
            if pieces_of((self._read(value)[0],)):
                deferred.computed(value)
            node = cast(self._read(value)[0], x.dtype)
        self.compute_into([node], [(x, at)], self.lines_of([value] if isinstance(value, Array) else []))
        x._bump("setitem")
        return True


def _is_part(x: Array, of: Array, key: Any) -> bool:
    """Whether an array is a part of another one, which is not computed."""
    if expression(x) is not None:
        return False
    part, own = of._data[key], x._data
    return bool(address(part) == address(own) and part.strides == own.strides and part.shape == own.shape)


def _twice(x: Array, node: Node) -> bool:
    """Whether an array whose node reads joined arrays is stored, as more than what moves it may read it."""
    return node.kind != "pieces" and costs.stores(layouts_of([x])[0], node, 2)


def _ends(part: slice, n: int) -> slice:
    """A slice of an axis of size ``n`` with its ends as they are, if its step is 1."""
    return slice(*part.indices(n)[:2]) if part.step in (None, 1) else part


_waiting: Cache[Any, Waiting] = Cache()
