"""Ownership checks of files: compiled code is loaded only if nobody but this user and root can have written it.

The rule is OpenSSH's for its key files: each folder on the path belongs to this user or to root, and nobody else may
write to it. Exceptions are sticky folders such as ``/tmp``, in which only owners rename and remove, and write access
of a group whose only member is this user.
"""

from __future__ import annotations

import os
import stat
import warnings
from functools import cache
from pathlib import Path


@cache
def _own_group(group: int) -> bool:
    """Whether a group is this user's private group, without other members."""
    import grp
    import pwd

    try:
        user, entry = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == user and set(entry.gr_mem) <= {user}


def _reason(path: Path, status: os.stat_result) -> str | None:
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {status.st_uid}"
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return f"every user may write to {path}"
    if status.st_mode & stat.S_IWGRP and not _own_group(status.st_gid):
        return f"group {status.st_gid} may write to {path}"
    return None


def why_not(path: Path, below: Path | None = None) -> str | None:
    """Why another user may have written ``path``; None if no other user can have.

    Args:
        path: a file or a folder, which may not exist yet.
        below: a parent folder known to be safe, below which to check; by default the root.
    """
    if below is None:
        path = Path(os.path.realpath(path))
    for one in (path, *path.parents):
        if one == below:
            break
        try:
            status = os.lstat(one)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISLNK(status.st_mode):
            return f"{one} is a symbolic link"
        if reason := _reason(one, status):
            return reason
    return None


@cache
def warn(folder: Path, reason: str, variable: str) -> None:
    """Warn once that the compiled kernels in a folder are not used."""
    warnings.warn(
        f"compiled kernels in {folder} are not used, as {reason}: set {variable} to a folder that is yours alone",
        RuntimeWarning,
        stacklevel=2,
    )
