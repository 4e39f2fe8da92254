"""The axes that a kernel walks, and the strides of its operands along them, in elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ..array.layout import overlapping
from .sizes import LARGEST_INDEX

Strides = tuple[int, ...]


class Axes(NamedTuple):
    """The axes that a kernel walks: sizes, and the strides of each operand in elements."""

    shape: tuple[int, ...]
    steps: tuple[Strides, ...]


def collapse(shape: Sequence[int], steps: Sequence[Strides], by: Strides | None = None) -> Axes:
    """Describe the same elements with as few axes as possible.

    Axes of size 1 are dropped, and neighbouring axes that are contiguous for every operand are merged.

    Args:
        shape: the sizes of the axes, none 0.
        steps: the strides of each operand.
        by: an operand's strides, by which the axes are sorted, largest first.
    """
    axes = [i for i, n in enumerate(shape) if n != 1]
    if by is not None:
        axes.sort(key=lambda i: -abs(by[i]))
    sizes: list[int] = []
    kept: list[list[int]] = [[] for _ in steps]
    for i in axes:
        if sizes and all(have[-1] == step[i] * shape[i] for have, step in zip(kept, steps, strict=True)):
            sizes[-1] *= shape[i]
            for have, step in zip(kept, steps, strict=True):
                have[-1] = step[i]
            continue
        sizes.append(shape[i])
        for have, step in zip(kept, steps, strict=True):
            have.append(step[i])
    return Axes(tuple(sizes), tuple(map(tuple, kept)))


def contiguous_steps(shape: Sequence[int]) -> Strides:
    """The strides of an array in C order, in elements."""
    steps = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        steps[i] = steps[i + 1] * shape[i + 1]
    return tuple(steps)


def broadcast_steps(data: Any, shape: tuple[int, ...]) -> Strides:
    """The strides of ``data`` broadcast to ``shape``, in elements."""
    size = data.dtype.itemsize
    own = [0 if n == 1 else stride // size for n, stride in zip(data.shape, data.strides, strict=True)]
    return (0,) * (len(shape) - len(own)) + tuple(own)


def broadcast_shapes(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which the shapes broadcast.

    Raises:
        ValueError: they do not broadcast.
    """
    result = list(shapes[0])
    for shape in shapes[1:]:
        longer, shorter = (result, shape) if len(result) >= len(shape) else (list(shape), result)
        at = len(longer) - len(shorter)
        for i, n in enumerate(shorter, at):
            if n != longer[i] and 1 not in (n, longer[i]):
                raise ValueError(f"{name}: shapes {', '.join(map(str, shapes))} do not broadcast")
            longer[i] = n if longer[i] == 1 else longer[i]
        result = longer
    return tuple(result)


@lru_cache(maxsize=4096)
def broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another."""
    last = wanted[len(wanted) - len(shape) :]
    return len(shape) <= len(wanted) and all(n in (1, m) for n, m in zip(shape, last, strict=True))


def broadcast_axes(shape: tuple[int, ...], to: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of ``to`` along which ``shape`` is broadcast to it."""
    extra = len(to) - len(shape)
    return tuple(i for i, n in enumerate(to) if i < extra or n != shape[i - extra])


def needs_64_bits(axes: Axes) -> bool:
    """Whether an index or an offset may exceed 32 bits."""
    spans = [math.prod(axes.shape)]
    spans += [sum(abs(s) * n for s, n in zip(steps, axes.shape, strict=True)) for steps in axes.steps]
    return max(spans) > LARGEST_INDEX


def repeated(data: Any) -> bool:
    """Whether elements of an ndarray may share memory, as in a broadcast view."""
    return overlapping(data.shape, data.strides, data.dtype.itemsize)


def step_kind(step: int) -> str:
    """The kind of a stride in templates: ``"unit"``, ``"zero"`` or ``"any"``."""
    return {1: "unit", 0: "zero"}.get(step, "any")
