"""Traces: elementwise functions and views of arrays make expressions, which few kernels compute later.

While a :class:`Trace` is open in a thread, an elementwise function returns a :class:`Pending` array at once. Its value
is an expression of arrays that are there; when anything reads its memory, one kernel computes it. What is not
elementwise runs as it always does, so any program can be traced: tapes record as usual, and the derivatives of
elementwise functions wait, too.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import pytree
from ..array import Array, deferred
from ..array.array import Storage
from ..array.deferred import Deferred, settled
from ..array.layout import ALIGNMENT, Layout, address, fresh_layout, layout, layout_of
from ..autodiff import tape
from ..cache import Cache
from ..device import Device, capture_hooks
from ..dtypes import COMPLEX, DType
from ..errors import CaptureError
from ..kernel.plan import on, one_device
from .graph import (
    Expr,
    Node,
    NotFused,
    Pieces,
    Reshaped,
    Stage,
    Swapped,
    View,
    array_reads,
    cast,
    input_node,
    order,
    pieces_of,
    read_views,
    scalar_node,
    spread,
    stages_of,
    substitute,
    tracing,
)
from .plan import Places, Plan, make_plan, places, planned, run_into, source_of
from .program import Program, compact
from .script import Call, Into, Launch, New, Reduce, Script, Seen, taken_apart
from .staged import LEAST_ELEMENTS, LEAST_ROWS, MOST_STAGES, RowProgram, Rows, depth_of, reshaped, rows_of

_MEMORY = vars(Array)["_memory"]
_BASIC = frozenset((int, slice, type(None), type(...)))
#: Arrays that one kernel reads: beyond this many, operands are computed first.
MOST_INPUTS = 16
#: Nodes of one kernel's expression: beyond this many, operands are computed first.
MOST_NODES = 512
#: Reads of arrays by an expression whose views read these again: of others, the views are of computed arrays.
MOST_VIEWED = 3
#: Bytes of an array from which parts of it that are computed differently are written by kernels of their own: fewer
#: bytes are moved, by more launches.
MANY_BYTES = 1 << 20
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
        base: if the array is a view of another one in its memory: that one, and the view of an ndarray.
        owner: the array, as long as there is one.
        lines: those of the program that it comes of, if they are noted.
    """

    __slots__ = ("base", "depth", "layout", "lines", "node", "owner", "reads", "trace")

    owner: Callable[[], Array | None]

    def __init__(
        self,
        trace: Trace,
        node: Node,
        layout: Layout,
        reads: tuple[Array, ...],
        depth: int,
        base: Any = None,
        lines: tuple[str, ...] = (),
    ) -> None:
        self.trace, self.node, self.layout, self.reads = trace, node, layout, reads
        self.depth, self.base, self.lines = depth, base, lines

    def __call__(self) -> Array:
        if self.base is not None:
            base, take = self.base
            made, script = Array._wrap(take(base._data), base.device), self.trace.script
            of, own = script.slot(base), made._planned()
            offset = address(made._data) - address(base._data) if own.size else 0
            slot = script.put(_either(self.owner(), made))
            script.steps.append(Seen(of, take, slot, own, offset))
            return made
        return self.trace.compute([self])[0]


class Pending(Deferred):
    """An array whose value is an expression; an ordinary one from when its memory is read on."""

    __slots__ = ()
    arriving = True  # what it is computed from is written after it is computed, see Trace.write

    def _seen(self, layout: Layout, offset: int = 0) -> Array:
        _ = self._operand
        return self._seen(layout, offset)


def expression(x: Array) -> Expression | None:
    """That of an array that is not computed yet, or None."""
    found: Expression | None = _MEMORY.__get__(x) if type(x) is Pending else None
    return found


def _identity(x: Array) -> Array:
    return x


