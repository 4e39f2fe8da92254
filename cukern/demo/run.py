"""The whole demo: checks, training, report."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from ..device import Device, device
from ..files import write_text
from . import checks, text
from .display import Progress, save_loss
from .model import CharacterModel, sample
from .train import BATCH, LENGTH, History, Trainer

_SEED = 0
#: The exit status after an interrupt.
_INTERRUPTED = 130


def run(where: Device, steps: int, out: Path) -> int:
    """Check the fused operations, train, sample, and write the results into ``out``.

    Args:
        where: the device.
        steps: the number of training steps.
        out: a folder, created if needed.

    Returns:
        The exit status: 0, 1 if a check failed, 130 after an interrupt.

    Raises:
        OSError: ``out`` is not a writable folder.
        FileNotFoundError: this Python lacks the source of its standard library.
    """
    start = time.perf_counter()
    _prepare(out)
    # The model's products are small: BLAS threads would wait for each other longer than they compute.
    with device(where), threadpool_limits(limits=1, user_api="blas"):
        print(f"cukern on {where}: {where.properties.name}\n")
        if not _check():
            return 1
        corpus = text.standard_library()
        rng = np.random.default_rng(_SEED)
        model = CharacterModel(rng)
        _introduce(corpus, model, steps)
        progress = Progress(steps)
        try:
            history = Trainer(model, corpus, rng).run(steps, where, progress.show)
        finally:
            progress.close()
            model.save(out / "model.safetensors")
        try:
            if not history.interrupted:
                print("\na sample of what it learned:\n")
                print(_indented(sample(model, "def ", 400, LENGTH, rng)))
        finally:
            entropy = text.unigram_entropy(corpus.validation)
            _report(out, where, history, entropy, time.perf_counter() - start)
    return _INTERRUPTED if history.interrupted else 0


def _prepare(out: Path) -> None:
    """Make the folder, and check before the training that files can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise OSError(f"--out: expected a folder to write to, got {str(out)!r}: {error.strerror}") from None


def _check() -> bool:
    print("fused operations, float64: the largest distance from their references, and finite differences")
    print(f"  {'operation':<18}{'value':>10}{'gradient':>10}  differences   seconds")
    good = True
    for outcome in checks.run():
        numbers = f"{outcome.value_error:>10.1e}{outcome.gradient_error:>10.1e}"
        print(f"  {outcome.name:<18}{numbers}  {outcome.difference:<12}{outcome.seconds:>9.1f}", flush=True)
        good &= outcome.good
    if not good:
        print("a fused operation is not what it should be; nothing was trained")
    return good


def _introduce(corpus: text.Corpus, model: CharacterModel, steps: int) -> None:
    count = sum(parameter.size for parameter in model.parameters())
    kept = f"{corpus.training.size:,} characters of {corpus.training_files} files to train on"
    print(f"\ntext: Python's standard library, {kept},")
    print(f"{corpus.validation.size:,} of {corpus.validation_files} files held out")
    print(f"model: LLTM, {count:,} parameters")
    print(f"{steps} steps of {BATCH} stretches of {LENGTH} characters\n", flush=True)


def _indented(sampled: str) -> str:
    return "\n".join(f"  | {line}" for line in sampled.split("\n"))


def _report(out: Path, where: Device, history: History, entropy: float, seconds: float) -> None:
    """Write metrics and plot, and print a summary."""
    metrics = {
        "device": str(where),
        "steps": len(history.losses),
        "loss_first": history.losses[0],
        "loss_last": history.losses[-1],
        "val_loss": history.validation[-1][1],
        "unigram_entropy": entropy,
        "chars_per_s": round(history.chars_per_s),
        "seconds": round(seconds, 1),
    }
    write_text(out / "metrics.json", json.dumps(metrics, indent=2) + "\n")
    written = ["model.safetensors", "metrics.json"]
    if save_loss(out / "loss.png", history.losses, history.validation, entropy):
        written.append("loss.png")
    if history.interrupted:
        print(f"\ninterrupted after {len(history.losses)} steps; the model is saved as it is")
    print(f"\nvalidation loss {metrics['val_loss']:.3f} nats a character; unigram entropy {entropy:.3f}")
    print(f"{metrics['chars_per_s']:,} characters/s, {seconds:.0f} s in all")
    print(f"wrote {', '.join(written)} to {out}")
    if "loss.png" not in written:
        print("no loss.png: matplotlib is not installed (pip install matplotlib)")
