"""Products with a bias and more in one launch, beside the library's product, a kernel after it, and PyTorch's.

Usage: python benchmarks/product.py [--scale N] [--only WORD] [--out FILE]

Every variant of the family `product` that takes a product is a line, and the one that is chosen is marked. The last
line says which products take longer by that variant than by the library's product and a kernel after it; `python -m
cukern tune product` measures by what they choose. `--scale` divides the sizes, for a try without a GPU. Random data;
every result is compared with float64's. Factors and the added matrix are other copies each time, so that they are not
in a cache. Without PyTorch its columns are empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from measure import Benchmark, Call, difference, torch

import cukern as ck
from cukern.elementwise.graph import Expr, input_node
from cukern.elementwise.program import program
from cukern.linear.epilogue import of_sum
from cukern.linear.families import PRODUCT
from cukern.linear.library import Library
from cukern.linear.problem import Product


class Case(NamedTuple):
    """A product: its dtype, sizes, whether the right factor is contiguous along k, and what follows (`ENDINGS`)."""

    dtype: str
    batch: tuple[int, ...]
    m: int
    k: int
    n: int
    swapped: bool = False
    tf32: bool = False
    then: str = "ReLU"

    def scaled(self, scale: int) -> Case:
        """The product of smaller matrices, of whole accesses; few rows stay as many."""
        if scale == 1:
            return self
        m, k, n = (size if size <= 16 else max(32, size // scale // 8 * 8) for size in self[2:5])
        return self._replace(m=m, k=k, n=n)

    def rates(self, time: float) -> tuple[str, str]:
        """TFLOP/s and GB/s of a time in microseconds."""
        count, itemsize = math.prod(self.batch), 4 if self.dtype == "float32" else 2
        size = itemsize * count * (self.m * self.k + self.k * self.n + self.m * self.n)
        return f"{2e-6 * count * self.m * self.n * self.k / time:.0f}", f"{1e-3 * size / time:.0f}"

    def __str__(self) -> str:
        sizes = "x".join(map(str, (*self.batch, self.m, self.k, self.n)))
        layout, then = (
            " (transposed)" if self.swapped else "",
            "" if self.then == "ReLU" else f", {self.then}",
        )
        return f"{'tf32' if self.tf32 else self.dtype} {sizes}{layout}{then}"


#: What is written for nothing that follows.
ALONE = "alone", "vectors"
#: What follows a product, of it, a bias and a matrix of the product's shape, for cukern and for PyTorch.
ENDINGS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    **dict.fromkeys(ALONE, (lambda y, bias, other: y, lambda y, bias, other: y)),
    "ReLU": (lambda y, bias, other: ck.relu(y + bias), lambda y, bias, other: torch.relu(y + bias)),
    "GELU": (
        lambda y, bias, other: ck.gelu(y + bias),
        lambda y, bias, other: torch.nn.functional.gelu(y + bias),
    ),
    "GELU by tanh": (
        lambda y, bias, other: ck.gelu_tanh(y + bias),
        lambda y, bias, other: torch.nn.functional.gelu(y + bias, approximate="tanh"),
    ),
    "residual": (lambda y, bias, other: y + bias + other, lambda y, bias, other: y + bias + other),
}
#: Shapes between the others: whether a product chooses well there too.
SPREAD = [
    ((), 2048, 1024, 4096, True),
    ((), 4096, 4096, 1024, False),
    ((), 1000, 1000, 1000, False),
    ((), 300, 768, 3072, True),
    ((), 128, 4096, 11008, True),
    ((), 2048, 8192, 2048, True),
    ((), 32768, 256, 256, True),
    ((8,), 1024, 1024, 1024, False),
    ((96,), 1024, 64, 1024, False),
]


#: Rows that begin at other addresses than multiples of 16 bytes: GPT-2's vocabulary, its gradients, and others.
MISALIGNED = (
    ((8192, 768, 50257), True),
    ((8192, 50257, 768), False),
    ((4096, 4096, 4095), True),
    ((4096, 4095, 4096), False),
)

#: Products of which a factor is a vector, one for each matrix of a batch.
VECTORS = [
    *(
        ((count,), *sizes)
        for count, size in ((65536, 64), (4096, 256), (256, 1024), (16, 4096))
        for sizes in ((size, size, 1), (1, size, size))
    ),
    ((4096,), 1, 64, 1024),
    ((4096,), 1024, 64, 1),
    ((262144,), 8, 8, 1),
    ((64,), 1, 128, 2048),
    ((96,), 1, 64, 1),
]


CASES = [
    Case("bfloat16", (), 4096, 4096, 4096),
    Case("bfloat16", (), 4096, 4096, 4096, True),
    Case("bfloat16", (), 8192, 8192, 8192),
    *(Case("bfloat16", (32,), 512, 512, 512, swapped) for swapped in (False, True)),
    Case("bfloat16", (), 16384, 768, 3072, True),
    Case("bfloat16", (), 16384, 3072, 768, True),
    *(
        Case("bfloat16", (), 8192, *sizes, True)
        for sizes in ((768, 2304), (768, 768), (768, 3072), (3072, 768))
    ),
    Case("bfloat16", (), 8192, 768, 50304, True),
    *(Case("bfloat16", (), size, size, size, True) for size in (64, 128, 256, 512, 1024)),
    *(Case("bfloat16", (), size, size, size) for size in (64, 256)),
    Case("bfloat16", (), 64, 4096, 4096, True),
    Case("bfloat16", (), 768, 8192, 768),
    Case("bfloat16", (), 256, 16384, 256, True),
    *(Case("bfloat16", (), rows, 4096, 4096, swapped) for swapped in (True, False) for rows in (1, 4, 8, 16)),
    *(Case("float32", (), rows, 4096, 4096, True) for rows in (1, 4, 16)),
    Case("bfloat16", (), 4096, 4096, 8),
    Case("bfloat16", (), 16, 65536, 128, True),
    *(
        Case("bfloat16", (), rows, *sizes, swapped)
        for sizes in ((2048, 8192), (5120, 5120), (4096, 14336), (768, 50304), (8192, 8192), (1024, 4096))
        for swapped in (True, False)
        for rows in (1, 16)
    ),
    *(
        Case("float32", (), 4096, 4096, 4096, swapped, tf32)
        for swapped in (False, True)
        for tf32 in (True, False)
    ),
    *(
        Case("float32", (32,), 512, 512, 512, swapped, tf32)
        for swapped in (False, True)
        for tf32 in (True, False)
    ),
    *(Case("float32", (), 8192, 768, 3072, True, tf32) for tf32 in (True, False)),
    Case("float32", (), 1024, 1024, 1024, True),
    *(Case("float16", (), size, size, size, swapped) for size in (4096, 8192) for swapped in (False, True)),
    Case("bfloat16", (), 16384, 768, 3072, True, then="GELU by tanh"),
    *(
        Case("bfloat16", (), m, k, n, True, then=then)
        for m in (16384, 8192)
        for k, n in ((768, 3072), (3072, 768))
        for then in ("GELU", "residual")
    ),
    Case("bfloat16", (), 8192, 768, 768, True, then="residual"),
    *(
        Case("bfloat16", (), size, size, size, True, then=then)
        for size in (256, 512, 1024, 4096)
        for then in ("GELU", "residual")
    ),
    *(Case("bfloat16", *sizes, then=then) for sizes in SPREAD for then in ("ReLU", "GELU", "residual")),
    *(Case("bfloat16", (), *sizes, swapped, then="alone") for sizes, swapped in MISALIGNED),
    *(
        Case(dtype, *sizes, swapped, then="vectors")
        for dtype in ("float32", "bfloat16")
        for sizes in VECTORS
        for swapped in (False, True)
    ),
]
#: Bytes that no cache of a GPU holds, also of the matrices that come again in the next ten calls of another side.
_CACHES = 2**29
COLUMNS = [
    *(
        "m x k x n",
        "variant",
        "chosen",
        "one launch",
        "the library's product",
        "ratio",
        "with one kernel after it",
    ),
    *("PyTorch's product", "PyTorch with all", "TFLOP/s", "GB/s", "error"),
]
#: By dtype, the largest difference to the result in float64, as a part of the largest result.
_LIMITS = {"bfloat16": 2**-8, "float16": 2**-10, "tf32": 2**-8, "float32": 2**-18}
Sides = list[tuple[ck.Array, ...]]


class Line(NamedTuple):
    """A case by the variant that is chosen, and its microseconds by that and by two launches."""

    case: Case
    own: float
    apart: float


@cache
def ended(then: str) -> Any:
    """What follows a product, as one kernel."""
    ending = ENDINGS[then][0]
    if then in ALONE:
        return lambda y, bias: y
    return ck.fuse(lambda y, bias, *other: ending(y, bias, *other or [None]))


def plans(case: Case, arrays: Sequence[ck.Array]) -> dict[str, tuple[Callable[..., ck.Array], bool]]:
    """The launch of each variant that takes the product in one, and whether it is the one that is chosen."""
    a, b, *others = (one._planned() for one in arrays)
    inputs = (a.dtype, *(one.dtype for one in others))
    values = [Expr(input_node(k, dtype)) for k, dtype in enumerate(inputs)]
    made = ENDINGS[case.then][0](*values, *[None] * (3 - len(values)))
    whole = of_sum(program("product", (made.node,), inputs), 0)
    problem = Product(a, b, tuple(others), whole, precision="tf32" if case.tf32 else "highest")
    if case.then in ALONE:
        problem = Product(a, b)

    def plan(config: Any) -> Callable[..., ck.Array]:
        made = config.plan(problem, a.device.properties)
        return (lambda x, w, bias: made(x, w)) if case.then in ALONE else made

    return {
        one.variant: (plan(one.config), one.chosen)
        for one in PRODUCT.choices(problem)
        if not one.why and one.variant != Library.name
    }


def peers(case: Case, arrays: Sequence[ck.Array]) -> list[Call | None]:
    """PyTorch's product, and that with what follows."""
    if torch is None:
        return [None, None]
    x, w, c, *other = (torch.from_dlpack(one) for one in arrays)
    ending = ENDINGS[case.then][1]
    return [lambda: torch.matmul(x, w), lambda: ending(torch.matmul(x, w), c, *other or [None])]


