"""The part of :mod:`mutation` about Python: which tests notice a change of a module, in a copy of the source tree."""

from __future__ import annotations

import fnmatch
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mutation_runner as runner
from python_mutations import PythonMutation, python_mutations

HERE = Path(__file__).parent
ROOT = HERE.parent
#: The tests of the modules whose paths in ``cukern/`` begin so; the longest that fits. Their own examples come first.
CHECKS = {
    "": "names signatures habits",
    "capture": "capture",
    "dtypes": "dtypes default_dtype numbers",
    "errors": "kernel",
    "fft": "fft",
    "function": "function function_containers kernel_gradients",
    "io": "files trust",
    "linalg": "linalg decompositions",
    "pytree": "tree module function_containers transforms",
    "transforms": "transforms recompute",
    "tree": "tree",
    "array/": "array protocols interop numbers creation",
    "array/creation": "creation default_dtype",
    "array/making": "made_arrays",
    "array/numpy_dispatch": "protocols ufunc",
    "array/operators": "array inplace elementwise",
    "autodiff/": "tape tape_recording tape_abstract strict_tape inplace_recorded transforms",
    "autodiff/recompute": "recompute",
    "bench/": "bench",
    "cli/": "cli build_for_gpus",
    "demo/": "runs readme",
    "device/": "bundle_file bundles trust",
    "device/capture": "capture",
    "device/disk_cache": "diskcache",
    "device/dlpack": "interop",
    "device/nvrtc": "nvrtc libraries",
    "device/precision": "matmul_precision",
    "device/host/": "host_runtime host_faults host_guards kernel",
    "device/host/ahead": "ahead",
    "device/host/compiler": "host_runtime host_processes quick_builds",
    "device/host/ptx": "inline_ptx ptx",
    "device/host/texture": "textures",
    "device/host/tensor_map": "tensor_map",
    "device/host/checked/": "checked checked_memory checked_clusters beside",
    "device/recording/": "build_for_gpus",
    "distributed/": "ranks",
    "distributed/dask": "dask",
    "distributed/engine": "engines",
    "distributed/launch": "launch",
    "distributed/nccl": "nccl",
    "distributed/pmi": "engines",
    "distributed/rendezvous": "rendezvous",
    "elementwise/": "elementwise operands fuse",
    "elementwise/by_numpy": "by_numpy",
    "elementwise/complex": "complex",
    "elementwise/custom": "custom",
    "elementwise/exponents": "elementwise derivatives",
    "elementwise/function": "elementwise operands inplace elementwise_gradients",
    "elementwise/fuse": "fuse",
    "elementwise/geometry": "elementwise spread",
    "elementwise/inplace": "inplace inplace_recorded",
    "elementwise/special": "special elementwise_gradients",
    "elementwise/summed": "summed",
    "elementwise/table": "elementwise_gradients elementwise derivatives",
    "elementwise/ufunc": "ufunc",
    "generate/": "generate generate_attend generate_step",
    "generate/vocabulary": "vocabulary",
    "gguf/": "gguf",
    "index/": "index at put",
    "index/assemble": "manipulate",
    "index/bits": "put",
    "index/combine": "at segments",
    "index/fold": "ufunc segments",
    "index/radix": "sort sets",
    "index/scan": "scan",
    "index/search": "search",
    "index/segments": "segments",
    "index/select": "select sort",
    "index/sets": "sets",
    "index/sort": "sort select",
    "kernel/": "kernel kernel_templates plain_kernels prepare",
    "kernel/structs": "structs",
    "kernel/tensor_map": "tensor_map",
    "kernel/texture": "textures",
    "kernel/variables": "programs kernel",
    "linear/": "linalg products library_products matmul_precision",
    "linear/batched": "batched_equations decompositions",
    "linear/decompositions": "decompositions decomposition_gradients",
    "linear/einsum": "einsum",
    "linear/epilogue": "fuse_products saved_products",
    "linear/exponential": "linalg",
    "linear/few_rows": "few_rows product_rows",
    "linear/lapack": "decompositions complex_linalg",
    "linear/parts": "parts",
    "linear/plan": "linalg product_rows products",
    "linear/solving": "linalg decompositions",
    "linear/tensor_cores": "tensor_cores matmul_precision",
    "linear/tma": "tma_products",
    "linear/triangular": "linalg batched_equations",
    "namespace/": "names namespace",
    "namespace/hints": "names habits",
    "nn/": "module nn_linear",
    "nn/activations": "nn_activations",
    "nn/channel": "nn_normalization",
    "nn/classification": "nn_cross_entropy nn_losses",
    "nn/dropout": "nn_dropout",
    "nn/embedding": "module nn_linear",
    "nn/fused": "nn_linear nn_layer_norm nn_losses",
    "nn/linear": "nn_linear",
    "nn/linear_cross_entropy": "nn_linear_cross_entropy",
    "nn/losses": "nn_losses",
    "nn/matmul_add_relu": "nn_matmul_add_relu",
    "nn/normalization": "nn_normalization",
    "nn/rearrange": "nn_rearrange",
    "nn/recurrent": "nn_recurrent",
    "nn/regression": "nn_losses",
    "nn/rotary": "nn_rotary",
    "nn/sampling": "nn_sampling",
    "nn/attention/": "nn_attention nn_attention_masks nn_attention_scores",
    "nn/attention/cache": "nn_cache",
    "nn/attention/combine": "nn_attention_few",
    "nn/attention/conditions": "nn_attention_conditions",
    "nn/attention/plan": "nn_attention_kernels nn_attention_few",
    "nn/attention/staging": "nn_attention_staging",
    "nn/attention/tma": "nn_attention_tma",
    "nn/convolution/": "nn_convolution nn_convolution_maps",
    "nn/convolution/depthwise": "nn_depthwise",
    "nn/convolution/few": "nn_convolution_few",
    "nn/convolution/fold": "nn_fold",
    "nn/convolution/winograd": "nn_convolution_transforms",
    "nn/layer_norm/": "nn_layer_norm",
    "nn/layer_norm/rms": "nn_rms_norm",
    "nn/lltm/": "nn_lltm",
    "nn/pooling/": "nn_pooling nn_pooling_axes",
    "nn/resampling/": "nn_resampling",
    "ops/": "calculus manipulate creation",
    "ops/bessel": "special_functions",
    "ops/calculus": "calculus",
    "ops/choices": "slices put",
    "ops/comparisons": "array operands",
    "ops/conversions": "creation dtypes",
    "ops/covariance": "statistics",
    "ops/factors": "special_functions",
    "ops/fitting": "polynomials",
    "ops/gamma": "special_functions",
    "ops/grids": "creation slices",
    "ops/histogram": "statistics slices",
    "ops/info": "dtypes creation",
    "ops/padding": "padding",
    "ops/polynomials": "polynomials",
    "ops/slices": "slices",
    "ops/spaces": "creation",
    "ops/statistics": "statistics",
    "ops/ufunc_methods": "ufunc",
    "ops/vectorized": "protocols custom",
    "ops/windows": "slices creation",
    "optim/": "optim optim_many",
    "polynomial/": "polynomial_module",
    "quant/": "quantised_blocks quantised_products quantised_warpgroups",
    "random/": "random distributions",
    "reduction/": "reduce reduce_work",
    "reduction/custom": "custom",
    "reduction/softmax": "softmax",
    "shape/": "manipulate",
    "shape/known_views": "known_views",
    "shape/remap": "padding manipulate",
    "shape/views": "manipulate array",
    "sparse/": "sparse",
    "testing/": "testing_tools gradcheck",
    "testing/checked": "checked",
    "testing/duals": "kernelcheck",
    "testing/kernelcheck": "kernelcheck",
    "testing/large": "large",
    "testing/locate": "kernelcheck testing_tools",
    "testing/strict": "strict_tape",
    "testing/trace": "trace",
    "text/": "render signature",
    "text/assemble": "assemble programs",
    "text/line": "lines",
}
#: Modules that only a GPU runs.
ELSEWHERE = ("device/cuda/",)
#: Mutants that make no difference: the module, the text that is changed, what the change is, and why.
EQUIVALENT: tuple[tuple[str, str, str, str], ...] = ()
#: Of all tests that run a line, the quickest are tried, for so many seconds of CPU time in all.
SECONDS = 90
#: Of each file, as many tests are tried as begin within so many seconds of CPU time.
SECONDS_OF_FILE = 8
OPTIONS = (
    "-q",
    "-o",
    "addopts=",
    "-p",
    "no:xdist",
    "-p",
    "no:cacheprovider",
    "-m",
    "not thorough",
    "--doctest-modules",
)


