"""The worst error of every elementwise function, in units of the last place, for each floating type.

    python benchmarks/ulps.py --out host.jsonl [--part 0/8]       # measure on the default device
    python benchmarks/ulps.py --table host.jsonl cuda.jsonl       # the Markdown table of both
    python benchmarks/ulps.py --into benchmarks/results/ulps.md more.jsonl    # new measurements in place of old ones

Half types are compared with the same kernels in float32, at every finite value that the type has (two operands: at a
sample); float32 with the same kernels in float64, and float64 with NumPy's functions of long double: at random bit
patterns, and at values of the interval from which the tests draw. Where NumPy has none, float64 is compared at some
values of that interval with mpmath, if it is installed. So are complex numbers, both of whose parts are of that
interval, or whose magnitude is between 1/1000 and 10; their errors count by absolute values. Subnormal numbers are
left out, which kernels of float32 round to 0 on GPUs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import cukern as ck
from cukern.array.operators import FUNCTIONS
from cukern.elementwise.row import Row
from cukern.testing.ulps import ulps

DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
SAMPLE = 1 << 20
#: Points of functions that mpmath computes, one by one.
FEW = 1 << 10


def rows() -> list[Row]:
    """The elementwise functions of floats to floats."""
    return [
        row
        for name, row in sorted(FUNCTIONS.items())
        if isinstance(row, Row)
        and hasattr(ck, name)
        and name != "nextafter"  # its value depends on the type
        and row.result == "x"
        and set(row.operands) == {"x"}
        and "f" in row.types
    ]


def operands(row: Row, dtype: np.dtype[Any], count: int) -> Iterator[list[np.ndarray]]:
    """Values of each operand: all bit patterns or random ones, then the interval of the tests."""
    rng = np.random.default_rng(0)
    if dtype.kind == "c":
        shape = (len(row.operands), count)
        parts = rng.uniform(*row.domain, (2, *shape))
        yield list((parts[0] + 1j * parts[1]).astype(dtype))
        yield list((10 ** rng.uniform(-3, 1, shape) * np.exp(2j * np.pi * rng.random(shape))).astype(dtype))
        return
    bits = ck.dtypes.info(dtype).bits
    if dtype.itemsize == 2 and len(row.operands) == 1:
        values = np.arange(1 << 16, dtype=bits).view(dtype)
        yield [values[np.isfinite(values) & _is_normal(values)]]
        return
    patterns = [
        rng.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(dtype) for _ in row.operands
    ]
    with np.errstate(invalid="ignore"):
        finite = np.logical_and.reduce([np.isfinite(values) & _is_normal(values) for values in patterns])
    yield [values[finite] for values in patterns]
    yield [rng.uniform(*row.domain, count).astype(dtype) for _ in row.operands]


def _is_normal(values: np.ndarray) -> np.ndarray:
    """Where a value is 0, or not smaller than the smallest normal number."""
    return (values == 0) | (np.abs(values) >= ml_dtypes.finfo(values.dtype).smallest_normal)


def reference(row: Row, kind: str) -> Any:
    """NumPy's function of long double, real or complex; None if it has none."""
    function = getattr(np, row.oracle) if isinstance(row.oracle, str) else None
    if row.name in ("clip", "round"):  # no ufuncs, but of any type
        return function
    loops = getattr(function, "types", [])
    wanted = {"f": "g", "c": "G"}[kind] * len(row.operands)
    return function if any(loop.partition("->")[0] == wanted for loop in loops) else None


def by_mpmath(row: Row) -> Any:
    """The function by mpmath; None where it is not installed, or has none."""
    try:
        import exact
    except ModuleNotFoundError:
        return None
    return exact.function(row.name)


def measure(row: Row, name: str, count: int) -> dict[str, Any] | None:
    """The worst error of one function in one type, and where it is."""
    dtype = ck.dtypes.as_dtype(name)
    if (dtype.kind not in row.types and dtype.kind == "c") or (dtype.itemsize == 2 and not row.halves):
        return None
    exact = None
    if name in ("float64", "complex128"):
        exact = reference(row, dtype.kind)
        few = exact is None
        exact = exact or by_mpmath(row)
        if exact is None:
            return None
        count = FEW if few else count
    worst = None
    with np.errstate(invalid="ignore"):  # some bit patterns are signalling NaNs
        given = list(operands(row, dtype, count))
    if exact is not None and few and dtype.kind == "f":
        del given[0]
    for values in given:
        with np.errstate(all="ignore"):
            (found,) = ulps(row, [ck.asarray(one) for one in values], reference=exact, subnormals=False)
        if worst is None or found.worst > worst.worst:
            worst = found
    assert worst is not None
    return {
        "function": row.name,
        "dtype": name,
        "worst": worst.worst,
        "at": [_number(x) for x in worst.at],
        "value": _number(worst.value),
        "exact": _number(worst.exact),
    }


def _number(value: Any) -> float | list[float]:
    """A number for JSON, a complex one by its parts."""
    return [float(value.real), float(value.imag)] if np.iscomplexobj(value) else float(value)


