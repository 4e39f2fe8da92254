"""How many small mistakes in the library's kernels and in its Python do its tests notice, on the host?

    python tests/mutation.py --sample 2 --out mutants.jsonl [--only 'index/*']    # of templates
    python tests/mutation.py --python --sample 2 --out mutants.jsonl              # of cukern/
    python tests/mutation.py --python --again mutants.jsonl --out mutants.jsonl   # its survivors once more
    python tests/mutation.py --table mutants.jsonl                                # the score and all survivors

Each mutant is one change of one template (``cukern.testing.mutations``) or of one function (``python_mutations.py``).

A template's tests run in a forked process, up to the first failure. Mutants that lack a statement or an atomic run in
checked launches, and so does, once more, what goes unnoticed otherwise, such as a read beyond an end whose value
nothing uses. A mutant that no test renders, or that the preprocessor leaves out on the host, is not counted.

A module's mutants are written into a copy of the source tree (``python_mutants.py``). Its room's tests run there once
without any, which tells which of them run the changed lines; of each mutant these alone run, the quickest first. A line
that none of them runs counts as unnoticed. What only a GPU runs is left out.

Mutants that make no difference are not counted: those that were read are in ``EQUIVALENT``, with the reason.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import json
import os
import random
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import mutation_runner as runner
import pytest
import python_mutants

import cukern as ck
from cukern.testing.mutations import Mutation, mutations
from cukern.text import render

HERE = Path(__file__).parent
#: The tests of the templates whose names begin so; the longest that fits.
CHECKS = {
    "elementwise/": ["elementwise", "operands"],
    "elementwise/many": ["jit_many", "optim_many"],
    "elementwise/short_lines": ["short_lines"],
    "generate/": ["generate"],
    "generate/gated": ["quantised_products", "generate"],
    "index/gather": ["index"],
    "index/pick": ["put", "at", "index"],
    "index/put": ["index", "at"],
    "index/scatter": ["index", "at"],
    "index/better": ["index", "at", "segments"],
    "index/combine": ["at", "segments", "jit_segments"],
    "index/compact": ["search", "sets"],
    "index/fold": ["ufunc", "segments"],
    "index/interp": ["calculus"],
    "index/packbits": ["put"],
    "index/radix": ["sort", "sets"],
    "index/ranges": ["sparse"],
    "index/se": ["search", "at", "index"],
    "index/scan": ["scan"],
    "index/segment_rows": ["segments"],
    "index/sort": ["sort"],
    "index/sources": ["jit_segments", "segments"],
    "lib/activation": ["nn_norm_activations"],
    "lib/": ["reduce", "spread", "nn_layer_norm", "random"],
    "lib/pieces": ["jit_many", "optim_many"],
    "lib/place": ["index", "at"],
    "linear/": ["tensor_cores", "product_rows", "few_rows", "tma_products", "linalg"],
    "linear/product_simt": ["simt_products", "product_rows"],
    "nn/channel_norm": ["nn_normalization", "nn_norm_activations"],
    "nn/attention": ["nn_attention_kernels", "nn_attention_tma", "nn_cache"],
    "nn/convolution": ["nn_convolution", "nn_fold"],
    "nn/convolution/depthwise": ["nn_depthwise", "nn_convolution"],
    "nn/convolution/direct": ["nn_depthwise", "nn_convolution"],
    "nn/convolution/few": ["nn_convolution_few"],
    "nn/convolution/shifted": ["nn_convolution_maps"],
    "nn/convolution/strided": ["nn_convolution_maps"],
    "nn/convolution/winograd": ["nn_convolution_transforms"],
    "nn/cross_entropy": ["nn_cross_entropy"],
    "nn/dropout": ["nn_dropout"],
    "nn/layer_norm": ["nn_layer_norm", "nn_rms_norm"],
    "nn/linear_fused": ["nn_linear"],
    "nn/pooling": ["nn_pooling", "nn_pooling_axes"],
    "nn/resample": ["nn_resampling"],
    "nn/rotary": ["nn_rotary"],
    "ops/convolve": ["calculus"],
    "ops/histogram": ["statistics"],
    "optim/": ["optim", "optim_many"],
    "prelude/": ["beside", "clusters", "proxy", "instructions", "overlap", "tensor_map"],
    "prelude/alike": ["sort"],
    "prelude/base": ["elementwise", "reduce", "random", "optim"],
    "prelude/bessel": ["special_functions", "smooth_at_zero"],
    "prelude/complex": ["complex"],
    "prelude/copy_async": ["proxy", "scan", "tensor_cores"],
    "prelude/digamma": ["special_functions"],
    "prelude/dot": ["quantised_products"],
    "prelude/dual": ["kernelcheck"],
    "prelude/erfc": ["special_functions", "elementwise"],
    "prelude/exponential": ["softmax", "nn_attention_scores", "nn_attention_tma"],
    "prelude/masks": ["elementwise"],
    "prelude/math": ["elementwise", "by_numpy"],
    "prelude/mma": ["mma", "tensor_cores", "few_rows"],
    "prelude/near_root": ["random", "distributions"],
    "prelude/packs": ["operands", "nn_dropout", "nn_layer_norm", "spread"],
    "prelude/reduce": ["reduce", "softmax"],
    "prelude/special": ["special_functions"],
    "prelude/streaming": ["nn_normalization", "few_rows"],
    "prelude/tensor_map": ["tensor_map", "tma_products"],
    "prelude/tensor_types": ["mma", "wgmma"],
    "prelude/volatile_words": ["scan"],
    "prelude/warp_roles": ["tma_products"],
    "prelude/wgmma": ["wgmma", "mma", "tma_products"],
    "quant/": ["quantised_blocks", "quantised_products"],
    "random/": ["random", "distributions"],
    "reduction/": ["reduce", "reduce_work"],
    "reduction/reduce_short": ["reduce_short"],
    "reduction/softmax": ["softmax"],
    "sparse/": ["sparse"],
    "shape/": ["manipulate", "spread", "slices"],
    "shape/remap": ["padding", "manipulate"],
}
#: Mutants that make no difference: the template, the text that is changed, what the change is, and why.
EQUIVALENT = (
    ("nn/cross_entropy/row.cuh", "int v = 1; v < width", "`1` is `0`", "a maximum with itself"),
    ("index/scan_warp.cuh", "distance < team", "`<` is `<=`", "no lane is as far as the team is long"),
    ("nn/pooling/backward.cu", "padded_column > column_reach", "`>` is `>=`", "zero is divided"),
    ("index/scan.cu", "if (tile > 1)", "the guard is dropped", "a minimum with a tile of one is one"),
    ("generate/heads.cu", "? 1 : 2", "`2` is `3`", "what is neither 0 nor 1 is the third"),
    ("nn/cross_entropy/mean.cu", "int phase = 0", "`0` is `1`", "the other one of two buffers comes first"),
    ("nn/layer_norm/backward.cu", "first < rows", "`<` is `<=`", "a round of no row"),
    ("generate/add_norm.cu", "if (delta)", "the guard is dropped", "what is there is stored again"),
    ("lib/row.cuh", "threadIdx.x == 0", "`==` is `!=`", "all threads of the block have the same state"),
    ("nn/attention/combine.cu", "if (lane == 0)", "`==` is `!=`", "all lanes have the same sums"),
    ("reduction/reduce.cuh", "b = push(b, v[k]", "the statement is left out", "no reduction calls it"),
    ("index/sort_tile_serial.cu", "block + threadIdx.x", "`+` is `-`", "its blocks have one thread"),
    (
        "index/interp.cu",
        "minimum(found[k] - 1, n - 2)",
        "`-` is `+`",
        "at the last point both ends are the last one",
    ),
    ("quant/activations.cuh", "<= 127.0f", "`127.0f` is `128.0f`", "what is finite is at most 127"),
    ("quant/words.cuh", "ALIGN >= 4", "`4` is `5`", "of such an address the words that hold them are they"),
    ("sparse/multiply_long.cu", "base < columns", "`<` is `<=`", "a round of no column"),
    ("nn/channel_norm/sums.cuh", "squares < acc(0)", "`<` is `<=`", "zero is zero"),
    ("prelude/math.cuh", "(y < T(0)) ? T(q - T(1))", "`0` is `1`", "y is an integer, and not 0 there"),
    ("prelude/digamma.cuh", "x < (single ? 6.0 : 10.0)", "`<` is `<=`", "one more step of the recurrence"),
)
MARK = "/*mutant*/"
LIMIT = runner.Limit(cpu=600, wall=1800)


def tests(template: str) -> list[str]:
    """The files that test a template."""
    fits = [name for name in CHECKS if template.startswith(name)]
    names = CHECKS[max(fits, key=len)] if fits else []
    rooms = ("quant" if name.startswith("quantised") else "device" for name in names)
    files = [HERE / room / f"test_{name}.py" for room, name in zip(rooms, names, strict=True)]
    return [str(file) for file in files if file.exists()]


def run_tests(template: str, one: Mutation, source: str, checked: bool) -> tuple[int, bool]:
    """pytest's status with a mutant, and whether any text had it; for a process of its own."""
    text = source.encode()
    changed = text[: one.start] + f"{MARK}{one.new}".encode() + text[one.end :]
    render._sources.strings[template] = changed.decode()
    reached = False
    usual = render.place_directives

    def place_directives(body: str) -> str:
        nonlocal reached
        reached = reached or MARK in body
        return usual(body.replace(MARK, ""))

    render.place_directives = place_directives
    # Texts of string templates would count as a user's: mutants stay the library's own, as quick to compile.
    own = render.is_own
    render.is_own = lambda name: name == template or own(name)
    options = ["-x", "-q", "-o", "addopts=", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not thorough"]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        status = pytest.main([*options, *(["--cukern-checked"] if checked else []), *tests(template)])
    return int(status), reached


def is_for_gpus(source: str, line: int) -> bool:
    """Whether the host's preprocessor leaves a line out, as it defines no ``__CUDACC__`` and no ``__CUDA_ARCH__``."""
    branches: list[tuple[bool, bool]] = []  # whether each is about that, and whether it is the GPU's
    for text in source.split("\n")[: line - 1]:
        word, _, condition = text.strip().partition(" ")
        if word in ("#if", "#ifdef", "#ifndef"):
            branches.append(("__CUDA" in condition, word != "#ifndef"))
        elif word == "#else" and branches:
            branches[-1] = (branches[-1][0], not branches[-1][1])
        elif word == "#endif" and branches:
            branches.pop()
    return any(about and gpus for about, gpus in branches)


def try_mutant(template: str, one: Mutation, source: str) -> dict[str, Any]:
    """What became of a mutant: noticed, survived, not reached, or timeout."""
    if is_for_gpus(source, one.line):
        found = {"file": template, "line": one.line, "what": one.what, "outcome": "not reached"}
        return {**found, "diff": one.diff(source)}
    ordered = "left out" in one.what or "plain" in one.what
    found = try_once(template, one, source, checked=ordered)
    if found["outcome"] != "survived" or ordered:
        return found
    return try_once(template, one, source, checked=True)


def try_once(template: str, one: Mutation, source: str, checked: bool) -> dict[str, Any]:
    """Fork, test, and say what became of a mutant."""
    read, write = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        os.close(read)
        runner.limited(LIMIT)
        try:
            status, reached = run_tests(template, one, source, checked)
            os.write(write, json.dumps([status, reached]).encode())
        finally:
            os._exit(0)
    os.close(write)
    ended = runner.ended(child, LIMIT)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    status, reached = json.loads(said) if said else (ended.status, True)
    found = runner.outcome(runner.Ended(status if said else -1, ended.late))
    return {
        "file": template,
        "line": one.line,
        "what": one.what,
        "outcome": found if reached else "not reached",
        "checked": checked,
        "how": "failed" if status == 1 else "passed" if status == 0 else "crashed",
        "seconds": round(time.monotonic() - began, 1),
        "diff": one.diff(source),
    }


def attempts(
    pattern: str, sample: int, seed: int, control: bool, again: Collection[tuple[str, str]] | None
) -> Iterator[dict[str, Any]]:
    """Try mutants of all templates whose name matches, or some of them once more.

    As a control, try a change that makes no difference.
    """
    os.environ["CUKERN_TEST_DEVICES"] = "host"
    paths = sorted(Path(render.TEMPLATES).rglob("*.cu*"))
    random.Random(seed).shuffle(paths)  # so that a part of a run tells about all rooms
    for path in paths:
        template = path.relative_to(render.TEMPLATES).as_posix()
        if not fnmatch.fnmatch(template, pattern) or not tests(template):
            continue
        source = path.read_text()
        made = mutations(source)
        chosen = random.Random(f"{template} {seed}").sample(made, min(sample, len(made)))
        if control:
            chosen = [Mutation(1, "nothing", 0, 0, "")]
        for one in sorted(chosen, key=lambda mutation: mutation.start):
            if again is not None and (template, one.diff(source)) not in again:
                continue
            with ck.device("host"):
                yield try_mutant(template, one, source)


def as_read(one: dict[str, Any]) -> tuple[str, str]:
    """What a survivor is found to be by reading, and why; a survivor, if there is no more to say."""
    change = one["diff"].split("\n")[1]
    for word, rows in (
        ("equivalent", (*EQUIVALENT, *python_mutants.EQUIVALENT)),
        ("not reached", python_mutants.ON_GPUS),
    ):
        for file, text, what, why in rows:
            if (file, what) == (one["file"], one["what"]) and text in change:
                return word, why
    return "survived", ""


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", action="store_true", help="mutants of cukern/ instead of templates/")
    parser.add_argument("--only", default="*", help="a pattern of names of templates, or of rooms")
    sample = "mutants a template, or for each thousand places of a room, chosen at random"
    parser.add_argument("--sample", type=int, default=2, help=sample)
    parser.add_argument("--control", action="store_true", help="change nothing, which no test may notice")
    parser.add_argument("--seed", type=int, default=0)
    seconds = "of CPU time, within which tests of each file begin; for --python"
    parser.add_argument("--seconds", type=float, default=20.0, help=seconds)
    parser.add_argument("--out", type=Path, help="a file for the results, one JSON object a line")
    parser.add_argument(
        "--again", type=Path, nargs="+", help="files of results whose survivors are tried once more"
    )
    parser.add_argument("--table", type=Path, nargs="+", help="files of results to show as a table")
    options = parser.parse_args()
    if options.table:
        print(runner.table(options.table, as_read))
        return
    file = sys.stdout if options.out is None else options.out.open("a")
    of_part = python_mutants.attempts if options.python else attempts
    again = None if options.again is None else runner.survivors(options.again)
    more = (options.seconds,) if options.python else ()
    for one in of_part(options.only, options.sample, options.seed, options.control, again, *more):
        print(json.dumps(one), file=file, flush=True)


if __name__ == "__main__":
    main()