class Test(NamedTuple):
    """A test as it ran without a mutant: its seconds of CPU time, and the lines of functions of interest."""

    name: str
    seconds: float
    lines: frozenset[tuple[str, int]]


class Copy:
    """A copy of the source tree and of the cache of compiled kernels, which mutants may spoil."""

    def __init__(self, folder: Path) -> None:
        self.root, self._cache, self._changes = folder / "tree", folder / "cache", 0
        self.log = folder / "log"
        if "CUKERN_CACHE_DIR" in os.environ:
            shutil.copytree(os.environ["CUKERN_CACHE_DIR"], self._cache, copy_function=_link)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)

    def run(
        self, arguments: Sequence[str], limit: runner.Limit, apart: bool = False, **more: str
    ) -> runner.Ended:
        """Run pytest in the copy. What is compiled is kept for later runs, unless it may be wrong."""
        cache = self._cache
        if apart:
            cache = self._cache.with_name("cache-of-one")
            shutil.rmtree(cache, ignore_errors=True)
            shutil.copytree(self._cache, cache, copy_function=_link)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.root), str(self.root / "tests")]),
            "CUKERN_CACHE_DIR": str(cache),
            "CUKERN_TEST_DEVICES": "host",
            **more,
        }
        command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments]
        return runner.run(command, self.root, environment, limit, self.log)

    def read(self, module: str) -> str:
        """The text of a module."""
        return (self.root / "cukern" / module).read_text()

    def write(self, module: str, text: str) -> None:
        """Write a module, with a time of its own, by which Python knows that its bytecode is another."""
        path = self.root / "cukern" / module
        path.write_text(text)
        self._changes += 1
        now = 10**9 + self._changes
        os.utime(path, (now, now))


