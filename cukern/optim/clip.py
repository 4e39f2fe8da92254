"""Gradient clipping by the global norm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache, partial, reduce
from typing import Any

from .. import dtypes, pytree
from .. import namespace as ops
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..autodiff import tape
from ..dtypes import DType, promote
from ..elementwise.geometry import WIDEST
from ..elementwise.graph import Expr, input_node, tracing
from ..elementwise.many import Many, Pieces, operand, shared_out, split
from ..elementwise.program import Program, program
from ..kernel import Kernel
from ..kernel.plan import on, serial, threads
from ..linalg import vector_norm
from .groups import is_floating

_NORMS = Kernel("optim/norms.cu", block=256, name="norms")
_NORM = Kernel("optim/norm.cu", block=256, name="norm")
#: Parallel partial sums on the host: the lanes of a vector.
_HOST_SUMS = 16


def clip_by_global_norm(gradients: Any, max_norm: float) -> tuple[Any, Array]:
    """Scale gradients by one factor so that their global norm is at most ``max_norm``.

    The norm is computed and used on the gradients' device; nothing is copied to the host.

    Args:
        gradients: a pytree of arrays; None stands for no gradient.
        max_norm: the largest norm; gradients with a smaller one are not scaled.

    Returns:
        The scaled gradients in the same structure, and the norm before scaling: 0-d, float32 or wider.

    Raises:
        ValueError: ``max_norm`` is not positive, or there is no gradient.
        TypeError: a gradient is not a floating array.

    Source: Pascanu, Mikolov and Bengio, 2013, algorithm 1.

    >>> import cukern as ck
    >>> clipped, norm = ck.optim.clip_by_global_norm([ck.asarray([3.0, 4.0])], max_norm=1.0)
    >>> round(norm.item(), 4), [round(x, 4) for x in clipped[0].tolist()]
    (5.0, [0.6, 0.8])
    """
    if not max_norm > 0:
        raise ValueError(f"max_norm: expected a positive number, got {max_norm!r}")
    arrays, replaced = pytree.taken_apart(gradients)
    if not arrays:
        raise ValueError("gradients: expected at least one array, got none")
    for array in arrays:
        if not is_floating(array):
            raise TypeError(f"gradients: expected floating arrays, got one of {_kind(array)}")
        if array.device is not arrays[0].device:
            raise ValueError(
                f"gradients: expected arrays of one device, got {arrays[0].device} and {array.device}"
            )
    scaled, norm = _recorded(arrays, max_norm) if tape.recording(arrays) else _clipped(arrays, max_norm)
    return replaced(scaled), norm


def _kind(value: Any) -> str:
    return str(value.dtype) if isinstance(value, Array) else type(value).__name__


def _recorded(arrays: Sequence[Array], max_norm: float) -> tuple[list[Array], Array]:
    """:func:`clip_by_global_norm` by operations that a tape can differentiate."""
    norms = [vector_norm(_wide(array)) for array in arrays]
    norm = vector_norm(
        ops.stack([ops.astype(one, reduce(promote, [n.dtype for n in norms])) for one in norms])
    )
    # This order avoids NaN for a norm of 0 and for an infinite max_norm.
    scale = ops.divide(1.0, ops.maximum(ops.divide(norm, max_norm), 1.0))
    return [ops.astype(ops.multiply(_wide(array), scale), array.dtype, copy=False) for array in arrays], norm


def _clipped(arrays: Sequence[Array], max_norm: float) -> tuple[list[Array], Array]:
    given, layouts = _planned(arrays)
    norm = _norm(layouts)
    with on(given[0].device):
        sums, found = norm(given, max_norm)
        return _scaling(layouts)(given, sums), found


def norm_of(arrays: Sequence[Array]) -> Array:
    """The 2-norm of arrays of one device together: 0-d, float32 or wider."""
    given, layouts = _planned(arrays)
    with on(given[0].device):
        return _norm(layouts)(given, 1.0)[1]


def scaled_by(arrays: Sequence[Array], factor: Array) -> list[Array]:
    """Arrays of one device, multiplied by a float64 number there and rounded."""
    given, layouts = _planned(arrays)
    with on(given[0].device):
        return _scaling(layouts)(given, factor)


def _planned(arrays: Sequence[Array]) -> tuple[list[Array], tuple[Layout, ...]]:
    given = [array if array._planned().order is not None else array.contiguous() for array in arrays]
    return given, tuple([one._planned() for one in given])


def _by_dtype(layouts: Sequence[Layout]) -> dict[DType, list[int]]:
    """The indices of the arrays of each dtype."""
    found: dict[DType, list[int]] = {}
    for i, layout in enumerate(layouts):
        found.setdefault(layout.dtype, []).append(i)
    return found


@cache
def _multiple(dtype: DType) -> Program:
    """The multiple of an array by a float64 number, rounded."""
    acc = dtypes.info(dtype).acc
    with tracing("scale"):
        x, factor = Expr(input_node(0, dtype)), Expr(input_node(1, dtypes.float64))
        y = (x.astype(acc) * factor.astype(acc)).astype(dtype)
    return program("scale", [y.node], [dtype, dtypes.float64])


class _Norm:
    """The launches for the norm of arrays of known layouts: the norms of pieces, and the global norm."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        device, end = layouts[0].device, 1
        wide = reduce(promote, [dtypes.info(layout.dtype).acc for layout in layouts])
        root: dict[str, Any] = {"elem": wide, "block": threads(device, 1024)}
        device.backend.ahead(partial(_NORM.bind, device, **root), plans_alone=True)
        self._norms: list[tuple[Pieces, list[int], Any]] = []
        for dtype, indices in _by_dtype(layouts).items():
            vec = _HOST_SUMS if serial(device) else WIDEST // dtype.itemsize
            for part, capacity in shared_out(len(indices), 1, 2):
                own = indices[part]
                pieces = Pieces.of(device, [layouts[i].size for i in own], capacity)
                variables = Pieces.variables(device, capacity)
                bound = _NORMS.bind(device, elem=dtype, vec=vec, **variables)
                grid, tail = (pieces.pieces, 1, 1), (end, pieces.sizes)
                launch = bound.function.prepare(grid, (bound.block[0], 1, 1), 0, tail, (8 * capacity,))
                if pieces.pieces:
                    self._norms.append((pieces, own, launch))
                end += pieces.pieces
        self._count, self._sums = end - 1, fresh_layout(device, dtypes.float64, (end,))
        self._found = fresh_layout(device, wide, ())
        self._root = _NORM.bind(device, **root).function.prepare((1, 1, 1), (root["block"], 1, 1), 0, ())

    def __call__(self, given: Sequence[Array], max_norm: float) -> tuple[Array, Array]:
        """The factor that clips the global norm and, behind it, the norms of the pieces; and the global norm."""
        sums, found = Array._made(self._sums), Array._made(self._found)
        for pieces, own, launch in self._norms:
            table = pieces.table([given[i]._operand for i in own])
            launch(operand(table), sums._operand)
        self._root(sums._operand, found._operand, self._count, float(max_norm))
        return sums, found


class _Scaling:
    """The launches that multiply arrays of known layouts by a number."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        device, self._scales = layouts[0].device, list[tuple[list[int], Many]]()
        for dtype, indices in _by_dtype(layouts).items():
            made = [
                fresh_layout(device, dtype, one.shape, None if one.contiguous else one.order)
                for one in (layouts[i] for i in indices)
            ]
            for part, plan in split(_multiple(dtype), device, made, (1,)):
                self._scales.append((indices[part], plan))

    def __call__(self, given: Sequence[Array], factor: Array) -> list[Array]:
        """The multiples of ``given`` by the first element of an array."""
        factor._planned()
        result = list(given)
        for own, plan in self._scales:
            for i, made in zip(own, plan.run([*[given[i] for i in own], factor]), strict=True):
                result[i] = made
        return result


_norm, _scaling = lru_cache(maxsize=8192)(_Norm), lru_cache(maxsize=8192)(_Scaling)


def _wide(array: Array) -> Array:
    """The array in its accumulator dtype, in which squares do not overflow."""
    return ops.astype(array, dtypes.info(array.dtype).acc, copy=False)
