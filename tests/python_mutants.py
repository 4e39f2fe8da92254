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
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from python_mutations import PythonMutation, python_mutations

HERE = Path(__file__).parent
ROOT = HERE.parent
#: The tests of the modules whose paths in ``cukern/`` begin so; the longest that fits. Their own examples come first.
CHECKS = {
    "": "names signatures habits",
    "capture": "capture",
    "dtypes": "dtypes default_dtype numbers",
    "errors": "kernel",
    "export/": "export",
    "fft": "fft",
    "files": "saves files checkpoint_files",
    "function": "function function_containers kernel_gradients gradient_memory",
    "io": "files saves trust",
    "lib/": "numpy_habits",
    "linalg": "linalg decompositions norms",
    "pytree": "tree module function_containers transforms",
    "transforms": "transforms recompute",
    "tree": "tree",
    "array/": "array protocols interop",
    "array/creation": "creation default_dtype assemble",
    "array/implicit": "implicit_conversions strict_tape",
    "array/making": "made_arrays",
    "array/memory": "array saves numpy_habits protocols",
    "array/numpy_dispatch": "protocols ufunc",
    "array/operators": "array inplace elementwise",
    "array/printing": "numpy_habits array",
    "autodiff/": "tape tape_recording inplace_recorded",
    "autodiff/cotangents": "gradient_memory tape tape_recording",
    "autodiff/recompute": "recompute",
    "autodiff/tape": "tape tape_recording kernel_gradients function",
    "bench/": "bench",
    "bridge/": "operators",
    "cli/": "cli build_for_gpus",
    "cli/build": "bundles build_for_gpus",
    "control/": "implicit",
    "control/ode": "ode",
    "control/loops": "loops",
    "demo/": "cli",
    "device/": "bundle_file bundles trust",
    "device/capture": "capture",
    "device/disk_cache": "diskcache",
    "device/texts": "texts",
    "device/dlpack": "interop",
    "device/nvrtc": "nvrtc libraries",
    "device/precision": "matmul_precision",
    "device/host/": "host_runtime kernel",
    "device/ahead": "ahead",
    "device/host/compiler": "host_runtime host_processes quick_builds host_faults",
    "device/host/lines": "host_guards",
    "device/host/packing": "host_runtime tensor_map",
    "device/host/processors": "bundles",
    "device/host/ptx": "inline_ptx ptx",
    "device/host/settings": "host_guards quick_builds host_faults",
    "device/host/texture": "textures",
    "device/host/checked/": "checked checked_memory",
    "device/recording/": "build_for_gpus",
    "distributed/": "ranks",
    "distributed/checkpoint": "checkpoint_files ranks",
    "distributed/dask": "dask",
    "distributed/engine": "engines",
    "distributed/environment": "launch ranks",
    "distributed/keeper": "launch",
    "distributed/launch": "launch",
    "distributed/me": "rendezvous ranks",
    "distributed/nccl": "nccl",
    "distributed/output": "launch",
    "distributed/pmi": "engines",
    "distributed/rendezvous": "rendezvous",
    "elementwise/": "elementwise operands fuse",
    "kernel/by_numpy": "by_numpy",
    "elementwise/alike": "jit_many",
    "elementwise/complex": "complex",
    "elementwise/custom": "custom",
    "elementwise/exponents": "elementwise derivatives",
    "elementwise/function": "elementwise operands inplace elementwise_gradients",
    "elementwise/fuse": "fuse",
    "elementwise/geometry": "elementwise spread",
    "elementwise/inplace": "inplace inplace_recorded",
    "elementwise/many": "jit_many optim_many",
    "elementwise/piecewise": "nn_activations elementwise_gradients",
    "elementwise/special": "special elementwise_gradients",
    "elementwise/summed": "summed",
    "elementwise/table": "elementwise_gradients elementwise derivatives",
    "elementwise/ufunc": "ufunc",
    "generate/": "generate generate_attend generate_step",
    "generate/vocabulary": "vocabulary",
    "gguf/": "gguf",
    "index/": "index at put shared_memory",
    "index/assemble": "assemble",
    "index/bits": "put",
    "index/combine": "at segments",
    "index/compact": "search",
    "index/fold": "ufunc segments",
    "index/families": "scan sort",
    "index/scan": "scan",
    "index/search": "search",
    "index/segment_program": "jit_segments",
    "index/segments": "segments jit_segments",
    "index/select": "select sort",
    "index/sets": "sets",
    "index/sort": "sort select",
    "index/sort_variants": "sort sets",
    "index/traced": "jit_segments",
    "index/unravel": "at",
    "kernel/": "kernel plain_kernels",
    "kernel/bound": "kernel plain_kernels checked",
    "kernel/operator": "operators",
    "kernel/recorder": "replay",
    "kernel/sizes": "scan reduce",
    "kernel/structs": "structs",
    "kernel/tensor_map": "tensor_map",
    "kernel/texture": "textures",
    "kernel/variables": "programs kernel",
    "launch/": "families",
    "linear/": "linalg products",
    "linear/batched": "batched_equations decompositions",
    "linear/blas": "linalg products",
    "linear/decompositions": "decompositions decomposition_gradients",
    "linear/einsum": "einsum",
    "linear/epilogue": "fuse_products saved_products",
    "linear/exponential": "linalg",
    "linear/few_rows": "few_rows product_rows",
    "linear/lapack": "decompositions complex_linalg",
    "linear/library": "library_products products",
    "linear/panels": "panels",
    "linear/solving": "linalg decompositions",
    "linear/tma": "tma_products",
    "linear/triangular": "linalg batched_equations",
    "linear/variants": "tensor_cores simt_products product_rows",
    "namespace/": "names namespace",
    "namespace/einops": "interop",
    "namespace/hints": "names habits",
    "nn/": "module nn_linear",
    "nn/activations": "nn_activations",
    "nn/channel": "nn_normalization",
    "nn/classification": "nn_cross_entropy nn_losses large_logits",
    "nn/dropout": "nn_dropout",
    "nn/embedding": "module nn_linear",
    "nn/fused": "nn_linear nn_layer_norm nn_losses",
    "nn/linear": "nn_linear nn_matmul_add_relu",
    "nn/linear_cross_entropy": "nn_linear_cross_entropy",
    "nn/losses": "nn_cross_entropy nn_losses",
    "nn/normalization": "nn_normalization",
    "nn/rearrange": "nn_rearrange",
    "nn/recurrent": "nn_recurrent",
    "nn/regression": "nn_losses",
    "nn/rotary": "nn_rotary",
    "nn/sampling": "nn_sampling",
    "nn/similarity": "nn_similarity",
    "nn/attention/": "nn_attention nn_attention_scores",
    "nn/attention/cache": "nn_cache",
    "nn/attention/conditions": "nn_attention_conditions",
    "nn/attention/gradients": "nn_attention_kernels nn_attention_tma",
    "nn/attention/masks": "nn_attention_masks",
    "nn/attention/simt": "nn_attention_kernels nn_attention_few",
    "nn/attention/staging": "nn_attention_staging",
    "nn/attention/tensor_cores": "nn_attention_kernels nn_attention_few",
    "nn/attention/variants": "nn_attention_kernels nn_attention_few",
    "nn/attention/warpgroups": "nn_attention_tma",
    "nn/convolution/": "nn_convolution nn_convolution_maps",
    "nn/convolution/depthwise": "nn_depthwise",
    "nn/convolution/few": "nn_convolution_few",
    "nn/convolution/fold": "nn_fold",
    "nn/convolution/winograd": "nn_convolution_transforms",
    "nn/init": "nn_linear",
    "nn/layer_norm/": "nn_layer_norm nn_rms_norm",
    "nn/lltm": "nn_lltm",
    "nn/pooling/": "nn_pooling nn_pooling_axes",
    "nn/resampling/": "nn_resampling",
    "nn/resampling/grid": "nn_grid",
    "ops/": "calculus manipulate creation",
    "ops/bessel": "special_functions",
    "ops/calculus": "calculus",
    "ops/choices": "slices put",
    "ops/comparisons": "array operands",
    "ops/conversions": "creation dtypes",
    "ops/covariance": "statistics",
    "ops/fitting": "polynomials",
    "ops/gamma": "special_functions",
    "ops/grids": "creation slices",
    "ops/histogram": "statistics slices",
    "ops/info": "dtypes creation",
    "ops/numpys": "numpy_habits",
    "ops/padding": "padding",
    "ops/polynomials": "polynomials special_functions",
    "ops/slices": "slices",
    "ops/spaces": "creation",
    "ops/statistics": "statistics",
    "ops/texts": "numpy_habits",
    "ops/ufunc_methods": "ufunc",
    "ops/vectorized": "protocols custom",
    "ops/windows": "slices creation",
    "optim/": "optim optim_many",
    "polynomial/": "polynomial_module",
    "quant/": "quantised_blocks quantised_products",
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
    "testing/slopes": "kernelcheck kernelcheck_ports",
    "testing/kernelcheck": "kernelcheck kernelcheck_ports",
    "testing/large": "large",
    "testing/locate": "kernelcheck testing_tools",
    "testing/shapes": "kernelcheck kernelcheck_ports",
    "testing/stand_ins": "kernelcheck_ports kernelcheck",
    "testing/strict": "strict_tape",
    "testing/trace": "trace",
    "text/": "render signature",
    "text/assemble": "assemble programs",
    "text/line": "lines",
    "text/needed": "programs plain_kernels",
    "text/stand_ins": "kernelcheck_ports kernelcheck",
}
#: Modules that only a GPU runs.
ELSEWHERE = ("device/cuda/",)
#: Mutants that make no difference: the module, the text that is changed, what the change is, and why.
EQUIVALENT: tuple[tuple[str, str, str, str], ...] = (
    ("polynomial/polynomial.py", "result_type(dtype, 0.0)", "`0.0` is `1.0`", "only its type counts"),
    ("polynomial/polyutils.py", "for c in made), 0.0)", "`0.0` is `1.0`", "only its type counts"),
    ("random/philox.py", "min(_PIECE", "`min` is `max`", "another cut of the same words, for speed"),
    ("nn/lltm.py", "if state else 0.0", "`0.0` is `1.0`", "the bound of no numbers"),
    (
        "bench/run.py",
        "range(2 if case.kind",
        "the choices are swapped",
        "calls before those that are measured",
    ),
    ("nn/attention/staging.py", "by_places = {", "`&` is `|`", "what is made ahead, for speed"),
    ("elementwise/geometry.py", "share <= 1.125", "`1.125` is `2.25`", "lanes of a row, for speed"),
    ("elementwise/geometry.py", "pieces, steps = ", "`//` is `*`", "more blocks, which find no rows"),
    ("elementwise/kinds.py", "copy=False", "`False` is `True`", "a copy of what has just been made"),
    ("elementwise/special.py", "< 1e37", "`1e37` is `2e+37`", "the product with pi is finite up to 1.08e38"),
    ("nn/resampling/bands.py", "if out > 1 else 0.0", "`0.0` is `1.0`", "the first place is 0 times that"),
    ("device/recording/library.py", "last = sum(", "`-` is `+`", "a view of more memory than is used"),
    ("reduction/variants.py", "pieces = max(1, min(outer", "`//` is `*`", "pieces of a row, for speed"),
    ("reduction/softmax_variants.py", "threads > tuning", "`>` is `>=`", "packs of a thread, for speed"),
    ("sparse/products.py", "longest = max(", "`max` is `min`", "which rows are divided, for speed"),
    ("sparse/products.py", "along = min(_WARP", "`1` is off by one", "the power of two of 0 is 1 too"),
    ("device/host/settings.py", "seconds = -1.0", "`1.0` is `0.5`", "any negative number"),
    ("array/layout.py", "shape >= 0", "`>=` is `>`", "the way of other shapes, with the same result"),
    (
        "nn/convolution/depthwise_ring_weights.py",
        "bands = max(1, min(",
        "`//` is `*`",
        "more bands, for speed",
    ),
    ("nn/convolution/few_channels.py", "filters <= 32", "`<=` is `<`", "filters of a block, for speed"),
    (
        "nn/convolution/shifted_weights.py",
        "sum(self.lines) / 8",
        "`/` is `*`",
        "which form is taken, for speed",
    ),
    (
        "linear/decompositions.py",
        "a.shape[0] >= a",
        "`>=` is `>`",
        "a square matrix's values are its adjoint's",
    ),
    ("array/creation.py", "abs(step)) < 2**62", "`**` is `*`", "counted by NumPy, with the same result"),
    ("io/reading.py", "data.read(1)", "the statement is left out", "what reads the last byte has checked it"),
    ("kernel/sizes.py", "<= LARGEST_INDEX", "`<=` is `<`", "the wider type holds it too"),
    ("linear/products.py", "made, x.dtype, copy", "`False` is `True`", "a copy of what has just been made"),
)
#: Mutants that a GPU alone could run, or a library on one.
ON_GPUS: tuple[tuple[str, str, str, str], ...] = (
    ("gguf/file.py", "len(kinds) > 1", "`>` is `>=`", "one copy of a whole file to a GPU"),
    ("bench/libraries.py", 'if case.kind == "call"', "the check is dropped", "PyTorch on a GPU"),
    ("shape/joins.py", "found.shape[place] * step", "`*` is `+`", "parts that lie side by side on a GPU"),
    ("fft.py", "made.size // count", "`//` is `*`", "a plan of cuFFT"),
    ("array/array.py", "self._operand + offset", "`+` is `-`", "views of arrays of GPUs"),
    (
        "array/creation.py",
        "device=None if given",
        "`device` is left out",
        "arrays of another than the current one",
    ),
    (
        "array/creation.py",
        "            return Array._wrap(where.backend.zeros",
        "`zeros` is `ones`",
        "arrays of one of several GPUs",
    ),
    ("index/unravel.py", "clipped = all(mode", "`all` is `any`", "indices out of range on a GPU"),
    ("ops/spaces.py", "not where.addressable and wanted", "the last condition is dropped", "ends on a GPU"),
    ("linear/diagonals.py", "max(0, offset) :]", "`max` is `min`", "views of arrays of GPUs"),
)
#: Seconds of CPU time for the tests of a mutant: those that run its line first, the quickest first.
SECONDS = 60
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