def _link(source: str, target: str) -> None:
    """Another name of a file, or a copy where the folders are on different file systems."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        pass  # replaced meanwhile
    except OSError:
        shutil.copy2(source, target)


def tests(module: str) -> list[str]:
    """The files that test a module, from the root of the tree."""
    names = CHECKS[max((name for name in CHECKS if module.startswith(name)), key=len)]
    files = [next(HERE.rglob(f"test_{name}.py")) for name in names.split()]
    return [f"cukern/{module}", *(str(file.relative_to(ROOT)) for file in files)]


def room(module: str) -> str:
    """The folder of a module."""
    return module.rpartition("/")[0]


def chosen(sample: int, seed: int) -> dict[str, list[tuple[str, PythonMutation]]]:
    """Mutants of each room, as many for each thousand of places, or at least; of different kinds as far as possible."""
    rooms: dict[str, list[tuple[str, PythonMutation]]] = {}
    for path in sorted((ROOT / "cukern").rglob("*.py")):
        module = path.relative_to(ROOT / "cukern").as_posix()
        if not module.startswith(ELSEWHERE):
            rooms.setdefault(room(module), []).extend(
                (module, one) for one in python_mutations(path.read_text())
            )
    names = sorted(name for name in rooms if rooms[name])
    random.Random(seed).shuffle(names)  # so that a part of a run tells about all rooms
    made = {}
    for name in names:
        draw = random.Random(f"{name} {seed}")
        kinds: dict[str, list[tuple[str, PythonMutation]]] = {}
        for one in rooms[name]:
            kinds.setdefault(_kind(one[1].what), []).append(one)
        count = sample * math.ceil(len(rooms[name]) / 1000)
        taken = draw.sample(sorted(kinds), min(count, len(kinds)))
        made[name] = sorted(
            (draw.choice(kinds[kind]) for kind in taken), key=lambda one: (one[0], one[1].start)
        )
    return made


def _kind(what: str) -> str:
    """The kind of a change, whichever number or argument it is about."""
    words = what.split("`")
    return words[-1] if words[-1] in (" is off by one", " is left out") else what


def usual(copy: Copy, files: Sequence[str], mutants: Sequence[tuple[str, PythonMutation]]) -> list[Test]:
    """Run the tests of some files without a mutant; those that pass, with what they run of the mutants' functions."""
    wanted: dict[str, list[int]] = {}
    for module, one in mutants:
        wanted.setdefault(f"cukern/{module}", []).append(one.function)
    noted = copy.root / "lines.json"
    noted.write_text(json.dumps(wanted))
    copy.run(
        [*files, "-p", "lines_run"],
        runner.Limit(3600, 3600),
        LINES_RUN=str(noted),
        LINES_SECONDS=str(SECONDS_OF_FILE),
    )
    found = json.loads(Path(f"{noted}.out").read_text())
    always = {tuple(place) for place in found.get("", {}).get("lines", ())}
    return [
        Test(name, one["seconds"], frozenset(always | {tuple(place) for place in one["lines"]}))
        for name, one in found.items()
        if name and one["outcome"] == "passed" and "lines" in one
    ]


