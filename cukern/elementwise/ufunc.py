"""What elementwise functions have of NumPy's ufuncs: the arguments out, where, dtype and casting, and the methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.operators import FUNCTIONS
from ..kernel.strides import broadcasts
from .graph import SYMBOLS
from .operands import first_array, require_written
from .row import Row, is_scalar

Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def one_out(name: str, out: Any) -> Array | None:
    """The argument ``out``, an array or a tuple of one, as NumPy takes it."""
    if isinstance(out, tuple):
        if len(out) != 1:
            raise ValueError(f"{name}: out: expected one array, got a tuple of {len(out)}")
        (out,) = out
    return None if out is None else require_written(out, name, "out")


def written(
    name: str, result: Array, out: Array | None, casting: Casting = "same_kind", broadcast: bool = False
) -> Array:
    """``result``, or ``out`` with the elements of ``result``, cast, and broadcast if that is said.

    Raises:
        TypeError: ``casting`` does not allow the cast.
        ValueError: ``result`` does not have the shape of ``out``, or does not broadcast to it.
    """
    if out is None:
        return result
    if not can_cast(result.dtype, out.dtype, casting):
        raise TypeError(
            f"{name}: out: a result of {result.dtype} cannot be written to {out.dtype}, casting={casting!r}"
        )
    if result.shape != out.shape:
        if not (broadcast and broadcasts(result.shape, out.shape)):
            raise ValueError(
                f"{name}: out: a result of shape {result.shape} does not fit an array of shape {out.shape}"
            )
        result = FUNCTIONS["broadcast_to"](result, out.shape)
    FUNCTIONS["setitem"](out, ..., result)
    return out


def checked_casting(name: str, casting: Any) -> Casting:
    """The argument ``casting``.

    Raises:
        ValueError: it is not one of NumPy's names.
    """
    if casting not in CASTINGS:
        raise ValueError(f"{name}: casting: expected one of {', '.join(CASTINGS)}, got {casting!r}")
    result: Casting = casting
    return result


def can_cast(dtype: dtypes.DType, wanted: dtypes.DType, casting: Any) -> bool:
    """Whether a dtype can be cast to another, as ``numpy.can_cast``; to NumPy, bfloat16 is not a float."""
    if casting in ("same_kind", "unsafe"):
        rows = map(dtypes.info, (dtype, wanted))
        dtype, wanted = (row.acc if row.extension else row.dtype for row in rows)
    return bool(np.can_cast(dtype, wanted, casting))


class Ufunc(Row):
    """An elementwise function with the arguments and methods of NumPy's ufuncs."""

    def apply(self, operands: tuple[Any, ...]) -> Any:
        """Apply the function to arrays, numbers, or the symbols of a fused function."""
        raise NotImplementedError

    def apply_to(self, operands: tuple[Any, ...], out: Array, casting: Casting = "same_kind") -> Array:
        """:meth:`apply` with the result in ``out``: by the kernel that computes it, where memory and tapes allow it."""
        raise NotImplementedError

    def _operands(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """The operands as arrays, Python numbers and symbols."""
        raise NotImplementedError

    def apply_with(self, operands: tuple[Any, ...], out: Any, where: Any, dtype: Any, casting: Any) -> Any:
        """The function with NumPy's options.

        Args:
            operands: arrays, numbers or symbols.
            out: the array to write the result to, which broadcasts to its shape.
            where: a bool mask: where it is false, ``out`` keeps its elements; without ``out`` they are 0.
            dtype: the dtype in which to compute, to which the operands are cast first.
            casting: which casts are allowed, of operands and of the result to ``out``, as of ``numpy.can_cast``.

        Raises:
            TypeError: an option is not allowed with these operands, or a cast is not.
            ValueError: the result does not have the shape of ``out``.
        """
        casting = checked_casting(self.name, "same_kind" if casting is None else casting)
        masked = where is not None and where is not True
        if any(isinstance(operand, SYMBOLS) for operand in operands):
            if out is not None or masked:
                raise TypeError(
                    f"{self.name}: out and where are not taken in a fused function; use cukern.where"
                )
            return self.apply(self._cast(operands, dtype, casting))
        target = one_out(self.name, out)
        operands = self._cast(self._operands(operands), dtype, casting)
        if target is not None and not masked:
            return self.apply_to(operands, target, casting)
        result: Array = self.apply(operands)
        if masked:
            result = self._chosen(result, where, target, casting)
        return written(self.name, result, target, casting, broadcast=True)

    def _chosen(self, result: Array, where: Any, out: Array | None, casting: Casting) -> Array:
        """``result`` where the mask is true, else what is in ``out``, or 0."""
        mask = FUNCTIONS["require_array"](where, self.name, "where", result)
        if mask.dtype != dtypes.bool_:
            raise TypeError(f"{self.name}: where: expected an array of bool, got {mask.dtype}")
        if out is None:
            chosen: Array = FUNCTIONS["where"](mask, result, False)
            return chosen
        if not can_cast(result.dtype, out.dtype, casting):
            return result
        kept: Array = FUNCTIONS["where"](mask, result.astype(out.dtype, copy=False), out)
        return kept

    def _cast(self, operands: tuple[Any, ...], dtype: Any, casting: Casting) -> tuple[Any, ...]:
        """The operands in the dtype in which to compute.

        Raises:
            TypeError: the function does not compute in ``dtype``, or an operand cannot be cast.
        """
        if dtype is None and casting in ("same_kind", "unsafe"):
            return operands
        kinds = [operand if is_scalar(operand) else operand.dtype for operand in operands]
        if dtype is None:
            wanted, _ = self.resolve(kinds)
        else:
            wanted = self._computed_in(dtypes.as_dtype(dtype), kinds)
        result: list[Any] = []
        for operand, kind, to in zip(operands, kinds, wanted, strict=True):
            held = dtypes.result_type(to, kind) == to if is_scalar(operand) else can_cast(kind, to, casting)
            if not held and not (is_scalar(operand) and casting == "unsafe"):
                raise TypeError(f"{self.name}: cannot cast {kind} to {to}, casting={casting!r}")
            if not is_scalar(operand):
                operand = operand.astype(to)
            elif not held:
                operand = np.asarray(operand).astype(to).item()
            result.append(operand)
        return tuple(result)

    def _computed_in(self, dtype: dtypes.DType, kinds: Sequence[Any]) -> tuple[dtypes.DType, ...]:
        """The dtypes of the operands for a result of ``dtype``."""
        if self.result == "b":
            if dtype != dtypes.bool_:
                raise TypeError(f"{self.name}: dtype: the result is bool, got {dtype}")
            return self.resolve(kinds)[0]
        parts = self.result == "r" and any(
            isinstance(kind, complex) or (not is_scalar(kind) and kind in dtypes.COMPLEX) for kind in kinds
        )
        wanted, result = self.resolve([dtypes.complex_of(dtype) if parts else dtype] * len(kinds))
        if result != dtype:
            raise TypeError(f"{self.name}: dtype: it does not compute in {dtype}")
        return wanted

    def reduce(
        self,
        x: Any,
        axis: Any = 0,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Array:
        """Combine the elements along axes, as ``numpy.ufunc.reduce``: ``add.reduce`` is the sum.

        Args:
            x: any array.
            axis: the axis; or, of functions whose operands may be reordered, axes, or None for all.
            dtype: the dtype to which elements are cast first, that of the result.
            out: the array to write the result to.
            keepdims: whether the axes stay, with size 1.
            initial: a number that is combined with the elements.
            where: a bool mask; only elements where it is true are combined.

        Raises:
            TypeError: the function does not take two operands of one dtype.
            ValueError: no elements, and the function has no identity; or several axes of one that has an order.
        """
        result: Array = FUNCTIONS["ufunc_reduce"](self, x, axis, dtype, keepdims, initial, where)
        return written(self.name, result, one_out(self.name, out))

    def accumulate(
        self, x: Any, axis: int = 0, dtype: npt.DTypeLike | None = None, out: Array | None = None
    ) -> Array:
        """Combine each element along an axis with all before it, as ``numpy.ufunc.accumulate``.

        Args:
            x: an array of at least one axis.
            axis: the axis.
            dtype: the dtype to which elements are cast first, that of the result.
            out: the array to write the result to.

        Raises:
            TypeError: the function does not take two operands of one dtype, or ``x`` has no axis.
        """
        result: Array = FUNCTIONS["ufunc_accumulate"](self, x, axis, dtype)
        return written(self.name, result, one_out(self.name, out))

    def reduceat(
        self,
        x: Any,
        indices: Any,
        axis: int = 0,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
    ) -> Array:
        """:meth:`reduce` of slices along an axis, as ``numpy.ufunc.reduceat``.

        Args:
            x: an array of at least one axis.
            indices: where the slices start; each ends where the next starts, the last at the end of ``x``. If the
                next does not start after it, the slice is one element.
            axis: the axis.
            dtype: the dtype to which elements are cast first, that of the result.
            out: the array to write the result to.

        Raises:
            IndexError: an index is out of range; one in an array on a GPU is clipped, unless indices are checked.
            TypeError: the function does not take two operands of one dtype.
        """
        result: Array = FUNCTIONS["ufunc_reduceat"](self, x, indices, axis, dtype)
        return written(self.name, result, one_out(self.name, out))

    def outer(self, x: Any, y: Any, /, **options: Any) -> Array:
        """The function of all pairs of an element of ``x`` and one of ``y``: shape ``x.shape + y.shape``.

        Args:
            x: any array.
            y: any array.
            options: the arguments ``out``, ``where``, ``dtype`` and ``casting`` of the function itself.
        """
        if len(self.operands) != 2:
            raise ValueError(f"{self.name}.outer: expected a function of two operands, which it is not")
        beside = first_array((x, y))
        x, y = (
            FUNCTIONS["require_array"](one, self.name, name, beside) for one, name in ((x, "x"), (y, "y"))
        )
        result: Array = self(FUNCTIONS["reshape"](x, x.shape + (1,) * y.ndim), y, **options)  # type: ignore[operator]
        return result

    def at(self, x: Array, indices: Any, values: Any = None, /) -> None:
        """Replace ``x[indices]`` by the function of it and ``values``, in place, as ``numpy.ufunc.at``.

        If an index is repeated, the function is applied as often; each result is cast to the dtype of ``x``, floats
        to integers too. ``x.at[indices].add(values)`` is the same in a new
        array, with a derivative.

        Args:
            x: the array to write to.
            indices: any index.
            values: the second operand, broadcast to ``x[indices]``; none for a function of one operand.

        Raises:
            TypeError: ``x`` is not a cukern array, or real and the result complex; or ``values`` is missing.
            GradientError: a tape tracks ``x`` or ``values``.
        """
        FUNCTIONS["ufunc_at"](self, x, indices, values)
