"""``fuse``: compile a Python function of arrays into one elementwise kernel, and its derivative into another.

Matrix products in it, and reductions at its end, are found by name in rooms below.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from .. import dtypes, pytree
from ..array import Array
from ..array.batched import level_of, levels
from ..array.creation import asarray, device_of
from ..array.deferred import trace, traced_threads
from ..array.operators import FUNCTIONS
from ..cache import Cache
from ..device import capture_hooks
from .function import evaluate
from .graph import (
    SYMBOLS,
    Expr,
    Node,
    Reduced,
    Swapped,
    View,
    cast,
    input_node,
    order,
    product_shape_of,
    products_of,
    read_views,
    scalar_node,
    spread,
    substitute,
    tracing,
)
from .plan import Places, places, source
from .program import Program, compact
from .row import convert_scalar, is_scalar

P = ParamSpec("P")
R = TypeVar("R")


class _Product(NamedTuple):
    """A product whose value a kernel reads.

    Attributes:
        factors: indices of the values that are multiplied, each with whether its last two axes are swapped then.
        at: the number of the product among the kernel's inputs.
    """

    factors: tuple[tuple[int, bool], ...]
    at: int

    def read(self, values: Sequence[Array], as_is: bool = False) -> list[Array]:
        """The factors; the second ``as_is``, even if its axes are swapped."""
        swap = FUNCTIONS["matrix_transpose"]
        read = []
        for i, (k, swapped) in enumerate(self.factors):
            read.append(swap(values[k]) if swapped and not (as_is and i) else values[k])
        return read


class _Kernel(NamedTuple):
    """The kernel of all outputs of one shape, of one reduction, or of a product.

    Attributes:
        program: computes the outputs, or the value that is reduced; None for a product alone.
        arrays: indices of the values that it takes: the call's arrays, and what the kernels before computed.
        scalars: indices of the call's numbers that it takes.
        reduced: the reduction.
        integers: the call's numbers that must fit an integer dtype, with that dtype.
        product: the product that it computes itself, and reads.
        wholes: indices of the values of which the ones that it takes are views, or which they are.
    """

    program: Program | None
    arrays: tuple[int, ...]
    scalars: tuple[int, ...] = ()
    reduced: Reduced | None = None
    integers: tuple[tuple[int, dtypes.DType], ...] = ()
    product: _Product | None = None
    wholes: tuple[int, ...] = ()

    def run(self, values: Sequence[Array], scalars: Sequence[Any]) -> Sequence[Array]:
        """Launch with the values so far and the numbers of a call; return the outputs."""
        for k, dtype in self.integers:
            convert_scalar(scalars[k], dtype)
        inputs, numbers = [], []  # loops, because a comprehension is a function call before Python 3.12
        for k in self.arrays:
            inputs.append(values[k])
        for k in self.scalars:
            numbers.append(scalars[k])
        of, end = self.product, self.reduced
        if of is not None:
            if self.program is None:
                (k, swapped), (right, turned) = of.factors
                if turned and not swapped:
                    return (FUNCTIONS["matmul_transposed"](values[k], values[right]),)
                return (FUNCTIONS["matmul"](*of.read(values)),)
            if levels and level_of(values) is not None:
                inputs.insert(of.at, FUNCTIONS["matmul"](*of.read(values)))
                of = None
        if of is not None:
            a, b = of.read(values, as_is=True)
            transposed = of.factors[1][1]
            return (FUNCTIONS["product_then"](self.program, of.at, a, b, inputs, numbers, transposed, end),)
        assert self.program is not None
        if end is None:
            return evaluate(self.program, inputs, numbers, self._placed(values, inputs))
        return (
            end.reduction.evaluate(
                self.program, inputs, numbers, end.axes, end.keepdims, end.dtype, end.parameter
            ),
        )

    def _placed(self, values: Sequence[Array], inputs: Sequence[Array]) -> Places:
        return places([values[k] for k in self.wholes], inputs) if self.wholes else ()

    def source(self, values: Sequence[Array]) -> str:
        """The text of the kernel; empty for a product by the device's library."""
        if self.program is None:
            return ""
        inputs = [values[k] for k in self.arrays]
        if self.product is not None:
            own: str = FUNCTIONS["product_source"](
                self.program, self.product.at, *self.product.read(values), inputs, self.reduced
            )
            return own
        datas, device = [one._data for one in inputs], inputs[0].device
        if self.reduced is None:
            return source(self.program, device, datas, self._placed(values, inputs))
        end = self.reduced
        text: str = end.reduction.source(self.program, device, datas, end.axes, end.dtype)
        return text


