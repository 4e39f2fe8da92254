"""The file format of bundles: compiled kernels for one or several targets, indexed by the hash of their text.

The file is, in this order::

    magic            8 bytes, "ckbundle"
    index size       8 bytes, little-endian
    index            JSON: format, cukern, targets, kernels
    index hash       32 bytes, SHA-256 of all before
    machine code     of the kernels, one after another, each with its SHA-256 in the index

A bundle is code: what its author wrote runs in the process that loads it. Nothing here makes an untrusted file safe;
what is checked is that the file is whole, and that nobody but this user and root can have written it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import DeviceError
from ..files import replacing
from . import trust

#: Changes with the file's layout and with what the index means.
FORMAT = 1
#: The target of the templates' code.
TEMPLATES = "templates"
_MAGIC = b"ckbundle"
_HEAD = struct.Struct("<8sQ")
_HASH_BYTES = hashlib.sha256().digest_size
_HASH = re.compile(r"[0-9a-f]{64}")
#: The most bytes of an index: more than any program's, and too little to exhaust memory.
_LARGEST_INDEX = 1 << 30
#: The mode of written files; one that others can write is not loaded.
_MODE = 0o644


@dataclass(frozen=True)
class Target:
    """The target of a compilation.

    Attributes:
        name: as in ``--arch``: ``sm_90``, ``host``, ``host:x86-64-v3``; or :data:`TEMPLATES`.
        facts: the requirements on a device that runs the kernels, by names that its backend knows.
    """

    name: str
    facts: Mapping[str, str]

    @property
    def kind(self) -> str:
        """The kind of device; :data:`TEMPLATES` for Python's code of the kernels' templates, which no device runs."""
        head = self.name.partition(":")[0]
        return head if head in ("host", TEMPLATES) else "cuda"


@dataclass(frozen=True)
class Code:
    """A kernel's machine code.

    Attributes:
        name: the kernel's name.
        key: the hash of the text from which it was compiled.
        payload: a cubin or a shared library.
        parsed: the result of parsing the text, by :func:`.text.signature.stored`.
    """

    name: str
    key: str
    payload: bytes
    parsed: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """A file of the machine code, removed after the block, in which it must have been loaded.

        Only this user can read or write it, and no two have the same name, by which loaders tell libraries apart.
        """
        path = None
        try:
            try:
                handle, name = tempfile.mkstemp(prefix="cukern-")
                path = Path(name)
                with os.fdopen(handle, "wb") as file:
                    file.write(self.payload)
            except OSError as error:
                raise DeviceError(
                    f"no file can be written for the bundle's kernel {self.name} ({error}): set TMPDIR to a folder "
                    "that has room"
                ) from error
            yield path
        finally:
            if path is not None:
                with suppress(OSError):
                    path.unlink()


@lru_cache(maxsize=16)  # a text is looked for more than once
def hash_of(text: str, trusted: bool = True) -> str:
    """The key of a kernel with this text, which may be ``trusted``: see :class:`.text.signature.Unit`."""
    return hashlib.sha256(("" if trusted else "checked\n").encode() + text.encode()).hexdigest()


def write(path: Path, version: str, parts: Sequence[tuple[Target, Sequence[Code]]]) -> None:
    """Write a bundle, which appears under its name when it is whole.

    Args:
        path: the file.
        version: cukern's.
        parts: the kernels of each target.

    Raises:
        OSError: the file cannot be written.
    """
    kernels, blobs, start = [], [], 0
    for number, (_, codes) in enumerate(parts):
        for code in sorted(codes, key=lambda code: (code.name, code.key)):
            digest = hashlib.sha256(code.payload).hexdigest()
            row = {"target": number, "name": code.name, "key": code.key, "parsed": code.parsed}
            kernels.append({**row, "start": start, "size": len(code.payload), "sha256": digest})
            blobs.append(code.payload)
            start += len(code.payload)
    targets = [{"name": target.name, "facts": dict(target.facts)} for target, _ in parts]
    index = {"format": FORMAT, "cukern": version, "targets": targets, "kernels": kernels}
    text = json.dumps(index, indent=1, sort_keys=True).encode()
    head = _HEAD.pack(_MAGIC, len(text)) + text
    with replacing(path, _MODE) as file:
        file.write(head + hashlib.sha256(head).digest() + b"".join(blobs))


class BundleFile:
    """A bundle that was read into memory: later changes of its file have no effect.

    Args:
        path: the file.

    Raises:
        DeviceError: another user may have written the file, or it is no whole bundle of this format; the message names
            the field that is wrong.
        OSError: the file cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._content = self._read()
        index, self._start = self._index()
        self.version = str(self._field(index, "cukern", str))
        rows = self._field(index, "targets", list)
        self.targets = [self._target(row, f"targets[{i}]") for i, row in enumerate(rows)]
        self._entries: dict[tuple[int, str], tuple[str, int, int, str]] = {}
        #: The results of parsing the texts, by their hash.
        self.parsed: dict[str, dict[str, Any]] = {}
        rows = self._field(index, "kernels", list)
        end = max([self._kernel(row, f"kernels[{i}]") for i, row in enumerate(rows)], default=0)
        if len(self._content) - self._start != end:
            raise self._broken(
                "size",
                f"{self._start + end} bytes",
                f"{len(self._content)}: the file is cut or has more behind it",
            )

    def _broken(self, field: str, expected: str, got: object) -> DeviceError:
        return DeviceError(f"bundle {self.path}: {field}: expected {expected}, got {got}")

    def _read(self) -> bytes:
        """The content, read once from a file that was checked while it was open."""
        with self.path.open("rb") as file:
            if reason := trust.why_not(self.path):
                raise DeviceError(
                    f"bundle {self.path} is not loaded, as {reason}: a bundle is code, so copy it to a folder that is "
                    "yours alone"
                )
            opened, named = os.fstat(file.fileno()), os.stat(self.path)
            if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino):
                raise DeviceError(f"bundle {self.path} was replaced while it was read: load it again")
            return file.read()

    def _index(self) -> tuple[dict[str, Any], int]:
        """The index, and where the machine code begins."""
        content = self._content
        if content[: len(_MAGIC)] != _MAGIC:
            raise self._broken("magic", repr(_MAGIC), repr(content[: len(_MAGIC)]))
        if len(content) < _HEAD.size:
            raise self._broken("index size", f"{_HEAD.size} bytes before the index", len(content))
        _, size = _HEAD.unpack_from(content)
        end = _HEAD.size + size
        if size > _LARGEST_INDEX or end + _HASH_BYTES > len(content):
            raise self._broken("index size", f"an index within the file's {len(content)} bytes", size)
        if hashlib.sha256(content[:end]).digest() != content[end : end + _HASH_BYTES]:
            raise self._broken(
                "index hash", "the SHA-256 of what stands before it", "another: the file is damaged"
            )
        try:
            index = json.loads(content[_HEAD.size : end])
        except (ValueError, RecursionError) as error:
            raise self._broken("index", "JSON", error) from None
        if not isinstance(index, dict):
            raise self._broken("index", "an object", type(index).__name__)
        number = self._field(index, "format", int)
        if number != FORMAT:
            raise self._broken("format", f"{FORMAT}, which this version of cukern reads", number)
        return index, end + _HASH_BYTES

    def _field(self, row: Any, name: str, kind: type, where: str = "") -> Any:
        """A field of an object of the index."""
        field = f"{where}.{name}" if where else name
        if not isinstance(row, dict) or name not in row:
            raise self._broken(field, f"a field of type {kind.__name__}", "none")
        value = row[name]
        if type(value) is not kind:
            raise self._broken(field, f"type {kind.__name__}", f"{value!r:.60}")
        return value

    def _target(self, row: Any, where: str) -> Target:
        facts = self._field(row, "facts", dict, where)
        return Target(
            self._field(row, "name", str, where),
            {name: self._field(facts, name, str, f"{where}.facts") for name in facts},
        )

    def _kernel(self, row: Any, where: str) -> int:
        """Add a kernel; return the end of its machine code."""
        name, (target, start, size) = (
            self._field(row, "name", str, where),
            (self._field(row, one, int, where) for one in ("target", "start", "size")),
        )
        key, digest = (self._field(row, one, str, where) for one in ("key", "sha256"))
        if not 0 <= target < len(self.targets):
            raise self._broken(f"{where}.target", f"one of {len(self.targets)} targets", target)
        for one, text in (("key", key), ("sha256", digest)):
            if not _HASH.fullmatch(text):
                raise self._broken(f"{where}.{one}", "64 hexadecimal digits", f"{text!r:.60}")
        room = len(self._content) - self._start
        if not 0 <= start <= room:
            raise self._broken(f"{where}.start", f"an offset within {room} bytes of machine code", start)
        if not 0 <= size <= room - start:
            raise self._broken(
                f"{where}.size", f"at most the {room - start} bytes from start to the file's end", size
            )
        self._entries[target, key] = name, start, size, digest
        self.parsed[key] = self._field(row, "parsed", dict, where)
        return int(start + size)

    def codes(self, target: int) -> list[Code]:
        """All of a target's kernels.

        Raises:
            DeviceError: as :meth:`find`.
        """
        codes = [self.find(number, key) for number, key in self._entries if number == target]
        return [code for code in codes if code is not None]

    def count(self, target: int) -> int:
        """The number of a target's kernels."""
        return sum(number == target for number, _ in self._entries)

    def find(self, target: int, key: str) -> Code | None:
        """The kernel of a target whose text has this hash.

        Raises:
            DeviceError: its machine code is damaged.
        """
        entry = self._entries.get((target, key))
        if entry is None:
            return None
        name, start, size, digest = entry
        payload = self._content[self._start + start : self._start + start + size]
        if hashlib.sha256(payload).hexdigest() != digest:
            raise self._broken(f"machine code of {name}", f"SHA-256 {digest}", "another: the file is damaged")
        return Code(name, key, payload, self.parsed[key])