def _either(x: Array | None, other: Array) -> Array:
    return other if x is None else x


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another."""
    last = wanted[len(wanted) - len(shape) :]
    return len(shape) <= len(wanted) and all(n in (1, m) for n, m in zip(shape, last, strict=True))


def _boxes(joined: Sequence[Pieces]) -> list[tuple[slice, ...]]:
    """The boxes of which each is within one box of each of several joined arrays of one shape."""
    if len(joined) == 1:
        return [box for box, _ in joined[0].boxes]
    cuts: list[set[int]] = [{0, n} for n in joined[0].shape]
    for one in joined:
        for box, _ in one.boxes:
            for own, part in zip(cuts, box, strict=True):
                own |= {part.start, part.stop}
    sides = [[slice(a, b) for a, b in itertools.pairwise(sorted(own))] for own in cuts]
    boxes: list[tuple[slice, ...]] = list(itertools.product(*sides))
    return boxes


def _both(some: tuple[Array, ...], others: tuple[Array, ...]) -> tuple[Array, ...]:
    """Arrays of both, each once."""
    return tuple({id(x): x for x in (*some, *others)}.values())


def _box(key: Sequence[Any], shape: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[bool, ...]] | None:
    """The box of a basic key, and which axes the key keeps; None for steps, new axes and what is empty."""
    if ... in key:
        at = list(key).index(...)
        key = (*key[:at], *(slice(None),) * (len(shape) - len(key) + 1), *key[at + 1 :])
    key = (*key, *(slice(None),) * (len(shape) - len(key)))
    if len(key) != len(shape):
        return None
    box = []
    for part, n in zip(key, shape, strict=True):
        if type(part) is int and -n <= part < n:
            box.append(slice(part % n, part % n + 1))
        elif type(part) is slice:
            start, stop, step = part.indices(n)
            if step != 1 or stop <= start:
                return None
            box.append(slice(start, stop))
        else:
            return None
    return tuple(box), tuple([type(part) is slice for part in key])


def _around(box: tuple[slice, ...], shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """The boxes of an array that are not in a box."""
    boxes: list[tuple[slice, ...]] = []
    for i, (one, n) in enumerate(zip(box, shape, strict=True)):
        rest = tuple([slice(0, m) for m in shape[i + 1 :]])
        boxes += [(*box[:i], slice(a, b), *rest) for a, b in ((0, one.start), (one.stop, n)) if a < b]
    return boxes


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


class Launched(NamedTuple):
    """A launch of a trace.

    Attributes:
        name: that of the kernel, or of the function that is called.
        inputs: the layouts of the arrays that it reads.
        outputs: those of what it writes.
        lines: the lines of the program that it computes, where they were noted.
        text: makes the kernel's text; that of a call is empty.
    """

    name: str
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    lines: tuple[str, ...]
    text: Callable[[], str]


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
        arguments: its arrays.
        strict: whether values of arrays may not become Python numbers, which later calls would not see change.
        lines: whether to note the lines of the program that kernels compute.

    Attributes:
        kernels: what has been launched.
        script: what has been done, to repeat it.
    """

    def __init__(
        self, name: str, arguments: Iterable[Array] = (), strict: bool = False, lines: bool = False
    ) -> None:
        self.name, self.strict, self._lines = name, strict, lines
        self.kernels: list[Launched] = []
        self.script = Script(arguments)
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
        self._views: dict[int, list[_Viewed]] = {}
        self._outer: Any = None

    def __enter__(self) -> Trace:
        self._outer = capture_hooks.begin_trace(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        capture_hooks.begin_trace(self._outer)
        if exc_info[0] is None:
            self.settle()
            return
        with suppress(Exception):  # what is kept anywhere, as later writes do not ask an ended trace
            self.settle()

    def read(self, x: Array, what: str) -> None:
        """See :func:`.capture_hooks.reads`."""
        if self.strict and what and not capture_hooks.read_by_library():
            raise CaptureError(
                f"jit: {self.name} reads values of an array of shape {x.shape} by {what} at "
                f"{capture_hooks.user_line()}: later calls repeat what was launched, without its Python. Choose "
                "by value with ck.where, or return the array and read it outside"
            )
        self.script.open = self.script.open or "values of an array are read on the host"

    def lines_of(self, arrays: Iterable[Array]) -> tuple[str, ...]:
        """The lines of the program that arrays come of, and the present one, if they are noted."""
        if not self._lines:
            return ()
        found = dict.fromkeys(
            line for x in arrays if (one := expression(x)) is not None for line in one.lines
        )
        return (*found, *(() if (here := capture_hooks.user_line()) in found else (here,)))

    def settle(self, first: Iterable[Array] = ()) -> None:
        """Compute all that is pending and can still be read, ``first`` these arrays; in few kernels what is alike."""
        self._views.clear()  # nothing will be written, and they keep arrays alive
        waiting = [one for one in (expression(x) for x in first) if one is not None]
        seen = set(map(id, waiting))
        waiting += [one for _, one in self._alive() if id(one) not in seen]
        self._compute_all(waiting)

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
                self._settle_each(some)
        for one in waiting:
            if one.base is not None and (x := one.owner()) is not None and type(x) is Pending:
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
            if one.node.kind == "reduced":
                # Its shape may be another than that of the array that has the result.
                return one.node, one.reads, one.depth
            reference = self._made.get(one.node)
            there = None if reference is None else reference()
            if there is None or type(there) is Pending:
                return one.node, one.reads, one.depth
            x = there
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
        joined, lines = pieces_of(nodes), self.lines_of(arrays)
        wanted = {one.shape for one in plan.layouts}
        if joined and (
            {one.shape for one in joined} != wanted or len(_boxes(joined)) > _MOST_PIECES or stages_of(nodes)
        ):
            self._compute_all([one for one in map(expression, arrays) if one is not None])
            nodes, reads, depth = self.inlined(plan.program, arrays, scalars)
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
        new = Expression(self, node, one.layout, reads, depth, lines=self.lines_of(arrays))
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
        deep = depth >= _DEPTH and (len(order(nodes)) > MOST_NODES or depth_of(nodes) > MOST_STAGES)
        if deep or len(reads) > MOST_INPUTS:
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
            reads: list[tuple[Array, View | None, Array]] = [(x, None, x) for x in arrays]
            numbers = list(scalars)
        else:
            plan = self.plan(program, arrays)
            nodes, _, _ = self.inlined(program, arrays, scalars)
            if pieces_of(nodes):
                self._compute_all([one for one in map(expression, arrays) if one is not None])
                nodes, _, _ = self.inlined(program, arrays, scalars)
            program, reads, numbers = self.kernel(nodes, plan.layouts[0].shape)
        reduction = reduction_of([of for _, _, of in reads], program)
        y = reduction.run([of for _, _, of in reads], numbers, parameter)
        taken = tuple([self.script.read(*one) for one in reads])
        many = [of for _, _, of in reads]
        self._note(
            reduction.problem.reduction.name,
            many,
            [y._planned()],
            self.lines_of(arrays),
            lambda: reduction.source,
        )
        self.script.steps.append(Reduce(reduction, taken, tuple(numbers), parameter, self.script.put(y)))
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
        if (
            sorted(axes) != [*range(len(plain), len(shape))]
            or math.prod(plain) < LEAST_ROWS
            or math.prod(shape[len(plain) :]) < LEAST_ELEMENTS
        ):
            return None
        (node,), reads, depth = self.inlined(program, arrays, scalars)
        if pieces_of((node,)) or depth_of((node,)) >= MOST_STAGES:
            self._compute_all([one for one in map(expression, arrays) if one is not None])
            (node,), reads, depth = self.inlined(program, arrays, scalars)
        stage = Stage(reduce, node, shape, len(axes), plain, dtype, parameter)
        stage = stage.kept if keepdims else stage
        own = fresh_layout(device, dtype, stage.out)
        return self._pending(Expression(self, stage.result, own, reads, depth + _DEPTH // MOST_STAGES))

    def computed(self, stage: Stage) -> Node:
        """The node of an array that has the result of a reduction."""
        (node,) = self.reused((stage.result,))
        if node.kind == "reduced":
            self._values((stage,))
            (node,) = self.reused((node,))
        return node

    def _values(self, stages: Iterable[Stage]) -> None:
        """Compute reductions, those along the same rows by one kernel."""
        groups: dict[Any, dict[Node, Stage]] = {}
        for one in stages:
            groups.setdefault((one.shape, one.axes), {})[one.kept.result] = one.kept
        for (shape, axes), found in groups.items():
            alike = list(found.values())
            made = self._rows(shape, axes, alike)
            for one, y in zip(alike, made or map(self._at_once, alike), strict=True):
                self._made[one.result] = partial(_identity, y)  # nothing else refers to it

    def _at_once(self, stage: Stage) -> Array:
        """The result of a reduction by the kernels of reductions."""
        program, reads, numbers = self.kernel([stage.node], stage.shape)
        kept = stage.out != stage.plain
        axes = tuple(range(len(stage.plain), len(stage.shape)))
        arrays = [of for _, _, of in reads]
        plan = stage.reduce.planned(arrays, program, axes, kept, stage.dtype)
        y: Array = plan.run(arrays, numbers, stage.parameter)
        name = plan.problem.reduction.name
        self._note(name, arrays, [y._planned()], (), lambda: plan.source)
        taken = tuple([self.script.read(*one) for one in reads])
        self.script.steps.append(Reduce(plan, taken, tuple(numbers), stage.parameter, self.script.put(y)))
        return y

    def _rows(
        self, shape: tuple[int, ...], axes: int, results: Sequence[Expression | Stage]
    ) -> list[Array] | None:
        """New arrays of expressions and reductions that share rows, by one kernel; None where that is not faster."""
        rows = Rows(self, shape, axes)
        nodes, forms = [], []
        for one in results:
            node, form = (
                (one.node, one.layout.shape) if isinstance(one, Expression) else (one.result, one.out)
            )
            nodes.append(rows.placed(node, form == shape[:-axes]))
            forms.append(form)
        if not rows.stages or (len(rows.stages) == 1 and not any(node.args for node in nodes)):
            return None
        with tracing(self.name, self._shapes):
            roots, views = read_views([*rows.operands, *nodes], len(self._shapes))
        program, inputs, scalars = compact(_named(roots), roots)
        of_arrays, stages = rows.numbered(inputs)
        reads = self._arrays_of(of_arrays, views)
        numbers = [self._numbers[k] for k in scalars]
        arrays = [of for _, _, of in reads]
        layouts = tuple([one._layout or one._planned() for one in arrays])
        outs = tuple(
            [
                one.layout
                if isinstance(one, Expression)
                else fresh_layout(layouts[0].device, one.dtype, one.out)
                for one in results
            ]
        )
        wide = tuple([form == shape for form in forms])
        problem = RowProgram(program, stages, shape, axes, layouts, outs, wide)
        plan = rows.stages[0].reduce.row_plan(problem)
        if plan is None:
            return None
        made: list[Array] = plan.run(arrays, numbers)
        owners = [one.owner() if isinstance(one, Expression) else None for one in results]
        lines = tuple(
            dict.fromkeys(line for one in results if isinstance(one, Expression) for line in one.lines)
        )
        self._launched(
            plan, program, reads, numbers, list(zip(owners, made, strict=True)), lines, lambda: plan.source
        )
        return made

    def _launched(
        self,
        plan: Plan,
        program: Program,
        reads: Sequence[tuple[Array, View | None, Array]],
        numbers: Sequence[Any],
        made: Sequence[tuple[Array | None, Array]],
        lines: tuple[str, ...],
        text: Callable[[], str],
    ) -> None:
        """Note a launch, with the owner of each result, if there is one."""
        self._note(program.name, [of for _, _, of in reads], plan.layouts, lines, text)
        taken = tuple([self.script.read(*one) for one in reads])
        slots = tuple([self.script.put(_either(owner, new)) for owner, new in made])
        self.script.steps.append(Launch(plan, taken, tuple(numbers), slots))

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A call of a function that is no elementwise one, as one step; it returns new arrays."""
        leaves, rebuilt = taken_apart((args, options))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Array)]
        slots = tuple([self.script.slot(self._there(leaves[i])) for i in places])
        with capture_hooks.suspended(self):
            made = function(*args, **options)
        several = pytree.leaves(made)
        if not all(isinstance(one, Array) for one in several):
            self.script.open = self.script.open or f"it calls {function!r}, whose results are not only arrays"
            return made
        constants = tuple([None if isinstance(leaf, Array) else leaf for leaf in leaves])

        def again(arrays: list[Any]) -> Any:
            filled = list(constants)
            for i, x in zip(places, arrays, strict=True):
                filled[i] = x
            return rebuilt(filled)

        results = tuple([self.script.put(one) for one in several])
        name = str(getattr(function, "__qualname__", function))
        given = [leaves[i] for i in places]
        self._note(name, given, [one._planned() for one in several], self.lines_of(given), str)
        form = constants, pytree.containers((args, options))
        self.script.steps.append(Call(function, slots, form, again, results))
        return made

    @staticmethod
    def _there(x: Array) -> Array:
        """An array, computed if it was pending."""
        deferred.computed(x)
        return x

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
        if type(x) is not Pending or like.size >= own.size:
            offset = address(like) - address(start) if like.size else 0
            aligned = own.on_host or (own.aligned and offset % ALIGNMENT == 0)
            new, base = layout(own.device, own.dtype, like.shape, like.strides, aligned), (x, take)
        result = self._pending(Expression(self, node, new, one.reads, one.depth, base, one.lines))
        result._storage = x._storage
        if base is not None:
            result._viewed = x if x._viewed is None else x._viewed
        if type(x) is Pending:
            self._views.setdefault(id(x._storage), []).append(_Viewed(weakref.ref(result), one, take))
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
            if not isinstance(seen, Expr) or seen.shape != like.shape:
                return None
            return None if one.depth and len(array_reads(seen.node)) > MOST_VIEWED else seen.node

    def _reshaped(self, one: Expression, shape: tuple[int, ...]) -> Node | None:
        """The node of another shape, if that is the one of the same shape of each array."""
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

    def write(self, x: Array) -> None:
        """Compute what reads the memory of ``x``, which is about to be written."""
        self.script.open = self.script.open or "it writes to an array"
        self._settle_readers(x)

    def write_within(self, x: Array) -> None:
        """:meth:`write` by a function that is called as one step, and writes again when that is repeated."""
        outer = capture_hooks.begin_trace(self)
        try:
            self._settle_readers(x)
        finally:
            capture_hooks.begin_trace(outer)

    def _settle_readers(self, x: Array) -> None:
        storage = x._storage
        bases: dict[int, Array] = {}
        for reference, of, take in self._views.pop(id(storage), ()):
            if (view := reference()) is not None:
                self.script.open = self.script.open or "it writes to an array of which there are views"
                base = of.owner()
                if base is None:
                    base = bases[id(of)] if id(of) in bases else bases.setdefault(id(of), of())
                data = take(base._data)
                view.__class__ = Array
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
        """New arrays of expressions of one shape, or of those that share rows, by one kernel."""
        shape, device = some[0].layout.shape, some[0].layout.device
        if any(pieces_of((one.node,)) for one in some):
            return [self._by_pieces(one) for one in some]
        share = next((rows for one in some if (rows := rows_of(one.node, one.layout.shape))), None)
        if share is not None:
            together = self._rows(*share, some)
            if together is not None:
                for one in some:
                    self._remember(one)
                return together
            if len(some) > 1:
                return [self.compute([one])[0] for one in some]
            (one,) = some
            if one.node.kind == "reduced" and self.reused((one.node,))[0] is one.node:
                y = self._at_once(one.node.value)
                if (owner := one.owner()) is not None:
                    self.script.same(owner, y)
                self._remember(one)
                return [y]
        program, reads, numbers = self.kernel([one.node for one in some], shape)
        arrays = [of for _, _, of in reads]
        outs = tuple([one.layout for one in some])
        placed = places([whole for whole, _, _ in reads], arrays)
        plan = _plan(program, device, arrays, outs, placed)
        made: list[Array] = plan.run(arrays, numbers)
        lines = tuple(dict.fromkeys(line for one in some for line in one.lines))
        text = partial(source_of, program, device, self._laid(arrays), outs, placed)
        owners = [one.owner() for one in some]
        self._launched(plan, program, reads, numbers, list(zip(owners, made, strict=True)), lines, text)
        for one in some:
            self._remember(one)
        return made

    def _by_pieces(self, one: Expression) -> Array:
        """A new array of an expression of joined arrays, by a kernel for each box in which it is the same function."""
        with on(one.layout.device):
            made = Array._made(one.layout)
        self.script.steps.append(New(one.layout, self.script.put(made)))
        for box in _boxes(pieces_of((one.node,))):
            with tracing(self.name, self._shapes):
                node = Expr(one.node, one.layout.shape)[box].node
            self.compute_into(node, made, box, one.lines)
        if (owner := one.owner()) is not None:
            self.script.same(owner, made)
        self._remember(one)
        return made

    def _remember(self, one: Expression) -> None:
        """Note that the array of an expression has its value."""
        owner, node = one.owner(), one.node
        if owner is None or node.kind in ("input", "view"):
            return
        with tracing(self.name, self._shapes):
            shapes = [view.shape for _, view in array_reads(node)] + [
                each.shape for each in pieces_of((node,))
            ]
        shapes += [each.out for each in stages_of((node,))]
        if np.broadcast_shapes(*shapes) == one.layout.shape:  # else the node is that of narrower arrays, too
            node = node.value.kept.result if node.kind == "reduced" else node
            self._made[node] = one.owner
            self._storage(owner).nodes.append(node)

    def compute_into(self, node: Node, x: Array, key: Any, lines: tuple[str, ...] = ()) -> None:
        """Compute an expression to a part of an array, to whose shape it broadcasts; it does not read the part."""
        target = x._data[key]
        program, reads, numbers = self.kernel([node], target.shape)
        arrays = [of for _, _, of in reads]
        placed = places([whole for whole, _, _ in reads], arrays)
        with on(x.device):
            run_into(program, x.device, [one._data for one in arrays], numbers, target, placed)
        inputs, outs = self._laid(arrays), (layout_of(x.device, target),)
        text = partial(source_of, program, x.device, inputs, outs, placed)
        self._note(program.name, arrays, outs, lines, text)
        taken = tuple([self.script.read(*one) for one in reads])
        self.script.steps.append(Into(program, taken, tuple(numbers), self.script.slot(x), key, placed))

    @staticmethod
    def _laid(arrays: Sequence[Array]) -> tuple[Layout, ...]:
        return tuple([one._layout or one._planned() for one in arrays])

    def _note(
        self,
        name: str,
        arrays: Sequence[Array],
        outs: Sequence[Layout],
        lines: tuple[str, ...],
        text: Callable[[], str],
    ) -> None:
        self.kernels.append(Launched(name, self._laid(arrays), tuple(outs), lines, text))

    def assign(self, x: Array, key: Any, value: Any) -> bool:
        """``x[key] = value`` of an array that this trace has made, as a part of it; False where that is not so."""
        parts = key if isinstance(key, tuple) else (key,)
        if not _BASIC.issuperset(map(type, parts)) or tape.recording(
            [x, value] if isinstance(value, Array) else [x]
        ):
            return False
        one = expression(x)
        if one is None:
            if type(value) is not Pending or not self.script.made(x):
                return False
            return self._assign_part(x, parts, value)
        if one.trace is not self or one.base is not None or id(x._storage) in self._views:
            return False
        found = _box(parts, x.shape)
        before, reads, depth = self._read(x)
        if x.nbytes < MANY_BYTES or found is None or pieces_of((before,)) or stages_of((before,)):
            self._compute_all([one])
            return self.assign(x, key, value)
        box, kept = found
        node = self._part_of(x, box, kept, value)
        if node is None:
            return False
        boxes = [(box, node[0])]
        with tracing(self.name, self._shapes):
            for other in _around(box, x.shape):
                boxes.append((other, Expr(before, x.shape)[other].node))
        made = Pieces(x.shape, tuple(boxes)).node(x.dtype)
        lines = self.lines_of([x, value])
        new = Expression(self, made, one.layout, _both(reads, node[1]), depth + 1, lines=lines)
        new.owner = one.owner
        _MEMORY.__set__(x, new)
        x._bump("setitem")
        return True

    def _part_of(
        self, x: Array, box: tuple[slice, ...], kept: tuple[bool, ...], value: Any
    ) -> tuple[Node, tuple[Array, ...]] | None:
        """The node of what is written to a box of an array, and what it reads; None where casts are to be checked.

        Args:
            kept: which axes of the box the index keeps.
        """
        if not isinstance(value, Array) or value.device is not x.device or value.dtype != x.dtype:
            return None
        shape = tuple([one.stop - one.start for one, keep in zip(box, kept, strict=True) if keep])
        if not _broadcasts(value.shape, shape):
            return None
        node, reads, _ = self._read(value)
        if pieces_of((node,)) or stages_of((node,)):
            return None
        if not all(kept):
            index = [slice(None) if keep else None for keep in kept][-len(kept) :]
            first = next((i for i, keep in enumerate(kept) if keep), len(kept))
            if len(value.shape) != len(shape):
                return None
            with tracing(self.name, self._shapes):
                node = (
                    Expr(node, value.shape)[tuple(index)].node if first < len(kept) or value.shape else node
                )
        return node, reads

    def rolled(self, x: Array, before: Sequence[int]) -> Array | None:
        """``x`` shifted cyclically by numbers of positions along each axis; None if a kernel is to do that."""
        one = expression(x)
        if x.nbytes < MANY_BYTES or sum(map(bool, before)) > _MOST_ROLLED:
            return None
        if one is not None and (pieces_of((one.node,)) or stages_of((one.node,))):
            self._compute_all([one])
        node, reads, depth = self._read(x)
        boxes: list[tuple[tuple[slice, ...], Node]] = []
        sides = [
            ((0, n, 0),) if not k else ((0, k, n - k), (k, n, 0))
            for k, n in zip(before, x.shape, strict=True)
        ]
        with tracing(self.name, self._shapes):
            for each in itertools.product(*sides):
                key = tuple([slice(start, start + stop - begin) for begin, stop, start in each])
                box = tuple([slice(begin, stop) for begin, stop, _ in each])
                boxes.append((box, Expr(node, x.shape)[key].node))
        made = Pieces(x.shape, tuple(boxes)).node(x.dtype)
        own = fresh_layout(x.device, x.dtype, x.shape)
        return self._pending(Expression(self, made, own, reads, depth + 1, lines=self.lines_of([x])))

    def _assign_part(self, x: Array, parts: tuple[Any, ...], value: Array) -> bool:
        """``x[key] = value`` of an array that the trace has made, and a pending one."""
        if x._planned().repeated or x._storage.constant:
            return False
        at = parts if ... in parts else (*parts, ...)
        try:
            shape = x._data[at].shape
        except IndexError:
            return False  # the general path raises the error
        self._settle_readers(x)
        own = expression(value)
        if (
            own is None
            or not _broadcasts(value.shape, shape)
            or (value.dtype in COMPLEX and x.dtype not in COMPLEX)
        ):
            return False
        self.compute_into(cast(own.node, x.dtype), x, at, self.lines_of([value]))
        x._bump("setitem")
        return True

    def kernel(
        self, nodes: Sequence[Node], shape: tuple[int, ...]
    ) -> tuple[Program, list[tuple[Array, View | None, Array]], list[Any]]:
        """The program of nodes of a shape, and what it reads: arrays, their views, and what these are; and numbers."""
        nodes = self.reused(nodes)
        if stages := stages_of(nodes):
            self._values(stages)
            nodes = self.reused(nodes)
        with tracing(self.name, self._shapes):
            roots, views = read_views(spread(nodes, shape), len(self._shapes))
        program, inputs, scalars = compact(_named(roots), roots)
        return program, self._arrays_of(inputs, views), [self._numbers[k] for k in scalars]

    def _arrays_of(
        self, inputs: Iterable[int], views: Sequence[View]
    ) -> list[tuple[Array, View | None, Array]]:
        """What a kernel reads: arrays, their views, and what these are; the numbers of views follow those of arrays."""
        reads: list[tuple[Array, View | None, Array]] = []
        for k in inputs:
            if k < len(self._shapes):
                reads.append((self._array(k), None, self._array(k)))
            else:
                view = views[k - len(self._shapes)]
                whole = self._array(view.array)
                with capture_hooks.suspended(self), tape.stop_recording():
                    reads.append((whole, view, view.of(whole)))
        return reads

    def view_of(self, leaf: Node) -> View:
        """What an input or a view reads."""
        with tracing(self.name, self._shapes):
            return array_reads(leaf)[0][1]

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The Python numbers that expressions read."""
        return tuple([(type(one), repr(one)) for one in self._numbers])

    def _array(self, k: int) -> Array:
        found = self._arrays[k]()
        assert found is not None
        return found

    def reused(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """The nodes with the arrays that hold the values of some of them in place of these."""
        if not self._made:
            return nodes
        there = {}
        for node in order(nodes):
            reference = self._made.get(node.value.kept.result if node.kind == "reduced" else node)
            x = None if reference is None else reference()
            if x is not None and type(x) is not Pending:
                out = node.value.out if node.kind == "reduced" else x.shape
                there[node] = reshaped(self.number(x), x.shape, out, x.dtype)
        return substitute(nodes, there) if there else nodes


#: Axes along which an array is shifted by reading its parts, of which each takes a launch.
_MOST_ROLLED = 2
#: Launches for one array; operands that would need more are computed first.
_MOST_PIECES = 32
#: Operations behind one another from which the nodes of an expression are counted.
_DEPTH = 32


class Waiting(Plan):
    """The plan of a program whose results wait."""

    __slots__ = ()

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any] = ()) -> list[Array]:
        """See :class:`Plan`."""
        for convert, value in zip(self.converters, scalars, strict=True):
            convert(value)  # raises of what is out of range
        active: Trace | None = deferred.trace()
        if active is None:  # a tape repeats it after the trace
            return planned(self.program, arrays).run(arrays, scalars)
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


def _plan(
    program: Program, device: Device, arrays: Sequence[Array], outs: tuple[Layout, ...], placed: Places
) -> Plan:
    """The plan of a kernel with results of these layouts."""
    operands = tuple([one._layout or one._planned() for one in arrays])
    key = program, operands, outs, placed
    found = _plans.get(key)
    if found is None:
        found = _plans.keep(key, make_plan(program, device, operands, outs, placed=placed))
    return found


def _named(roots: Sequence[Node]) -> str:
    """A name of the functions of a kernel."""
    names = dict.fromkeys(node.row.name for node in order(roots) if node.row is not None)
    few = list(names)[-3:]
    return "_".join(few) if few else "copy"
