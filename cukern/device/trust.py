"""Who may have written a file: compiled code is loaded only where this user or root alone can have put it.

The rule is OpenSSH's for its key files: each folder on the way belongs to this user or to root, and nobody else may
write there, but for folders in which only owners rename and remove, as ``/tmp``, and a group of which nobody else is.
"""

from __future__ import annotations

import os
import stat
import warnings
from functools import cache
from pathlib import Path


@cache
def _own_group(group: int) -> bool:
    """Whether a group is the one that systems make for each user, without another member."""
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == user and set(found.gr_mem) <= {user}


def _reason(path: Path, found: os.stat_result) -> str | None:
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {found.st_uid}"
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & stat.S_IWOTH:
        return f"every user may write to {path}"
    if found.st_mode & stat.S_IWGRP and not _own_group(found.st_gid):
        return f"group {found.st_gid} may write to {path}"
    return None


def why_not(path: Path, below: Path | None = None) -> str | None:
    """Why another user may have written what is at ``path``; None if none may have.

    Args:
        path: a file or a folder, which may not exist yet.
        below: a folder above ``path`` that is known to be safe, where the way down begins; else the root.
    """
    if below is None:
        path = Path(os.path.realpath(path))
    for one in (path, *path.parents):
        if one == below:
            break
        try:
            found = os.lstat(one)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISLNK(found.st_mode):
            return f"{one} is a symbolic link"
        if reason := _reason(one, found):
            return reason
    return None


@cache
def warn(folder: Path, reason: str, variable: str) -> None:
    """Say once that what is kept in a folder is not used."""
    warnings.warn(
        f"compiled kernels in {folder} are not used, as {reason}: set {variable} to a folder that is yours alone",
        RuntimeWarning,
        stacklevel=2,
    )
