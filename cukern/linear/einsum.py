"""einsum: pairwise contractions, in the order found by opt_einsum, through transposes and matrix products."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import public, require_arrays
from ..elementwise.ufunc import Casting, can_cast, checked_casting, one_out, written
from ..reduction.rows import sum
from ..shape.views import permute_dims, reshape, squeeze
from .diagonals import diagonal
from .products import matmul

__all__ = ["einsum", "einsum_path"]


@lru_cache(maxsize=4096)
def _plan(
    key: tuple[Any, ...], optimize: Any, limit: int | None
) -> tuple[list[str], str, list[tuple[int, ...]]]:
    """The labels of each operand and of the result, and the order of contractions."""
    from opt_einsum import contract_path
    from opt_einsum.parser import parse_einsum_input

    inputs, output, shapes = parse_einsum_input(list(key), shapes=True)
    terms = inputs.split(",")
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            raise ValueError(f"einsum: the labels {term!r} do not fit an operand of shape {shape}")
    if len(terms) < 3:
        return terms, output, [tuple(range(len(terms)))]
    if limit is not None and limit < 1:
        return terms, output, [tuple(range(len(terms)))]
    subscripts = f"{inputs}->{output}"
    path, _ = contract_path(subscripts, *shapes, shapes=True, optimize=optimize, memory_limit=limit)
    return terms, output, [tuple(pair) for pair in path]


def _sizes(terms: Sequence[str], operands: Sequence[Array]) -> dict[str, int]:
    """The size of each label; a size of 1 broadcasts.

    Raises:
        ValueError: two sizes of one label differ.
    """
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands, strict=True):
        for label, size in zip(term, x.shape, strict=True):
            have = sizes.setdefault(label, size)
            if have != size and 1 not in (have, size):
                raise ValueError(f"einsum: the axes {label!r} have sizes {have} and {size}")
            sizes[label] = max(have, size) if 0 not in (have, size) else 0
    return sizes


@lru_cache(maxsize=4096)
def _plain_sizes(terms: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> dict[str, int] | None:
    """The size of each label; None where a label is repeated in a term, or has several sizes."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        own = dict(zip(term, shape, strict=True))
        if len(own) < len(term) or any(sizes.setdefault(label, size) != size for label, size in own.items()):
            return None
    return sizes


