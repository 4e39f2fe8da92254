"""What a task's reference gives, with a bound of each element's error, and what is far from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ... import dtypes
from ...array import Array
from ...device import Device
from ..shapes import on
from .bounds import Bounded, unit
from .task import Case, Task

Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Want:
    """The values of an array, in float64 or integers, and the largest error of each."""

    value: Values
    bound: Values


@dataclass(frozen=True)
class Difference:
    """What a result and its reference have apart.

    Attributes:
        message: which element is wrong; empty if none is.
        near: whether those that are wrong err by a small part of the largest.
        worst: the largest error of a right result, in its bounds.
        unknown: the elements without a bound, as the formula may overflow there.
        wrong: which elements are wrong.
    """

    wrong: Values
    message: str = ""
    near: bool = False
    worst: float = 0.0
    unknown: int = 0


def wanted(task: Task, inputs: Mapping[str, Values], case: Case, seed: int) -> dict[str, Want]:
    """What the reference gives, with bounds.

    Raises:
        ValueError: it fails, or gives arrays of other shapes than the task says.
    """
    forward = task.forward
    dims = forward.dims
    held = task.scalars_of(case)
    scalars = [held[one.name] for one in forward.of("scalar") if one.name not in dims]
    given = [inputs[one.name] for one in forward.of("in", "inout")]
    outs = forward.of("out", "inout")
    try:
        with np.errstate(all="ignore"):
            if task.library == "cukern":
                values, bounds = _moved(task, given, scalars, case.dtype, seed)
            else:
                args = [Bounded.exact(one, case.dtype) if _floats(one) else one for one in given]
                found = _listed(task.reference(*args, *scalars))
                values = [one.value if isinstance(one, Bounded) else np.asarray(one) for one in found]
                bounds = [
                    2 * one.error if isinstance(one, Bounded) else np.zeros(np.shape(one)) for one in found
                ]
            if task.bound is not None:
                plain = [one.astype(np.float64) if _floats(one) else one for one in given]
                bounds = [np.asarray(one, np.float64) for one in _listed(task.bound(*plain, *scalars))]
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"the task's reference fails for {case}: {said}") from error
    if len(values) != len(outs):
        raise ValueError(f"the task's reference: expected {len(outs)} results, got {len(values)}")
    wants = {}
    for one, value, bound in zip(outs, values, bounds, strict=True):
        shape = one.sized(case.sizes)
        if value.size != int(np.prod(shape)):
            raise ValueError(
                f"the task's reference: {one.name}: expected the shape {shape}, got {value.shape}"
            )
        wants[one.name] = Want(value.reshape(shape), np.broadcast_to(bound, value.shape).reshape(shape))
    return wants


def _moved(
    task: Task, given: Sequence[Values], scalars: Sequence[Any], dtype: dtypes.DType, seed: int
) -> tuple[list[Values], list[Values]]:
    """The results of a reference of cukern in float64, and bounds by how far small changes of its inputs move them."""
    host = Device("host")

    def results(change: Callable[[Values], Values]) -> list[Values]:
        args = [
            on(change(one.astype(np.float64)), dtypes.float64, host)
            if _floats(one)
            else on(one, one.dtype, host)
            for one in given
        ]
        with host.activate():
            found = _listed(task.reference(*args, *scalars))
        return [np.array(one.numpy()) if isinstance(one, Array) else np.asarray(one) for one in found]

    exact = results(lambda x: x)
    rough, rng = unit(dtype), np.random.default_rng([seed, 11])
    fine = min(rough, unit(dtypes.float32))
    bounds = [np.zeros(one.shape) for one in exact]
    for _ in range(4):
        moved = results(lambda x: x * (1 + rough * rng.choice([-1.0, 1.0], x.shape)))
        for bound, other, one in zip(bounds, moved, exact, strict=True):
            if one.dtype.kind == "f":
                np.maximum(bound, np.nan_to_num(np.abs(other - one), nan=0, posinf=0), out=bound)
    for i, one in enumerate(exact):
        if one.dtype.kind == "f":
            finite = np.where(np.isfinite(one), np.abs(one), 0)
            bounds[i] = 4 * (bounds[i] + rough * finite) + 16 * fine * np.max(finite, initial=0)
    return exact, bounds


def difference(name: str, got: Values, want: Want) -> Difference:
    """Compare an array of results with what is wanted."""
    if not _floats(got):
        bad = got != want.value
        return Difference(bad, _worst(name, got, want.value, bad) if bad.any() else "")
    limits = ml_dtypes.finfo(got.dtype)  # type: ignore[no-untyped-call]
    value = got.astype(np.float64)
    with np.errstate(all="ignore"):
        rounding = unit(got.dtype) * np.abs(want.value) * 1.01 + float(limits.smallest_normal)
        bound = want.bound + np.where(np.isfinite(rounding), rounding, 0)
        error = np.abs(value - want.value)
        unknown = np.isinf(want.bound)
        good = (error <= bound) | (value == want.value) | (np.isnan(value) & np.isnan(want.value)) | unknown
        over = np.isinf(value) & (np.sign(value) == np.sign(want.value))
        good |= over & (np.abs(want.value) + bound >= float(limits.max))
        ratios = np.where(np.isfinite(error / bound) & ~unknown, error / bound, 0)
    if good.all():
        return Difference(~good, "", False, float(np.max(ratios, initial=0)), int(unknown.sum()))
    finite = np.where(np.isfinite(want.value), np.abs(want.value), 0)
    allowed = max(1e-2, 8 * unit(got.dtype)) * np.max(finite, initial=0)
    near = bool((error[~good] <= allowed).all())
    return Difference(~good, _worst(name, value, want.value, ~good, bound), near, 0.0, int(unknown.sum()))


def _worst(name: str, got: Values, want: Values, bad: Values, bound: Values | None = None) -> str:
    """What is wrong with the worst of some elements."""
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - np.asarray(want, np.float64))
        error = error if bound is None else error / bound
        at = np.unravel_index(int(np.argmax(np.where(bad, np.nan_to_num(error, nan=np.inf), -1))), bad.shape)
    index = [int(i) for i in at]
    said = f"{name}{index} is {got[at]:.7g}, and {want[at]:.7g} by the reference"
    allowed = "" if bound is None else f", where {bound[at]:.2g} is allowed"
    return f"{said}{allowed}; {int(bad.sum())} of {bad.size} elements are wrong"


def _floats(values: Values) -> bool:
    return values.dtype.kind in "fV" and dtypes.info(values.dtype).kind == "f"


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]