class Copy:
    """A copy of the source tree and of the cache of compiled kernels, which mutants may spoil."""

    def __init__(self, folder: Path) -> None:
        self.root, self._cache = folder / "tree", folder / "cache"
        self._job, self._tried = folder / "mutants.json", 0
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

    def path(self, module: str) -> Path:
        """The file of a module."""
        return self.root / "cukern" / module

    def run(self, mutants: Sequence[tuple[str, PythonMutation]], seconds: float) -> Iterator[dict[str, Any]]:
        """Run the tests of some mutants, of each file as many as begin within so many seconds of CPU time."""
        files = list(dict.fromkeys(file for module, _ in mutants for file in tests(module)))
        given = []
        for module, one in mutants:
            self._tried += 1
            path = self.path(module)
            text, now = one.apply(path.read_text()), 10**9 + self._tried
            place = {"line": one.line, "function": one.function, "body": one.body}
            given.append({"path": str(path), "text": text, "time": now, **place})
        job = {
            "mutants": given,
            "seconds": SECONDS,
            "seconds_of_file": seconds,
            "options": len(OPTIONS),
        }
        self._job.write_text(json.dumps(job))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.root), str(self.root / "tests")]),
            "CUKERN_CACHE_DIR": str(self._cache),
            "CUKERN_TEST_DEVICES": "host",
            "MUTANTS": str(self._job),
        }
        if "CUKERN_CACHE_DIR" in os.environ:
            shutil.copytree(
                os.environ["CUKERN_CACHE_DIR"], self._cache, copy_function=_link, dirs_exist_ok=True
            )
        command = [sys.executable, "-m", "pytest", *OPTIONS, "-p", "mutant_tests", *files]
        with self._job.with_name("log").open("w") as log:
            subprocess.run(command, cwd=self.root, env=environment, stdout=log, stderr=log, check=True)
        found = Path(f"{self._job}.out").read_text().splitlines()
        for (module, one), line in zip(mutants, found, strict=True):
            diff = one.diff(self.path(module).read_text())
            yield {"file": module, "line": one.line, "what": one.what, "diff": diff, **json.loads(line)}
        # What is compiled is kept for the next room, unless it may be wrong.
        if any(module.startswith("device/") for module, _ in mutants):
            shutil.rmtree(self._cache)


def _link(source: str, target: str) -> None:
    """Another name of a file, or a copy where the folders are on different file systems."""
    try:
        os.link(source, target)
    except (FileNotFoundError, FileExistsError):
        pass  # replaced meanwhile, or linked before
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


def attempts(
    pattern: str,
    sample: int,
    seed: int,
    control: bool,
    again: Collection[tuple[str, str]] | None,
    seconds: float,
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
                if again is None or (module, one.diff(copy.path(module).read_text())) in again
            ]
            if not mutants or not fnmatch.fnmatch(name, pattern):
                continue
            if control:
                mutants = [(module, one._replace(end=one.start, new="")) for module, one in mutants]
            yield from copy.run(mutants, seconds)