def _diagonals(x: Array, term: str) -> tuple[Array, str]:
    """``x`` with diagonals for repeated labels."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            first = term.index(label)
            second = term.index(label, first + 1)
            if x.shape[first] != x.shape[second]:
                raise ValueError(
                    f"einsum: the axes {label!r} have sizes {x.shape[first]} and {x.shape[second]}"
                )
            x = diagonal(x, 0, first, second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + label
    return x, term


def _narrowed(x: Array, term: str, sizes: dict[str, int]) -> tuple[Array, str]:
    """``x`` without the axes of size 1 along which it broadcasts."""
    gone = []
    for i, size in enumerate(x.shape):
        if size != sizes[term[i]]:
            gone.append(i)
    return (squeeze(x, tuple(gone)), _less(term, gone)) if gone else (x, term)


def _summed(x: Array, term: str, keep: frozenset[str]) -> tuple[Array, str]:
    """``x`` summed over the labels that are not in ``keep``."""
    if keep.issuperset(term):
        return x, term
    gone = tuple(i for i, label in enumerate(term) if label not in keep)
    return (sum(x, gone, dtype=x.dtype), _less(term, gone)) if gone else (x, term)


def _less(term: str, axes: Sequence[int]) -> str:
    return "".join(label for i, label in enumerate(term) if i not in axes)


def _without(term: str, labels: str) -> str:
    return "".join(label for label in term if label not in labels)


def _ordered(x: Array, term: str, wanted: str) -> Array:
    return permute_dims(x, _places(term, wanted)) if term != wanted else x


@lru_cache(maxsize=4096)
def _places(term: str, wanted: str) -> tuple[int, ...]:
    return tuple([term.index(label) for label in wanted])


def _aligned(x: Array, term: str, labels: str) -> Array:
    """``x`` with its axes in the order of ``labels``, with size 1 for labels that it lacks."""
    have = "".join(label for label in labels if label in term)
    x = _ordered(x, term, have)
    sizes = dict(zip(have, x.shape, strict=True))
    return reshape(x, tuple(sizes.get(label, 1) for label in labels))


@fuse(static=["axes", "dtype"])
def _sum_of_products(x: Array, y: Array, axes: tuple[int, ...], dtype: dtypes.DType) -> Array:
    return sum(x * y, axes, dtype=dtype)


def _pair(
    a: Array, s: str, b: Array, t: str, keep: frozenset[str], sizes: dict[str, int]
) -> tuple[Array, str]:
    """Contract two operands by a batched matrix product, or elementwise where that would gain nothing."""
    a, s = _summed(a, s, keep | frozenset(t))
    b, t = _summed(b, t, keep | frozenset(s))
    batch, inner, rows, columns = _roles(s, t, keep)
    if not inner:
        labels = batch + rows + columns
        return _aligned(a, s, labels) * _aligned(b, t, labels), labels
    if batch and not rows and not columns:
        axes = tuple(range(len(batch), len(batch + inner)))
        return _sum_of_products(
            _ordered(a, s, batch + inner), _ordered(b, t, batch + inner), axes, a.dtype
        ), batch
    shape, of_rows, of_columns, of_inner = [
        [sizes[label] for label in part] for part in (batch, rows, columns, inner)
    ]
    m, n, k = math.prod(of_rows), math.prod(of_columns), math.prod(of_inner)
    left = reshape(_ordered(a, s, batch + rows + inner), (*shape, m, k))
    right = reshape(_ordered(b, t, batch + inner + columns), (*shape, k, n))
    return reshape(matmul(left, right), (*shape, *of_rows, *of_columns)), batch + rows + columns


@lru_cache(maxsize=4096)
def _roles(s: str, t: str, keep: frozenset[str]) -> tuple[str, str, str, str]:
    """The labels of two operands along which products are batched and summed, and those of one operand."""
    batch = "".join(label for label in s if label in t and label in keep)
    inner = "".join(label for label in s if label in t and label not in keep)
    return batch, inner, _without(s, t), _without(t, s)


def _arguments(operands: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Array]]:
    """The subscripts and shapes as a key, and the arrays.

    Raises:
        TypeError: an operand is not an array.
        ValueError: there is no operand.
    """
    key: list[Any] = list(operands)
    named = bool(operands) and isinstance(operands[0], str)
    # Without a string, a list of labels follows each array, and the labels of the result come last.
    range_ = range(1, len(operands)) if named else range(0, len(operands) - len(operands) % 2, 2)
    given = [operands[i] for i in range_]
    if not given:
        raise ValueError("einsum: expected at least one array")
    arrays = require_arrays(given, "einsum", [f"operands[{i}]" for i in range_])
    for i, x in zip(range_, arrays, strict=True):
        key[i] = x.shape
    for i, one in enumerate(key):
        if isinstance(one, str):
            key[i] = one.replace(" ", "")
        elif i not in range_:
            key[i] = _labels(one)
    return tuple(key), arrays


def _labels(labels: Any) -> tuple[Any, ...]:
    """A shape, or a list of labels, which may be or contain arrays."""
    if isinstance(labels, (Array, np.ndarray)):
        labels = labels.tolist()
    return tuple(one if one is Ellipsis else operator.index(one) for one in labels)


def _cast(arrays: list[Array], dtype: npt.DTypeLike | None, casting: Casting) -> list[Array]:
    """The arrays in the dtype given, or in their common one."""
    if dtype is None and len({x.dtype for x in arrays}) == 1:
        return arrays
    wanted = dtypes.result_type(*(x.dtype for x in arrays)) if dtype is None else dtypes.as_dtype(dtype)
    for x in arrays:
        if dtype is not None and not can_cast(x.dtype, wanted, casting):
            raise TypeError(f"einsum: dtype: cannot cast {x.dtype} to {wanted}, casting={casting!r}")
    return [astype(x, wanted, copy=False) for x in arrays]


def _order(optimize: Any) -> tuple[Any, int | None]:
    """The method or the path as a key, and the limit of intermediate elements."""
    if not isinstance(optimize, (list, tuple)):
        return optimize, None
    if len(optimize) == 2 and isinstance(optimize[0], str) and isinstance(optimize[1], (int, float)):
        return optimize[0], int(optimize[1])
    return tuple(tuple(pair) for pair in optimize if not isinstance(pair, str)), None


@public
def einsum(
    *operands: Any,
    optimize: Any = "auto",
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "safe",
    out: Array | None = None,
) -> Array:
    """The sum of products over labelled axes, as ``numpy.einsum``; differentiable.

    Args:
        operands: a string of subscripts such as ``"ij,jk->ik"`` followed by the arrays, or arrays alternating with
            lists of labels.
        optimize: opt_einsum's method for the order of three or more operands, such as ``"greedy"`` or ``"optimal"``;
            in a pair with a number, which limits the elements of intermediates. False contracts from left to right, and
            a list of pairs as from ``numpy.einsum_path`` in that order.
        dtype: the dtype of the computation and of the result; by default the common one of the arrays. It has no effect
            where the result is a view of the only array, without a sum, as in NumPy.
        casting: which casts to ``dtype`` and to ``out`` are allowed, as of ``numpy.can_cast``.
        out: the array to write the result to.

    Raises:
        DeviceError: the arrays are on different devices.
        TypeError: an operand is not an array, or its cast is not allowed.
        ValueError: the subscripts do not fit the operands.

    >>> import cukern as ck
    >>> ck.einsum("ij,ij->i", ck.ones((2, 3)), ck.ones((2, 3))).tolist()
    [3.0, 3.0]
    """
    key, arrays = _arguments(operands)
    checked_casting("einsum", casting)
    try:
        terms, output, path = _plan(key, *_order(optimize))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"einsum: {str(error).removeprefix('einsum: ')}") from None
    if len(arrays) > 1 or not set(terms[0]) <= set(output):
        arrays = _cast(arrays, dtype, casting)
    known = _plain_sizes(tuple(terms), tuple([x.shape for x in arrays]))
    if known is None:
        diagonals = [_diagonals(x, term) for x, term in zip(arrays, terms, strict=True)]
        sizes = _sizes([term for _, term in diagonals], [x for x, _ in diagonals])
        parts = [_narrowed(x, term, sizes) for x, term in diagonals]
    else:
        sizes, parts = known, list(zip(arrays, terms, strict=True))
    for chosen in path:
        taken = [parts[i] for i in chosen]
        parts = [part for i, part in enumerate(parts) if i not in chosen]
        keep = frozenset(output).union(*(term for _, term in parts))
        x, term = taken[0]
        for k, (y, other) in enumerate(taken[1:], 2):
            x, term = _pair(x, term, y, other, keep.union(*(t for _, t in taken[k:])), sizes)
        parts.append(_summed(x, term, keep))
    ((x, term),) = parts
    result = _ordered(x, term, output)
    if out is not None:
        casting = "same_kind" if casting == "safe" else casting
        return written("einsum", result, one_out("einsum", out), casting)
    return result[...] if any(result is given for given in operands) else result


@public
def einsum_path(*operands: Any, optimize: Any = "greedy") -> tuple[list[Any], str]:
    """The order of contractions that NumPy finds, for ``optimize`` of :func:`einsum`, and a text about it.

    Args:
        operands: as of :func:`einsum`; of the arrays only the shapes matter.
        optimize: as of ``numpy.einsum_path``.

    Raises:
        TypeError: an operand is not an array.
        ValueError: the subscripts do not fit the operands.

    >>> import cukern as ck
    >>> ck.einsum_path("ij,jk,kl->il", ck.ones((2, 9)), ck.ones((9, 9)), ck.ones((9, 3)))[0]
    ['einsum_path', (0, 1), (0, 1)]
    """
    key, arrays = _arguments(operands)
    shapes = iter(arrays)
    positions = range(1, len(key)) if isinstance(key[0], str) else range(0, len(key) - len(key) % 2, 2)
    stand_ins: list[Any] = [
        np.broadcast_to(np.zeros((), np.float64), next(shapes).shape)
        if i in positions
        else one
        if isinstance(one, str)
        else list(one)
        for i, one in enumerate(key)
    ]
    path, report = np.einsum_path(*stand_ins, optimize=optimize)
    return path, report
