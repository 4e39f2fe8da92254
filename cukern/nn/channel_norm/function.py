"""Batch and group norm of checked arguments: the families that compute them, and records on tapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...array import Array
from ...array.deferred import Deferred, about_to_write, trace, traced_threads
from ...array.layout import ALIGNMENT, Layout, layout
from ...autodiff import tape
from ...elementwise.operands import public
from ...elementwise.program import Program
from ...elementwise.script import CallPlan
from ...errors import LaunchError
from ...function import stop_gradient
from ...kernel.plan import made
from ...launch.family import Family
from .. import fused
from . import reference
from .clusters import Clusters, ClustersGradient
from .problem import ChannelNorm
from .reference import composed
from .variants import GradientSeparate, Rows, Separate

CHANNEL_NORM: Family[ChannelNorm] = Family(
    "channel norm",
    Separate,
    Clusters,
    Rows,
    reference=reference.normalization,
    samples=reference.samples(of_gradient=False),
)
GRADIENT: Family[ChannelNorm] = Family(
    "gradient of channel norm",
    GradientSeparate,
    ClustersGradient,
    reference=reference.gradient,
    samples=reference.samples(of_gradient=True),
)


def layouts_of(*arrays: object) -> tuple[Layout | None, ...] | None:
    """:func:`..fused.layouts_of`, of which those of the host say too whether addresses are aligned."""
    found = fused.layouts_of(*arrays)
    for i, own in enumerate(found or ()):
        one: Any = arrays[i]
        # New memory is aligned; that of another library, or a view, may not be.
        if (
            own is not None
            and own.on_host
            and not isinstance(one, Deferred)
            and one._memory is None
            and one._ndarray.__array_interface__["data"][0] % ALIGNMENT
        ):
            apart = layout(own.device, own.dtype, own.shape, own.strides, False)
            found = (*found[:i], apart, *found[i + 1 :])  # type: ignore[index]
    return found


def normalized(
    name: str,
    problem: ChannelNorm,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
    moments: tuple[Array | None, Array | None] = (None, None),
    momentum: float | Array = 0.0,
) -> Array:
    """The normalized ``x``, on tapes that track it, weight or bias; running statistics move.

    Raises:
        LaunchError: running statistics share memory with another array.
    """
    primals = (x, weight, bias)
    tracking = fused.tracked(primals) if tape.opened else None
    if tracking is not None:
        problem = problem._replace(tracked=True)
    moves = moments[0] is not None and not problem.constant
    by, number = (momentum, 0.0) if isinstance(momentum, Array) else (None, float(momentum))
    if moves:
        about_to_write(*moments)
        _require_apart(name, (*moments, by, *primals))
    y: Array
    if traced_threads and not moves and trace() is not None:
        return _in_trace(name, problem, (*primals, *moments), eps, tracking)
    plan = CHANNEL_NORM(problem)
    try:
        y, statistics = plan(x, weight, bias, *moments, by, eps, number)
    finally:  # a kernel that fails may already have written
        for one in moments if moves else ():
            if one is not None:
                one._bump(name)
    return _recorded(name, problem, primals, moments, eps, y, statistics, tracking)


def _recorded(
    name: str,
    problem: ChannelNorm,
    primals: tuple[Array | None, ...],
    moments: tuple[Array | None, ...],
    eps: float,
    y: Array,
    statistics: Array | None,
    tracking: Any,
) -> Array:
    """The result, on the tapes that track what it was made of."""
    if tracking is not None:

        def kernels(
            saved: Sequence[Any], cotangents: Sequence[Array], wanted: Sequence[bool]
        ) -> Sequence[Array | None]:
            x, weight, bias, statistics = saved
            return _gradients(problem, cotangents[0], x, weight, bias, statistics, wanted)

        # What is shared by calls holds no running statistics, which it does not read.
        constants = moments if problem.constant else (None, None)

        def again(x: Array, weight: Array | None, bias: Array | None) -> Array:
            return composed(problem, x, weight, bias, stop_gradient(constants), eps)

        known = None if problem.constant else (problem, eps)
        fused.record_fused(name, primals, (y,), (statistics,), kernels, again, tracking, known=known)
    return y


def _in_trace(
    name: str, problem: ChannelNorm, arrays: tuple[Array | None, ...], eps: float, tracking: Any
) -> Array:
    """The normalized array, of which an activation that follows may be a part, or on tapes."""
    if tracking is None and problem.activation is None:
        there = [one for one in arrays if one is not None]
        waiting: Array | None = trace().called("channel_norm", there, (problem, eps), problem.made)
        if waiting is not None:
            return waiting
    y, statistics = made("channel_norm", _launched, problem, eps, *arrays)
    return _recorded(name, problem, arrays[:3], arrays[3:], eps, y, statistics, tracking)


def _launched(problem: ChannelNorm, eps: float, *arrays: Array | None) -> tuple[Array, Array | None]:
    """The result and statistics of arrays of a problem, which may be aligned otherwise than its own."""
    x, weight, bias, mean, variance = layouts_of(*arrays) or (None,) * 5
    assert x is not None
    own = problem._replace(x=x, weight=weight, bias=bias, mean=mean, variance=variance)
    result: tuple[Array, Array | None] = CHANNEL_NORM(own)(*arrays, None, eps, 0.0)
    return result


@public
def channel_norm(*given: Any) -> Array:
    """The normalized first one of the arrays of a problem, which it and eps follow."""
    *arrays, problem, eps = given
    rest = iter(arrays)
    fields = problem.x, problem.weight, problem.bias, problem.mean, problem.variance
    return _launched(problem, eps, *[None if one is None else next(rest) for one in fields])[0]


def _activated(arrays: Sequence[Array], numbers: Sequence[Any], problem: ChannelNorm, eps: float) -> Array:
    return channel_norm(*arrays, problem, eps)


@public
def channel_norm_plan(
    prog: Program, at: int, arrays: Sequence[Array], given: tuple[ChannelNorm, float]
) -> CallPlan | None:
    """What computes both a norm and what follows it, if that is an activation; else None."""
    problem, eps = given
    if len(prog.inputs) > 1 or prog.scalars or prog.outputs[0].dtype != problem.dtype:
        return None
    return CallPlan(_activated, (problem._replace(activation=prog), eps), problem.results)


def _gradients(
    problem: ChannelNorm,
    dy: Array,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    statistics: Array,
    wanted: Sequence[bool],
) -> Sequence[Array | None]:
    """The gradients of x, weight and bias that are wanted; else None."""
    layouts: Any = layouts_of(x, dy)
    asked = problem._replace(x=layouts[0], dy=layouts[1], wanted=tuple(wanted))
    gradients: Sequence[Array | None] = made(
        "gradient of channel norm", GRADIENT(asked), x, dy, weight, bias, statistics
    )
    return gradients


def _require_apart(name: str, arrays: Sequence[Array | None]) -> None:
    """Raise unless the first two arrays, running statistics, can be written without a change of another array."""
    given: list[Any] = [one for one in arrays if one is not None]
    if given[0]._storage.constant or given[1]._storage.constant:
        raise LaunchError(f"{name}: running_mean, running_var: expected arrays of their own, got a constant")
    if given[0]._layout.on_host:
        own = {id(one._ndarray) for one in given if one._ndarray.base is None}
        if len(own) == len(given):  # none is a view
            return
    spans = []
    for one in given:
        start = one._ndarray.__array_interface__["data"][0] if one._layout.on_host else one._operand
        nbytes = one._layout.nbytes if one._layout.contiguous else 0  # else a copy is read, or written
        spans.append((start, start + nbytes))
    for i in range(2):
        for j in range(i + 1, len(spans)):
            if max(spans[i][0], spans[j][0]) < min(spans[i][1], spans[j][1]):
                raise LaunchError(
                    f"{name}: running_mean, running_var: expected memory that no other array has, as they are written"
                )
