"""The launches of a trace: kernels that compute expressions of its arrays, and the script of what was done."""

from __future__ import annotations

import math
import os
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from .. import pytree
from ..array import Array, deferred
from ..array.array import Storage
from ..array.layout import Layout, fresh_layout, layout_of
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..cache import Cache
from ..device import trace_hooks
from ..device.precision import get_matmul_precision, matmul_precision
from ..kernel.plan import BoundLaunch, on
from ..kernel.sizes import divide_up
from . import boxes, summed
from .alike import Member, alike
from .costs import computing, stores
from .graph import (
    Expr,
    Indexed,
    Node,
    Piece,
    Rolled,
    Stage,
    View,
    all_of,
    array_reads,
    gathers_of,
    input_node,
    order,
    picked_of,
    pieces_of,
    product_shape_of,
    products_of,
    read_besides,
    read_views,
    scalar_node,
    shapes_of,
    spread,
    stages_of,
    substitute,
    tracing,
)
from .many import Many, many, shared_out
from .pending import Expression, Pending, expression
from .plan import Places, Plan, make_plan, places, plan_into
from .program import Program, compact
from .script import Call, Into, Launch, New, Read, Script, Single, Step, taken_apart
from .staged import GATHERS, Gathers, RowProgram, Rows, SegmentProgram, reshaped, rows_of

T = TypeVar("T")
#: Results of one kernel.
MOST_OUTPUTS = 16
#: Nodes whose lines are those of what computes them.
_APART = ("product", "called")
#: Those of expressions that are computed of arrays in memory alone.
_PLAIN = frozenset(("input", "view", "table", "scalar", "constant", "cast", "call", "picked"))
#: The number of a product among the inputs of what reads it in one launch.
_PRODUCT = 1 << 24


