"""Products in one launch that also saves the product for a derivative, or that reduces each row, beside two launches.

Usage: python benchmarks/product_ends.py [--scale N] [--only WORD] [--out FILE]

The first are GELUs of a product and a bias, the others sums of a ReLU of these along the last axis, which fits a tile.
Beside them stand the device's library's product alone, that with one kernel after it, and PyTorch's functions. After
the table stand the same times as rows of `cukern/linear/measured.py`, by which a product chooses. Random data; every
result is compared with that of the exact float32 or float64 product of the device's library. The larger factor is
another copy each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from measure import Benchmark, Call, difference, torch
from product import Case, operands

import cukern as ck
from cukern import dtypes
from cukern.elementwise.graph import Expr, input_node
from cukern.elementwise.program import Program, program
from cukern.linear import by_rows, tensor_cores
from cukern.linear.epilogue import of_sum
from cukern.linear.measured import Times
from cukern.linear.plan import Plan
from cukern.linear.task import Rows, task_of
from cukern.reduction import rows as reductions

SAVING = [
    *(Case("bfloat16", (), 4096, 4096, 4096, swapped) for swapped in (False, True)),
    *(Case("bfloat16", (32,), 512, 512, 512, swapped) for swapped in (False, True)),
    Case("bfloat16", (), 16384, 768, 3072, True),
    Case("bfloat16", (), 16384, 3072, 768, True),
    *(
        Case("bfloat16", (), 8192, *sizes, True)
        for sizes in ((768, 2304), (768, 768), (768, 3072), (3072, 768))
    ),
    *(Case("bfloat16", (), size, size, size, True) for size in (256, 512, 1024)),
    *(Case("float32", (), *sizes, True, True) for sizes in ((4096, 4096, 4096), (8192, 768, 3072))),
]
ROWS = [
    *(Case("bfloat16", (), 65536, *sizes, True) for sizes in ((128, 128), (128, 64), (512, 128), (64, 256))),
    *(Case("bfloat16", (), 16384, *sizes, True) for sizes in ((768, 64), (4096, 256))),
    *(Case("bfloat16", (), 65536, *sizes) for sizes in ((128, 128), (1024, 128))),
    Case("bfloat16", (), 4096, 4096, 128),
    Case("bfloat16", (32,), 1024, 64, 128),
    Case("bfloat16", (), 1024, 256, 64, True),
    Case("float32", (), 65536, 128, 128, True, True),
    *(Case("float32", (), 65536, *sizes, True) for sizes in ((128, 128), (64, 64))),
    *(Case("float32", (), 16384, *sizes) for sizes in ((512, 128), (128, 256), (1024, 32))),
    *(Case("float64", (), 16384, *sizes) for sizes in ((64, 64), (256, 128))),
]
COLUMNS = [
    *("m x k x n", "form", "one launch", "the library's product", "with one kernel after it"),
    *("PyTorch's functions", "error"),
]


class Ending(NamedTuple):
    """What follows a product: a function of it and of a bias, and the same of PyTorch."""

    name: str
    function: Callable[[ck.Array, ck.Array], ck.Array]
    of_torch: Callable[[Any, Any], Any]

    def program(self, elem: dtypes.DType) -> Program:
        """The elementwise part."""
        total: Any = Expr(input_node(0, elem)) + Expr(input_node(1, elem))
        made: Any = (ck.gelu if self.name == "gelu" else ck.relu)(total)
        return of_sum(program(self.name, (made.node,), (elem, elem)), 0)


GELU = Ending(
    "gelu",
    ck.fuse(lambda product, bias: ck.gelu(product + bias)),
    lambda product, bias: torch.nn.functional.gelu(product + bias),
)
SUM = Ending(
    "relu",
    ck.fuse(lambda product, bias: ck.sum(ck.relu(product + bias), axis=-1)),
    lambda product, bias: torch.relu(product + bias).sum(-1),
)


def plans(
    ending: Ending, a: ck.Array, b: ck.Array, bias: ck.Array, tf32: bool
) -> dict[str, tensor_cores.Plan]:
    """The launch of each form that takes the product, with the product saved and not."""
    made, (left, right, added) = ending.program(a.dtype), [one._planned() for one in (a, b, bias)]
    found: dict[str, Any] = {}
    if ending is GELU:
        task = task_of(left, right, [added])
        assert task is not None, "every case is aligned"
        for name, form in tensor_cores.forms(task._replace(saves=True), a.device, tf32).items():
            found[name] = tensor_cores.make_saving(made, left, right, [added], form)  # type: ignore[arg-type]
        return found
    rows = Rows(reductions.sum.row, False, a.dtype)
    for saves in (False, True):
        what = " and product" if saves else ""
        if a.dtype.itemsize == 2 or tf32:
            task = task_of(left, right, [added])
            assert task is not None, "every case is aligned"
            for name, form in tensor_cores.forms(
                task._replace(rows=rows, saves=saves), a.device, tf32
            ).items():
                found[name] = tensor_cores.make_rows(made, left, right, [added], rows, saves, form)  # type: ignore[arg-type]
        else:
            task = task_of(left, right, [added], strided=True)
            assert task is not None
            lanes = by_rows.lanes_for(task._replace(rows=rows), dtypes.info(a.dtype).acc)
            found[f"lanes of rows{what} of {a.dtype}"] = tensor_cores.make_rows(
                made, left, right, [added], rows, saves, lanes
            )
    return found


def measure(ending: Ending, case: Case, bench: Benchmark) -> list[Times]:
    """Add lines to the table; the rows of `measured.py`."""
    arrays = operands(case, bench.device)
    a, b, bias = arrays[0]
    wide = "float64" if case.dtype == "float64" else "float32"
    product_of = a.astype(wide) @ b.astype(wide)
    exact = ending.function(product_of, bias.astype(wide))
    library: Any = Plan(a._planned(), b._planned()) if bench.device.kind == "cuda" else ck.matmul
    if torch is not None:
        torch.backends.cuda.matmul.allow_tf32 = case.tf32
    limit = 2**-8 if case.dtype == "bfloat16" or case.tf32 else 2**-18
    count = math.prod(case.batch)
    made = []
    with ck.matmul_precision("tf32" if case.tf32 else "highest"):
        for name, plan in plans(ending, a, b, bias, case.tf32).items():
            outs = plan.run_all((a, b, bias), ())
            error = difference(f"{case}, {name}", outs[-1], exact, limit, relative=True)
            if len(outs) > 1:
                difference(f"{case}, {name}, product", outs[0], product_of, limit, relative=True)
            calls: list[list[Call | None]] = [
                [
                    partial(plan.run_all, (x, w, c), ()),
                    partial(library, x, w),
                    lambda x=x, w=w, c=c: ending.function(library(x, w), c),  # type: ignore[misc]
                    of_torch(ending, x, w, c),
                ]
                for x, w, c in arrays
            ]
            sides = [[call for call in side if call is not None] or None for side in zip(*calls, strict=True)]
            times = bench.microseconds(*sides)
            bench.row(case, name, *times, f"{error:.1e}")
            own, alone, apart = (round(one, 1) for one in times[:3] if one is not None)
            made.append(Times(name, count, case.m, case.k, case.n, case.swapped, own, alone, apart))
    return made


def of_torch(ending: Ending, a: ck.Array, b: ck.Array, bias: ck.Array) -> Call | None:
    """PyTorch's functions on the same memory."""
    if torch is None:
        return None
    x, w, c = (torch.from_dlpack(one) for one in (a, b, bias))
    return lambda: ending.of_torch(torch.matmul(x, w), c)


def main() -> None:
    bench = Benchmark(__doc__, "device times in us", COLUMNS)
    rows: list[Times] = []
    for ending, cases in ((GELU, SAVING), (SUM, ROWS)):
        for case in bench.chosen(cases):
            scaled = case.scaled(bench.scale)
            if ending is SUM:
                scaled = scaled._replace(n=case.n)
            rows += measure(ending, scaled, bench)
    bench.end("```py", *(f"{row!r}," for row in rows), "```")


if __name__ == "__main__":
    main()
