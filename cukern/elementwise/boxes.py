"""Boxes of an array: the slices of a part of it along each axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

from .graph import Piece, Pieces, all_of

Box = tuple[slice, ...]
Key = tuple[int | slice | EllipsisType, ...]


def common(joined: Sequence[Pieces], shape: tuple[int, ...]) -> list[Box]:
    """The boxes of which each is within one box of each of several joined arrays, which are broadcast to a shape."""
    first = joined[0].shape
    if first != shape:
        new = len(shape) - len(first)
        wide = all_of(shape)
        return [
            (
                *wide[:new],
                *[whole if n == 1 else part for part, whole, n in zip(box, wide[new:], first, strict=True)],
            )
            for box in common(joined, first)
        ]
    if len(joined) == 1:
        return [piece.box for piece in joined[0].boxes]
    cuts: list[set[int]] = [{0, n} for n in joined[0].shape]
    for one in joined:
        for piece in one.boxes:
            for own, part in zip(cuts, piece.box, strict=True):
                own |= {part.start, part.stop}
    return _between(cuts)


def shared(pieces: Sequence[Piece]) -> list[tuple[Box, list[tuple[int, Key]]]]:
    """Boxes of expressions of one shape, with the numbers of the pieces that have these elements, and their keys there.

    There are none of a piece that is no box of an expression.
    """
    if pieces[0].source is None:
        return []
    cuts: list[set[int]] = [set() for _ in pieces[0].shape]
    sources = [one.source or () for one in pieces]
    for source in sources:
        for own, part in zip(cuts, source, strict=True):
            own |= {part.start, part.stop}
    found = []
    for box in _between(cuts):
        inside = [
            (i, _moved(piece, box))
            for i, (piece, source) in enumerate(zip(pieces, sources, strict=True))
            if all(a.start <= b.start and b.stop <= a.stop for a, b in zip(source, box, strict=True))
        ]
        if inside:
            found.append((box, inside))
    return found


def _moved(piece: Piece, box: Box) -> Key:
    """The key, in the joined array, of a box of the expression of a piece; without the axes that the piece adds."""
    key: list[int | slice | EllipsisType] = []
    parts = iter(box)
    for own, at in zip(piece.key, piece.box, strict=True):
        if own is None:
            key.append(at.start)
        else:
            part, before = next(parts), at.start - own.start
            key.append(slice(part.start + before, part.stop + before))
    return (*key, ...)  # an ndarray also where it has no axes


def _between(cuts: Sequence[set[int]]) -> list[Box]:
    """The boxes between cuts across each axis."""
    return list(
        itertools.product(*[[slice(*ends) for ends in itertools.pairwise(sorted(own))] for own in cuts])
    )


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