def operands(case: Case, device: ck.Device) -> Sides:
    """Equal operands in different memory, more than caches hold: the factors, a bias, and the matrix of a residual."""
    random = ck.random.default_rng(0, device=device)

    def draw(*size: int) -> ck.Array:
        made: ck.Array = random.standard_normal(size, dtype="float32").astype(case.dtype)
        return made

    made = [
        draw(*case.batch, case.m, case.k),
        draw(*case.batch, *((case.n, case.k) if case.swapped else (case.k, case.n))),
        draw(case.n),
        *([draw(*case.batch, case.m, case.n)] if case.then == "residual" else []),
    ]
    copies = max(1, min(16, _CACHES // max(one.nbytes for one in made))) if device.kind == "cuda" else 1
    sides = [tuple(made), *(tuple(one.copy() for one in made) for _ in range(copies - 1))]
    if case.swapped:
        sides = [(x, ck.swapaxes(w, -1, -2), *rest) for x, w, *rest in sides]
    for one in (array for side in sides for array in side):
        one._planned()  # as a plan takes it
    return sides


def measure(case: Case, bench: Benchmark) -> list[Line]:
    """Add lines to the table."""
    arrays = operands(case, bench.device)
    a, b, *others = (one.astype("float64") for one in arrays[0])
    exact = ended(case.then)(a @ b, *others)
    del a, b, others
    product = Library().plan(Product(*(one._planned() for one in arrays[0][:2])), bench.device.properties)
    if torch is not None:
        torch.backends.cuda.matmul.allow_tf32 = case.tf32
    kind = "tf32" if case.tf32 else case.dtype
    with ck.matmul_precision("tf32" if case.tf32 else "highest"):
        made, errors = plans(case, arrays[0]), {}
        for name, (plan, _) in made.items():
            error = difference(f"{case}, {name}", plan(*arrays[0]), exact, _LIMITS[kind], relative=True)
            errors[name] = f"{error:.1e}"
        calls: list[list[Call | None]] = [
            [
                partial(product, *side[:2]),
                lambda side=side: ended(case.then)(product(*side[:2]), *side[2:]),  # type: ignore[misc]
                *peers(case, side),
                *(partial(plan, *side) for plan, _ in made.values()),
            ]
            for side in arrays
        ]
        sides = [[call for call in side if call is not None] or None for side in zip(*calls, strict=True)]
        (alone, apart, *others), own = (times := bench.microseconds(*sides))[:4], times[4:]
    assert alone is not None and apart is not None
    lines = []
    for (name, (_, chosen)), time in zip(made.items(), own, strict=True):
        assert time is not None
        cells = (time, alone, f"{time / alone:.3f}", apart, *others, *case.rates(time), errors[name])
        bench.row(case, name, "yes" if chosen else "", *cells)
        if chosen:
            lines.append(Line(case, time, apart))
    return lines


def main() -> None:
    bench = Benchmark(__doc__, "device times in us", COLUMNS)
    chosen = [line for case in bench.chosen(CASES) for line in measure(case.scaled(bench.scale), bench)]
    slower = [f"{one.case} by {one.own / one.apart:.3f}" for one in chosen if one.own > one.apart]
    bench.end(
        f"Of {len(chosen)} products that are one launch, slower than two: {', '.join(slower) or 'none'}."
    )


if __name__ == "__main__":
    main()