def those_of(module: str, one: PythonMutation, known: Sequence[Test]) -> list[Test]:
    """The tests that run a mutant's line, the quickest first, as many as there is time for."""
    path = f"cukern/{module}"
    # A default of a parameter does not run with the function.
    place = (path, one.line if one.line >= one.body else one.function)
    run = [test for test in known if place in test.lines]
    taken, seconds = [], 0.0
    for test in sorted(run, key=lambda test: test.seconds):
        seconds += test.seconds
        if taken and seconds > SECONDS:
            break
        taken.append(test)
    return taken


def attempt(copy: Copy, module: str, one: PythonMutation, known: Sequence[Test]) -> dict[str, Any]:
    """What became of a mutant."""
    source = copy.read(module)
    made = {"file": module, "line": one.line, "what": one.what, "diff": one.diff(source)}
    mine = those_of(module, one, known)
    if not mine:
        return {**made, "outcome": "survived", "tests": 0}
    began, usually = time.monotonic(), sum(test.seconds for test in mine)
    names = copy.root / "names.txt"
    names.write_text("".join(f"{test.name}\n" for test in mine))
    copy.write(module, one.apply(source))
    try:
        limit = runner.Limit(int(5 * usually) + 60, int(20 * usually) + 240)
        found = copy.run(["-x", f"@{names}"], limit, apart=module.startswith("device/"))
    finally:
        copy.write(module, source)
    lines = [
        line
        for line in copy.log.read_text(errors="replace").splitlines()
        if line.startswith(("FAILED", "ERROR"))
    ]
    return {
        **made,
        "outcome": runner.outcome(found),
        "status": found.status,
        "tests": len(mine),
        "by": lines[0][:200] if lines else "",
        "seconds": round(time.monotonic() - began, 1),
    }


def attempts(
    pattern: str, sample: int, seed: int, control: bool, again: Collection[tuple[str, str]] | None
) -> Iterator[dict[str, Any]]:
    """Try mutants of the rooms whose names match, or some of them once more.

    As a control, try a change that makes no difference.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        for name, drawn in chosen(sample, seed).items():
            mutants = [
                (module, one)
                for module, one in drawn
                if again is None or (module, one.diff(copy.read(module))) in again
            ]
            if not mutants or not fnmatch.fnmatch(name, pattern):
                continue
            files = list(dict.fromkeys(file for module, _ in mutants for file in tests(module)))
            known = usual(copy, files, mutants)
            for module, one in mutants:
                same = one._replace(what="nothing", end=one.start, new="") if control else one
                yield attempt(copy, module, same, known)
