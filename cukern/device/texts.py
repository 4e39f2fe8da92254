"""What earlier processes made of texts, on the disk: Python's code of templates, and the results of parsing."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from .. import dtypes, text
from ..errors import DeviceError
from . import trust
from .disk_cache import DiskCache, default_folder, payload

#: The packages that read texts.
_PACKAGES = ("Jinja2", "tree-sitter", "tree-sitter-cuda")


@cache
def _makers() -> str:
    """A hash of the code that makes something of texts."""
    digest = hashlib.sha256()
    for path in (Path(dtypes.__file__), *sorted(Path(text.__file__).parent.glob("*.py"))):
        digest.update(path.read_bytes() + b"\0")
    for package in _PACKAGES:
        digest.update(version(package).encode() + b"\0")
    return digest.hexdigest()


@cache
def _cache(folder: Path) -> DiskCache | None:
    """The cache in a folder; None if others may write there, of which the caches of kernels warn."""
    return None if trust.why_not(folder) else DiskCache(folder)


def _entry(of: str) -> tuple[DiskCache | None, str]:
    return _cache(default_folder() / "texts"), hashlib.sha256(f"{_makers()}\0{of}".encode()).hexdigest()


def find(of: str) -> bytes | None:
    """What was made of a text, by the text's hash; None if nothing is kept."""
    files, key = _entry(of)
    with suppress(OSError):
        if files is not None and (path := files.find(key)) is not None:
            return payload(path)
    return None


def keep(of: str, made: bytes) -> None:
    """Keep what was made of a text for later processes, where a cache can be written."""
    files, key = _entry(of)
    with suppress(OSError, DeviceError):
        if files is not None:
            files.keep(key, made)
