"""The time until the first training step of `examples/07_gpt.py` has run, in processes of their own.

    python benchmarks/first_call.py [--out FILE]

Cold: nothing has been compiled. Cached: the cold process's kernels are on the disk. Bundle: `python -m cukern build`
made them, caches are empty, and the compilers are made to fail. Start: the device's own, on a GPU CuPy's import, CUDA's
and cuBLAS's; the other times come after it, in seconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "07_gpt.py"
COLUMNS = ("start", "import", "model", "first step", "together", "second step", "loss")


def start(gpu: bool) -> None:
    """What a process that uses the device does in any case."""
    if not gpu:
        return
    import cupy

    one = cupy.ones((8, 8), cupy.float32)
    cupy.matmul(one, one)
    cupy.cuda.runtime.deviceSynchronize()


def forbid_compilers(gpu: bool) -> None:
    """Make NVRTC, the host's compilers and CuPy's own kernels fail."""

    def fail(*given: Any, **options: Any) -> Any:
        raise AssertionError("something was compiled")

    os.environ["PATH"] = "/nowhere"
    sys.modules["ziglang"] = None  # type: ignore[assignment]
    if gpu:
        import cupy

        cupy.cuda.compiler.compile_using_nvrtc = fail
        loads = cupy.RawModule

        def loaded(*, path: str, **options: Any) -> Any:
            return loads(path=path, **options)

        cupy.RawModule = loaded
        from cukern.device import nvrtc

        nvrtc.compile = fail


def measured(gpu: bool, bundled: bool) -> dict[str, float]:
    """The times of this process."""
    times = [time.perf_counter()]

    def stamp() -> None:
        times.append(time.perf_counter())

    start(gpu)
    stamp()
    import cukern as ck

    stamp()
    if bundled:
        forbid_compilers(gpu)
        times[-1] = time.perf_counter()
    spec = importlib.util.spec_from_file_location("example", EXAMPLE)
    assert spec and spec.loader
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    model = example.GPT(96, 32)
    step = example.make_step(model, example.make_optimizer(model, lr=1e-2, steps=500))
    codes, following = (ck.asarray([[(i + j) % 96 for j in range(32)] for i in range(16)]) for _ in "ab")
    codes, following = ck.astype(codes, "int32"), ck.astype(following, "int32")
    ck.zeros(1).device.synchronize()
    stamp()
    loss = step(codes, following).item()
    stamp()
    step(codes, following).item()
    stamp()
    own = [end - begin for begin, end in itertools.pairwise(times)]
    return dict(zip(COLUMNS, (*own[:4], sum(own[1:4]), own[4], loss), strict=True))


def child(folder: Path, *words: str, **environment: str) -> str:
    """What a process prints that finds the caches of ``folder``."""
    own = {**os.environ, "CUKERN_CACHE_DIR": str(folder), **environment}
    done = subprocess.run([sys.executable, *words], env=own, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="a file for the table")
    parser.add_argument("--measure", choices=("plain", "bundle"), help=argparse.SUPPRESS)
    parser.add_argument("--gpu", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.gpu, options.measure == "bundle")))
        return
    import cukern as ck

    device = ck.zeros(1).device
    gpu = device.kind == "cuda"
    name = "sm_{}{}".format(*device.properties.compute_capability) if gpu else "host"
    lines = [f"{device.properties.name}, times in seconds", "", f"| process | {' | '.join(COLUMNS)} |"]
    lines.append("| --- " * (len(COLUMNS) + 1) + "|")
    print(*lines, sep="\n", flush=True)
    own = [str(Path(__file__).resolve()), *(["--gpu"] if gpu else [])]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        bundle = folder / "bundle"
        build = ["-m", "cukern", "build", own[0], "--arch", name, "--out", str(bundle)]
        child(folder / "build", *build, "--", "--measure", "plain")
        for row, cache, words, environment in (
            ("cold", "cache", "plain", {}),
            ("cached", "cache", "plain", {}),
            ("bundle", "nothing", "bundle", {"CUKERN_BUNDLE": str(bundle)}),
        ):
            found = json.loads(child(folder / cache, *own, "--measure", words, **environment))
            lines.append(f"| {row} | {' | '.join(f'{found[column]:.3f}' for column in COLUMNS)} |")
            print(lines[-1], flush=True)
        assert not (folder / "nothing").exists(), "the bundled process wrote to its cache"
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