def run(
    part: str, out: Path | None, count: int, names: Sequence[str], functions: Sequence[str] | None
) -> None:
    """Measure every ``n``-th function from the ``i``-th, where ``part`` is ``i/n``."""
    first, step = (int(word) for word in part.split("/"))
    chosen = [row for row in rows() if functions is None or row.name in functions]
    file = sys.stdout if out is None else out.open("w")
    device = ck.zeros(1).device
    for row in chosen[first::step]:
        for name in names:
            try:
                found = measure(row, name, count)
            except (TypeError, ck.CompileError) as error:
                found = {"function": row.name, "dtype": name, "error": str(error)[:200]}
            if found is not None:
                print(json.dumps({"device": device.properties.name, **found}), file=file, flush=True)


def measured(paths: list[Path]) -> list[dict[str, Any]]:
    """The measurements of some files."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines() if line[:1] == "{"]


def table(paths: list[Path]) -> str:
    """A row for each function, a column for each device and type."""
    found = measured(paths)
    devices = list(dict.fromkeys(one["device"] for one in found))
    cells = {(one["function"], one["device"], one["dtype"]): one for one in found}
    heads = [f"{name}" for _ in devices for name in DTYPES]
    lines = [f"Columns: {len(DTYPES)} for each of: {', '.join(devices)}.", ""]
    lines += ["| function | " + " | ".join(heads) + " |", "| --- " * (len(heads) + 1) + "|"]
    for function in sorted({one["function"] for one in found}):
        words = []
        for device in devices:
            for name in DTYPES:
                one = cells.get((function, device, name))
                words.append("" if one is None else _cell(one))
        lines.append(f"| `{function}` | " + " | ".join(words) + " |")
    lines += ["", "Errors above 4 ulp:", "", "| function | dtype | device | at | result | exact |"]
    lines += ["| --- " * 6 + "|", *_far(found)]
    return "\n".join(lines)


def renewed(text: str, found: list[dict[str, Any]], column: str | None) -> str:
    """The page of a table with other measurements in it: of the device that made them, or in the column of another."""
    lines = text.splitlines()
    heading = next(line for line in lines if line.startswith("Columns:"))
    devices = heading.rpartition(": ")[2].rstrip(".").split(", ")
    rows = {line.split("`")[1]: at for at, line in enumerate(lines) if line.count("|") > len(DTYPES) * len(devices)
            and "`" in line}  # fmt: skip
    for one in found:
        one["device"] = column or one["device"]
        cells = lines[rows[one["function"]]].split("|")
        cells[2 + len(DTYPES) * devices.index(one["device"]) + DTYPES.index(one["dtype"])] = f" {_cell(one)} "
        lines[rows[one["function"]]] = "|".join(cells)
        start = f"| `{one['function']}` | {one['dtype']} | {one['device']} |"
        lines = [line for line in lines if not line.startswith(start)]
        end = max(at for at, line in enumerate(lines) if line.startswith("| ")) + 1
        lines[end:end] = _far([one])
    return "\n".join(lines) + "\n"


def _far(found: list[dict[str, Any]]) -> list[str]:
    """A row for each error above 4 ulp, but for those of numbers that became 0."""
    lines = []
    for one in found:
        if one.get("worst", 0) > 4 and not _is_flushed(one):
            at = ", ".join(map(_written, one["at"]))
            value, exact = _written(one["value"]), _written(one["exact"])
            lines.append(
                f"| `{one['function']}` | {one['dtype']} | {one['device']} | {at} | {value} | {exact} |"
            )
    return lines


def _written(number: float | list[float]) -> str:
    return f"{complex(*number):.9g}" if isinstance(number, list) else f"{number:.9g}"


def _is_flushed(one: dict[str, Any]) -> bool:
    """Whether the worst error is at a subnormal number that became 0."""
    if isinstance(one["value"], list):
        return False
    smallest = float(ml_dtypes.finfo(ck.dtypes.as_dtype(one["dtype"])).smallest_normal)
    return one["value"] == 0 and 0 < abs(one["exact"]) <= smallest


def _cell(one: dict[str, Any]) -> str:
    if "error" in one:
        return "refused"
    if _is_flushed(one):
        return "to 0"
    worst = one["worst"]
    return "inf" if worst == float("inf") else f"{worst:.2f}" if worst < 100 else f"{worst:.1e}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default="0/1", help="i/n: every n-th function from the i-th")
    parser.add_argument("--out", type=Path, help="a file for the measurements, one JSON object a line")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="random points of float32 and float64")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES, choices=DTYPES, help="the types to measure")
    parser.add_argument("--functions", nargs="+", help="the functions to measure, instead of all")
    parser.add_argument("--table", type=Path, nargs="+", help="files of measurements to show as a table")
    parser.add_argument(
        "--into", type=Path, nargs="+", help="a page with the table, and files of measurements"
    )
    parser.add_argument("--column", help="the device in the page's table that the measurements belong to")
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
    elif options.into:
        page, *paths = options.into
        page.write_text(renewed(page.read_text(), measured(paths), options.column))
    else:
        run(options.part, options.out, options.sample, options.dtypes, options.functions)


if __name__ == "__main__":
    main()
