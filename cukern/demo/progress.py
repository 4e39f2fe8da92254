"""A progress bar on one line of a terminal, or plain lines in a file."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

_WIDTH = 24


class Progress:
    """Shows the progress of a run of ``total`` steps on ``stream``, by default standard output."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total = total
        self.stream = sys.stdout if stream is None else stream
        self._live = self.stream.isatty()
        self._tenth = 0

    def show(self, done: int, text: str) -> None:
        """Show ``done`` steps and a text; a file gets a line only after each tenth of the run."""
        head = f"{done}/{self.total}"
        if self._live:
            filled = _WIDTH * done // self.total
            line = f"{'█' * filled}{'░' * (_WIDTH - filled)} {head}  {text}"
            columns = shutil.get_terminal_size().columns - 1
            self.stream.write(f"\r{line[:columns]:<{columns}}")
            self.stream.flush()
        elif 10 * done // self.total > self._tenth:
            self._tenth = 10 * done // self.total
            print(f"  step {head}  {text}", file=self.stream, flush=True)

    def close(self) -> None:
        """End the line."""
        if self._live:
            print(file=self.stream)
