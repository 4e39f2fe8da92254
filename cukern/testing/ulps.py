"""Errors of results in units in the last place (ulp), measured beside the same computation in a wider type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .. import dtypes, pytree
from ..autodiff.cotangents import is_array, is_float
from ..dtypes import DType
from ..errors import LaunchError
from ..text.render import table
from .shapes import index_of, is_floating
from .stand_ins import in_float64

#: The type in which each type's results are computed for comparison.
WIDER: dict[DType, DType] = {
    dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float32,
    dtypes.float32: dtypes.float64,
    dtypes.complex64: dtypes.complex128,
}


@dataclass(frozen=True)
class Ulps:
    """The error of one output.

    Attributes:
        output: its path, ``"output"`` for a single array.
        dtype: its dtype.
        count: the number of its elements.
        worst: the largest error, in units in the last place of the exact value; infinite where one of the two is NaN or
            infinite alone.
        mean: the mean of the finite errors.
        index: where the error is largest; None for an output without elements.
        at: the arguments' values there, of those that have the output's shape.
        value: the result there.
        exact: what the wider type gives there.
    """

    output: str
    dtype: DType
    count: int
    worst: float
    mean: float
    index: tuple[int, ...] | None
    at: tuple[Any, ...]
    value: Any
    exact: Any


class UlpTable(tuple[Ulps, ...]):
    """The errors of all outputs of a function, a row each; ``str`` gives the table."""

    @property
    def worst(self) -> float:
        """The largest error of all outputs."""
        return max((row.worst for row in self), default=0.0)

    def __str__(self) -> str:
        heads = ("output", "dtype", "elements", "worst", "mean", "at", "value", "exact")
        rows = [
            (
                row.output,
                dtypes.info(row.dtype).name,
                str(row.count),
                f"{row.worst:.3g}",
                f"{row.mean:.3g}",
                ", ".join(str(value) for value in row.at) or str(row.index),
                str(row.value),
                str(row.exact),
            )
            for row in self
        ]
        return table([heads, *rows])


def ulps(
    function: Callable[..., Any],
    args: Sequence[Any],
    *,
    reference: Callable[..., Any] | None = None,
    subnormals: bool = True,
) -> UlpTable:
    """The errors of a function's results, in units in the last place (ulp), as a table.

    Exact is what the same function gives for the same values in a wider type: kernels rendered in float64 for float32,
    in float32 for half types; where kernels take one type, as those of ``const float*``, double stands for it. One ulp
    of an exact value of magnitude 2**e to 2**(e + 1) is 2**(e - p + 1) in a type of p binary digits, and no less than
    the smallest subnormal number. A correctly rounded result errs by 0.5 at most.

    Args:
        function: takes ``args`` and returns an array or a pytree of arrays, of which floats and complex numbers count.
        args: pytrees. Floating and complex arrays are widened; other leaves are passed on unchanged.
        reference: gives the exact results instead; takes NumPy arrays in place of arrays: float64 for narrower floats,
            ``numpy.longdouble`` for float64.
        subnormals: whether exact values below the smallest normal number count. False leaves out those whose results
            are also below it, as cukern's kernels of float32 round them to 0 on GPUs.

    Raises:
        TypeError: an argument is float64 or complex128 and there is no ``reference``; nothing in ``args`` is floating.
        ValueError: the two results differ in structure or shape.

    >>> import cukern as ck
    >>> table = ulps(ck.exp, [ck.linspace(-5, 5, 101, dtype="float32")])
    >>> table.worst < 2, table[0].count
    (True, 101)
    """
    leaves = list(pytree.leaves_with_path(list(args), "args"))
    floating = [leaf for leaf in leaves if is_floating(leaf.value)]
    if not floating:
        raise TypeError("args: there is no floating array whose results could err")
    for leaf in floating:
        if reference is None and leaf.value.dtype not in WIDER:
            raise TypeError(
                f"{leaf.path}: ulps has no wider type than {leaf.value.dtype}: give reference=, which takes NumPy "
                "arrays"
            )
    got = list(pytree.leaves_with_path(function(*args), "output"))
    if reference is None:
        exact = _exactly(function, list(args), leaves)
    else:
        wide = [_to_numpy(leaf.value) for leaf in leaves]
        exact = list(pytree.leaves_with_path(reference(*pytree.replace(list(args), wide)), "output"))
    if [leaf.path for leaf in got] != [leaf.path for leaf in exact]:
        raise ValueError(
            f"function: it returned {[leaf.path for leaf in got]}, and {[leaf.path for leaf in exact]} in a wider type"
        )
    values = [leaf.value.numpy() for leaf in floating]
    return UlpTable(
        _row(one.path, one.value.numpy(), np.asarray(other.value), values, subnormals)
        for one, other in zip(got, exact, strict=True)
        if is_floating(one.value)
    )


def _exactly(
    function: Callable[..., Any], args: list[Any], leaves: Sequence[pytree.Leaf]
) -> list[pytree.Leaf]:
    """The results in a wider type: that of ``WIDER``, or double in place of the one type that kernels take."""

    def results(types: Mapping[DType, DType]) -> list[pytree.Leaf]:
        wide = [_widened(leaf.value, types) for leaf in leaves]
        return list(pytree.leaves_with_path(function(*pytree.replace(args, wide)), "output"))

    try:
        return results(WIDER)
    except LaunchError:
        with in_float64():
            return results(dict.fromkeys((dtypes.float16, dtypes.bfloat16, dtypes.float32), dtypes.float64))


def _widened(value: Any, types: Mapping[DType, DType]) -> Any:
    return value.astype(types[value.dtype]) if is_array(value) and value.dtype in types else value


def _to_numpy(value: Any) -> Any:
    if not is_array(value):
        return value
    array = value.numpy()
    if not is_float(value.dtype):
        return array
    if value.dtype in dtypes.COMPLEX:
        return array.astype(np.clongdouble if value.dtype == dtypes.complex128 else np.complex128)
    return array.astype(np.longdouble if value.dtype == dtypes.float64 else np.float64)


def _row(
    path: str,
    got: npt.NDArray[Any],
    exact: npt.NDArray[Any],
    values: list[npt.NDArray[Any]],
    subnormals: bool,
) -> Ulps:
    if got.shape != exact.shape:
        raise ValueError(f"{path}: its shape is {got.shape}, and {exact.shape} of what it is compared with")
    if not got.size:
        return Ulps(path, got.dtype, 0, 0.0, 0.0, None, (), None, None)
    errors = distance(got, exact, subnormals)
    index = index_of(int(np.argmax(errors)), got.shape)
    finite = errors[np.isfinite(errors)]
    return Ulps(
        path,
        got.dtype,
        got.size,
        float(errors[index]),
        float(finite.mean()) if finite.size else 0.0,
        index,
        tuple(array[index] for array in values if array.shape == got.shape),
        got[index],
        exact[index],
    )


def distance(
    got: npt.NDArray[Any], exact: npt.NDArray[Any], subnormals: bool = True
) -> npt.NDArray[np.float64]:
    """The error of each element of ``got``, in units in the last place of ``exact`` in the dtype of ``got``.

    Complex numbers count by their absolute values. Without ``subnormals``, pairs below the normal numbers are equal.
    """
    info = dtypes.info(dtypes.info(got.dtype).real)
    limits = ml_dtypes.finfo(info.dtype)  # type: ignore[no-untyped-call]
    wide = np.result_type(exact.dtype, np.complex128 if got.dtype.kind == "c" else np.float64)
    a, b = got.astype(wide), exact.astype(wide)
    if got.dtype.kind != "c":
        # An infinity stands for the first number beyond the type's largest.
        over = wide.type(2.0) ** wide.type(int(limits.maxexp))
        a, b = np.clip(a, -over, over), np.clip(b, -over, over)
    with np.errstate(all="ignore"):
        size = np.abs(b)
        exponent = np.where(size == 0, int(limits.minexp), np.frexp(size)[1] - 1)
        unit = np.ldexp(
            np.ones((), size.dtype), np.clip(exponent, limits.minexp, limits.maxexp - 1) - info.digits + 1
        )
        errors = np.abs(a - b) / unit
    same = np.isnan(a) & np.isnan(b)
    same |= got.astype(wide) == exact.astype(wide)
    if not subnormals:
        same |= np.maximum(np.abs(a), size) <= np.ldexp(1.0, int(limits.minexp))
    errors = np.where(same, 0.0, np.where(np.isnan(errors), np.inf, errors))
    return np.asarray(errors, np.float64)
