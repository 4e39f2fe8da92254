"""What computes a reduction, chosen once for the layouts of its arrays: kernels, or NumPy on the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..cache import Cache
from ..dtypes import DType
from ..elementwise.program import Program
from ..kernel.by_numpy import LARGE, ByNumPy, by_numpy, watchers
from ..kernel.plan import kept, one_device
from .plan import Plan, Reducing, Reduction

#: Plans by keys that are cheaper to make than problems.
PLANS: Cache[Any, Plan] = kept("reduction")
#: The fewest values that NumPy reduces.
_NUMPY_VALUES = 1 << 16
#: The fewest values per result that NumPy reduces.
_NUMPY_COUNT = 512
#: The same where the result is an index.
_NUMPY_SEARCH_COUNT = 128


class NumPyPlan(Plan):
    """What NumPy computes, or kernels where it is not to be taken."""

    __slots__ = ()

    def run(
        self,
        arrays: Sequence[Array],
        scalars: Sequence[Any],
        parameter: float = 0.0,
        onto: Array | None = None,
    ) -> Array:
        """See :class:`Plan`; the reductions that NumPy computes are added to nothing."""
        assert onto is None
        problem, result = self.problem, Array._made(self.layouts[0])
        compute, _ = _BY_NUMPY[problem.reduction.name]
        axis = problem.axes[0] if len(problem.axes) == 1 else None
        if compute(self.device, arrays[0]._data, result._data, axis, problem.keepdims):
            return result
        return by_kernels(problem).run(arrays, scalars, parameter)


def cached(*key: Any) -> Plan | None:
    """The plan that is kept under a key, or None; also where somebody asks why it was chosen."""
    return None if watchers else PLANS.get(key)


def planned(arrays: Sequence[Array], reduction: Reduction, mapped: Program, *how: Any) -> Plan:
    """The plan of a reduction of a program's value; what follows are the other fields of :class:`Reducing`.

    Raises:
        DeviceError: the arrays are on different devices.
        ValueError: their shapes do not broadcast.
    """
    layouts: list[Any] = []
    for array in arrays:
        layouts.append(array._layout or array._planned())
    key = reduction, mapped, tuple(layouts), *how
    plan = None if watchers else PLANS.get(key)
    if plan is None:
        one_device(reduction.name, arrays)
        problem = Reducing(*key)
        plan = NumPyPlan(problem) if _is_for_numpy(problem) else by_kernels(problem)
        PLANS.keep(key, plan)
    return plan


def by_kernels(problem: Reducing) -> Plan:
    """The launches of a reduction; none of no results."""
    if not problem.results[0].size:
        return Plan(problem)
    from .families import REDUCTION  # many programs have no reduction

    return REDUCTION(problem)  # type: ignore[return-value]


def _is_for_numpy(problem: Reducing) -> bool:
    """Whether one operand in C order is reduced, along its last axis or all of them, by what NumPy does faster."""
    (operand, *others), name, count = problem.operands, problem.reduction.name, problem.count
    plain = problem.program.name == "load" and not problem.reduction.custom and not problem.onto
    if not plain or others or not operand.contiguous:
        return False
    device, size = problem.device, math.prod(problem.shape)
    least = _NUMPY_SEARCH_COUNT if problem.reduction.ordered else _NUMPY_COUNT
    if (
        device.style != "serial"
        or not device.addressable
        or operand.dtype not in _BY_NUMPY.get(name, (None, ()))[1]
        or size < _NUMPY_VALUES
        or count < least
    ):
        return False
    if name.startswith("nanarg") and count != size:
        return False
    one_core, last_axis = device.properties.multiprocessors == 1, len(problem.shape) - 1
    return (one_core or size < LARGE) and (count == size or problem.axes == (last_axis,))


def _reducing(ufunc: Any) -> Callable[..., None]:
    def compute(data: Any, to: Any, axis: int | None, keepdims: bool) -> None:
        ufunc.reduce(data, axis, None, to, keepdims)

    return compute


def _searching(search: Callable[..., Any], best: np.ufunc | None = None) -> Callable[..., None]:
    """The first index of the best number; with ``best``, of all that are not NaN, and -1 of NaN alone."""

    def compute(data: Any, to: Any, axis: int | None, keepdims: bool) -> None:
        if best is None:
            search(data, axis, to, keepdims=keepdims)
            return
        data = data.reshape(-1)
        index = int(search(data))
        if data[index] != data[index]:  # NaN, which is the best
            value = best.reduce(data)
            index = int((data == value).argmax()) if value == value else -1
        to.fill(index)

    return compute


_FLOATS = frozenset((dtypes.float32, dtypes.float64))
_ARGMAX, _ARGMIN = np.ndarray.argmax, np.ndarray.argmin
#: What NumPy reduces, with the dtypes for which it has vector instructions.
_BY_NUMPY: dict[str, tuple[ByNumPy, frozenset[DType]]] = {
    name: (by_numpy(name, warns=True, why=why)(compute), known)
    for why, known, functions in (
        ("it stops early", frozenset((dtypes.bool_, dtypes.int8, dtypes.uint8)),
         {"all": _reducing(np.logical_and), "any": _reducing(np.logical_or)}),
        ("it takes fewer instructions", _FLOATS.union((dtypes.bool_, *dtypes.INTS)),
         {"max": _reducing(np.maximum), "min": _reducing(np.minimum),
          "argmax": _searching(_ARGMAX), "argmin": _searching(_ARGMIN)}),
        ("it takes fewer instructions", _FLOATS,
         {"nanmax": _reducing(np.fmax), "nanmin": _reducing(np.fmin),
          "nanargmax": _searching(_ARGMAX, np.fmax), "nanargmin": _searching(_ARGMIN, np.fmin)}),
    )
    for name, compute in functions.items()
}  # fmt: skip
