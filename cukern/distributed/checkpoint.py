"""Sharded checkpoints: every rank writes a part, and any number of ranks loads them.

A checkpoint is a folder of safetensors files, one a rank, and an index of the elements of each array in them. It is
written under another name and renamed when everything is on the disk: a folder by its final name is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..device import Device
from ..errors import DistributedError, require_int
from ..files import write_text
from ..io import read_safetensors, save_safetensors
from .group import Group, world

__all__ = ["Checkpoint", "Piece", "last_checkpoint", "load_checkpoint", "save_checkpoint"]

_INDEX = "index.json"
_FOLDER = re.compile(r"step-(\d+)")
#: Bytes: smaller arrays are written by one rank.
_UNDIVIDED = 1 << 16
#: NumPy's limit of an array's axes.
_MOST_AXES = 64


@dataclass(frozen=True)
class Piece:
    """This rank's elements of an array that is divided over ranks.

    Attributes:
        values: consecutive elements, as an array of one axis.
        shape: of the whole array.
        start: the index of the first one among the whole array's elements in C order.

    >>> import cukern as ck
    >>> Piece(ck.arange(3), shape=(2, 3), start=3).shape
    (2, 3)
    """

    values: Array
    shape: tuple[int, ...]
    start: int


def save_checkpoint(
    folder: str | os.PathLike[str],
    step: int,
    state: Mapping[str, Array | Piece],
    *,
    texts: Mapping[str, Any] | None = None,
    keep: int | None = None,
    group: Group | None = None,
) -> Path:
    """Write a checkpoint; all ranks of the group call this together.

    A process that is killed at any moment leaves the earlier checkpoints as they are, and this one whole or unseen.

    Args:
        folder: where checkpoints are; all ranks see the same files there.
        step: names the checkpoint, which must not be there yet.
        state: arrays by name, the same on all ranks, each of which writes an equal share of them; and pieces.
        texts: what else to keep, as values that JSON has, such as the states of samplers and generators; that of the
            group's first rank is written.
        keep: how many of the last checkpoints to leave in the folder, and always this one; all when None.
        group: the ranks; all when None.

    Returns:
        The checkpoint's folder.

    Raises:
        TypeError: ``step`` or ``keep`` is no integer, a value is no array, or JSON has not what ``texts`` holds.
        ValueError: ``step`` or ``keep`` is out of range, or pieces do not add up to a whole array.
        FileExistsError: there is a checkpoint of this step.
        OSError: a rank cannot write its file, as on a full disk; the error names it. All ranks raise it.
        DistributedError: a rank is gone, or does not come in time; no checkpoint was written.

    >>> import tempfile, cukern as ck
    >>> _ = ck.distributed.init()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint(folder, 100, {"w": ck.ones(3)}, texts={"seen": 6400}).name
    'step-000000100'
    """
    group = world() if group is None else group
    step = require_int("save_checkpoint: step", step, 0)
    keep = None if keep is None else require_int("save_checkpoint: keep", keep, 1)
    _require_state(state)
    text = _as_json(texts)
    root = Path(folder)
    final = root / f"step-{step:09d}"
    partial = root / f".{final.name}.partial"

    def together(part: str, work: Callable[[], None], own: bool = True) -> None:
        """Do this rank's part of the work, and raise on all ranks what goes wrong on one."""
        error: Exception | None = None
        try:
            if own:
                work()
        except Exception as one:
            error = one
        _agree(group, f"save_checkpoint{part}", f"step {step}", error)

    first = group.rank == 0
    with contextlib.ExitStack() as ended:
        together("", lambda: _begin(final, partial, ended), first)
        together(": files", lambda: _write_part(partial, state, group))
        together(": index", lambda: _complete(partial, final, step, text, keep), first)
    return final


def _require_state(state: Any) -> None:
    if not isinstance(state, Mapping):
        raise TypeError(f"save_checkpoint: state: expected arrays by name, got {type(state).__name__}")
    for name, value in state.items():
        if not isinstance(name, str):
            raise TypeError(f"save_checkpoint: state: expected names that are strings, got {name!r:.60}")
        if not isinstance(value, Array | Piece):
            raise TypeError(
                f"save_checkpoint: state: {name!r:.80}: expected an Array or a Piece, got {type(value).__name__}"
            )


def _as_json(texts: Any) -> str:
    if texts is not None and not isinstance(texts, Mapping):
        raise TypeError(f"save_checkpoint: texts: expected values by name, got {type(texts).__name__}")
    try:
        return json.dumps(dict(texts or {}))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"save_checkpoint: texts: expected values that JSON has: {error}") from None


#: Errors of one rank that all ranks raise; others become the last.
_ERRORS = (FileExistsError, ValueError, TypeError, OSError)