class Launched(NamedTuple):
    """A launch of a trace.

    Attributes:
        name: that of the kernel, or of the function that is called.
        inputs: the layouts of the arrays that it reads.
        outputs: those of what it writes.
        lines: the lines of the program that it computes, where they were noted.
        plan: its plan; None for a call.
        replaced: whether that has a kernel of a user.
    """

    name: str
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    lines: tuple[str, ...]
    plan: Any = None
    replaced: bool = False

    def text(self) -> str:
        """The kernel's text, that of a call is empty."""
        return "" if self.plan is None else str(self.plan.source)

    @property
    def places(self) -> str:
        """The lines, by file."""
        files: dict[str, list[str]] = {}
        for line in self.lines:
            path, _, number = line.rpartition(":")
            files.setdefault(os.path.basename(path), []).append(number)
        return " ".join(f"{name}:{','.join(sorted(numbers, key=int))}" for name, numbers in files.items())

    @property
    def symbol(self) -> str:
        """The name of the kernel in its text, or that of what is called."""
        ready = None if self.plan is None else self.plan.ready
        return self.name if ready is None else str(ready.bound.signature.name)


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
        reads: the operands, the program's tables behind its inputs.
        arrays: what they are.
        inputs: those of the program's inputs.
        layouts: those of these.
        numbers: the program's numbers.
    """

    __slots__ = ("arrays", "inputs", "layouts", "numbers", "program", "reads")

    def __init__(self, program: Program, reads: Sequence[Operand], numbers: Sequence[Any]) -> None:
        self.program, self.reads, self.numbers = program, reads, tuple(numbers)
        self.arrays = [one.array for one in reads]
        self.inputs = self.arrays[: len(reads) - len(program.tables)]
        self.layouts = layouts_of(self.inputs)

    @property
    def placed(self) -> Places:
        """Where the inputs are in the arrays of which they are views."""
        return places([one.whole for one in self.reads[: len(self.inputs)]], self.inputs)


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
        lines: whether to note the lines of the program that kernels compute.
        given: by the forms of launches, what a user gave instead of them.

    Attributes:
        kernels: what has been launched.
        unused: what of ``given`` has not been launched.
        script: what has been done, to repeat it.
        precision: that of products when the trace began.
    """

    def __init__(
        self, name: str, arguments: Iterable[Array], lines: bool, given: Mapping[Any, BoundLaunch]
    ) -> None:
        self.name, self._lines, self.precision = name, lines, get_matmul_precision()
        self.given, self.unused = given, dict(given)
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
        #: The same of products and of what reads some, kept as long as an expression that waits reads these.
        self._products: WeakKeyDictionary[Node, Array] = WeakKeyDictionary()
        #: By the nodes of products: the arrays that wait for them, and the lines.
        self._multiplied: WeakKeyDictionary[Node, tuple[Callable[[], Array | None], tuple[str, ...]]] = (
            WeakKeyDictionary()
        )
        #: By functions, numbers of arrays and other arguments: what :meth:`once` has returned.
        self._once: dict[Any, Any] = {}
        #: By the nodes of joined arrays: functions that make them by one launch, the array, and other arguments.
        self._by_call: WeakKeyDictionary[Node, tuple[Any, Callable[[], Any], Any]] = WeakKeyDictionary()
        self._live: list[Callable[[], Array | None]] = []

    def lines_of(self, arrays: Iterable[Array]) -> tuple[str, ...]:
        """The lines of the program that arrays come of, and the present one, if they are noted."""
        if not self._lines:
            return ()
        waiting = [one for one in map(expression, arrays) if one is not None and one.node.kind not in _APART]
        found = dict.fromkeys(line for one in waiting for line in one.lines)
        return (*found, *(() if (here := trace_hooks.user_line()) in found else (here,)))

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

    def shapes_of(self, nodes: Sequence[Node]) -> dict[Node, tuple[int, ...]]:
        """See :func:`.graph.shapes_of`."""
        with tracing(self.name, self._shapes):
            return shapes_of(nodes)

    def reused(self, nodes: Sequence[Node], gathered: tuple[int, ...] | None = None) -> Sequence[Node]:
        """The nodes with the arrays that hold the values of some of them in place of these.

        Products are computed, and gathered rows but those that a kernel of rows of the shape ``gathered`` can read.
        """
        rest = self.of_values(nodes)
        read = gathers_of(rest)
        apart = [*products_of(rest), *[x for x in read if gathered is None or not x.value.within(gathered)]]
        if apart:
            for node in apart:
                owner = self._multiplied[node][0]()
                one = None if owner is None else expression(owner)
                if owner is not None and one is not None and one.node is node:
                    deferred.computed(owner)
                elif not self._computed_through(node, nodes):
                    self._multiply(node)
            return self.reused(rest, gathered)
        return rest

    def _computed_through(self, product: Node, nodes: Sequence[Node]) -> bool:
        """Whether one launch computes an array through which alone a product is read, as its sum with a bias."""
        waiting = {one.node: one for _, one in self._alive()}
        for node in order(nodes):
            one = waiting.get(node)
            if one is None or node in nodes or node == product or product not in products_of((node,)):
                continue
            read = read_besides([*nodes, *waiting], node)
            return product not in read and self._of_product(one) is not None
        return False

    def of_values(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """The nodes with the arrays that hold the values of some of them in place of these."""
        there = {}
        for node in order(nodes):
            x = self._there(node)
            if x is not None:
                out = node.value.out if node.kind == "reduced" else x.shape
                there[node] = reshaped(self.number(x), x.shape, out, x.dtype)
        # What is kept may read arrays that stand in place of others, and is found where they do.
        return self.of_values(substitute(nodes, there)) if there else nodes

    def _there(self, node: Node) -> Array | None:
        """The array that holds the value of a node, if there is one."""
        x = self._products.get(node)
        if x is None:
            reference = self._made.get(node.value.kept.result if node.kind == "reduced" else node)
            x = None if reference is None else reference()
        return None if type(x) is Pending else x

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

    def _remember(self, one: Expression) -> None:
        """Note that the array of an expression has its value."""
        owner, node = one.owner(), one.node
        if owner is None or node.kind in ("input", "view"):
            return
        if self.shapes_of((node,))[node] == one.layout.shape:  # else the node is that of narrower arrays, too
            if products_of((node,)) or gathers_of((node,)):
                self._products[node] = owner
                return
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
        for node in [node for node, x in self._products.items() if x._storage is storage]:
            del self._products[node]

    def kernel(self, nodes: Sequence[Node], shape: tuple[int, ...], by_use: bool = False) -> Kernel:
        """The kernel of nodes of a shape; ``by_use`` as of :func:`.compact`."""
        nodes = self.reused(nodes)
        if stages := stages_of(nodes):
            self._values(stages)
            nodes = self.reused(nodes)
        self.narrow_first([(nodes, shape)])
        nodes = self.of_values(nodes)
        with tracing(self.name, self._shapes):
            program, inputs, scalars, views = self._compact(spread(nodes, shape), by_use)
        return Kernel(program, self._operands(inputs, views), [self._numbers[k] for k in scalars])

    def narrow_first(
        self, kernels: Iterable[tuple[Sequence[Node], tuple[int, ...]]], most: float | None = None
    ) -> None:
        """Store what kernels, each of nodes and a shape, would compute again and again of arrays of narrower shapes.

        Args:
            most: the time that a kernel can save; by default that of one which computes these nodes alone.
        """
        layouts, times, saved = dict[Node, Layout](), Counter[Node](), defaultdict[Node, float](float)
        waiting, seen, found = list[Node](), set[Node](), dict[Node, Layout]()
        for nodes, shape in kernels:
            with tracing(self.name, self._shapes):
                views = [view for node in nodes for _, view in array_reads(node)]
                if all(view.shape == shape for view in views):
                    continue
                shapes = shapes_of(nodes)
            waiting += nodes
            size, device = math.prod(shape), self._array(views[0].array).device
            own = computing(device, nodes, shapes, size) if most is None else most
            for node in order(nodes):
                if node.args and 0 < math.prod(shapes[node]) < size:
                    layouts[node] = fresh_layout(device, node.dtype, shapes[node])
                    times[node] += size // layouts[node].size
                    saved[node] += max(0, own)
        while waiting:
            node = waiting.pop()
            if node in layouts and stores(layouts[node], node, times[node], saved[node]) and _is_plain(node):
                found[node] = layouts[node]
            else:
                waiting += [arg for arg in node.args if arg not in seen]
                seen.update(node.args)
        self._store(found)

    def _store(self, found: Mapping[Node, Layout]) -> None:
        """Compute and keep the arrays of expressions, those of one shape together."""
        held = {one.node: one for _, one in self._alive() if one.base is None} if found else {}
        groups: dict[Any, list[Expression]] = {}
        for node, own in found.items():
            one = held.get(node)
            if one is None or one.layout is not own:
                one = Expression(self, node, own, (), 0)
            groups.setdefault((own.device, own.shape), []).append(one)
        for few in (few for group in groups.values() for few in _few(group)):
            for one, made in zip(few, self.compute(few), strict=True):
                if (owner := one.owner()) is None:
                    self._made[one.node] = partial(_identity, made)  # nothing else refers to it
                else:
                    deferred.settled(owner, made)

    def _compact(
        self, nodes: Sequence[Node], by_use: bool = False
    ) -> tuple[Program, Sequence[int], Sequence[int], list[View]]:
        """The program of nodes, its inputs and scalars, and the views that the numbers after those of arrays are."""
        roots, views = read_views(nodes, len(self._shapes))
        return *compact(_named(roots), roots, by_use), views

    def _operands(self, inputs: Iterable[int], views: Sequence[View]) -> list[Operand]:
        reads, first = [], len(self._shapes)
        wide = self._widened(views)
        for k in inputs:
            if k < first:
                reads.append(Operand(self._array(k), None, self._array(k)))
            else:
                whole, view = wide[k - first]
                with trace_hooks.suspended(self), tape.stop_recording():
                    reads.append(Operand(whole, view, view.of(whole)))
        return reads

    def _widened(self, views: Sequence[View]) -> list[tuple[Array, View]]:
        """The arrays of views, and views of these: of what is shifted cyclically copies with wider borders."""
        shifts = [_least(view, self._shapes) for view in views]
        sides: dict[int, list[tuple[int, int]]] = {}
        for view, own in zip(views, shifts, strict=True):
            if own is not None:
                both = zip(own, sides.get(view.array, [(0, 0)] * len(own)), strict=True)
                sides[view.array] = [(max(low, one), max(high, -one)) for one, (low, high) in both]
        with tape.stop_recording():
            wide = {
                k: self.once(FUNCTIONS["pad"], self._array(k), tuple(own), "wrap") for k, own in sides.items()
            }
        found = []
        for view, own in zip(views, shifts, strict=True):
            if own is None:
                found.append((self._array(view.array), view))
                continue
            x, places = wide[view.array], zip(own, sides[view.array], self._shapes[view.array], strict=True)
            key = tuple([slice(low - one, low - one + n) for one, (low, _), n in places])
            seen = View(self.number(x), (), x.shape).then(Indexed(key))
            for step in view.steps[1:]:
                seen = seen.then(step)
            found.append((x, seen))
        return found

    def compute(self, some: Sequence[Expression]) -> list[Array]:
        """New arrays of expressions of one shape, or of those that share rows, by one kernel."""
        joined = [one for one in some if pieces_of((one.node,))]
        own = [one.node for one in some]
        self._reduce_products([one for one in stages_of(own) if one.result not in own])
        first: dict[int, Array] = {}
        for one in some:
            x = None if one in joined else self._of_product(one)
            if x is not None:
                first[id(one)] = x
        if first or joined:
            rest = [one for one in some if id(one) not in first and one not in joined]
            first.update(zip(map(id, rest), self.compute(rest) if rest else (), strict=True))
            first.update(zip(map(id, joined), self._by_pieces(joined) if joined else (), strict=True))
            return [first[id(one)] for one in some]
        share = next((rows for one in some if (rows := rows_of(one.node, one.layout.shape))), None)
        made = None if share is None else self._rows(*share, some)
        if share is None and gathers_of([one.node for one in some]):
            shape = some[0].layout.shape
            made = self._rows(shape, len(shape) - 1, some) or self._rows(shape, 1, some)
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

    def compute_alike(self, kernels: Sequence[list[Expression]]) -> list[list[Expression]]:
        """Compute what several kernels would by one program, by launches of many; return what is left of them."""
        if len(kernels) > 1:
            nodes = [self.of_values([one.node for one in some]) for some in kernels]
            self.narrow_first([(own, some[0].layout.shape) for own, some in zip(nodes, kernels, strict=True)])
            left = [[one for one in some if type(one.owner()) is Pending] for some in kernels]
            kernels = list(filter(None, left))
        done: set[int] = set()
        for members in alike(self, kernels):
            program, ones = members[0].own.program, members[0].ones
            pointers = len(program.inputs) + len(program.outputs) - len(ones)
            others = len(ones) + len(program.scalars)
            for piece, capacity in shared_out(len(members), pointers, others):
                self._together(members[piece], capacity)
            done.update(id(one) for member in members for one in member.results)
        return [[one for one in some if id(one) not in done] for some in kernels]

    def _together(self, members: Sequence[Member], capacity: int) -> None:
        """Compute expressions by one launch of many, as it takes and returns the arrays."""
        (_, first, own, ones), reads = members[0], list[Operand]()
        for k in range(len(own.reads)):
            reads += [one.own.reads[k] for one in (members[:1] if k in ones else members)]
        results = [one.results[j] for j in range(len(first)) for one in members]
        layouts = tuple([one.layout for one in results])
        sizes = tuple([one.size for one in layouts[: len(members)]])
        plan = many(own.program, layouts[0].device, sizes, capacity, layouts, ones)
        made = self._launched(plan, Kernel(own.program, reads, own.numbers), results)
        for one, y in zip(results, made, strict=True):
            self._remember(one)
            if (owner := one.owner()) is not None and expression(owner) is one:
                deferred.settled(owner, y)

    def seen(self, one: Expression) -> Array:
        """The view that an expression is of another array."""
        base, take = one.base
        made = Array._wrap(take(base._data), base.device)
        self.script.seen(one.held(made), base, take, made)
        return made

    def _of_product(self, one: Expression) -> Array | None:
        """The array of a product, or of what alone reads one where one launch is faster; None of other expressions."""
        (node,), shape, end = self.of_values((one.node,)), one.layout.shape, None
        if node.kind == "reduced":
            end = node.value
            (node,), shape = self.of_values((end.node,)), end.shape
        products, stages = products_of((node,)), stages_of((node,))
        if end is None and (node in products or node.kind == "gathered"):
            return self._given(one, self._multiply(node))
        alone = [
            each for each in products if product_shape_of(each) == shape and self._reads_alone(one, each)
        ]
        if not alone or any(end is None or each.shape == shape for each in stages):
            return None
        own = alone[-1]
        if stages:
            self._values(stages)
            (node,) = self.of_values((node,))
        # A product has been computed, and nothing is waited for, when its kernel computes the rest.
        self.narrow_first([((node,), shape)], math.inf)
        (rest,) = self.reused(substitute((node,), {own: input_node(_PRODUCT, own.dtype)}))
        while picks := picked_of((rest,)):
            self._products[picks[-1]] = self._pick(picks[-1], one.lines)
            (rest,) = self.reused((rest,))
        with tracing(self.name, self._shapes):
            program, inputs, scalars, views = self._compact((rest,))
        function, factors, given = self._factors(own)
        others = self._operands([k for k in inputs if k != _PRODUCT], views)
        kernel = Kernel(program, [*factors, *others], [self._numbers[k] for k in scalars])
        lines = tuple(dict.fromkeys((*self._multiplied[own][1], *one.lines)))
        with trace_hooks.suspended(self), tape.stop_recording(), matmul_precision(self.precision):
            ends = () if end is None else (end,)
            plan = FUNCTIONS[f"{function}_plan"](program, inputs.index(_PRODUCT), kernel.arrays, given, *ends)
            if plan is None or plan.layouts[0] is not one.layout:
                return None
            first = function if own.kind == "called" else "" if end is None else end.reduction.name
            name = "_".join(filter(None, (first, program.name)))
            return self._given(one, self._single(kernel, plan, name, (), lines))

    def _pick(self, node: Node, lines: tuple[str, ...]) -> Array:
        """The array of elements that are picked, computed by itself."""
        shape = self.shapes_of((node,))[node]
        own = fresh_layout(self._array(node.args[0].value).device, node.dtype, shape)
        return self.compute([Expression(self, node, own, (), 0, lines=lines)])[0]

    def _given(self, one: Expression, y: Array) -> Array:
        """``y``, whose memory the array of an expression has from now on, for others that read it."""
        if (owner := one.owner()) is not None:
            self.script.same(owner, y)
            deferred.settled(owner, y)
            self._remember(one)
        return y

    def _reads_alone(self, one: Expression, product: Node) -> bool:
        """Whether no other array that waits reads a product, but by reading the array of this expression."""
        return product not in read_besides([other.node for _, other in self._alive()], one.node)

    def _factors(self, product: Node) -> tuple[str, list[Operand], Any]:
        """The factors of a product, and whether the second is transposed; or a function, its arrays, and what else."""
        if product.kind == "called":
            function, numbers, given, _ = product.value
        else:
            numbers = [one.node.value for one in product.value]
            function, given = "product", product.value[1].swapped
        return function, [Operand(x, None, x) for x in map(self._array, numbers)], given

    def _multiply(self, product: Node) -> Array:
        """The array of a product, a call or gathered rows, computed by itself."""
        if product.kind == "gathered":
            rows = self._array(product.value.array), self._array(product.value.indices), 0
            with tape.stop_recording():
                y: Array = self.call(FUNCTIONS["take"], rows, {}, self._multiplied[product][1])
            self._products[product] = y
            return y
        name, operands, given = self._factors(product)
        args: tuple[Any, ...] = tuple([one.array for one in operands])
        if product.kind == "called":
            args = *args, *given
        else:
            name = "matmul_transposed" if given else "matmul"
        with tape.stop_recording(), matmul_precision(self.precision):
            y = self.call(FUNCTIONS[name], args, {}, self._multiplied[product][1])
        self._products[product] = y
        return y

    def call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        options: dict[str, Any],
        lines: tuple[str, ...] = (),
        name: str = "",
    ) -> Any:
        """A call of a function that is no elementwise one, as one step; it returns new arrays."""
        leaves, rebuilt = taken_apart((args, options))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Array)]
        given = [leaves[i] for i in places]
        for x in given:
            deferred.computed(x)
        slots = tuple(map(self.script.slot, given))
        with trace_hooks.suspended(self):
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
        name = name or str(getattr(function, "__qualname__", function))
        lines = lines or self.lines_of(given)
        outs = layouts_of(several)
        self.kernels.append(Launched(name, layouts_of(given), outs, lines))
        form = constants, pytree.containers((args, options))
        self.script.steps.append(Call(function, slots, form, again, results, outs))
        return made

    def once(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """:meth:`call`, or what an earlier one with these arguments returned, if none was written since.

        Args:
            options: arguments that do not change what is returned.
        """
        for x in args:
            if isinstance(x, Array):
                deferred.computed(x)
        given = [(Array, self.number(x)) if isinstance(x, Array) else x for x in args]
        key = function, bool(tape.active()), *given  # what a tape keeps is not in memory that may be written
        if key not in self._once:
            self._once[key] = self.call(function, args, options)
        return self._once[key]

    def _elementwise(self, some: Sequence[Expression]) -> list[Array]:
        """New arrays of expressions of one shape, by one kernel."""
        device, outs = some[0].layout.device, tuple([one.layout for one in some])
        own = self.kernel([one.node for one in some], outs[0].shape)
        with_sum = self._with_sum(some[0], own) if len(some) == 1 else None
        if with_sum is not None:
            return [with_sum]
        key = own.program, own.layouts, outs, (placed := own.placed)
        plan = _plans.get(key)
        if plan is None:
            plan = _plans.keep(key, make_plan(own.program, device, own.layouts, outs, placed=placed))
        made = self._launched(plan, own, some)
        for one in some:
            self._remember(one)
        return made

    def _with_sum(self, one: Expression, own: Kernel) -> Array | None:
        """An expression's new array, by a kernel that also makes the sum that is wanted of it; None without one."""
        total, program = one.sum, own.program
        if total is None or program.tables or own.placed:
            return None
        plan = summed.beside(program, own.layouts, total.form)
        if plan is None or plan.layouts[0] is not one.layout:
            return None
        made, parts = self._launched(plan, own, (one, None))
        self._remember(one)
        total.made = parts
        if parts.shape != total.form.shape:
            with tape.stop_recording():
                options = {"axis": 0, "dtype": total.form.dtype}
                total.made = self.call(FUNCTIONS["sum"], (parts,), options, one.lines)
        return made

    def _chosen(self, plan: Any) -> Any:
        """A plan, with the user's kernel instead of its own if there is one."""
        if not self.given or plan.ready is None or (given := self.given.get(plan.ready.form)) is None:
            return plan
        self.unused.pop(plan.ready.form, None)
        found = _by_user.get((plan, given))
        return _by_user.keep((plan, given), plan.by(given)) if found is None else found

    def _launched(self, plan: Plan | Many, own: Kernel, results: Sequence[Expression | None]) -> list[Array]:
        """The new arrays of a plan, which are those of expressions where these have some."""
        plan = self._chosen(plan)
        made: list[Array] = plan.run(own.arrays, own.numbers)
        both = list(zip(results, made, strict=True))

        def step(reads: tuple[Read, ...]) -> Step:
            slots = [self.script.put(new if one is None else one.held(new)) for one, new in both]
            return Launch(plan, reads, own.numbers, tuple(slots))

        lines = dict.fromkeys(line for one in results if one is not None for line in one.lines)
        self._note(own, own.program.name, plan.layouts, tuple(lines), plan, step)
        return made

    def _by_pieces(self, some: Sequence[Expression]) -> list[Array]:
        """New arrays of expressions of joined arrays, by a kernel for each box in which they are the same functions.

        Parts of expressions of one shape are computed together, for as many kernels compute them once.
        """
        found: dict[int, Array] = {}
        for one in some:
            if (call := self._by_call.get(one.node)) is not None:
                function, x, others = call
                with tape.stop_recording():
                    found[id(one)] = self._given(one, self.call(function, (x(), *others), {}, one.lines))
        rest = [one for one in some if id(one) not in found]
        pieces: list[tuple[Expression, Piece]] = []
        for one, node in zip(rest, self._stored(rest), strict=True):
            with on(one.layout.device):
                found[id(one)] = made = Array._made(one.layout)
            self.script.steps.append(New(one.layout, self.script.put(made)))
            pieces += [(one, piece) for piece in self.pieces(node, one.layout.shape)]
        for nodes, parts in self._parts([piece for _, piece in pieces]):
            owners = [pieces[i][0] for i, _ in parts]
            targets = [(found[id(one)], key) for one, (_, key) in zip(owners, parts, strict=True)]
            lines = dict.fromkeys(line for one in owners for line in one.lines)
            self.compute_into(nodes, targets, tuple(lines))
        for one in rest:
            self.script.same(one.held(found[id(one)]), found[id(one)])
            self._remember(one)
        return [found[id(one)] for one in some]

    def _stored(self, some: Sequence[Expression]) -> Sequence[Node]:
        """The nodes of expressions, for which what they would compute often of joined arrays is computed and stored."""
        nodes = [one.node for one in some]
        joined = [node for node in order(nodes) if node.kind == "pieces"]
        read = [piece for node in joined for piece in node.value.boxes if piece.of.args]
        shapes = {piece.of: piece.shape for piece in read}
        counts = Counter({node: math.prod(shapes[node]) for node in order(nodes) if node in shapes})
        for piece in read:
            counts[piece.of] += math.prod(piece.sizes)
        layouts = {node: fresh_layout(some[0].layout.device, node.dtype, shapes[node]) for node in counts}
        self._store(
            {
                node: own
                for node, own in layouts.items()
                if self._there(node) is None and stores(own, node, counts[node] / max(1, own.size))
            }
        )
        new = {}
        for node in joined:
            own_boxes = [one._replace(of=self.reused((one.of,))[0]) for one in node.value.boxes]
            new[node] = node.value._replace(boxes=tuple(own_boxes)).node(node.dtype)
        return substitute(nodes, new)

    def pieces(self, node: Node, shape: tuple[int, ...]) -> tuple[Piece, ...]:
        """An expression of joined arrays as one joined array."""
        if node.kind == "pieces" and node.value.shape == shape:
            return node.value.boxes
        with tracing(self.name, self._shapes):
            parts = [(box, Expr(node, shape)[box]) for box in boxes.common(pieces_of((node,)), shape)]
        return tuple([Piece(box, part.node, part.shape, all_of(part.shape)) for box, part in parts])

    def _parts(self, pieces: Sequence[Piece]) -> list[tuple[list[Node], list[tuple[int, boxes.Key]]]]:
        """What kernels compute of joined arrays: expressions of one shape, and of which pieces, and where, they are."""
        alike: dict[Any, list[tuple[int, Piece]]] = {}
        for i, one in enumerate(pieces):
            one = one._replace(of=self.reused((one.of,))[0])
            alike.setdefault(i if one.source is None else one.shape, []).append((i, one))
        kernels = list[tuple[list[Node], list[tuple[int, boxes.Key]]]]()
        with tracing(self.name, self._shapes):
            for group in alike.values():
                own = [one for _, one in group]
                parts = [(box, few) for box, inside in boxes.shared(own) for few in _few(inside)]
                if 0 < len(parts) < len(group):
                    for box, few in parts:
                        nodes = [own[k]._replace(key=box).node for k, _ in few]
                        kernels.append((nodes, [(group[k][0], key) for k, key in few]))
                else:
                    kernels += [([one.node], [(i, one.box)]) for i, one in group]
        return kernels

    def compute_into(
        self, nodes: Sequence[Node], targets: Sequence[tuple[Array, Any]], lines: tuple[str, ...] = ()
    ) -> None:
        """Compute expressions to parts of arrays, each an array and a key, to whose shape they broadcast.

        They do not read the parts, but a single one may read each element of the array that it replaces.
        """
        parts, x = [one._data[key] for one, key in targets], targets[0][0]
        own = self.kernel(nodes, parts[0].shape)
        outs = tuple([layout_of(x.device, part) for part in parts])
        same = [one is x for one in own.arrays]
        inplace = [0 if one is x else None for one in own.inputs]
        plan = self._chosen(plan_into(own.program, x.device, own.layouts, outs, inplace, own.placed))
        operands = [x.device.backend.operand(part) for part in parts]
        plan.write([one._operand for one in own.arrays if one is not x], own.numbers, operands)
        host = x.device.addressable
        offsets = [0 if host else at - one._operand for at, (one, _) in zip(operands, targets, strict=True)]

        def step(reads: tuple[Read, ...]) -> Step:
            apart = tuple([one for one, is_target in zip(reads, same, strict=True) if not is_target])
            slots = tuple([self.script.slot(one) for one, _ in targets])
            return Into(plan, apart, own.numbers, slots, tuple([key for _, key in targets]), tuple(offsets))

        self._note(own, own.program.name, outs, lines, plan, step)

    def reduce(self, own: Kernel, plan: Any, parameter: float, lines: tuple[str, ...] = ()) -> Array:
        """The reduction of a kernel's value by a plan."""
        return self._single(own, plan, plan.problem.reduction.name, (parameter,), lines)

    def _single(
        self, own: Kernel, plan: Any, name: str, others: tuple[Any, ...], lines: tuple[str, ...]
    ) -> Array:
        """The one new array of a plan that takes the operands and numbers of a kernel, and others."""
        plan = self._chosen(plan)
        y: Array = plan.run(own.arrays, own.numbers, *others)

        def step(reads: tuple[Read, ...]) -> Step:
            return Single(plan, reads, own.numbers, others, self.script.put(y))

        self._note(own, name, [y._planned()], lines, plan, step)
        return y

    def _note(
        self,
        own: Kernel,
        name: str,
        outs: Sequence[Layout],
        lines: tuple[str, ...],
        plan: Any,
        step: Callable[[tuple[Read, ...]], Step],
    ) -> None:
        """Note a launch, of which ``step`` makes the step of the script from what it reads."""
        replaced = plan.ready is not None and plan.ready in self.given.values()
        self.kernels.append(Launched(name, layouts_of(own.arrays), tuple(outs), lines, plan, replaced))
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
        for one in self._reduce_products(stages):
            groups.setdefault((one.shape, one.axes), {})[one.kept.result] = one.kept
        for (shape, axes), found in groups.items():
            alike = list(found.values())
            made = self._rows(shape, axes, alike)
            for one, y in zip(alike, made or map(self._at_once, alike), strict=True):
                self._made[one.result] = partial(_identity, y)  # nothing else refers to it

    def _reduce_products(self, stages: Iterable[Stage]) -> list[Stage]:
        """Compute reductions that alone read a product where one launch is faster; return the others."""
        left = []
        for one in stages:
            products = products_of((one.node,))
            if products:
                device = self._array(products[0].value[0].node.value).device
                own = fresh_layout(device, one.dtype, one.kept.out)
                y = self._of_product(Expression(self, one.kept.result, own, (), 0))
                if y is not None:
                    self._made[one.kept.result] = partial(_identity, y)
                    continue
            left.append(one)
        return left

    def _at_once(self, stage: Stage) -> Array:
        """The result of a reduction by the kernels of reductions."""
        own = self.kernel([stage.node], stage.shape)
        axes = tuple(range(len(stage.plain), len(stage.shape)))
        plan = stage.reduction.planned(own.inputs, own.program, axes, stage.keepdims, stage.dtype)
        return self.reduce(own, plan, stage.parameter)

    def _rows(
        self, shape: tuple[int, ...], axes: int, results: Sequence[Expression | Stage]
    ) -> list[Array] | None:
        """New arrays of expressions and reductions that share rows, by one kernel; None where that is not faster."""
        if not 0 < axes < len(shape):
            return None
        rows = Rows(self, shape, axes)
        owned = [one if isinstance(one, Expression) else None for one in results]
        nodes = [one.result if isinstance(one, Stage) else one.node for one in results]
        forms = [one.out if isinstance(one, Stage) else one.layout.shape for one in results]
        placed = [rows.placed(node, form == shape[:-axes]) for node, form in zip(nodes, forms, strict=True)]
        alone = len(rows.stages) == 1 and not any(node.args for node in placed)
        if not rows.gathers and (not rows.stages or alone):
            return None
        own, gathers, inputs = self._gathering(rows, [*rows.operands, *placed])
        device = own.layouts[0].device
        outs = [
            fresh_layout(device, node.dtype, form) if one is None else one.layout
            for one, node, form in zip(owned, nodes, forms, strict=True)
        ]
        wide = tuple([form == shape for form in forms])
        layouts, stages = own.layouts[: len(own.layouts) - len(gathers.indices)], rows.numbered(inputs)
        problem = RowProgram(own.program, stages, shape, axes, layouts, tuple(outs), wide, gathers)
        plan = FUNCTIONS["sum"].row_plan(problem)
        return None if plan is None else self._launched(plan, own, owned)

    def _gathering(self, rows: Rows, nodes: Sequence[Node]) -> tuple[Kernel, Gathers, Sequence[int]]:
        """The kernel of expressions placed in rows, whose last operands are indices, and its inputs' numbers."""
        with tracing(self.name, self._shapes):
            program, inputs, scalars, views = self._compact(nodes)
        read, tables = inputs[: len(program.inputs)], inputs[len(program.inputs) :]
        operands = self._operands([k for k in read if k < GATHERS], views)
        first = len(operands)
        numbers = list(dict.fromkeys(one.value.indices for one in rows.gathers))
        for k in (*[one.value.array for one in rows.gathers], *numbers):
            operands.append(Operand(self._array(k), None, self._array(k)))
        operands += self._operands(tables, views)
        own = Kernel(program, operands, [self._numbers[k] for k in scalars])
        by = tuple([(first + i, numbers.index(one.value.indices)) for i, one in enumerate(rows.gathers)])
        return own, Gathers(by, own.layouts[first + len(by) :]), read

    def segments(
        self,
        node: Node,
        shape: tuple[int, ...],
        order: Sequence[Array],
        plan_of: Callable[[SegmentProgram], Any],
        name: str,
        lines: tuple[str, ...],
    ) -> Array:
        """The rows of an expression of a shape, those of each segment combined: see :meth:`.Trace.combined`."""
        (node,) = self.reused((node,), shape)
        if stages := stages_of((node,)):
            self._values(stages)
        rows = Rows(self, shape, max(1, len(shape) - 1))
        own, gathers, _ = self._gathering(rows, [rows.placed(node)])
        reads = [*own.reads, *[Operand(x, None, x) for x in order]]
        layouts = own.layouts[: len(own.layouts) - len(gathers.indices)]
        plan = plan_of(SegmentProgram(own.program, shape, layouts, gathers, layouts_of(order)))
        return self._single(Kernel(own.program, reads, own.numbers), plan, name, (), lines)


_plans: Cache[Any, Plan] = Cache()
#: By plans and the launches that a user gave instead of theirs: the plans with these.
_by_user: Cache[tuple[Any, BoundLaunch], Any] = Cache()


def layouts_of(arrays: Sequence[Array]) -> tuple[Layout, ...]:
    """The layouts of arrays."""
    return tuple([one._layout or one._planned() for one in arrays])


def _few(several: Sequence[T]) -> list[Sequence[T]]:
    """Parts of a sequence as one kernel's results each time, about as many in each kernel."""
    size = divide_up(len(several), divide_up(len(several), MOST_OUTPUTS))
    return [several[i : i + size] for i in range(0, len(several), size)]


def _least(view: View, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The fewest places, forward or back, by which a view shifts its array cyclically; None if it does not."""
    if not view.steps or not isinstance(view.steps[0], Rolled):
        return None
    sizes = zip(view.steps[0].shifts, shapes[view.array], strict=True)
    return tuple([shift if 2 * shift <= n else shift - n for shift, n in sizes])


def _is_plain(node: Node) -> bool:
    """Whether an expression is computed of arrays in memory alone."""
    kinds = {one.kind for one in order((node,))}
    return kinds <= _PLAIN and not kinds.isdisjoint(("input", "view"))


def _identity(x: Array) -> Array:
    return x


def _named(roots: Sequence[Node]) -> str:
    """A name of the functions of a kernel."""
    own = [node for node in order(roots) if node.row is not None or node.kind == "picked"]
    names = dict.fromkeys("take" if node.row is None else node.row.name for node in own)
    few = list(names)[-3:]
    return "_".join(few) if few else "copy"