class _Traced(NamedTuple):
    """A traced function.

    Attributes:
        views: what kernels read of the call's arrays besides these: values after them.
        kernels: what runs, in order: products first that others read, then a kernel for each shape of outputs.
        places: indices of the results among the values: the call's arrays, the views, and what each kernel computes.
        outputs: the returned pytree of symbols.
        rebuilt: makes the same pytree of results.
        why: what the function has that no kernel can, so that it is called as it is; "" if it has none.
    """

    views: tuple[View, ...]
    kernels: tuple[_Kernel, ...]
    places: tuple[int, ...]
    outputs: Any
    rebuilt: Callable[[list[Any]], Any]
    why: str = ""


class _Kernels:
    """The kernels of a traced function, as they are found.

    Args:
        name: the function's.
        arrays: how many arrays a call has.
        views: what is read of these besides.
        groups: the nodes of the outputs of each shape, and of each reduction's value.
    """

    def __init__(
        self, name: str, arrays: int, views: Sequence[View], groups: Sequence[Sequence[Node]]
    ) -> None:
        self.name, self.count = name, arrays + len(views)
        self._wholes = (*range(arrays), *[one.array for one in views])
        self.kernels: list[_Kernel] = []
        self._values: dict[Node, Node] = {}
        #: How many kernels read each product.
        self._read: Counter[Node] = Counter()
        pending, seen = [tuple(nodes) for nodes in groups], set()
        while pending:
            nodes = pending.pop()
            if nodes in seen and len(nodes) == 1:
                continue  # a factor of several products
            seen.add(nodes)
            self._read.update(products := products_of(nodes))
            pending += [(factor.node,) for one in products for factor in one.value]

    def add(
        self, nodes: Sequence[Node], shape: tuple[int, ...], reduced: Reduced | None = None
    ) -> tuple[int, ...]:
        """Add the kernel of some nodes; return the indices of what it computes."""
        if len(nodes) == 1 and nodes[0].kind == "product" and reduced is None:
            return (int(self._product(nodes[0]).value),)
        products = products_of(nodes)
        own = None
        if len(nodes) == 1 and (reduced is None or reduced.axes == (len(shape) - 1,)):
            alone = [one for one in products if self._read[one] == 1 and product_shape_of(one) == shape]
            own = alone[-1] if alone else None
        replaced = {one: self._product(one) for one in products if one is not own}
        factors: tuple[tuple[int, bool], ...] = ()
        if own is not None:
            factors = self._factors(own)
            replaced[own] = input_node(self.count, own.dtype)
        program, inputs, scalars = compact(self.name, substitute(nodes, replaced))
        if not inputs:
            raise TypeError(f"{self.name}: a result depends on no array argument")
        of = None
        if own is not None:
            of = _Product(factors, inputs.index(self.count))
            inputs = tuple(k for k in inputs if k != self.count)
        known = self._wholes
        wholes = tuple([known[k] if k < len(known) else k for k in inputs])
        kernel = _Kernel(
            program, inputs, scalars, reduced, _integers(nodes), of, () if wholes == inputs else wholes
        )
        return self._append(kernel, len(nodes))

    def _product(self, node: Node) -> Node:
        """The input that has the value of a product; it is computed by itself."""
        if node not in self._values:
            (k,) = self._append(_Kernel(None, (), product=_Product(self._factors(node), 0)))
            self._values[node] = input_node(k, node.dtype)
        return self._values[node]

    def _factors(self, node: Node) -> tuple[tuple[int, bool], ...]:
        """The indices of a product's factors, after the kernels of those that are no arguments."""
        factors = []
        for factor in node.value:
            one = factor.node
            if one.kind != "input" and one not in self._values:
                (k,) = self.add((one,), factor.shape)
                self._values[one] = input_node(k, one.dtype)
            factors.append((int(self._values.get(one, one).value), factor.swapped))
        return tuple(factors)

    def _append(self, kernel: _Kernel, outputs: int = 1) -> tuple[int, ...]:
        self.kernels.append(kernel)
        self.count += outputs
        return tuple(range(self.count - outputs, self.count))


@dataclass
class _Call:
    """The arguments of a call, by kind.

    Attributes:
        tree: the arguments that are not static, as a pytree.
        static: the static arguments by name.
        leaves: the leaves of ``tree``.
        key: the key of the trace.
        arrays: the leaves that are arrays.
        scalars: the leaves that are numbers, which become kernel arguments.
        symbolic: whether a leaf is a symbol of an outer fused function.
    """

    tree: Any
    static: dict[str, Any]
    leaves: list[Any]
    key: tuple[Any, ...]
    arrays: list[Array]
    scalars: list[Any]
    symbolic: bool = False


