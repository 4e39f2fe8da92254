"""Boxes of an array: the slices of a part of it along each axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .graph import Pieces

Box = tuple[slice, ...]


def common(joined: Sequence[Pieces]) -> list[Box]:
    """The boxes of which each is within one box of each of several joined arrays of one shape."""
    if len(joined) == 1:
        return [box for box, _ in joined[0].boxes]
    cuts: list[set[int]] = [{0, n} for n in joined[0].shape]
    for one in joined:
        for box, _ in one.boxes:
            for own, part in zip(cuts, box, strict=True):
                own |= {part.start, part.stop}
    sides = [[slice(a, b) for a, b in itertools.pairwise(sorted(own))] for own in cuts]
    boxes: list[Box] = list(itertools.product(*sides))
    return boxes


def box_of(key: Sequence[Any], shape: tuple[int, ...]) -> tuple[Box, tuple[bool, ...]] | None:
    """The box of a basic key, and which axes the key keeps; None for steps, new axes and what is empty."""
    if ... in key:
        at = list(key).index(...)
        key = (*key[:at], *(slice(None),) * (len(shape) - len(key) + 1), *key[at + 1 :])
    key = (*key, *(slice(None),) * (len(shape) - len(key)))
    if len(key) != len(shape):
        return None
    box = []
    for part, n in zip(key, shape, strict=True):
        if type(part) is int and -n <= part < n:
            box.append(slice(part % n, part % n + 1))
        elif type(part) is slice:
            start, stop, step = part.indices(n)
            if step != 1 or stop <= start:
                return None
            box.append(slice(start, stop))
        else:
            return None
    return tuple(box), tuple([type(part) is slice for part in key])


def around(box: Box, shape: tuple[int, ...]) -> list[Box]:
    """The boxes of an array that are not in a box."""
    boxes: list[Box] = []
    for i, (one, n) in enumerate(zip(box, shape, strict=True)):
        rest = tuple([slice(0, m) for m in shape[i + 1 :]])
        boxes += [(*box[:i], slice(a, b), *rest) for a, b in ((0, one.start), (one.stop, n)) if a < b]
    return boxes
