"""Safetensors files, every number of which is checked before it is used.

Source of the format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..device import Device
from ..elementwise.operands import require_array
from ..files import replacing
from .checked import described, to_array

#: The dtypes of safetensors; None for those that cukern lacks.
_SAFETENSORS: dict[str, dtypes.DType | None] = {
    **{row.safetensors: row.dtype for row in dtypes.TABLE if row.safetensors},
    **dict.fromkeys(("F4", "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E4M3", "F8_E8M0"), None),
}
#: Bytes: the data begin at a multiple.
_ALIGNED = 8
#: NumPy's limit.
_MOST_AXES = 64


def save_safetensors(
    file: str | os.PathLike[str], arrays: Mapping[str, Array], /, metadata: Mapping[str, str] | None = None
) -> None:
    """Write named arrays of any dtype but complex128 to a safetensors file.

    An existing file is replaced when the new one is on the disk: an error or the process's end leave it as it is.

    Args:
        file: a path.
        arrays: the arrays by name. The format keeps ``__metadata__`` for itself.
        metadata: strings by name, stored with the arrays.

    Raises:
        TypeError: an array is of complex128, which the format does not have; or what is given is not of these types.
        ValueError: an array is named ``__metadata__``, or a name is no valid Unicode.
        OSError: the file cannot be written, as on a full disk; the error names it.

    Source of the format: https://github.com/huggingface/safetensors#format
    """
    data = _in_order(arrays)
    head: dict[str, Any] = {"__metadata__": _texts(metadata)} if metadata else {}
    end = 0
    for name, x in data.items():
        begin, end = end, end + x.nbytes
        kind = dtypes.info(x.dtype).safetensors
        head[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [begin, end]}
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    with replacing(file) as opened:
        opened.write(struct.pack("<Q", len(text)) + text)
        for x in data.values():
            opened.write(np.ascontiguousarray(x.numpy()).reshape(-1).view(np.uint8))


def _in_order(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays in the order of the file: those of wide elements first, so that all are aligned."""
    if not isinstance(arrays, Mapping):
        raise TypeError(f"save_safetensors: arrays: expected arrays by name, got {type(arrays).__name__}")
    checked = {}
    for name, given in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"save_safetensors: arrays: expected names that are strings, got {name!r:.60}")
        if name == "__metadata__":
            raise ValueError(
                "save_safetensors: arrays: '__metadata__' is the format's own name, give another"
            )
        _require_unicode("arrays", name)
        x = checked[name] = require_array(given, "save_safetensors", name)
        if not dtypes.info(x.dtype).safetensors:
            raise TypeError(
                f"{name!r}: safetensors has no dtype {x.dtype}: save it in an .npz file, or its parts"
            )
    return dict(sorted(checked.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))


def _texts(metadata: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(metadata, Mapping):
        raise TypeError(f"save_safetensors: metadata: expected texts by name, got {type(metadata).__name__}")
    for name, text in metadata.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(
                f"save_safetensors: metadata: expected texts by name, got {name!r:.60}: {text!r:.60}"
            )
        _require_unicode("metadata", name + text)
    return dict(metadata)


def _require_unicode(argument: str, text: str) -> None:
    """Refuse lone surrogates, which UTF-8 does not have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"save_safetensors: {argument}: {text!r:.60} is no valid Unicode") from None


def read_safetensors(path: str | os.PathLike[str], device: Device | str | None = "host") -> dict[str, Array]:
    """The arrays of a safetensors file, by name.

    Args:
        path: the file.
        device: where to put the arrays; the current device when None.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a safetensors file, or is damaged; the message names the array and the field.
        TypeError: an array has a dtype that cukern lacks.
    """
    file, name = Path(path).read_bytes(), os.fspath(path)
    try:
        fields, begin = _header(file)
        spans = [(*_offsets(field, entry), field) for field, entry in fields.items()]
        end = 0
        for first, last, field in sorted(spans):
            if first != end:
                raise ValueError(f"{field!r}: data_offsets: begins at {first}, where {end} is the next byte")
            end = last
        if end != len(file) - begin:
            raise ValueError(f"data_offsets: the arrays have {end} bytes, the file {len(file) - begin}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: expected a safetensors file: {error}") from None
    read = {}
    for first, last, field in spans:
        with described(name, repr(field)):
            data = memoryview(file)[begin + first : begin + last]
            dtype, shape = _SAFETENSORS[fields[field]["dtype"]], fields[field]["shape"]
            if dtype is None:
                raise TypeError(f"dtype: cukern does not have {fields[field]['dtype']}")
            read[field] = to_array(np.array(np.frombuffer(data, dtype).reshape(shape)), device)
    return read


def _header(file: bytes) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file without its metadata, and the offset of the arrays."""
    size = int.from_bytes(file[:8], "little")
    if not 2 <= size <= len(file) - 8:
        raise ValueError(f"the header's length is {size}, and {max(0, len(file) - 8)} bytes follow")

    def refuse(constant: str) -> None:
        raise ValueError(f"the header has {constant}")

    header = json.loads(file[8 : 8 + size].decode(), object_pairs_hook=_once, parse_constant=refuse)
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError("__metadata__: expected texts by name")
    return header, 8 + size


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"the name {name!r:.80} comes twice")
        values[name] = value
    return values


def _offsets(field: str, entry: Any) -> tuple[int, int]:
    """The begin and end offset of an entry, checked against its dtype and shape."""
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise ValueError(f"{field!r}: expected dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _SAFETENSORS:
        raise ValueError(f"{field!r}: dtype: {dtype!r} is unknown")
    for key, numbers in (("shape", shape), ("data_offsets", offsets)):
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(f"{field!r}: {key}: expected integers that are at least 0, got {numbers!r:.60}")
    if len(shape) > _MOST_AXES:
        raise ValueError(f"{field!r}: shape: expected at most {_MOST_AXES} sizes, got {len(shape)}")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(
            f"{field!r}: data_offsets: expected where the data begin and end, got {offsets!r:.60}"
        )
    known = _SAFETENSORS[dtype]
    if known is not None and math.prod(shape) * known.itemsize != offsets[1] - offsets[0]:
        raise ValueError(
            f"{field!r}: data_offsets: {offsets[1] - offsets[0]} bytes cannot be shape {shape!r:.60} of {dtype}"
        )
    return offsets[0], offsets[1]
