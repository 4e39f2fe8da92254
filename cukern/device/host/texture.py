"""Textures and surfaces of the host, as ``runtime/include/cukern_texture.h`` reads them."""

from __future__ import annotations

import ctypes
import re
import struct
from typing import Any

import numpy as np

from ... import dtypes
from ..interface import TextureForm

#: The first word of each, by which kernels tell it from anything else.
_MARK = 0x6C706D61736E656B
_USES = re.compile(r"\bcuda(?:Texture|Surface)Object_t\b")


def header(text: str) -> str:
    """The line that includes what textures need in a kernel's text, if it takes any."""
    return "#include <cukern_texture.h>\n" if _USES.search(text) else ""


def _border(form: TextureForm) -> bytes:
    """An element of the border's color. Of integers that are fetched as such, a GPU takes the bits of the floats."""
    row, color = dtypes.info(form.dtype), np.array(form.border, np.float32)
    texel: np.ndarray[Any, Any]
    if row.kind == "f":
        largest = np.finfo(form.dtype).max
        kept = np.where(np.isinf(color), color, np.clip(color, -largest, largest))
        texel = kept.astype(form.dtype)
        # A GPU cuts off what a half cannot hold.
        rounded_up = np.abs(texel.astype(np.float64)) > np.abs(kept)
        texel = np.where(rounded_up, np.nextafter(texel, form.dtype.type(0)), texel).astype(form.dtype)
    elif form.normalized_float:
        largest = np.iinfo(form.dtype).max
        lowest = -1 if row.kind == "i" else 0
        steps = np.clip(np.nan_to_num(color, nan=0), lowest, 1) * np.float32(largest)
        texel = np.copysign(np.ceil(np.abs(steps) - 0.5), steps).astype(form.dtype)  # halves towards zero
    else:
        texel = color.view(np.uint32).astype(f"u{row.itemsize}")
    return texel.tobytes()


class Texels:
    """The elements of textures and surfaces: a C-contiguous ndarray."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data

    def copy_from(self, data: np.ndarray[Any, Any]) -> None:
        """Set the elements."""
        self.data[...] = data

    def copy_to(self, data: np.ndarray[Any, Any]) -> None:
        """Copy the elements to an ndarray."""
        data[...] = self.data


class Object:
    """A texture or a surface: ``handle`` is the kernel's argument."""

    def __init__(self, texels: Texels, form: TextureForm) -> None:
        row = dtypes.info(form.dtype)
        extent = (*reversed(form.extent), 1, 1)[:3]
        packed = struct.pack(
            "=QQ3qq3I4B6B16s",
            *(
                _MARK,
                texels.data.ctypes.data,
                *extent,
                max(1, form.layers),
                len(form.extent),
                form.channels,
                row.itemsize,
            ),
            *("iuf".index(row.kind), *form.address, form.linear_filter, form.normalized_float),
            *(form.normalized_coords, form.layers > 0, form.linear_memory, form.surface, _border(form)),
        )
        self._texels = texels
        self._memory = ctypes.create_string_buffer(packed, len(packed) + 16)
        offset = -ctypes.addressof(self._memory) % 16
        ctypes.memmove(ctypes.addressof(self._memory) + offset, packed, len(packed))
        self.handle = ctypes.addressof(self._memory) + offset
