"""A content-addressed cache on disk: compiled files by the hash of their sources, shared by processes.

An entry consists of its payload, the payload's SHA-256 and a magic word, in that order, so that a shared
library can be loaded from the entry itself. It appears by an atomic rename and is checked before each
use: a reader sees a whole entry or none. Any number of processes may request the same entry at once;
one builds it while the others wait. Files that another user may have written are never read (:mod:`.trust`).
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from ..errors import DeviceError
from . import trust

_MAGIC = b"cukern\x01\n"
_TRAILER = hashlib.sha256().digest_size + len(_MAGIC)
#: Seconds to wait for another process's lock.
_LOCK_TIMEOUT = 120.0
#: Seconds after which a temporary file is left over from a killed process.
_STALE_AFTER = 3600.0


def default_folder() -> Path:
    """The folder of entries: ``CUKERN_CACHE_DIR``, else the user's cache folder."""
    chosen = os.environ.get("CUKERN_CACHE_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("cukern", appauthor=False))


def _is_whole(path: Path) -> bool:
    """Whether ``path`` ends with the hash of its payload."""
    entry = path.read_bytes()
    payload, trailer = entry[:-_TRAILER], entry[-_TRAILER:]
    return trailer == hashlib.sha256(payload).digest() + _MAGIC


def payload(path: Path) -> bytes:
    """The content of an entry, without its trailer."""
    return path.read_bytes()[:-_TRAILER]


class DiskCache:
    """A folder of entries, with a private folder of the process as a fallback if it cannot be written.

    Args:
        folder: the folder, created with the first entry.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = DiskCache(Path(folder))
    ...     path = cache.get("ab12", lambda path: path.write_bytes(b"a library"))
    ...     path.read_bytes()[:9]
    b'a library'
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._private: Path | None = None
        self._checked, self._checking = False, threading.Lock()

    def get(self, key: str, make: Callable[[Path], object]) -> Path:
        """The file of the entry ``key``, built by ``make`` if it is missing or damaged.

        Args:
            key: a hexadecimal hash of everything on which the payload depends, followed by ``/`` and a file name
                if the file must have one.
            make: writes the payload to the path that it is given; its exceptions are passed on.
        """
        if path := self.find(key):
            return path
        if self._private is None:
            try:
                return self._make(self.folder, key, make)
            except _NotWritable:
                self._private = _temporary_folder()
        try:
            return self._make(self._private, key, make)
        except _NotWritable as error:
            raise DeviceError(
                f"compiled kernels can be kept neither in {self.folder} nor in {self._private} "
                f"({error.__cause__}): set CUKERN_CACHE_DIR to a folder with room"
            ) from error

    def keep(self, key: str, content: bytes) -> None:
        """Let ``content`` be the entry ``key``, if there is none."""
        self.get(key, lambda path: path.write_bytes(content))

    def find(self, key: str) -> Path | None:
        """The file of the entry ``key``, None if it is missing or damaged."""
        if not self._checked:
            self._check()
        for folder in self._readable():
            if path := self._find(self._path(folder, key), folder):
                return path
        return None

    def _check(self) -> None:
        """Check once whether others may have written to the folder, and warn if so."""
        with self._checking:
            if self._checked:  # by another thread meanwhile
                return
            if reason := trust.why_not(self.folder):
                trust.warn(self.folder, reason, "CUKERN_CACHE_DIR")
                self._private = self._private or _temporary_folder()
                self.folder = self._private
            self._checked = True

    def _readable(self) -> list[Path]:
        return [self.folder] if self._private is None else [self.folder, self._private]

    def _path(self, folder: Path, key: str) -> Path:
        return folder / key[:2] / key[2:]

    def _find(self, path: Path, folder: Path) -> Path | None:
        """The entry at ``path`` of ``folder`` if it is whole; a damaged one is removed."""
        try:
            if trust.why_not(path, folder) is None and _is_whole(path):
                return path
            path.unlink()
        except OSError:
            pass
        return None

    def _make(self, folder: Path, key: str, make: Callable[[Path], object]) -> Path:
        path = self._path(folder, key)
        with _writing():
            _make_folder(path.parent)
            _remove_stale(path.parent)
        if trust.why_not(path.parent, folder):
            raise _NotWritable
        with _locked(path.with_suffix(".lock")):
            if entry := self._find(path, folder):
                return entry
            part = _new_file(path)
            try:
                _fill(part, make)
                _publish(part, path)
            finally:
                part.unlink(missing_ok=True)
        return path


class _NotWritable(Exception):
    """The folder cannot take a new entry."""


@contextmanager
def _writing() -> Iterator[None]:
    """Errors of a folder as :class:`_NotWritable`; a process without free descriptors can write to no other either."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        raise _NotWritable from error


def _make_folder(path: Path) -> None:
    """Create a folder and its parents, writable only by this user whatever the process's umask."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o755, exist_ok=True)


def _new_file(path: Path) -> Path:
    with _writing():
        handle, name = tempfile.mkstemp(".tmp", path.name[:16] + ".", path.parent)
    os.close(handle)
    return Path(name)


def _fill(part: Path, make: Callable[[Path], object]) -> None:
    try:
        make(part)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _NotWritable from error


def _publish(part: Path, path: Path) -> None:
    """Append the payload's hash and the magic word to ``part``, and rename it to ``path``."""
    digest = hashlib.sha256(part.read_bytes()).digest()
    with _writing():
        with part.open("ab") as file:
            file.write(digest + _MAGIC)
            os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode & 0o755)
        os.replace(part, path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``, or continue without it if it cannot be had in time.

    The system releases the lock of a process that dies. Without the lock, two processes at worst build an entry twice.
    """
    from filelock import FileLock  # imported late: cached entries need no lock

    lock = FileLock(path, timeout=_LOCK_TIMEOUT, fallback_to_soft=False)
    with suppress(OSError):  # in time, or at all
        lock.acquire()
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()


def _remove_stale(folder: Path) -> None:
    """Remove the files of processes that were killed while they built an entry."""
    oldest = time.time() - _STALE_AFTER
    for path in folder.glob("*.tmp"):
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def protect_cupy() -> None:
    """Set CuPy's cache to a private folder of this process if another user may have written to it."""
    default = Path(os.path.expanduser("~"), ".cupy", "kernel_cache")
    folder = Path(os.environ.get("CUPY_CACHE_DIR") or default)
    if reason := trust.why_not(folder):
        trust.warn(folder, reason, "CUPY_CACHE_DIR")
        os.environ["CUPY_CACHE_DIR"] = str(_temporary_folder())


def _temporary_folder() -> Path:
    """A private folder of this process, removed when it ends."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="cukern-"))
    except OSError as error:
        raise DeviceError(
            f"no folder can be written for compiled kernels ({error}): set CUKERN_CACHE_DIR to one that can"
        ) from error
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
