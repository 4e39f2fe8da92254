"""The rows of the elementwise table, sampled and compared with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from nn_support import sized

import cukern as ck
from cukern.array import layout, operators
from cukern.elementwise.row import Row
from cukern.testing import assert_close

ROWS: dict[str, Row] = {name: f for name, f in operators.FUNCTIONS.items() if isinstance(f, Row)}
UNARY = [row for row in ROWS.values() if len(row.operands) == 1]
BINARY = [row for row in ROWS.values() if len(row.operands) == 2]
DIFFERENTIABLE = [row for row in ROWS.values() if row.differentiable]
NUMPY_DTYPES = [d for d in ck.dtypes.ALL if d != ck.bfloat16]
TOLERANCE = {
    "float16": 1e-3,
    "bfloat16": 8e-3,
    **dict.fromkeys(("float32", "complex64"), 4e-6),
    **dict.fromkeys(("float64", "complex128"), 1e-13),
}
#: The dtype in which NumPy computes floats and complex numbers, by their kind.
WIDE = {"f": np.float64, "c": np.complex128}


def oracle(row: Row) -> Callable[..., Any]:
    """NumPy's function of the same values."""
    if not isinstance(row.oracle, str):
        return row.oracle
    assert hasattr(np, row.oracle), f"{row.name}: NumPy has no {row.oracle!r}: give the row oracle="
    return getattr(np, row.oracle)


def sample(row: Row, dtype: Any, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Values of the row's domain, special ones of the dtype left out."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    low, high = row.domain
    if ck.dtypes.info(dtype).kind in "iu":
        low, high = (
            max(math.floor(low), -2 if np.issubdtype(dtype, np.signedinteger) else 0),
            math.ceil(high) + 3,
        )
        low = max(low, 1) if row.domain[0] > 0 else low
        return rng.integers(low, high, shape).astype(dtype)
    if dtype in ck.dtypes.COMPLEX:
        return (rng.uniform(low, high, shape) + 1j * rng.uniform(-1, 1, shape)).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


def operands(row: Row, dtype: Any, shape: tuple[int, ...] = (3, 5)) -> list[np.ndarray]:
    """Values for each operand; where the row takes a bool first, one."""
    return [
        sample(row, bool if mark == "b" else dtype, shape, seed) for seed, mark in enumerate(row.operands)
    ]


def expected(row: Row, values: list[np.ndarray]) -> np.ndarray:
    """NumPy's result, of floats computed in float64."""
    kinds = [ck.dtypes.info(v.dtype).kind for v in values]
    wide = [v.astype(WIDE[kind]) if kind in WIDE else v for v, kind in zip(values, kinds, strict=True)]
    with np.errstate(all="ignore"):
        return np.asarray(oracle(row)(*wide))


def check(got: ck.Array, want: np.ndarray, size: Any = 0.0) -> None:
    """Equality to the precision of the dtype of ``got``, of its values and of what they are made of."""
    tolerance = TOLERANCE.get(ck.dtypes.info(got.dtype).name, 0.0)
    smallest = float(ck.finfo(got.dtype).smallest_normal) if tolerance else 0.0
    right = want if tolerance else want.astype(got.numpy().dtype)
    assert_close(got, right, rtol=tolerance, atol=tolerance * (size + smallest))


def size(row: Row, values: list[np.ndarray]) -> Any:
    """How much the result changes with the relative change of floating arguments, where it crosses 0."""
    if any(ck.dtypes.info(value.dtype).kind != "f" for value in values):
        return 0.0
    with np.errstate(all="ignore"):
        if np.iscomplexobj(oracle(row)(*values)):
            return 0.0
        found = sized(oracle(row), *values)
    return 0.0 if isinstance(found, list) else found.size


def accepted(row: Row, dtype: Any) -> bool:
    """Whether the row computes in this dtype as it is."""
    info = ck.dtypes.info(np.dtype(dtype))
    half = info.kind == "f" and info.itemsize == 2
    return "x" not in row.operands or (info.kind in row.types and (row.halves or not half))


def address_counts(device: ck.Device, data: Any) -> layout.Layout:
    """The layout of an ndarray, on the host too by its address."""
    pointer = data.data.ptr if device.kind == "cuda" else data.__array_interface__["data"][0]
    return layout.layout(device, data.dtype, data.shape, data.strides, pointer % layout.ALIGNMENT == 0)
