"""What the demo shows: its progress, and the plot of its losses."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

from ..files import replacing

_WIDTH = 24


class Progress:
    """Shows the progress of a run of ``total`` steps on ``stream``, by default standard output; in a terminal a bar."""

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


_INK, _MUTED, _TRAINING, _VALIDATION = "#1f2933", "#77828f", "#8fb0d9", "#1f5fa8"


def save_loss(
    path: str | os.PathLike[str],
    losses: Sequence[float],
    validation: Sequence[tuple[int, float]],
    unigram_entropy: float,
) -> bool:
    """Plot the loss of each step, the validation losses and the unigram entropy; return False without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(7.2, 4.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    steps, values = zip(*validation, strict=True)
    axes.plot(range(1, len(losses) + 1), losses, color=_TRAINING, linewidth=1.2)
    axes.plot(steps, values, color=_VALIDATION, linewidth=2, marker="o", markersize=4)
    axes.axhline(unigram_entropy, color=_MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
    end, last = max(steps[-1], 2), values[-1]
    axes.set_xlim(0, end)
    axes.set_ylim(min(0.9 * min(*losses, *values), 1.5), max(losses[0], unigram_entropy) * 1.05)
    axes.text(
        end, unigram_entropy, f"unigram entropy {unigram_entropy:.2f}", color=_MUTED, ha="right", va="bottom"
    )
    axes.annotate(
        f"validation {last:.2f}",
        (end, last),
        (-10, 22),
        textcoords="offset points",
        color=_VALIDATION,
        ha="right",
    )
    third = len(losses) // 3
    above = max(losses[third : third + len(losses) // 8 + 1])
    axes.annotate("training", (third + 1, above), (0, 4), textcoords="offset points", color=_TRAINING)
    axes.set_xlabel("step", color=_INK)
    axes.set_title(
        "Loss of the LLTM character model, nats per character", loc="left", color=_INK, fontsize=11
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_MUTED)
    axes.tick_params(colors=_INK, length=3)
    axes.grid(axis="y", color="#e6e9ed", linewidth=0.8)
    axes.set_axisbelow(True)
    with replacing(path) as file:
        figure.savefig(file, format="png")
    return True
