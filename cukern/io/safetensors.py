"""Safetensors files, read by the package ``safetensors``, which checks every number before it is used.

Source of the format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
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

#: The dtypes by their names in the format.
_DTYPES = {row.safetensors: row.dtype for row in dtypes.TABLE if row.safetensors}
#: Bytes: the data begin at a multiple.
_ALIGNED = 8


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
        ValueError: it is not a safetensors file, or is damaged; the message names what is wrong.
        TypeError: an array has a dtype that cukern lacks.
    """
    from safetensors import SafetensorError, deserialize

    name, read = os.fspath(path), {}
    try:
        fields = deserialize(Path(path).read_bytes())
    except SafetensorError as error:
        raise ValueError(f"{name}: expected a safetensors file: {error}") from None
    for field, entry in fields:
        with described(name, repr(field)):
            dtype = _DTYPES.get(entry["dtype"])
            if dtype is None:
                raise TypeError(f"dtype: cukern does not have {entry['dtype']}")
            read[field] = to_array(np.frombuffer(entry["data"], dtype).reshape(entry["shape"]), device)
    return read
