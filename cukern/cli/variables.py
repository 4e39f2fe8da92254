"""Template variables on a command line: ``elem=float32 block=128``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..kernel import Kernel


def parsed(settings: Sequence[str]) -> dict[str, Any]:
    """The variables of settings ``name=value``.

    Raises:
        ValueError: one is no such setting.
    """
    found = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"expected var=value, got {setting!r}")
        found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    """A variable's value: a Python literal, ``true`` or ``false``, else the text itself."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def kernel(template: str) -> Kernel:
    """The kernel of a file, or of a template by its name.

    Raises:
        TemplateError: there is neither.
    """
    path = Path(template)
    return Kernel(path if path.is_file() else template)
