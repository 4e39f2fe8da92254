"""Data on the host of which arrays are made: numbers, nested lists and NumPy arrays, as one NumPy array."""

from __future__ import annotations

from contextvars import Context
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from .array import Array

_quiet = Context()
_quiet.run(np.seterr, all="ignore")
#: ``quiet().run(f, x)`` is ``f(x)`` without NumPy's warnings, in less time than a with-block of ``np.errstate`` takes.
#: Each call makes a copy, as a context runs one function at a time.
quiet = _quiet.copy
_FLOAT, _NUMBERS = frozenset((float,)), frozenset((bool, int, float, complex))


def host_data(obj: Any, dtype: dtypes.DType | None) -> tuple[npt.NDArray[Any], bool]:
    """``obj`` as a NumPy array of a dtype that cukern has, and whether it may share its memory with ``obj``.

    Python floats get the default floating dtype, Python complex numbers the complex one of its precision.
    """
    listed = isinstance(obj, (list, tuple))
    if listed and (dtype is None or dtype.kind == "f") and _FLOAT.issuperset(map(type, obj)) and obj:
        return quiet().run(np.asarray, obj, dtype or dtypes.get_default_dtype()), False  # most lists
    python = listed or (not hasattr(obj, "dtype") and isinstance(obj, (bool, int, float, complex)))
    with np.errstate(over="ignore"):
        if python and dtype is not None and dtype not in dtypes.COMPLEX and _holds_complex(obj):
            raise TypeError(f"obj: it has complex numbers, which {dtypes.info(dtype).name} does not hold")
        data = np.asarray(obj, dtype if python else None)
        if python and dtype is None and data.dtype in (np.float64, np.complex128):
            dtype = _of_items(obj, data)
            data = np.asarray(obj, dtype) if dtype == dtypes.uint64 else data
        if data.dtype == object or (data.dtype.kind in "USVmM" and data.dtype not in dtypes.ALL):
            how = (
                "; for kernels, cukern.struct(name, dtype).asarray takes records" if data.dtype.names else ""
            )
            raise TypeError(f"obj: expected numbers that a dtype of cukern holds, got {data.dtype} data{how}")
        held = dtypes.as_dtype(data.dtype, "obj")
        if held in dtypes.COMPLEX and dtype is not None:
            dtypes.refuse_real("asarray", held, dtype)
        if dtype is None:
            dtype = held
        cast = data.astype(dtype, copy=False)
        return cast, cast is data and not python


def holds_array(items: Any) -> bool:
    """Whether an Array is among the items of nested lists and tuples."""
    if _NUMBERS.issuperset(map(type, items)):
        return False
    return any(holds_array(i) if isinstance(i, (list, tuple)) else isinstance(i, Array) for i in items)


def _holds_complex(obj: Any) -> bool:
    """Whether a number or an item of nested lists is complex."""
    return any(
        kind is complex or (isinstance(kind, np.dtype) and kind in dtypes.COMPLEX) for kind in _kinds([obj])
    )


def _of_items(obj: Any, data: npt.NDArray[Any]) -> dtypes.DType:
    """The dtype of a number or nested lists that NumPy turns into float64 or complex128."""
    kinds = _kinds([obj])
    floats = [kind for kind in kinds if isinstance(kind, np.dtype) and kind in dtypes.INEXACT]
    if floats:
        return dtypes.result_type(*floats, *([1j] if complex in kinds else []))
    if complex in kinds:
        return dtypes.get_default_complex()
    # NumPy makes floats of integers of which some exceed int64; if none is negative, uint64 holds them.
    whole = bool(data.size) and float not in kinds and not (data < 0).any()
    return dtypes.uint64 if whole else dtypes.get_default_dtype()


def _kinds(items: list[Any]) -> set[Any]:
    """The dtypes of the arrays in nested lists, and the types of the Python numbers."""
    types = set(map(type, items))
    kinds: set[Any] = types & {bool, int, float, complex}
    for item in items if types - kinds else ():
        kinds |= (
            _kinds(list(item)) if isinstance(item, (list, tuple)) else {getattr(item, "dtype", type(item))}
        )
    return kinds
