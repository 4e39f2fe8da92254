"""Launches kept in files, so that one that fails on a GPU can be run again where there is none.

A file is written before its launch, so that it is there if the launch ends the process or the GPU's context, and
another one after it, with what it wrote. What cannot be written is told by a warning: the program goes on.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from .. import dtypes
from ..array import Array, creation
from ..device import Device, capture_hooks
from ..errors import LaunchError
from ..files import replacing
from ..text import render
from .sizes import as_dim3

if TYPE_CHECKING:
    from .kernel import Call, Kernel

#: Launches that are kept, and the bytes of an array up to which it is kept whole.
KEEP, WHOLE = 8, 64 << 20
#: What a file with a launch ends with, and one with what it wrote.
_LAUNCH, _RESULT = ".launch.npz", ".result.npz"
_FORMAT = 1
#: Addresses are kept modulo this, for kernels that read vectors.
_ALIGNMENT = 256


class Recorder:
    """Launches kernels as usual, and keeps the last launches in files.

    Args:
        folder: where; it is made.
        keep: how many launches stay.
        whole: bytes up to which an array is kept whole. Of a larger one the least and the largest element are.
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int = KEEP, whole: int = WHOLE) -> None:
        self.folder, self.keep, self.whole = Path(folder), keep, whole
        #: Launches in its place.
        self.launches: Callable[[Call], None] = lambda call: call.launch()
        self._numbers = itertools.count(1)
        self._kept: list[Path] = []
        self._lock, self._process = threading.Lock(), os.getpid()

    def __call__(self, call: Call) -> None:
        if capture_hooks.recorder() is not None:
            return self.launches(call)  # nothing may be copied from the GPU while a step is recorded
        kernel, args, grid, shared, overrides = call
        device, known = kernel._defaults(args, dict(overrides))
        bound = kernel.bind(device, **known)
        path = self._begin(kernel.name)
        arrays = _Arrays(self.whole)
        described = {
            "format": _FORMAT,
            "kernel": _described(kernel),
            "overrides": _variables(known),
            "device": str(device),
            "grid": as_dim3(bound.grid_for(args) if grid is None else grid, "grid"),
            "shared": shared,
            "globals": {name: _hex(kernel._state.get(device, name)) for name in bound.function.variables},
            "args": [arrays.add(arg) for arg in args],
        }
        self._write(path, described, arrays.data)
        result = path.with_name(path.name.replace(_LAUNCH, _RESULT))
        try:
            self.launches(call)
            device.synchronize()
        except Exception as error:
            self._write(result, {"failed": f"{type(error).__name__}: {error}"}, [])
            raise
        after = _Arrays(self.whole, ranges=False)
        written = {
            str(i): after.add(arg)
            for i, (param, arg) in enumerate(zip(bound.signature.params, args, strict=False))
            if not param.const and isinstance(arg, Array)
        }
        self._write(result, {"written": written}, after.data)

    def _begin(self, name: str) -> Path:
        word = "".join(c if c.isalnum() else "_" for c in name[:50])
        if self._process != os.getpid():  # a forked one, which leaves alone what the other has kept
            self._lock, self._process, self._kept = threading.Lock(), os.getpid(), []
        with self._lock:
            path = self.folder / f"{os.getpid()}-{next(self._numbers):06}-{word}{_LAUNCH}"
            self._kept.append(path)
            old = self._kept[: -self.keep]
            self._kept = self._kept[-self.keep :]
        for one in old:
            for suffix in (_LAUNCH, _RESULT):
                with suppress(OSError):
                    one.with_name(one.name.replace(_LAUNCH, suffix)).unlink()
        return path

    def _write(self, path: Path, described: dict[str, Any], data: Sequence[Any]) -> None:
        packed = io.BytesIO()
        text = np.frombuffer(json.dumps(described, default=str).encode(), np.uint8)
        np.savez(packed, launch=text, **{f"a{i}": one for i, one in enumerate(data)})
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(packed.getvalue())
        except OSError as error:
            warnings.warn(f"a launch is not kept: {error}", RuntimeWarning, stacklevel=2)


def _described(kernel: Kernel) -> dict[str, Any]:
    return {
        "text": render.source_of(kernel.template),
        "label": kernel.template,
        "name": kernel.name,
        "block": list(kernel.block),
        "plain": kernel.plain,
        "entry": kernel.entry,
        "variables": _variables(kernel.variables),
    }


