"""The launches of a trace: kernels that compute expressions of its arrays, and the script of what was done."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..array import Array
from ..array.array import Storage
from ..array.layout import Layout, address, fresh_layout, layout_of
from ..autodiff import tape
from ..cache import Cache
from ..device import trace_hooks
from ..kernel.plan import on
from . import boxes
from .graph import (
    Expr,
    Node,
    Stage,
    View,
    array_reads,
    order,
    pieces_of,
    read_views,
    scalar_node,
    spread,
    stages_of,
    substitute,
    tracing,
)
from .pending import Expression, Pending
from .plan import Places, Plan, make_plan, places, run_into, source_of
from .program import Program, compact
from .script import Into, Launch, New, Read, Reduce, Script, Seen, Step
from .staged import RowProgram, Rows, reshaped, rows_of


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


class Operand(NamedTuple):
    """What a kernel reads.

    Attributes:
        whole: an array.
        view: a view of it; None for the array itself.
        array: what that is.
    """

    whole: Array
    view: View | None
    array: Array


class Kernel:
    """A program and what it is launched with.

    Attributes:
        reads: the operands.
        arrays: what they are.
        layouts: those of the arrays.
        numbers: the program's numbers.
    """

    __slots__ = ("arrays", "layouts", "numbers", "program", "reads")

    def __init__(self, program: Program, reads: Sequence[Operand], numbers: Sequence[Any]) -> None:
        self.program, self.reads, self.numbers = program, reads, tuple(numbers)
        self.arrays = [one.array for one in reads]
        self.layouts = layouts_of(self.arrays)

    @property
    def placed(self) -> Places:
        """Where the operands are in the arrays of which they are views."""
        return places([one.whole for one in self.reads], self.arrays)


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


class Launches(trace_hooks.Trace):
    """The arrays and numbers of expressions, and what was launched to compute these.

    Args:
        name: of the function that is traced.
        arguments: its arrays.

    Attributes:
        kernels: what has been launched.
        script: what has been done, to repeat it.
    """

    def __init__(self, name: str, arguments: Iterable[Array]) -> None:
        self.name = name
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
        #: The arrays that hold the values of nodes.
        self._made: dict[Node, Callable[[], Array | None]] = {}

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The Python numbers that expressions read."""
        return tuple([(type(one), repr(one)) for one in self._numbers])

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

    def _array(self, k: int) -> Array:
        found = self._arrays[k]()
        assert found is not None
        return found

    def scalar(self, value: Any, like: Node) -> Node:
        """The node of a number."""
        key = type(value), repr(value)
        k = self._number_of.setdefault(key, len(self._numbers))
        if k == len(self._numbers):
            self._numbers.append(value)
        return scalar_node(k, like.dtype, like.weak)

    def view_of(self, leaf: Node) -> View:
        """What an input or a view reads."""
        with tracing(self.name, self._shapes):
            return array_reads(leaf)[0][1]

    def reused(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """The nodes with the arrays that hold the values of some of them in place of these."""
        there = {}
        for node in order(nodes) if self._made else ():
            reference = self._made.get(node.value.kept.result if node.kind == "reduced" else node)
            x = None if reference is None else reference()
            if x is not None and type(x) is not Pending:
                out = node.value.out if node.kind == "reduced" else x.shape
                there[node] = reshaped(self.number(x), x.shape, out, x.dtype)
        return substitute(nodes, there) if there else nodes

    def _remember(self, one: Expression) -> None:
        """Note that the array of an expression has its value."""
        owner, node = one.owner(), one.node
        if owner is None or node.kind in ("input", "view"):
            return
        with tracing(self.name, self._shapes):
            shapes = [view.shape for _, view in array_reads(node)]
        shapes += [each.shape for each in pieces_of((node,))] + [each.out for each in stages_of((node,))]
        if np.broadcast_shapes(*shapes) == one.layout.shape:  # else the node is that of narrower arrays, too
            node = node.value.kept.result if node.kind == "reduced" else node
            self._made[node] = one.owner
            self._storage(owner).nodes.append(node)

    def _forget(self, storage: Storage) -> None:
        """Forget the numbers and values of arrays in memory that is written."""
        on = self._on.pop(id(storage), None)
        for key in () if on is None else on.numbered:
            self._known.pop(key, None)
        for node in () if on is None else on.nodes:
            self._made.pop(node, None)

    def kernel(self, nodes: Sequence[Node], shape: tuple[int, ...]) -> Kernel:
        """The kernel of nodes of a shape."""
        nodes = self.reused(nodes)
        if stages := stages_of(nodes):
            self._values(stages)
            nodes = self.reused(nodes)
        with tracing(self.name, self._shapes):
            program, inputs, scalars, views = self._compact(spread(nodes, shape))
        return Kernel(program, self._operands(inputs, views), [self._numbers[k] for k in scalars])

    def _compact(self, nodes: Sequence[Node]) -> tuple[Program, Sequence[int], Sequence[int], list[View]]:
        """The program of nodes, its inputs and scalars, and the views that the numbers after those of arrays are."""
        roots, views = read_views(nodes, len(self._shapes))
        return *compact(_named(roots), roots), views

    def _operands(self, inputs: Iterable[int], views: Sequence[View]) -> list[Operand]:
        reads = []
        for k in inputs:
            if k < len(self._shapes):
                reads.append(Operand(self._array(k), None, self._array(k)))
            else:
                view = views[k - len(self._shapes)]
                whole = self._array(view.array)
                with trace_hooks.suspended(self), tape.stop_recording():
                    reads.append(Operand(whole, view, view.of(whole)))
        return reads

    def compute(self, some: Sequence[Expression]) -> list[Array]:
        """New arrays of expressions of one shape, or of those that share rows, by one kernel."""
        if any(pieces_of((one.node,)) for one in some):
            return [self._by_pieces(one) for one in some]
        share = next((rows for one in some if (rows := rows_of(one.node, one.layout.shape))), None)
        made = None if share is None else self._rows(*share, some)
        if made is None and share is not None:
            if len(some) > 1:
                return [self.compute([one])[0] for one in some]
            (one,) = some
            if one.node.kind == "reduced" and self.reused((one.node,))[0] is one.node:
                made = [self._at_once(one.node.value)]
                self.script.same(one.held(made[0]), made[0])
        for one in some if made is not None else ():
            self._remember(one)
        return self._elementwise(some) if made is None else made

    def seen(self, one: Expression) -> Array:
        """The view that an expression is of another array."""
        base, take = one.base
        made = Array._wrap(take(base._data), base.device)
        of, own = self.script.slot(base), made._planned()
        offset = address(made._data) - address(base._data) if own.size else 0
        self.script.steps.append(Seen(of, take, self.script.put(one.held(made)), own, offset))
        return made

    def _elementwise(self, some: Sequence[Expression]) -> list[Array]:
        """New arrays of expressions of one shape, by one kernel."""
        device, outs = some[0].layout.device, tuple([one.layout for one in some])
        own = self.kernel([one.node for one in some], outs[0].shape)
        key = own.program, own.layouts, outs, (placed := own.placed)
        plan = _plans.get(key)
        if plan is None:
            plan = _plans.keep(key, make_plan(own.program, device, own.layouts, outs, placed=placed))
        text = partial(source_of, own.program, device, own.layouts, outs, placed)
        made = self._launched(plan, own, some, text)
        for one in some:
            self._remember(one)
        return made

    def _launched(
        self, plan: Plan, own: Kernel, results: Sequence[Expression | None], text: Callable[[], str]
    ) -> list[Array]:
        """The new arrays of a plan, which are those of expressions where these have some."""
        made: list[Array] = plan.run(own.arrays, own.numbers)
        both = list(zip(results, made, strict=True))

        def step(reads: tuple[Read, ...]) -> Step:
            slots = [self.script.put(new if one is None else one.held(new)) for one, new in both]
            return Launch(plan, reads, own.numbers, tuple(slots))

        lines = dict.fromkeys(line for one in results if one is not None for line in one.lines)
        self._note(own, own.program.name, plan.layouts, tuple(lines), text, step)
        return made

    def _by_pieces(self, one: Expression) -> Array:
        """A new array of an expression of joined arrays, by a kernel for each box in which it is the same function."""
        with on(one.layout.device):
            made = Array._made(one.layout)
        self.script.steps.append(New(one.layout, self.script.put(made)))
        for box in boxes.common(pieces_of((one.node,))):
            with tracing(self.name, self._shapes):
                node = Expr(one.node, one.layout.shape)[box].node
            self.compute_into(node, made, box, one.lines)
        self.script.same(one.held(made), made)
        self._remember(one)
        return made

    def compute_into(self, node: Node, x: Array, key: Any, lines: tuple[str, ...] = ()) -> None:
        """Compute an expression to a part of an array, to whose shape it broadcasts; it does not read the part."""
        target = x._data[key]
        own = self.kernel([node], target.shape)
        placed = own.placed
        with on(x.device):
            datas = [one._data for one in own.arrays]
            run_into(own.program, x.device, datas, own.numbers, target, placed)
        outs = (layout_of(x.device, target),)
        text = partial(source_of, own.program, x.device, own.layouts, outs, placed)

        def step(reads: tuple[Read, ...]) -> Step:
            return Into(own.program, reads, own.numbers, self.script.slot(x), key, placed)

        self._note(own, own.program.name, outs, lines, text, step)

    def reduce(self, own: Kernel, plan: Any, parameter: float, lines: tuple[str, ...] = ()) -> Array:
        """The reduction of a kernel's value by a plan."""
        y: Array = plan.run(own.arrays, own.numbers, parameter)

        def step(reads: tuple[Read, ...]) -> Step:
            return Reduce(plan, reads, own.numbers, parameter, self.script.put(y))

        self._note(own, plan.problem.reduction.name, [y._planned()], lines, lambda: plan.source, step)
        return y

    def _note(
        self,
        own: Kernel,
        name: str,
        outs: Sequence[Layout],
        lines: tuple[str, ...],
        text: Callable[[], str],
        step: Callable[[tuple[Read, ...]], Step],
    ) -> None:
        """Note a launch, of which ``step`` makes the step of the script from what it reads."""
        self.kernels.append(Launched(name, own.layouts, tuple(outs), lines, text))
        self.script.steps.append(step(tuple([self.script.read(*one) for one in own.reads])))

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
        own = self.kernel([stage.node], stage.shape)
        axes = tuple(range(len(stage.plain), len(stage.shape)))
        plan = stage.reduce.planned(own.arrays, own.program, axes, stage.out != stage.plain, stage.dtype)
        return self.reduce(own, plan, stage.parameter)

    def _rows(
        self, shape: tuple[int, ...], axes: int, results: Sequence[Expression | Stage]
    ) -> list[Array] | None:
        """New arrays of expressions and reductions that share rows, by one kernel; None where that is not faster."""
        rows = Rows(self, shape, axes)
        owned = [one if isinstance(one, Expression) else None for one in results]
        nodes = [one.result if isinstance(one, Stage) else one.node for one in results]
        forms = [one.out if isinstance(one, Stage) else one.layout.shape for one in results]
        placed = [rows.placed(node, form == shape[:-axes]) for node, form in zip(nodes, forms, strict=True)]
        if not rows.stages or (len(rows.stages) == 1 and not any(node.args for node in placed)):
            return None
        with tracing(self.name, self._shapes):
            program, inputs, scalars, views = self._compact([*rows.operands, *placed])
        of_arrays, stages = rows.numbered(inputs)
        own = Kernel(program, self._operands(of_arrays, views), [self._numbers[k] for k in scalars])
        device = own.layouts[0].device
        outs = [
            fresh_layout(device, node.dtype, form) if one is None else one.layout
            for one, node, form in zip(owned, nodes, forms, strict=True)
        ]
        wide = tuple([form == shape for form in forms])
        problem = RowProgram(program, stages, shape, axes, own.layouts, tuple(outs), wide)
        plan = rows.stages[0].reduce.row_plan(problem)
        return None if plan is None else self._launched(plan, own, owned, lambda: plan.source)


_plans: Cache[Any, Plan] = Cache()


def layouts_of(arrays: Sequence[Array]) -> tuple[Layout, ...]:
    """The layouts of arrays."""
    return tuple([one._layout or one._planned() for one in arrays])


def _identity(x: Array) -> Array:
    return x


def _named(roots: Sequence[Node]) -> str:
    """A name of the functions of a kernel."""
    names = dict.fromkeys(node.row.name for node in order(roots) if node.row is not None)
    few = list(names)[-3:]
    return "_".join(few) if few else "copy"
