"""``python -m cukern generate``: text from a GGUF file, as it is computed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ..device import Device, current, device
from ..errors import require_int
from ..generate import Model, Sampling
from ..generate.decoder import read_hyper
from ..generate.write import read_vocabulary
from ..gguf.file import open_gguf


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    default = Sampling()
    parser.add_argument("model", type=Path, help="a GGUF file of a Llama, Qwen or Gemma")
    parser.add_argument("prompt", help="the text that is continued")
    parser.add_argument("--max-tokens", type=int, default=128, help="tokens to write (default: %(default)s)")
    parser.add_argument(
        "--temperature",
        type=float,
        default=default.temperature,
        help="0: the likeliest (default: %(default)s)",
    )
    parser.add_argument("--top-k", type=int, default=default.top_k, help="0: all (default: %(default)s)")
    parser.add_argument("--top-p", type=float, default=default.top_p, help="1: all (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="of the random numbers; another each time by default")
    parser.add_argument("--device", help="host or cuda:0; the GPU by default where there is one")


def run(options: argparse.Namespace) -> int:
    """Write text; return the exit status."""
    try:
        with device(current() if options.device is None else Device(options.device)):
            _write(options)
    except (ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        print(f"generate: {error}", file=sys.stderr)
        return 1
    return 0


def _write(options: argparse.Namespace) -> None:
    sampling = Sampling(options.temperature, options.top_k, options.top_p).require()
    require_int("--seed", options.seed or 0, 0)
    require_int("--max-tokens", options.max_tokens, 0)
    file = open_gguf(options.model)
    begun = time.perf_counter()
    vocabulary = read_vocabulary(file)
    prompt = vocabulary.encode(options.prompt)
    # No more room for keys and values than this text needs.
    room = min(read_hyper(file).positions, len(prompt) + max(1, options.max_tokens))
    model = Model(file, room, vocabulary=vocabulary)
    loaded = time.perf_counter()
    times: list[float] = []

    tokens = model.tokens(prompt, options.max_tokens, sampling, options.seed)
    print(options.prompt, end="", flush=True)

    def timed() -> Iterator[int]:
        for token in tokens:
            times.append(time.perf_counter())
            yield token

    for text in model.text(timed()):
        print(text, end="", flush=True)
    print()
    _report(begun, loaded, times, len(prompt))


def _report(begun: float, loaded: float, times: list[float], prompt: int) -> None:
    if not times:
        print(f"[{loaded - begun:.1f} s to load]", file=sys.stderr)
        return
    # The first steps compile and record, and the last token is there at once: no step runs while it is read.
    rest = times[3:-1]
    speed = f", {(len(rest) - 1) / (rest[-1] - rest[0]):.1f} tokens/s" if len(rest) > 1 else ""
    print(
        f"[{loaded - begun:.1f} s to load, {times[0] - loaded:.1f} s to the first token after {prompt} of the prompt, "
        f"{len(times)} tokens{speed}]",
        file=sys.stderr,
    )
