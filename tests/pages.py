"""Markdown pages whose code runs: the ``python`` blocks of a page in order, in one namespace.

A ``text`` block right after a ``python`` block is what that block prints. Where the block is to end with an error, the
last line is ``Name: message``. ``...`` stands for any text, and any white space is as good as another. Blocks of other
languages are not run: Python that is only shown is ``py``.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A block of code, the page's line before its first, and what is shown below it, None if nothing is."""

    code: str
    line: int
    shown: str | None


def blocks(text: str) -> Iterator[Block]:
    """The code of a page that is run."""
    for found in _BLOCK.finditer(text):
        yield Block(found[1], text.count("\n", 0, found.start(1)), found[2])


def run(path: Path) -> str:
    """Run the code of a page; what it printed is returned.

    Raises:
        AssertionError: a block printed something else than the page shows.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    everything = ""
    for block in blocks(path.read_text(encoding="utf-8")):
        printed = _printed(path, block, names)
        everything += printed
        if block.shown is not None and not doctest.OutputChecker().check_output(block.shown, printed, _FLAGS):
            raise AssertionError(
                f"{path}, line {block.line + 1}: the page shows\n{block.shown}\nand it printed\n{printed}"
            )
    return everything


def _printed(path: Path, block: Block, names: dict[str, Any]) -> str:
    out = io.StringIO()
    # The blank lines make a traceback's line numbers those of the page.
    code = compile("\n" * block.line + block.code, str(path), "exec")
    try:
        with contextlib.redirect_stdout(out):
            exec(code, names)
    except Exception as error:
        if block.shown is None or f"{type(error).__name__}: " not in block.shown:
            raise
        print(f"{type(error).__name__}: {error}", file=out)
    return out.getvalue()
