"""Arguments of other sizes and layouts, derived from those that a caller gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import pytree
from ..array import Array
from ..autodiff.cotangents import is_array, is_float
from ..device import Device
from ..dtypes import DType


class Sized(NamedTuple):
    """Arguments, and what is different about them: ``"size 5 is 33"``."""

    what: str
    args: list[Any]


def sizes_around(blocks: Iterable[int]) -> list[int]:
    """0, 1, and for each block or tile one less, it, one more, and twice and 3 more; in ascending order."""
    sizes = {0, 1}
    for block in blocks:
        sizes |= {block - 1, block, block + 1, 2 * block + 3}
    return sorted(size for size in sizes if size >= 0)


def resized(
    args: Sequence[Any], sizes: Sequence[int], largest: int, seed: int, fixed: Set[int] = frozenset()
) -> Iterator[Sized]:
    """Arguments in which each size of an axis that is not ``fixed`` is replaced by each of ``sizes``.

    Axes of equal size are replaced together.

    Floats lie between two of the given array's. Integers are drawn from it, and taken modulo a smaller size, as they
    may be indices; without anything to index there is no case. Shapes of more than ``largest`` elements are left out.
    """
    arrays = [leaf for leaf in pytree.leaves(list(args)) if is_array(leaf)]
    for old in dict.fromkeys(size for array in arrays for size in array.shape):
        for new in sizes if old not in fixed else ():
            shapes = [tuple(new if size == old else size for size in array.shape) for array in arrays]
            if new == old or max(np.prod(shape, dtype=float) for shape in shapes) > largest:
                continue
            indexed = [array for array in arrays if array.dtype.kind in "iu" and array.size]
            if new == 0 and indexed:
                continue
            rng = np.random.default_rng([seed, old, new])
            drawn_arrays = (
                drawn(rng, array, shape, new) for array, shape in zip(arrays, shapes, strict=True)
            )
            leaves = [next(drawn_arrays) if is_array(leaf) else leaf for leaf in pytree.leaves(list(args))]
            yield Sized(f"size {old} is {new}", pytree.replace(list(args), leaves))


def drawn(rng: np.random.Generator, array: Array, shape: tuple[int, ...], size: int) -> Array:
    """An array of another shape with values like those of ``array``; integers are less than ``size`` where they can."""
    values = array.numpy().ravel()
    if not values.size:
        values = np.ones(1, values.dtype)
    if array.dtype.kind in "iu" and size:
        values = values % values.dtype.type(min(size, np.iinfo(values.dtype).max))
    if not is_float(array.dtype) or array.dtype.kind == "c":
        return on(rng.choice(values, shape), array.dtype, array.device)
    wide = values.astype(np.float64)
    between = rng.uniform(size=shape)
    values = rng.choice(wide, shape) * between + rng.choice(wide, shape) * (1 - between)
    if wide.min() == wide.max():
        values = values * rng.uniform(0.9, 1.1, shape)
    return on(values, array.dtype, array.device)


def is_floating(value: object) -> bool:
    """Whether something is an array of floats or of complex numbers."""
    return is_array(value) and is_float(value.dtype)


def is_real(value: Any) -> bool:
    """Whether something is an array of floats, complex ones left out."""
    return is_floating(value) and value.dtype.kind != "c"


def directions(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Random values of both signs, none near zero."""
    return np.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape))


def index_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element by its number in C order."""
    return tuple(int(i) for i in np.unravel_index(int(flat), shape))


def near(a: Any, b: Any, allowed: Any) -> Any:
    """Where ``a`` is within a distance of ``b``, or equal to it, or NaN as it is."""
    with np.errstate(invalid="ignore", over="ignore"):
        return (np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b))


def short(error: object) -> str:
    """An error on one line."""
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def on(values: npt.NDArray[Any], dtype: DType, device: Device) -> Array:
    """NumPy's values as an array of a device."""
    with device.activate():
        return Array._wrap(device.xp.asarray(np.asarray(values).astype(dtype)), device)


def cast(args: Sequence[Any], dtype: DType, device: Device | None = None) -> list[Any]:
    """The arguments with their floating arrays in ``dtype``, on a device if one is given."""

    def moved(leaf: Any) -> Any:
        if not is_array(leaf):
            return leaf
        return on(leaf.numpy(), dtype if is_real(leaf) else leaf.dtype, device or leaf.device)

    result: list[Any] = pytree.map(moved, list(args))
    return result


def layouts(array: Array) -> Iterator[tuple[str, Array, Array]]:
    """Views of other layouts, each with a contiguous array of the same values."""
    values, device = array.numpy(), array.device
    with device.activate():
        xp = device.xp
        if array.ndim:
            wide = np.repeat(values, 2, axis=-1)
            yield "has strides", Array._wrap(xp.asarray(wide)[..., ::2], device), array
            spread = (
                xp.broadcast_to(xp.asarray(values[:1]), values.shape) if len(values) else xp.asarray(values)
            )
            dense = on(
                np.broadcast_to(values[:1], values.shape) if len(values) else values, array.dtype, device
            )
            yield "is broadcast", Array._wrap(spread, device), dense
        if array.ndim > 1:
            transposed = xp.asarray(np.ascontiguousarray(values.T)).T
            yield "is transposed", Array._wrap(transposed, device), array
        moved = xp.empty(array.size + 1, array.dtype)
        moved[1:] = xp.asarray(values.ravel())
        yield "is misaligned", Array._wrap(moved[1:].reshape(values.shape), device), array
