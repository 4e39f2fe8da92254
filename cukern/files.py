"""Files that are written whole or not at all.

What is written to a path goes to a file without a name, which takes the path's place when all of it is on the disk. A
full disk, an error or the process's end leave the file at that path as it was, and none beside it. Where the file
system has no files without names, as NFS, a process that is killed leaves a hidden one, which the next save of that
path removes.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, BinaryIO

#: As many symbolic links Linux follows.
_MOST_LINKS = 40
_ACCESS_LIST = "system.posix_acl_access"


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[Any]:
    """A binary file to write, which replaces that at ``path`` when the block ends without an error.

    A file that is replaced hands on its owner, group and permissions; symbolic links to it are followed, other
    names that it has keep its old content. Pipes and devices, such as ``/dev/stdout``, are written to as they are.

    Args:
        path: the file.
        mode: the permissions of a new file, of which the umask takes some; a file that is replaced keeps those of
            its own that these allow, and permission to execute it.

    Raises:
        OSError: the file cannot be written; the error names it.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "x")
    >>> with replacing(path) as file:
    ...     _ = file.write(b"all")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'all'
    """
    name = os.fspath(path)
    with _named(name):
        target = _followed(name)
        old = _status(target)
        if _is_stream(target, old) or not os.path.basename(target) or (old and stat.S_ISDIR(old.st_mode)):
            with open(name, "wb") as file:
                yield Stream(file)
            return
        if old and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        partial = _Partial(target, mode)
        try:
            yield partial.file
            partial.publish(old, mode)
        finally:
            partial.close()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as UTF-8 by :func:`replacing`."""
    with replacing(path) as file:
        file.write(text.encode())


class Stream:
    """The part of a binary file that writers to pipes need. NumPy asks real files for more than a pipe can do.

    Args:
        file: what is written to.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._written = file, 0

    def write(self, data: Any) -> int:
        """Write all of ``data``."""
        rest = memoryview(data).cast("B")
        size = rest.nbytes
        while isinstance(self._file, io.RawIOBase) and rest.nbytes:  # writes as much as it can
            rest = rest[self._file.write(rest) or 0 :]
        if rest.nbytes:
            self._file.write(rest)
        self._written += size
        return size

    def tell(self) -> int:
        """The number of bytes written."""
        return self._written

    def flush(self) -> None:
        """Flush the file, if it has that."""
        if hasattr(self._file, "flush"):
            self._file.flush()


class _Partial:
    """The file to be written, beside its target."""

    def __init__(self, target: str, mode: int) -> None:
        self._target = target
        self._folder, base = os.path.split(target)
        import hashlib

        self._prefix = f".cukern-{hashlib.sha256(os.fsencode(base)).hexdigest()[:16]}-"
        self._name = ""
        self.file: BinaryIO = os.fdopen(self._unnamed(mode), "w+b")

    def _unnamed(self, mode: int) -> int:
        """A descriptor of a file without a name, or with one where the file system needs it."""
        try:
            descriptor = os.open(self._folder or ".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode)
        except OSError:
            self._remove_left()
            return self._new(mode)
        _lock(descriptor)
        return descriptor

    def _new(self, mode: int) -> int:
        while True:
            self._name = self._free_name()
            descriptor = os.open(self._name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode)
            _lock(descriptor)
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)  # another process took it for one that was left

    def _free_name(self) -> str:
        return os.path.join(self._folder, f"{self._prefix}{os.urandom(8).hex()}.partial")

    def _remove_left(self) -> None:
        """Remove what killed processes left: their locks are free."""
        with suppress(OSError), os.scandir(self._folder or ".") as entries:
            for entry in entries:
                if not (entry.name.startswith(self._prefix) and entry.is_file(follow_symlinks=False)):
                    continue
                with suppress(OSError), open(entry.path, "rb") as left:
                    fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)

    def publish(self, old: os.stat_result | None, mode: int) -> None:
        """Give the file the target's name when it is on the disk."""
        self._finish(old, mode)
        if not self._name:
            try:
                if not old:
                    with suppress(FileExistsError):  # made since the block began
                        _link(self.file.fileno(), self._target)
                        return
                self._remove_left()
                name = self._free_name()
                _link(self.file.fileno(), name)
                self._name = name
            except OSError:  # as without /proc
                self._copy(mode)
                self._finish(old, mode)
        os.replace(self._name, self._target)
        self._name = ""

    def _finish(self, old: os.stat_result | None, mode: int) -> None:
        self.file.flush()
        if old:
            _take_rights(self.file.fileno(), self._target, old, mode)
        os.fsync(self.file.fileno())

    def _copy(self, mode: int) -> None:
        """Put a file with a name in place of the one without."""
        with self.file as unnamed:
            self.file = os.fdopen(self._new(mode), "w+b")
            import shutil

            unnamed.seek(0)
            shutil.copyfileobj(unnamed, self.file)

    def close(self) -> None:
        """Close the file, and remove it unless it was published."""
        with suppress(OSError):  # of what could not be written
            self.file.close()
        if self._name:
            with suppress(OSError):
                os.unlink(self._name)


def _link(handle: int, name: str) -> None:
    """Name a file that has none. Only with a folder's descriptor, which is not used, does Python follow the link."""
    os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=handle, follow_symlinks=True)


def _lock(handle: int) -> None:
    """Hold a lock as long as the file is open: who gets it knows that the writer is gone."""
    with suppress(OSError):  # not every file system has locks; nobody gets one there
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _take_rights(handle: int, target: str, old: os.stat_result, mode: int) -> None:
    """Give a new file the owner, group and permissions of the old one; nobody else gets any."""
    rights, new = stat.S_IMODE(old.st_mode) & (mode | 0o111), os.fstat(handle)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(handle, old.st_uid, old.st_gid)
        except OSError:
            try:
                os.fchown(handle, -1, old.st_gid)
            except OSError:
                rights &= ~0o070
    os.fchmod(handle, rights)
    try:
        listed = os.getxattr(target, _ACCESS_LIST)
    except OSError:
        return
    try:
        os.setxattr(handle, _ACCESS_LIST, listed)
    except OSError:
        os.fchmod(handle, rights & ~0o070)  # with a list, these bits bound all of its entries


def is_stream(path: str) -> bool:
    """Whether a path leads to a pipe, a device or an open file of a process, as ``/dev/stdout`` does."""
    target = _followed(path)
    return _is_stream(target, _status(target))


def _is_stream(target: str, status: os.stat_result | None) -> bool:
    if status is None:
        return False
    of_process = os.path.realpath(os.path.dirname(target)).startswith("/proc/")
    return of_process or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))


def _followed(path: str) -> str:
    """The path to which symbolic links lead, but for those of a process to its open files."""
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(os.path.dirname(path))
        try:
            link = os.readlink(path)
        except OSError:  # it is no link
            return path
        if folder.startswith("/proc/"):
            return path
        path = os.path.join(folder, link)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Let errors of the system name the file that was asked for, and not the one beside it."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename == name:
            raise
        raise OSError(error.errno, os.strerror(error.errno), name) from error
