"""What the build of a plain text's program gives its compiler."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import DEFAULT_STD

#: The versions of C++, and their __cplusplus.
STANDARDS = {"c++17": "201703", "c++20": "202002"}


@dataclass(frozen=True)
class Build:
    """What a program's build gives its compiler.

    Attributes:
        defines: names, or names with parameters as in ``"f(x)"``, and the values of these macros.
        include: the folders in which files are searched, also those in angle brackets.
        std: the version of C++, ``"c++17"`` or ``"c++20"``.
    """

    defines: Mapping[str, object] = field(default_factory=dict)
    include: tuple[Path, ...] = ()
    std: str = DEFAULT_STD

    @classmethod
    def of(cls, options: dict[str, Any]) -> Build:
        """The build that keywords describe, which are taken out of ``options``.

        Raises:
            TypeError, ValueError: one is of another kind.
            NotADirectoryError: a folder is none.
        """
        defines = options.pop("defines", None) or {}
        given = options.pop("include", ())
        std = options.pop("std", DEFAULT_STD)
        if not isinstance(defines, Mapping) or not all(isinstance(name, str) for name in defines):
            raise TypeError(f"defines: expected a dict from names of macros to values, got {defines!r}")
        for name in defines:
            if not re.fullmatch(r"[A-Za-z_]\w*(\([\w, .]*\))?", name):
                raise ValueError(f"defines: expected names of macros, got {name!r}")
        folders = [given] if isinstance(given, (str, os.PathLike)) else list(given)
        for folder in folders:
            if not os.path.isdir(folder):
                raise NotADirectoryError(f"include: expected an existing folder, got {os.fspath(folder)}")
        if std not in STANDARDS:
            raise ValueError(f"std: expected {' or '.join(map(repr, STANDARDS))}, got {std!r}")
        return cls(defines, tuple(map(Path, folders)), std)

    @property
    def text(self) -> str:
        """The definitions, each on a line."""
        rows = [
            (name, int(value) if isinstance(value, bool) else "" if value is None else value)
            for name, value in self.defines.items()
        ]
        return "\n".join(f"#define {name} {' '.join(str(value).splitlines())}" for name, value in rows)
