"""Checkpoints that every rank writes a part of, and that any number of ranks loads.

A checkpoint is a folder of safetensors files, one a rank, and an index that says which elements of which array lie
where. It is written under another name and renamed when everything is on the disk: a folder by its final name is whole.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..device import Device
from ..io import read_safetensors, save_safetensors
from .group import Group, world

__all__ = ["Checkpoint", "Piece", "last_checkpoint", "load_checkpoint", "save_checkpoint"]

_INDEX = "index.json"
_FOLDER = re.compile(r"step-(\d+)")
#: Arrays of fewer bytes are written by one rank.
_UNDIVIDED = 1 << 16


@dataclass(frozen=True)
class Piece:
    """This rank's elements of an array that is divided over ranks.

    Attributes:
        values: consecutive elements, as an array of one axis.
        shape: of the whole array.
        start: which of the whole array's elements, in C order, is the first.

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
        ValueError: ``step`` or ``keep`` is out of range, or pieces do not make a whole array.
        FileExistsError: there is a checkpoint of this step.
        DistributedError: a rank is gone, or does not come in time; no checkpoint was made.

    >>> import tempfile, cukern as ck
    >>> _ = ck.distributed.init()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint(folder, 100, {"w": ck.ones(3)}, texts={"seen": 6400}).name
    'step-000000100'
    """
    group = world() if group is None else group
    if step < 0 or (keep is not None and keep < 1):
        raise ValueError(f"save_checkpoint: expected step >= 0 and keep >= 1, got {step!r} and {keep!r}")
    root = Path(folder)
    final = root / f"step-{step:09d}"
    partial = root / f".{final.name}.partial"
    trouble = ""
    if group.rank == 0:
        if final.exists():
            trouble = f"{final} is there already"
        else:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
    _, told = group.meet("save_checkpoint", f"step {step}", payload=trouble)
    if any(told):
        raise FileExistsError(f"save_checkpoint: {told[0]}")
    pieces = _own_part(state, group)
    file = f"rank-{group.rank:05d}-of-{group.size:05d}.safetensors"
    save_safetensors(partial / file, {name: piece.values for name, piece in pieces.items()})
    _on_disk(partial / file)
    entries = {
        name: {
            "dtype": str(piece.values.dtype),
            "shape": list(piece.shape),
            "start": piece.start,
            "size": piece.values.size,
        }
        for name, piece in pieces.items()
    }
    (partial / f"{file}.json").write_text(json.dumps({"names": list(state), "pieces": entries}))
    group.meet("save_checkpoint: files", f"step {step}")
    if group.rank == 0:
        trouble = _completed(partial, final, step, dict(texts or {}))
        if not trouble and keep is not None:
            _prune(root, keep, final)
    _, told = group.meet("save_checkpoint: index", f"step {step}", payload=trouble)
    if any(told):
        raise ValueError(f"save_checkpoint: {told[0]}")
    return final


def _own_part(state: Mapping[str, Array | Piece], group: Group) -> dict[str, Piece]:
    """What this rank writes: its pieces, and its share of arrays that all ranks have."""
    made: dict[str, Piece] = {}
    turn = 0
    for name, value in state.items():
        if isinstance(value, Piece):
            made[name] = value
            continue
        flat = value.reshape(-1)
        if value.nbytes < _UNDIVIDED:
            if turn % group.size == group.rank:
                made[name] = Piece(flat, value.shape, 0)
            turn += 1
            continue
        begin, end = (value.size * k // group.size for k in (group.rank, group.rank + 1))
        made[name] = Piece(flat[begin:end], value.shape, begin)
    return made


def _completed(partial: Path, final: Path, step: int, texts: dict[str, Any]) -> str:
    """Write the index of all ranks' files, and give the folder its final name; what is wrong, if anything is."""
    arrays: dict[str, Any] = {}
    names: dict[str, None] = {}
    for listed in sorted(partial.glob("*.safetensors.json")):
        part = json.loads(listed.read_text())
        names |= dict.fromkeys(part["names"])
        for name, entry in part["pieces"].items():
            one = arrays.setdefault(name, {"dtype": entry["dtype"], "shape": entry["shape"], "pieces": []})
            if (one["dtype"], one["shape"]) != (entry["dtype"], entry["shape"]):
                return f"{name!r}: ranks have it as {one['dtype']} {one['shape']} and {entry['dtype']} {entry['shape']}"
            one["pieces"].append([listed.name.removesuffix(".json"), entry["start"], entry["size"]])
        listed.unlink()
    for name in names:
        if name not in arrays:
            return f"{name!r}: no rank has written it; the names of arrays must be the same, in one order, on all ranks"
    for name, one in arrays.items():
        one["pieces"].sort(key=lambda piece: (piece[1], piece[2]))
        end = 0
        for _, start, size in one["pieces"]:
            if start != end:
                return f"{name!r}: elements from {min(start, end)} on are missing or come twice"
            end += size
        if end != math.prod(one["shape"]):
            return f"{name!r}: the ranks have {end} of {math.prod(one['shape'])} elements"
    (partial / _INDEX).write_text(json.dumps({"step": step, "arrays": arrays, "texts": texts}))
    _on_disk(partial / _INDEX)
    _on_disk(partial)
    os.rename(partial, final)
    _on_disk(final.parent)
    return ""


def _on_disk(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checkpoints(root: Path) -> list[Path]:
    found = [
        path for path in root.glob("step-*") if _FOLDER.fullmatch(path.name) and (path / _INDEX).exists()
    ]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


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
    found = _checkpoints(Path(folder))
    return found[-1] if found else None


class Checkpoint(Mapping[str, Array]):
    """The arrays of a checkpoint by name, each read when it is asked for; made by :func:`load_checkpoint`.

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
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path / _INDEX}: damaged: {error!r}") from None
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
        if any(Path(file).name != file for file, _, _ in pieces) or not pieces:
            raise ValueError("a piece lies in no file of the folder")
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
    found = root if (root / _INDEX).exists() else last_checkpoint(root)
    if found is None:
        raise FileNotFoundError(f"load_checkpoint: no checkpoint in {root}")
    return Checkpoint(found, device)
