"""The arrays of a pytree as one vector, and back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, pytree
from ..array import Array
from ..array.creation import asarray, device_of, zeros
from ..autodiff import tape
from ..elementwise.function import astype
from ..elementwise.operands import on_device, require_array, view
from ..elementwise.row import is_scalar
from ..pytree import Leaf
from .joins import concat
from .views import reshape


def ravel(tree: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Concatenate the arrays of ``tree`` to a vector, and return it with the inverse function.

    Both are differentiable. JAX calls this ``ravel_pytree``, autograd ``misc.flatten``.

    Args:
        tree: a pytree of arrays on one device, and of numbers.

    Returns:
        ``(vector, unravel)``. The dtypes of the arrays promote to that of the vector; ``unravel`` takes a vector of
        that length and any dtype, and restores the shape and dtype of each array.

    Raises:
        TypeError: a leaf is neither an array nor a number.
        ValueError: in ``unravel``, the vector has another length.

    >>> import cukern as ck
    >>> vector, unravel = ck.tree.ravel({"w": ck.asarray([[1.0, 2.0]]), "b": ck.asarray(3.0)})
    >>> vector.tolist()
    [1.0, 2.0, 3.0]
    >>> unravel(2 * vector)["w"].tolist()
    [[2.0, 4.0]]
    """
    given = list(pytree.leaves_with_path(tree, "tree"))
    vector, parts = _raveled(given)
    result = pytree.Structure(tree)
    return vector, lambda new: result.unflatten(parts(new))


def _raveled(leaves: Sequence[Leaf]) -> tuple[Array, Callable[[Array], list[Array]]]:
    """The leaves as one vector, and a function that turns such a vector into a list of arrays like the leaves.

    Raises:
        TypeError: a leaf is neither an array nor a number.
    """
    device = device_of(value for _, value in leaves)
    arrays: list[Array] = []
    for path, value in leaves:
        if not isinstance(value, Array) and not is_scalar(value):
            raise TypeError(f"ravel: {path}: expected an array or a number, got {type(value).__name__}")
        arrays.append(value if isinstance(value, Array) else asarray(value, device=device))
    dtype = dtypes.result_type(*(array.dtype for array in arrays)) if arrays else dtypes.get_default_dtype()
    rows = [reshape(astype(array, dtype, copy=False), (-1,)) for array in arrays]
    vector = concat(rows) if rows else zeros(0, dtype)
    shapes = [array.shape for array in arrays]
    ends = list(itertools.accumulate((array.size for array in arrays), initial=0))
    kinds = [array.dtype for array in arrays]

    def parts(new: Array) -> list[Array]:
        new = require_array(new, "unravel", "vector")
        if new.shape != (ends[-1],):
            raise ValueError(f"unravel: expected a vector of shape ({ends[-1]},), got shape {new.shape}")
        result = _cut(new, shapes, ends)
        return [astype(one, kind, copy=False) for one, kind in zip(result, kinds, strict=True)]

    return vector, parts


@on_device
def _cut(x: Array, shapes: Sequence[tuple[int, ...]], ends: Sequence[int]) -> list[Array]:
    """The parts of a vector between ``ends``, with their shapes.

    It is recorded as one operation, whose derivative is one vector; one per part would make a vector of zeros each.
    """
    data = x._data
    spans = zip(itertools.pairwise(ends), shapes, strict=True)
    result = [view(x, data[start:end].reshape(shape)) for (start, end), shape in spans]
    if result and tape.recording((x,)):

        def vjp(cotangents: tuple[Any, ...], saved: object, needs: object) -> tuple[Array]:
            return (concat([reshape(cotangent, (-1,)) for cotangent in cotangents]),)

        tape.record("unravel", (x,), result, vjp)
    return result
