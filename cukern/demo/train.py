"""The demo's second part: training and its measurements."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..array import Array
from ..array.creation import asarray
from ..autodiff.tape import Tape
from ..device import Device
from ..nn import cross_entropy
from ..optim import Adam, clip_by_global_norm
from .model import CharacterModel
from .text import Codes, Corpus, windows

#: Characters per window, windows per batch; windows used for validation.
LENGTH, BATCH = 64, 32
_WARMUP, _PEAK_RATE, _LAST_RATE = 20, 1e-2, 5e-4
_QUICK, _FULL = 128, 1024


@dataclass
class History:
    """The measurements of a run: the loss of each step, and (step, loss) of each validation."""

    losses: list[float] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)
    chars_per_s: float = 0.0
    interrupted: bool = False


def learning_rate(step: int, steps: int) -> float:
    """The learning rate of a step, counted from 0: a linear warm-up, then half a cosine."""
    warm = min(_WARMUP, steps)
    if step < warm:
        return _PEAK_RATE * (step + 1) / warm
    share = (step - warm) / max(1, steps - warm)
    return _LAST_RATE + 0.5 * (_PEAK_RATE - _LAST_RATE) * (1 + math.cos(math.pi * share))


def validate(model: CharacterModel, codes: Codes, count: int = _FULL) -> float:
    """The loss on evenly spaced windows of a text."""
    device = model.head.weight.device
    starts = np.linspace(0, codes.size - LENGTH - 1, count).astype(np.int64)
    total = 0.0
    for part in np.array_split(starts, math.ceil(count / 128)):
        inputs, targets = (asarray(one, device=device) for one in windows(codes, part, LENGTH))
        total += cross_entropy(model(inputs)[0], targets).item() * len(part)
    return total / count


class Trainer:
    """Trains a character model with Adam on random windows of a corpus, on the current device."""

    def __init__(self, model: CharacterModel, corpus: Corpus, rng: np.random.Generator) -> None:
        self.model, self.corpus, self.rng = model, corpus, rng
        self.optimizer = Adam(model, betas=(0.9, 0.99))

    def step(self, rate: float) -> Array:
        """Make one step; return the loss before it, without waiting for it."""
        codes = self.corpus.training
        starts = self.rng.integers(0, codes.size - LENGTH, size=BATCH)
        inputs, targets = map(asarray, windows(codes, starts, LENGTH))
        with Tape() as tape:
            logits, _ = self.model(inputs)
            loss = cross_entropy(logits, targets)
        gradients, _ = clip_by_global_norm(tape.gradient(loss, self.model), max_norm=1.0)
        self.optimizer.lr = rate
        self.optimizer.step(gradients)
        return loss

    def run(self, steps: int, device: Device, show: Callable[[int, str], None]) -> History:
        """Train; Ctrl-C ends the training after the current step."""
        history = History()
        pending: list[Array] = []
        clock = _Clock()
        with _interrupts() as interrupted:
            for step in range(steps):
                pending.append(self.step(learning_rate(step, steps)))
                last = step + 1 == steps or interrupted()
                if last or (step + 1) % 10 == 0 or step == 0:
                    history.losses += [loss.item() for loss in pending]
                    pending.clear()
                    history.chars_per_s = clock.lap(step + 1) * LENGTH * BATCH
                    show(step + 1, f"loss {history.losses[-1]:.3f}  {history.chars_per_s:,.0f} characters/s")
                if not last and (step + 1) % max(1, steps // 10) == 0:
                    with clock.paused():
                        history.validation.append(
                            (step + 1, validate(self.model, self.corpus.validation, _QUICK))
                        )
                if last:
                    break
            device.synchronize()
            history.validation.append((len(history.losses), validate(self.model, self.corpus.validation)))
            history.interrupted = interrupted()
        return history


class _Clock:
    """Measures steps per second, without the first step, which compiles, and without pauses."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._first: float | None = None
        self._pauses = 0.0

    def lap(self, steps: int) -> float:
        """The steps per second so far, after ``steps`` steps."""
        now = time.perf_counter() - self._pauses
        if self._first is None:
            self._first = now
            return steps / (now - self._start)
        return (steps - 1) / (now - self._first)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A with-block whose time does not count."""
        start = time.perf_counter()
        yield
        self._pauses += time.perf_counter() - start


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Catch the first Ctrl-C and report it by a function; a second one raises KeyboardInterrupt."""
    seen = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield seen.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        seen.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield seen.is_set
    finally:
        signal.signal(signal.SIGINT, before)
