"""New arrays that the host's runtime makes sooner than Python does: cleared, or with the launch that fills them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from ..device.host.python import Form
from ..device.interface import Prepared
from .array import Array, Storage
from .layout import Layout

#: Parts that each array has of its own, and those that the new ones of a layout share, in the runtime's order.
_OWN, _SHARED = ("_ndarray", "_memory", "_operand", "_storage"), ("_layout", "device", "_key", "_viewed")

Maker = Callable[..., Array]


@cache
def _places() -> tuple[int, ...] | None:
    """The bytes from an array's address to its parts; None if this Python keeps them elsewhere."""
    names = (*_OWN, *_SHARED)
    marked: Any = object.__new__(Array)
    marks = [object() for _ in names]
    for name, mark in zip(names, marks, strict=True):
        setattr(marked, name, mark)
    size = ctypes.sizeof(ctypes.c_void_p)
    words = list((ctypes.c_void_p * (Array.__basicsize__ // size)).from_address(id(marked)))
    with suppress(ValueError):
        return tuple(words.index(id(mark)) * size for mark in marks)
    return None


def _form(layout: Layout) -> Form | None:
    """How the runtime makes arrays of a layout; None on a GPU, in an order other than C's, or without known places."""
    indices = _places()
    if indices is None or layout.device.which is not None or not layout.contiguous:
        return None
    like: Any = object.__new__(Array)
    like._layout, like.device, like._key, like._viewed = layout, layout.device, None, None
    return Form(layout.shape, layout.dtype, layout.nbytes, indices, like, Storage)


def maker(launch: Prepared | None, layout: Layout) -> Maker | None:
    """A function of arrays, or their operands, and numbers that launches with a new array behind them and returns it.

    Returns:
        None if the runtime cannot make the array, or does not pack the values.
    """
    form = _form(layout)
    if launch is None or form is None:
        return None

    def again(*values: Any) -> Array:
        result = Array._made(layout)
        launch(*[value._operand if isinstance(value, Array) else value for value in values], result._operand)
        return result

    backend: Any = layout.device.backend
    result: Maker | None = backend.maker(launch, form, again)
    return result


def cleared(layout: Layout) -> Maker:
    """A function that makes an array of a layout with all bytes 0, on the current device."""
    if layout.cleared is None:
        form, backend = _form(layout), layout.device.backend

        def plainly() -> Array:
            return Array._wrap(backend.zeros(layout.shape, layout.dtype), layout.device)

        host: Any = backend
        layout.cleared = plainly if form is None else host.newer(form, True)
    result: Maker = layout.cleared
    return result
