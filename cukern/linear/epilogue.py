"""Elementwise expressions of a matrix product: one launch, or the library's product and one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.layout import Layout
from ..autodiff import tape
from ..device.precision import allows_tf32
from ..elementwise.function import evaluate, pulled
from ..elementwise.graph import input_node, substitute
from ..elementwise.operands import public
from ..elementwise.plan import source
from ..elementwise.program import Backward, Program, program
from ..kernel.plan import one_device, remember
from .products import matmul, pull
from .tensor_cores import Plan, make_plan

_plans: dict[tuple[Any, ...], Plan | None] = {}


def _planned(made: Program, at: int, arrays: Sequence[Array]) -> Plan | None:
    """The launch that computes both; None if the library's product is to be taken."""
    elem = arrays[0].dtype
    if not (dtypes.info(elem).narrow or elem == dtypes.float32) or made.outputs[0].dtype != elem:
        return None
    layouts = [one._layout or one._planned() for one in arrays]
    key = (made, at, elem == dtypes.float32 and allows_tf32(), *layouts)
    if key not in _plans:
        one_device(made.name, arrays)
        return remember(_plans, key, _made(made, at, layouts))
    return _plans[key]


def _made(made: Program, at: int, layouts: Sequence[Layout]) -> Plan | None:
    a, b, *others = layouts
    return make_plan(of_sum(made, at), a, b, others) if a.ndim > 1 and b.ndim > 1 else None


def of_sum(made: Program, at: int) -> Program:
    """The program that takes the product first, as a sum that is not rounded yet."""
    elem = made.inputs[at]
    others = [k for k in range(len(made.inputs)) if k != at]
    renamed = {input_node(k, made.inputs[k]): input_node(i, made.inputs[k]) for i, k in enumerate(others, 1)}
    renamed[input_node(at, elem)] = input_node(0, acc := dtypes.info(elem).acc)
    inputs = (acc, *(made.inputs[k] for k in others))
    return program(made.name, substitute(made.outputs, renamed), inputs, made.scalars)


@public
def product_then(
    made: Program, at: int, a: Array, b: Array, others: Sequence[Array], scalars: Sequence[Any]
) -> Array:
    """The value of an elementwise program of ``a @ b`` and of arrays that broadcast to it; recorded.

    Args:
        made: has one output.
        at: the number of the product among its inputs.
        a: shape (..., m, k), of the dtype of that input.
        b: shape (..., k, n), likewise.
        others: the other inputs, in order.
        scalars: the program's numbers.
    """
    plan = _planned(made, at, (a, b, *others))
    if plan is not None:
        tracking = tape.tracked((a, b, *others))
        if tracking is None:
            return plan.run((a, b, *others), scalars)
        back = _backward(made, at, tracking[0], [one.shape != plan.layouts[0].shape for one in others])
        if at not in back.saved("input"):
            return _recorded(plan, back, at, (a, b, *others), scalars, tracking)
    return evaluate(made, (*others[:at], matmul(a, b), *others[at:]), scalars)[0]


def _backward(made: Program, at: int, needs: Sequence[bool], wide: Sequence[bool]) -> Backward:
    """The derivative of the program, for the factors and operands that are tracked."""
    needed, summed = list(needs[2:]), list(wide)
    needed.insert(at, needs[0] or needs[1])
    summed.insert(at, False)
    return made.backward(tuple(needed), tuple(summed))


def _recorded(
    plan: Plan,
    back: Backward,
    at: int,
    arrays: Sequence[Array],
    scalars: Sequence[Any],
    tracking: tape.Tracking,
) -> Array:
    """The result of one launch, whose derivative does not read the product."""
    made = plan.run(arrays, scalars)
    needs, keys, tapes = tracking
    saved = [arrays[0] if needs[1] else None, arrays[1] if needs[0] else None]
    inputs = list(arrays[2:])
    inputs.insert(at, made)  # in the place of the product, which is not read
    saved += [inputs[k] for k in back.saved("input")] + [made] * len(back.saved("output"))
    forms = [one._planned() for one in arrays]
    then = partial(_pull, back, at, tuple(scalars), arrays[1].ndim == 2)
    operation = tape.Operation("product", forms, plan.layouts, then)
    tape.record_tracked(operation, keys, (made,), saved, tapes)
    return made


def _pull(
    back: Backward,
    at: int,
    scalars: Sequence[Any],
    flat: bool,
    cotangents: Sequence[Array],
    saved: Sequence[Any],
    needs: object,
) -> list[Array | None]:
    """The cotangents of the factors and operands: an elementwise kernel and two products."""
    parts = pulled(back, scalars, cotangents, saved[2:], needs)
    g = parts.pop(at)
    return [*([None, None] if g is None else pull(flat, (g,), saved[:2], needs)), *parts]


@public
def product_source(made: Program, at: int, a: Array, b: Array, others: Sequence[Array]) -> str:
    """The text of the kernel that :func:`product_then` launches, besides the library's product."""
    plan = _planned(made, at, (a, b, *others))
    if plan is not None:
        return plan.source
    y = matmul(a, b)
    datas = [one._data for one in (*others[:at], y, *others[at:])]
    return source(made, y.device, datas)