def _agree(group: Group, call: str, form: str, error: Exception | None) -> None:
    """Wait until all ranks are here, and raise on all of them what went wrong on one."""
    kind = next((i for i, one in enumerate(_ERRORS) if isinstance(error, one)), len(_ERRORS) - 1)
    told = "" if error is None else f"{kind} {error}"
    try:
        _, all_told = group.meet(call, form, payload=told)
    except DistributedError:
        if error is not None:
            raise error from None
        raise
    if error is not None:
        raise error
    for rank, one in zip(group.ranks, all_told, strict=False):
        if one:
            number, _, why = one.partition(" ")
            raise _ERRORS[int(number)](f"save_checkpoint: rank {rank}: {why}")


def _begin(final: Path, partial: Path, ended: contextlib.ExitStack) -> None:
    """Create the folder of the partial checkpoint, which is removed if saving ends before it is complete."""
    if final.exists():
        raise FileExistsError(f"save_checkpoint: {final} is there already")
    final.parent.mkdir(parents=True, exist_ok=True)
    for left in final.parent.glob(".step-*.partial"):
        _remove_left(left)
    partial.mkdir()
    ended.callback(shutil.rmtree, partial, ignore_errors=True)
    lock = os.open(partial, os.O_RDONLY)
    ended.callback(os.close, lock)
    with contextlib.suppress(OSError):  # not every file system has locks; nobody gets one there
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_left(partial: Path) -> None:
    """Remove what a killed process left: its lock is free."""
    with contextlib.suppress(OSError):
        lock = os.open(partial, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(partial)
        finally:
            os.close(lock)


def _write_part(partial: Path, state: Mapping[str, Array | Piece], group: Group) -> None:
    pieces = _own_part(state, group)
    file = f"rank-{group.rank:05d}-of-{group.size:05d}.safetensors"
    save_safetensors(partial / file, {name: piece.values for name, piece in pieces.items()})
    entries = {
        name: {
            "dtype": str(piece.values.dtype),
            "shape": list(piece.shape),
            "start": piece.start,
            "size": piece.values.size,
        }
        for name, piece in pieces.items()
    }
    write_text(partial / f"{file}.json", json.dumps({"names": list(state), "pieces": entries}))


def _own_part(state: Mapping[str, Array | Piece], group: Group) -> dict[str, Piece]:
    """What this rank writes: its pieces, and its share of arrays that all ranks have."""
    pieces: dict[str, Piece] = {}
    turn = 0
    for name, value in state.items():
        if isinstance(value, Piece):
            pieces[name] = value
            continue
        flat = value.reshape(-1)
        if value.nbytes < _UNDIVIDED:
            if turn % group.size == group.rank:
                pieces[name] = Piece(flat, value.shape, 0)
            turn += 1
            continue
        begin, end = (value.size * k // group.size for k in (group.rank, group.rank + 1))
        pieces[name] = Piece(flat[begin:end], value.shape, begin)
    return pieces


def _complete(partial: Path, final: Path, step: int, texts: str, keep: int | None) -> None:
    """Write the index of all ranks' files, and give the folder its final name."""
    arrays: dict[str, Any] = {}
    names: dict[str, None] = {}
    for listed in sorted(partial.glob("*.safetensors.json")):
        part = json.loads(listed.read_text())
        names |= dict.fromkeys(part["names"])
        for name, entry in part["pieces"].items():
            one = arrays.setdefault(name, {"dtype": entry["dtype"], "shape": entry["shape"], "pieces": []})
            if (one["dtype"], one["shape"]) != (entry["dtype"], entry["shape"]):
                raise ValueError(
                    f"save_checkpoint: {name!r}: ranks have it as {one['dtype']} {one['shape']} and {entry['dtype']} "
                    f"{entry['shape']}"
                )
            one["pieces"].append([listed.name.removesuffix(".json"), entry["start"], entry["size"]])
        listed.unlink()
    for name in names:
        if name not in arrays:
            raise ValueError(
                f"save_checkpoint: {name!r}: no rank has written it; the names of arrays must be the same, in one "
                "order, on all ranks"
            )
    for name, one in arrays.items():
        one["pieces"].sort(key=lambda piece: (piece[1], piece[2]))
        end = 0
        for _, start, size in one["pieces"]:
            if start != end:
                raise ValueError(
                    f"save_checkpoint: {name!r}: elements from {min(start, end)} on are missing or come twice"
                )
            end += size
        if end != math.prod(one["shape"]):
            raise ValueError(
                f"save_checkpoint: {name!r}: the ranks have {end} of {math.prod(one['shape'])} elements"
            )
    index = {"step": step, "arrays": arrays, "texts": json.loads(texts)}
    write_text(partial / _INDEX, json.dumps(index))
    _on_disk(partial)
    os.rename(partial, final)
    _on_disk(final.parent)
    if keep is not None:
        _prune(final.parent, keep, final)


def _on_disk(path: Path) -> None:
    """Wait until a folder's list of files is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checkpoints(root: Path) -> list[Path]:
    paths = [
        path for path in root.glob("step-*") if _FOLDER.fullmatch(path.name) and (path / _INDEX).exists()
    ]
    return sorted(paths, key=lambda path: int(path.name.removeprefix("step-")))


def _prune(root: Path, keep: int, newest: Path) -> None:
    """Leave the last checkpoints, and the one just written, which a run that went back to an earlier step needs."""
    for old in _checkpoints(root)[:-keep]:
        if old == newest:
            continue
        gone = old.with_name(f".{old.name}.partial")
        os.rename(old, gone)  # what is half removed is no checkpoint
        shutil.rmtree(gone)


def last_checkpoint(folder: str | os.PathLike[str]) -> Path | None:
    """The folder of the last whole checkpoint in ``folder``; None if there is none.

    >>> last_checkpoint("/no/such/folder") is None
    True
    """
    paths = _checkpoints(Path(folder))
    return paths[-1] if paths else None


class Checkpoint(Mapping[str, Array]):
    """The arrays of a checkpoint by name, each read when it is asked for; from :func:`load_checkpoint`.

    Attributes:
        step: of the checkpoint.
        texts: what was kept with it.

    >>> import tempfile, cukern as ck
    >>> _ = ck.distributed.init()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_checkpoint(folder, 7, {"model.w": ck.ones(2), "step": ck.asarray(7)})
    ...     saved = load_checkpoint(folder)
    ...     saved.step, sorted(saved), saved.under("model")["w"].tolist()
    (7, ['model.w', 'step'], [1.0, 1.0])
    """

    def __init__(self, path: Path, device: Device | str | None) -> None:
        self._path, self._device = path, device
        try:
            index = json.loads((path / _INDEX).read_text())
            self.step = int(index["step"])
            self.texts: dict[str, Any] = dict(index["texts"])
            self._arrays = {name: _Entry.of(entry) for name, entry in index["arrays"].items()}
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path / _INDEX}: damaged: {error!r:.500}") from None
        self._files: dict[str, dict[str, Array]] = {}

    def __len__(self) -> int:
        return len(self._arrays)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __getitem__(self, name: str) -> Array:
        entry = self._arrays[name]
        parts = []
        for file, _, size in entry.pieces:
            part = self._read(file).get(name)
            if part is None or part.shape != (size,) or part.dtype != entry.dtype:
                raise ValueError(f"{self._path / file}: damaged: {name!r} is not what the index says")
            parts.append(np.asarray(part))
        return asarray(np.concatenate(parts).reshape(entry.shape), device=self._device)

    def _read(self, file: str) -> dict[str, Array]:
        if file not in self._files:
            self._files[file] = read_safetensors(self._path / file)
        return self._files[file]

    def under(self, prefix: str) -> dict[str, Array]:
        """The arrays whose names begin with ``prefix`` and a dot, by the rest of their names."""
        start = f"{prefix}."
        return {name.removeprefix(start): self[name] for name in self if name.startswith(start)}


@dataclass(frozen=True)
class _Entry:
    dtype: dtypes.DType
    shape: tuple[int, ...]
    pieces: tuple[tuple[str, int, int], ...]

    @staticmethod
    def of(entry: Mapping[str, Any]) -> _Entry:
        pieces = tuple((str(file), int(start), int(size)) for file, start, size in entry["pieces"])
        shape = tuple(map(int, entry["shape"]))
        if len(shape) > _MOST_AXES:
            raise ValueError(f"a shape has {len(shape)} axes")
        if any(Path(file).name != file for file, _, _ in pieces) or not pieces:
            raise ValueError("a piece lies in no file of the folder")
        if len({file for file, _, _ in pieces}) != len(pieces):
            raise ValueError("two pieces lie in one file")
        end = 0
        for _, start, size in pieces:
            if start != end or size < 0:
                raise ValueError("pieces do not follow each other")
            end += size
        if end != math.prod(shape) or min(shape, default=0) < 0:
            raise ValueError(f"pieces have {end} elements, shape {shape} another number")
        return _Entry(dtypes.as_dtype(entry["dtype"]), shape, pieces)


def load_checkpoint(folder: str | os.PathLike[str], *, device: Device | str | None = "host") -> Checkpoint:
    """The last whole checkpoint in a folder of checkpoints, or that in the folder itself.

    Any number of ranks may load what any other number has saved.

    Args:
        folder: where checkpoints are, or one of them.
        device: where to put arrays; the current device when None.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged.

    >>> import tempfile, cukern as ck
    >>> _ = ck.distributed.init()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_checkpoint(folder, 7, {"w": ck.ones(2)})
    ...     load_checkpoint(folder)["w"].tolist()
    [1.0, 1.0]
    """
    root = Path(folder)
    path = root if (root / _INDEX).exists() else last_checkpoint(root)
    if path is None:
        raise FileNotFoundError(f"load_checkpoint: no checkpoint in {root}")
    return Checkpoint(path, device)
