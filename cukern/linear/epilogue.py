"""Elementwise expressions of a matrix product: one launch, or the library's product and one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.deferred import trace, traced_threads
from ..array.layout import Layout
from ..autodiff import tape
from ..device.precision import get_matmul_precision
from ..elementwise.function import evaluate, note, pulled, pushed
from ..elementwise.graph import Reduced, Stage, input_node, substitute
from ..elementwise.operands import public
from ..elementwise.plan import source
from ..elementwise.program import Derivative, Program, program
from ..elementwise.summed import Totals, totals_of
from ..kernel.plan import one_device
from ..shape.views import matrix_transpose
from .products import (
    matmul,
    matmul_transposed,
    product_family,
    pull,
    push,
    recorded_product,
    takes_transposed,
)

if TYPE_CHECKING:
    from .library import EpiloguePlan
    from .problem import Rows
    from .variants import ProductPlan

    OneLaunch = ProductPlan | EpiloguePlan


@public
def product_plan(
    prog: Program,
    at: int,
    arrays: Sequence[Array],
    transposed: bool = False,
    end: Reduced | Stage | None = None,
    saves: bool = False,
) -> OneLaunch | None:
    """The launch that computes both a product and what follows it; None if these are separate launches."""
    rows = None if end is None else _rows(end)
    if end is not None and rows is None:
        return None
    layouts: list[Any] = []  # a loop, because a comprehension is a function call before Python 3.12
    for one in arrays:
        layouts.append(one._layout or one._planned())
    a, b, *others = layouts
    elem = a.dtype
    if elem not in dtypes.FLOATS or min(a.ndim, b.ndim) < 2:
        return None
    if rows is None and prog.outputs[0].dtype != elem:
        return None
    family, product = product_family()
    precision = get_matmul_precision()
    problem = product(a, b, tuple(others), of_sum(prog, at), rows, saves, precision, transposed)
    plan: Any = family.known(problem)
    if plan is None:
        one_device(prog.name, arrays)
        plan = family(problem)
    return None if plan.separate else plan


@lru_cache(maxsize=4096)
def of_sum(prog: Program, at: int) -> Program:
    """The program that takes the product first, as a sum that is not rounded yet.

    Its input has the dtype of the product, so that functions are computed as precisely as that needs.
    """
    elem = prog.inputs[at]
    others = [k for k in range(len(prog.inputs)) if k != at]
    renamed = {input_node(k, prog.inputs[k]): input_node(i, prog.inputs[k]) for i, k in enumerate(others, 1)}
    renamed[input_node(at, elem)] = input_node(0, elem)
    inputs = (elem, *(prog.inputs[k] for k in others))
    return program(prog.name, substitute(prog.outputs, renamed), inputs, prog.scalars)


@public
def product_then(
    prog: Program,
    at: int,
    a: Array,
    b: Array,
    others: Sequence[Array],
    scalars: Sequence[Any],
    transposed: bool = False,
    end: Reduced | None = None,
) -> Array:
    """The value of an elementwise program of ``a @ b`` and of arrays that broadcast to it; recorded.

    Args:
        prog: has one output.
        at: the number of the product among its inputs.
        a: shape (..., m, k), of the dtype of that input.
        b: shape (..., k, n), likewise.
        others: the other inputs, in order.
        scalars: the program's numbers.
        transposed: whether ``b`` has shape (..., n, k), and its transpose is multiplied.
        end: the reduction of the value over its last axis, whose result is returned instead.
    """
    if transposed and not takes_transposed(b):
        b, transposed = matrix_transpose(b), False
    arrays = (a, b, *others)
    apart = end is None and traced_threads and trace() is not None
    plan = None if apart else product_plan(prog, at, arrays, transposed, end)
    if plan is not None:
        tracking = tape.tracked(arrays) if tape.opened else None
        if tracking is None or (end is not None and not end.reduction.differentiable):
            return plan.run(arrays, scalars)
        if end is None:
            back = plan.backwards.get(tracking[0])
            if back is None:
                back = _derived(plan, prog, at, arrays, tracking[0], transposed)
                plan.backwards[tracking[0]] = back
            if back.operation is not None:
                return _recorded(plan, back, arrays, scalars, tracking)
        if end is None or not end.reduction.reads_values():
            plan = product_plan(prog, at, arrays, transposed, end, saves=True)
            if plan is not None:
                saving: Any = plan  # the library saves no product
                return _saved(saving, prog, at, arrays, scalars, transposed, end)
    y = matmul_transposed(a, b) if transposed else matmul(a, b)
    return _then(prog, (*others[:at], y, *others[at:]), scalars, end)


def _rows(end: Reduced | Stage) -> Rows | None:
    """The reduction of rows in the epilogue of a kernel; None if it takes a parameter."""
    if end.reduction.row.parameter:
        return None
    from .problem import Rows

    return Rows(end.reduction.row, end.keepdims, end.dtype)


def _then(prog: Program, arrays: Sequence[Array], scalars: Sequence[Any], end: Reduced | None) -> Array:
    """What follows the product, by a kernel of its own."""
    if end is None:
        return evaluate(prog, arrays, scalars)[0]
    reduced: Array = end.reduction.evaluate(
        prog, arrays, scalars, end.axes, end.keepdims, end.dtype, end.parameter
    )
    return reduced


def _saved(
    plan: ProductPlan,
    prog: Program,
    at: int,
    arrays: Sequence[Array],
    scalars: Sequence[Any],
    transposed: bool,
    end: Reduced | None,
) -> Array:
    """The result of one launch that saves the product: recorded as the product and its epilogue."""
    product, y = plan.run_all(arrays, scalars)
    a, b, *others = arrays
    recorded_product(a, b, product, transposed)
    read = (*others[:at], product, *others[at:])
    if end is None:
        plan.reads = note(prog, read, scalars, [y], plan.reads)
    else:
        own = end.axes, end.keepdims, end.parameter
        plan.reads = end.reduction.note(prog, read, scalars, *own, y, plan.reads)
    return y


class _Derivative(NamedTuple):
    """The derivative of a launch for the factors and operands that are tracked.

    Attributes:
        operation: what a tape records of a call without numbers; None if the derivative reads the product.
        kept: which of the operands, numbered behind the factors, it reads.
        keeps_result: whether it reads the result.
    """

    operation: tape.Operation | None
    kept: tuple[int, ...] = ()
    keeps_result: bool = False


def _derived(
    plan: OneLaunch,
    prog: Program,
    at: int,
    arrays: Sequence[Array],
    needs: tuple[bool, ...],
    transposed: bool,
) -> _Derivative:
    needed, summed = list(needs[2:]), [one.shape != plan.layouts[0].shape for one in arrays[2:]]
    needed.insert(at, needs[0] or needs[1])
    summed.insert(at, False)
    back = prog.backward(tuple(needed), tuple(summed))
    if at in back.saved("input"):
        return _Derivative(None)
    kept = [2 + k - (k > at) for k in back.saved("input")]
    forms = [one._planned() for one in arrays]
    own = forms[2:]
    own.insert(at, plan.layouts[0])
    totals = totals_of(back, own, plan.layouts[0].shape)
    then = partial(_pull, back, at, forms[1], transposed, totals)
    ahead = partial(_push, prog, at, tuple(needed), back, transposed)
    operation = tape.Operation("product", forms, plan.layouts, then, jvp=ahead)
    return _Derivative(operation, tuple(kept), bool(back.saved("output")))


def _recorded(
    plan: OneLaunch,
    of: _Derivative,
    arrays: Sequence[Array],
    scalars: Sequence[Any],
    tracking: tape.Tracking,
) -> Array:
    """The result of one launch, whose derivative does not read the product."""
    result = plan.run(arrays, scalars)
    needs, keys, tapes = tracking
    operation = of.operation
    assert operation is not None
    saved = [arrays[0] if needs[1] else None, arrays[1] if needs[0] else None]
    for k in of.kept:
        saved.append(arrays[k])
    if of.keeps_result:
        saved.append(result)
    tape.record_tracked(operation, keys, (result,), saved, tapes, (tuple(scalars),) if scalars else ())
    return result


def _pull(
    back: Derivative,
    at: int,
    right: Layout,
    transposed: bool,
    totals: Totals | None,
    cotangents: Sequence[Array],
    saved: Sequence[Any],
    needs: Sequence[bool],
    scalars: Sequence[Any] = (),
) -> list[Array | None]:
    """The cotangents of the factors and operands: an elementwise kernel and two products."""
    others = list(needs[2:])
    others.insert(at, needs[0] or needs[1])
    parts = pulled(back, totals, cotangents, saved[2:], others, scalars)
    g = parts.pop(at)
    return [*([None, None] if g is None else pull(right, transposed, (g,), saved[:2], needs)), *parts]


def _push(
    prog: Program,
    at: int,
    needs: tuple[bool, ...],
    back: Derivative,
    transposed: bool,
    tangents: Sequence[Array | None],
    saved: Sequence[Any],
    scalars: Sequence[Any] = (),
) -> list[Array | None]:
    """The tangent of the value: a product or two, and an elementwise kernel."""
    others = list(tangents[2:])
    factors = tangents[:2]
    others.insert(at, None if factors[0] is factors[1] is None else push(transposed, factors, saved[:2])[0])
    return pushed(prog, needs, back, others, saved[2:], scalars)


@public
def product_source(
    prog: Program, at: int, a: Array, b: Array, others: Sequence[Array], end: Reduced | None = None
) -> str:
    """The text of the kernel that :func:`product_then` launches, besides the library's product."""
    plan = product_plan(prog, at, (a, b, *others), end=end)
    if plan is not None:
        return plan.source
    y = matmul(a, b)
    datas = [one._data for one in (*others[:at], y, *others[at:])]
    if end is None:
        return source(prog, y.device, datas)
    text: str = end.reduction.source(prog, y.device, datas, end.axes, end.dtype)
    return text
