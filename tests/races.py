"""The CUDA patterns of the Indigo suite, with and without planted bugs, in checked launches.

``python tests/races.py CHECKOUT [--strict] [--only TEXT] [--out FILE]`` takes the patterns of
github.com/burtscher/IndigoSuite (Liu and others, "The Indigo Program-Verification Microbenchmark Suite of Irregular
Parallel Code Patterns", ISPASS 2022) with ``int`` data, launches every variant on one random graph, and counts which
planted races and overruns are reported, and which right variants are. A variant's name says what is planted: atomicBug,
guardBug, raceBug and syncBug are races, boundsBug is an overrun. Nothing of the checkout is kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import cukern as ck

_TAG = re.compile(r"/\*@([a-zA-Z0-9]*)@\*/")
_TYPES = {"long", "float", "double", "char", "short"}
RACES = ("atomicBug", "guardBug", "raceBug", "syncBug")
VERTICES, EDGES, THREADS = 96, 900, 64


def variants(pattern: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The tags and the kernel text of each variant of a pattern.

    A line is alternatives between tags: the first stands where none of its tags is chosen. Lines that begin with the
    same tag make one choice.
    """
    kernel = pattern.partition("void serial_code")[0].replace('#include "indigo_cuda.h"', "")
    choices: dict[str, list[str]] = {}
    lines = kernel.split("\n")
    for line in lines:
        tags = _TAG.findall(line)
        if tags and tags[0] not in choices:
            choices[tags[0]] = ["", *(tag for tag in tags if tag not in _TYPES)]
    for chosen in itertools.product(*choices.values()):
        own = tuple(tag for tag in dict.fromkeys(chosen) if tag)
        if "syncBug" in own and "shfl" in own:  # not in the suite either
            continue
        text = []
        for line in lines:
            first, *rest = _TAG.split(line)
            picked = [code for tag, code in zip(rest[::2], rest[1::2], strict=True) if tag in own]
            text.append(picked[-1] if picked else first)
        yield own, "\n".join(text)


def graph(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A random directed graph in rows of neighbours: some vertices have none, one has more than a block's threads."""
    rng = np.random.default_rng(seed)
    sources = np.concatenate([rng.integers(2, VERTICES - 2, EDGES), np.full(VERTICES, 1)])
    targets = np.concatenate([rng.integers(0, VERTICES, EDGES), np.arange(VERTICES)])
    order = np.lexsort((targets, sources))
    starts = np.searchsorted(sources[order], np.arange(VERTICES + 1))
    return starts.astype(np.int32), targets[order].astype(np.int32)


def launch(name: str, text: str, strict: bool) -> list[ck.KernelReport]:
    """What a checked launch of one variant reports."""
    starts, neighbours = graph()
    rng = np.random.default_rng(1)
    size = max(VERTICES, len(neighbours))
    if name.startswith("path_compression"):  # each vertex has a parent of a smaller number
        one = np.arange(size) - np.minimum(np.arange(size), rng.integers(0, 4, size))
    else:
        one = rng.integers(0, VERTICES, size)
    other = rng.integers(0, len(neighbours), size)
    one[0] = other[0] = 0
    arrays = [
        ck.asarray(values.astype(np.int32), device="host") for values in (starts, neighbours, one, other)
    ]
    # A vertex is a thread's, a warp's or a block's; where threads loop over vertices, few blocks suffice.
    each = 1 if "_block" in name else THREADS // 32 if "_warp" in name else THREADS
    grid = 3 if "persistent" in name else -(-VERTICES // each)
    kernel = ck.Kernel(text, block=THREADS, plain=True)["test_kernel"]
    with ck.device("host"), ck.testing.checked(collect=True, strict=strict) as reports:
        kernel(*arrays, VERTICES, grid=grid)
    return reports


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of the suite")
    parser.add_argument("--strict", action="store_true", help="report what most kernels get away with, too")
    parser.add_argument("--only", default="", help="variants with this in their names")
    parser.add_argument("--out", type=Path, help="a file for the variants, one JSON object a line")
    options = parser.parse_args()
    counts: Counter[tuple[str, bool, bool]] = Counter()
    rows = []
    for path in sorted(options.checkout.rglob("CUDA_sources/*.idg")):
        for tags, text in variants(path.read_text()):
            name = "_".join([path.stem, *tags])
            if options.only not in name:
                continue
            reports = launch(name, text, options.strict)
            kinds = sorted({report.kind for report in reports})
            row = {"name": name, "kinds": kinds, "reports": [report.message for report in reports]}
            for what, planted, found in (
                (
                    "race",
                    any(tag in RACES for tag in tags),
                    not {"race", "unset", "divergence"}.isdisjoint(kinds),
                ),
                ("overrun", "boundsBug" in tags, "out of bounds" in kinds),
            ):
                counts[what, planted, found] += 1
                row[what] = f"planted {planted}, found {found}"
            rows.append(json.dumps(row))
    if options.out:
        options.out.write_text("\n".join(rows) + "\n")
    print("| kind | planted | found | right | false alarms |\n| --- | --- | --- | --- | --- |")
    for what in ("race", "overrun"):
        planted, right = (counts[what, yes, True] + counts[what, yes, False] for yes in (True, False))
        print(f"| {what} | {planted} | {counts[what, True, True]} | {right} | {counts[what, False, True]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