def _variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Template variables for JSON: dtypes by name, tuples as lists."""

    def plain(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        if isinstance(value, dict):
            return {"dict": {str(key): plain(one) for key, one in value.items()}}
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        with suppress(TypeError):
            return {"dtype": dtypes.as_dtype(value, "variable").name}
        return {"unknown": repr(value)}

    return {name: plain(value) for name, value in variables.items()}


def _read_variables(variables: dict[str, Any]) -> dict[str, Any]:
    def read(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(read(one) for one in value)
        if isinstance(value, dict):
            if "unknown" in value:
                raise LaunchError(
                    f"template variable {value['unknown']} is not kept in files, so the launch cannot be replayed"
                )
            if "dtype" in value:
                return dtypes.as_dtype(value["dtype"], "variable")
            return {key: read(one) for key, one in value["dict"].items()}
        return value

    return {name: read(value) for name, value in variables.items()}


def _hex(value: bytes | None) -> str:
    return (value or b"").hex()


class _Arrays:
    """Arguments for JSON, and the bytes of arrays."""

    def __init__(self, whole: int, ranges: bool = True) -> None:
        self.data: list[Any] = []
        self._whole, self._ranges = whole, ranges

    def add(self, arg: Any) -> Any:
        """The description of an argument."""
        if isinstance(arg, Array):
            return self._array(arg)
        if isinstance(arg, (list, tuple)):
            return {"list": [self.add(one) for one in arg]}
        if isinstance(arg, np.generic) and arg.dtype.names is not None:
            return {"bytes": arg.tobytes().hex()}
        if isinstance(arg, np.generic):
            value = arg.item()
            return self.add(arg.astype(np.float64) if isinstance(value, np.longdouble) else value)
        if isinstance(arg, (bytes, bytearray)):
            return {"bytes": bytes(arg).hex()}
        if isinstance(arg, complex):
            return {"complex": [arg.real, arg.imag]}
        if arg is None or isinstance(arg, (bool, int, float)):
            return {"value": arg}
        return {"unknown": type(arg).__name__}

    def _array(self, array: Array) -> Any:
        if array.device.addressable:
            address = int(array._data.__array_interface__["data"][0])
        else:
            address = array.device.backend.operand(array._data)
        form: dict[str, Any] = {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "strides": list(array.strides),
            "at": address % _ALIGNMENT,
        }
        if array.nbytes <= self._whole:
            return {**form, "array": self._whole_of(array.numpy())}
        if not self._ranges or not array.size or array.dtype.kind == "c":
            return form
        data, kind = array._data, int if array.dtype.kind in "iub" else float
        with (
            array.device.activate(),
            suppress(TypeError, ValueError),
        ):  # CuPy reduces not every dtype; none is finite
            if kind is float:
                data = data[array.device.xp.isfinite(data)]
            form["range"] = [kind(data.min()), kind(data.max())]
        return form

    def _whole_of(self, values: Any) -> int:
        self.data.append(np.frombuffer(values.tobytes(), np.uint8))
        return len(self.data) - 1


class Recorded(NamedTuple):
    """A launch, read from its file.

    Attributes:
        path: the file.
        kernel: the kernel.
        args: its arguments, on the host.
        grid, shared, overrides: as of a launch.
        device: where it ran.
        drawn: the arguments of which not all elements are kept, and others were drawn, by position.
        failed: how it failed; None if that is not known, as where the process ended with it.
        written: what it wrote there, by the position of the argument; None if it did not end.
    """

    path: Path
    kernel: Kernel
    args: list[Any]
    grid: Any
    shared: int
    overrides: dict[str, Any]
    device: str
    drawn: list[int]
    failed: str | None
    written: dict[int, Any] | None


def read(path: str | os.PathLike[str], kernel_class: type[Kernel]) -> Recorded:
    """Read a launch: of a folder the last one that did not end, or else the last one.

    Raises:
        LaunchError: it has an argument that is not kept.
        ValueError: it is not the file of a launch.
    """
    chosen = _chosen(Path(path))
    try:
        return _recorded(chosen, kernel_class)
    except (AttributeError, IndexError, KeyError, MemoryError, TypeError) as error:
        raise ValueError(f"{chosen}: expected a launch that CUKERN_RECORD has kept: {error!r}") from None


def _recorded(chosen: Path, kernel_class: type[Kernel]) -> Recorded:
    described, data = _load(chosen)
    if described.get("format") != _FORMAT:
        raise ValueError(f"{chosen}: expected a launch that CUKERN_RECORD has kept")
    about = described["kernel"]
    # A template is named by its label: as a part of a plain text the kernel's name would give lines other numbers.
    label, variables = about["label"].strip("<>"), _read_variables(about["variables"])
    kernel = kernel_class(about["text"], tuple(about["block"]), label, plain=about["plain"], **variables)
    kernel.name = about["name"]
    if about["entry"] is not None:
        kernel = kernel[about["entry"]]
    args = [_read(one, data, i) for i, one in enumerate(described["args"])]
    host = Device("host")
    for name, value in described["globals"].items():
        kernel._state.set(host, name, bytes.fromhex(value))
    result = chosen.with_name(chosen.name.replace(_LAUNCH, _RESULT))
    failed, written = None, None
    if result.exists():
        after, more = _load(result)
        failed = after.get("failed")
        if failed is None:
            written = {
                int(i): _read(one, more, int(i)) for i, one in after["written"].items() if "array" in one
            }
    drawn = [
        i for i, one in enumerate(described["args"]) if any("array" not in part for part in _arrays_of(one))
    ]
    grid = described["grid"]
    return Recorded(
        chosen,
        kernel,
        args,
        tuple(grid) if isinstance(grid, list) else grid,
        described["shared"],
        _read_variables(described["overrides"]),
        described["device"],
        drawn,
        failed,
        written,
    )


def _chosen(path: Path) -> Path:
    if not path.is_dir():
        if not path.name.endswith(_LAUNCH):
            raise ValueError(
                f"{path}: expected a folder that CUKERN_RECORD names, or a file *{_LAUNCH} in it"
            )
        return path
    found = sorted(path.glob(f"*{_LAUNCH}"), key=lambda one: (one.stat().st_mtime_ns, one.name))
    if not found:
        raise ValueError(f"{path}: there is no launch in this folder")
    for one in reversed(found):
        result = one.with_name(one.name.replace(_LAUNCH, _RESULT))
        if not result.exists() or "failed" in _load(result)[0]:
            return one
    return found[-1]


def _load(path: Path) -> tuple[dict[str, Any], Any]:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            stored = dict(found)
        return json.loads(stored["launch"].tobytes()), stored
    except (AttributeError, EOFError, KeyError, TypeError, ValueError, BadZipFile) as error:
        raise ValueError(f"{path}: expected a launch that CUKERN_RECORD has kept: {error}") from None


def _read(form: dict[str, Any], data: Any, position: int) -> Any:
    if "value" in form:
        return form["value"]
    if "complex" in form:
        return complex(*form["complex"])
    if "bytes" in form:
        return bytes.fromhex(form["bytes"])
    if "list" in form:
        return [_read(one, data, position) for one in form["list"]]
    if "unknown" in form:
        raise LaunchError(
            f"argument {position}: a {form['unknown']} is not kept in files, so the launch cannot be replayed"
        )
    dtype, shape = dtypes.as_dtype(form["dtype"], "argument"), tuple(form["shape"])
    size = int(np.prod(shape, dtype=np.int64))
    if "array" in form:
        values = np.frombuffer(data[f"a{form['array']}"].tobytes(), dtype)
    else:
        low, high = form.get("range", [0, 0])
        rng = np.random.default_rng(position)
        if dtype.kind in "iub":
            values = rng.integers(
                low, high, size, "u1" if dtype.kind == "b" else dtype, endpoint=True
            ).astype(dtype)
        else:
            share = rng.uniform(0, 1, size)  # the difference of the two may be too large for a number
            values = (low * (1 - share) + high * share).astype(dtype)
    return _placed(values.reshape(shape), form["strides"], form["at"])


def _placed(values: Any, strides: Sequence[int], at: int) -> Array:
    """An array on the host with these strides, whose address lies as far from :data:`_ALIGNMENT` as ``at``."""
    step = values.dtype.itemsize
    pad, ends = (
        _ALIGNMENT // step,
        [(n - 1) * one // step for n, one in zip(values.shape, strides, strict=True)],
    )
    before, after = -sum(one for one in ends if one < 0), sum(one for one in ends if one > 0)
    span = before + after + 1 if values.size else 0
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if span * step > memory:  # the system may promise more than it has
        raise MemoryError(
            f"an array of shape {values.shape} with strides {tuple(strides)} spans {span * step} bytes, and this "
            f"machine has {memory}"
        )
    whole = creation.empty(span + pad, dtype=values.dtype, device="host")._data
    start = int(whole.__array_interface__["data"][0])
    skip = next((k for k in range(pad) if (start + (k + before) * step - at) % _ALIGNMENT == 0), 0)
    target = np.ndarray(values.shape, values.dtype, whole[skip : skip + span], before * step, tuple(strides))
    target[...] = values
    return Array._wrap(target, Device("host"))


def _arrays_of(form: dict[str, Any]) -> list[dict[str, Any]]:
    """The descriptions of the arrays of an argument."""
    return [form] if "shape" in form else [part for one in form.get("list", ()) for part in _arrays_of(one)]