class Fused(Generic[P, R]):
    """An elementwise function that runs as one kernel; made by :func:`fuse`."""

    def __init__(self, function: Callable[P, R], static: Sequence[str] = ()) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__name__", "fused").strip("<>")
        self._signature = inspect.signature(function) if static else None
        self._static = frozenset(static)
        unknown = self._static - set(self._signature.parameters if self._signature else ())
        if unknown:
            raise ValueError(f"static: {self._name} has no parameter {', '.join(sorted(unknown))}")
        parameters = self._signature.parameters.values() if self._signature else ()
        self._static_places = frozenset(
            i
            for i, one in enumerate(parameters)
            if one.name in static and one.kind <= one.POSITIONAL_OR_KEYWORD
        )
        self._told: set[str] = set()
        self._traces: Cache[tuple[Any, ...], _Traced] = Cache()
        #: By the layouts of arrays, the types of numbers and the values of static arguments of calls without keywords.
        self._known: Cache[tuple[Any, ...], _Traced] = Cache()

    def __repr__(self) -> str:
        return f"<fused function {self._name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the kernel; within another fused function, become part of its kernel."""
        values: list[Any] = []
        scalars: list[Any] = []
        key: list[Any] = [dtypes.get_default_dtype()]
        plain, static = not kwargs, self._static_places
        for i, one in enumerate(args):
            if isinstance(one, Array):
                values.append(one)
                key.append(one._layout or one._planned())
            elif i in static:
                key.append(_typed(one))
            else:
                key.append(type(one))
                plain = plain and type(one) in _PLAIN
                if one is not None:
                    scalars.append(one)
        traced = None
        if plain:
            try:
                traced = self._known.get(tuple(key))
            except TypeError:  # a static argument cannot be hashed, which the calls below say
                plain = False
        if traced is None:
            call = self._sort(args, kwargs)
            if call.symbolic:
                return self._function(*args, **kwargs)
            traced, values, scalars = self._traced(call), list(call.arrays), call.scalars
            if plain:
                self._known.keep(tuple(key), traced)
        if traced_threads and (active := trace()) is not None and level_of(values) is None:
            if traced.why or not any(one.product and one.reduced for one in traced.kernels):
                return self._function(*args, **kwargs)
            called: R = active.call(self, args, kwargs)
            return called
        if traced.why:
            made = self._function(*args, **kwargs)
            self._say(traced.why)
            return made
        for view in traced.views:
            values.append(view.of(values[view.array]))
        for kernel in traced.kernels:
            values += kernel.run(values, scalars)
        if isinstance(traced.outputs, (Expr, Reduced)):
            return values[traced.places[0]]
        result: R = traced.rebuilt([values[k] for k in traced.places])
        return result

    def source(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The text of the kernels that a call with these arguments runs."""
        call = self._sort(args, kwargs)
        traced, values, texts = self._traced(call), list(call.arrays), []
        if traced.why:
            return f"// {self._name} is not fused: {traced.why}"
        values += [view.of(values[view.array]) for view in traced.views]
        for kernel in traced.kernels:
            texts.append(kernel.source(values))
            if kernel is not traced.kernels[-1]:  # those after it may read what it computes
                values += kernel.run(values, call.scalars)
        return "\n".join(texts)

    def _sort(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        tree: Any = (args, kwargs)
        static: dict[str, Any] = {}
        if self._signature is not None:
            bound = self._signature.bind(*args, **kwargs)
            static = {k: v for k, v in bound.arguments.items() if k in self._static}
            tree = {k: v for k, v in bound.arguments.items() if k not in self._static}
        key: list[Any] = [dtypes.get_default_dtype(), pytree.containers(tree)]
        key += ((k, _typed(v)) for k, v in static.items())
        call = _Call(tree, static, [], (), [], [])
        for _, leaf in pytree.leaves_with_path(tree):
            value = leaf
            if isinstance(leaf, (np.ndarray, np.generic)):
                value = asarray(leaf, device=device_of(pytree.leaves(tree)))
            call.leaves.append(value)
            if isinstance(value, Array):
                call.arrays.append(value)
                key += [value.dtype, value.shape]
            elif type(value) in _NUMBERS:
                call.scalars.append(value)
                key.append(type(value))
            else:
                call.symbolic = call.symbolic or isinstance(value, SYMBOLS)
                key.append(_typed(value))
        call.key = tuple(key)
        return call

    def _traced(self, call: _Call) -> _Traced:
        try:
            trace = self._traces.get(call.key)
        except TypeError as error:
            raise TypeError(
                f"{self._name}: expected arrays, numbers, and hashable static arguments; {error}"
            ) from None
        if trace is None:
            trace = self._traces.keep(call.key, self._trace(call))
        return trace

    def _trace(self, call: _Call) -> _Traced:
        """Run the function on symbols."""
        symbols: list[Any] = []
        arrays = scalars = 0
        for leaf in call.leaves:
            if isinstance(leaf, Array):
                symbols.append(Expr(input_node(arrays, leaf.dtype), leaf.shape))
                arrays += 1
            elif type(leaf) in _NUMBERS:
                dtype = _NUMBERS[type(leaf)]
                symbols.append(Expr(scalar_node(scalars, dtype, weak=True)))
                scalars += 1
            else:
                symbols.append(leaf)
        tree = pytree.replace(call.tree, symbols)
        if self._signature is None:
            args, kwargs = tree
        else:
            bound = self._signature.bind_partial()
            bound.arguments.update({**tree, **call.static})
            args, kwargs = bound.args, bound.kwargs
        draws = capture_hooks.Draws()
        with tracing(self._name, [one.shape for one in call.arrays]) as refused, draws.noted():
            try:
                traced = self._kernels(self._function(*args, **kwargs), arrays)
            except Exception as error:  # a symbol is not all that an array is
                refused.append(f"{type(error).__name__}: {error}")
        if not refused:
            return traced
        draws.undo()  # the function is called now, and draws the same numbers
        return _Traced((), (), (), None, list, refused[0])

    def _say(self, why: str) -> None:
        """Warn, once, that the function is called as it is."""
        if why not in self._told:
            self._told.add(why)
            warnings.warn(
                f"fuse: {self._name} is not fused, its operations are called one by one: {why}",
                stacklevel=capture_hooks.stacklevel(),
            )

    def _kernels(self, outputs: Any, arrays: int) -> _Traced:
        """A kernel for each shape of outputs, and for each reduction, after those of products that they read."""
        groups: dict[Any, list[tuple[int, Node]]] = {}
        ends: list[tuple[int, Reduced]] = []
        for i, (path, value) in enumerate(pytree.leaves_with_path(outputs)):
            if isinstance(value, Reduced):
                ends.append((i, value))
                continue
            value = value.plain if isinstance(value, Swapped) else value
            if not isinstance(value, Expr):
                raise TypeError(
                    f"{self._name}: expected to return functions of its array arguments, got "
                    f"{type(value).__name__} at result{path}"
                )
            node = _strong(value.node)
            key = (value.shape, node if node.kind == "product" else None)
            groups.setdefault(key, []).append((i, node))
        wanted: list[tuple[tuple[Node, ...], tuple[int, ...], tuple[int, ...], Reduced | None]] = [
            (tuple(node for _, node in members), shape, tuple(i for i, _ in members), None)
            for (shape, _), members in groups.items()
        ]
        wanted += [((_strong(end.value.node),), end.value.shape, (i,), end) for i, end in ends]
        spreads = [spread(nodes, shape) for nodes, shape, *_ in wanted]
        roots, views = read_views([node for nodes in spreads for node in nodes], arrays)
        rest = iter(roots)
        wanted = [(tuple(next(rest) for _ in one[0]), *one[1:]) for one in wanted]
        kernels = _Kernels(self._name, arrays, views, [nodes for nodes, *_ in wanted])
        positions: dict[int, int] = {}
        for nodes, shape, at, end in wanted:
            positions.update(zip(at, kernels.add(nodes, shape, end), strict=True))
        places = tuple(positions[i] for i in range(len(positions)))
        return _Traced(tuple(views), tuple(kernels.kernels), places, outputs, pytree.taken_apart(outputs)[1])


#: The types of the arguments of most calls, besides arrays.
_PLAIN = frozenset((int, float, type(None)))


def _integers(nodes: Sequence[Node]) -> tuple[tuple[int, dtypes.DType], ...]:
    """The number arguments that graphs compute in an integer dtype, which must hold them, with that dtype."""
    integers = {
        (int(node.args[0].value), node.dtype): None
        for node in order(nodes)
        if node.kind == "cast" and node.args[0].kind == "scalar" and dtypes.info(node.dtype).kind in "iu"
        if node.args[0].dtype == dtypes.int64
    }
    return tuple(integers)


#: The dtypes of numbers that are scalars of a launch.
_NUMBERS: dict[type, dtypes.DType] = {
    int: dtypes.int64,
    float: dtypes.float64,
    complex: dtypes.complex128,
}


def _typed(value: Any) -> Any:
    """A key for ``value`` that tells apart equal values that trace differently: 1, 1.0 and True; 0.0 and -0.0."""
    if isinstance(value, tuple):
        return type(value), *map(_typed, value)
    return type(value), str(value) if isinstance(value, (float, complex)) else value


def _strong(node: Node) -> Node:
    return cast(node, dtypes.result_type(0.0) if is_scalar(node.value) else node.dtype) if node.weak else node


@overload
def fuse(function: Callable[P, R], /) -> Fused[P, R]: ...
@overload
def fuse(*, static: Sequence[str] = ()) -> Callable[[Callable[P, R]], Fused[P, R]]: ...
def fuse(function: Any = None, /, *, static: Sequence[str] = ()) -> Any:
    """Compile an elementwise function into one kernel, and each of its derivatives into one kernel.

    The function is traced, once for each set of dtypes and shapes of its array arguments: it runs on symbols.
    Arrays in its arguments, which may be pytrees, become inputs; ``int`` and ``float`` arguments become arguments
    of the kernel; Python control flow may depend on other arguments and on those named in ``static``. Numbers in
    the function's text are compiled into the kernel.

    The function may end with reductions over any axes, such as ``ck.mean((x - y) ** 2)``: each becomes one kernel
    together with the expression that it reduces (and a small kernel that combines the parts of a long reduction).
    The derivative is one kernel, after another reduction for ``var`` and ``std``, and with a sum for arguments that
    were broadcast. If a tape records ``max``, ``min`` or ``prod``, a kernel computes the reduced values first.
    Of a function that computes with a reduction's result, as ``x - ck.mean(x)``, or with arrays that are not its
    arguments, indexes by an array, branches on values, writes in place where there are views, or calls what is not
    elementwise, the operations are called one by one, as without ``fuse``, and a warning says what stands in the way.
    It is then called twice for new shapes and dtypes, on symbols first.

    Basic indices (``x[1:, ::2]``, ``x[None]``, ``x[..., 0]``) and transposes are views of the arguments that the kernel
    reads: a stencil of slices is one kernel. So are :func:`cukern.permute_dims`, ``moveaxis``, ``flip``, ``rot90``,
    ``expand_dims``, ``squeeze``, ``broadcast_to``, ``atleast_3d``, ``split``, ``unstack``, ``diff`` and their like, and
    a ``reshape`` that adds or removes axes of size 1.

    It may contain matrix products, ``x @ w`` or :func:`cukern.matmul`, whose factors are arguments, expressions, or
    transposes of these (``w.T``, ``w.mT``, ``ck.swapaxes(w, -1, -2)``). A product and the expression of it are one
    launch where that is predicted, or was measured, to be faster: mostly for float16 and bfloat16 on a GPU with
    tensor cores, and for float32 of up to 4 rows or columns, or where :func:`cukern.matmul_precision` allows tf32.
    Else the device's library multiplies, and one kernel follows. So it is with the reduction of the expression's
    rows, of up to 256 columns. A tape saves a product that the derivative reads; :func:`cukern.checkpoint` computes
    it again. On a GPU the derivative's kernel also sums the gradients of rows that were broadcast, as a bias is.

    float16 and bfloat16 inputs are computed in float32 and rounded only when stored. A kernel does not refuse values:
    an integer to a negative power, which ``**`` of arrays refuses, is 0, but of 1 and -1.

    Args:
        function: uses elementwise functions and operators, may end with reductions, and returns one result or a pytree.
        static: names of parameters whose numbers are compiled in: each value is traced anew.

    Raises:
        OverflowError: when called: an integer is out of the range of the dtype in which it is computed.
        TypeError: when called: a static argument cannot be hashed.

    >>> import cukern as ck
    >>> @ck.fuse
    ... def swish(x, beta):
    ...     return x * ck.sigmoid(beta * x)
    >>> swish(ck.asarray([0.0, 1.0]), 2.0).tolist()
    [0.0, 0.8807970285415649]
    >>> differences = ck.fuse(lambda x: x[1:] - x[:-1])
    >>> differences(ck.asarray([1.0, 4.0, 9.0])).tolist()
    [3.0, 5.0]
    >>> hidden = ck.fuse(lambda x, w, b: ck.relu(x @ w + b))
    >>> hidden(ck.asarray([[1.0, 2.0]]), ck.asarray([[3.0, -3.0], [4.0, -4.0]]), ck.asarray([0.5, 0.5])).tolist()
    [[11.5, 0.0]]
    """
    if function is None:
        return lambda function: Fused(function, static)
    return Fused(function, static)
