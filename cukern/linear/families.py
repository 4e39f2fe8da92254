"""The family of matrix products, alone or with an epilogue in the same launch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..device import Device, device
from ..elementwise.function import astype, evaluate
from ..elementwise.graph import Expr, input_node
from ..elementwise.program import Program, program
from ..elementwise.special import gelu
from ..elementwise.table import add, relu
from ..index.assemble import tile
from ..kernel.plan import on
from ..launch.family import Family
from ..shape.views import reshape, swapaxes
from .aligned import Aligned
from .blas import multiply
from .few_rows import FewRows
from .library import InSteps, Library, LibraryEpilogue
from .panels import Panels
from .problem import Product
from .tma import Tma
from .variants import Simt, TensorCores
from .vectors import Vectors


def reference(problem: Product) -> Callable[..., Array]:
    """A library's product in the dtype of its sums, then an elementwise epilogue; rows are not reduced."""
    acc = dtypes.info(problem.elem).acc

    def compute(a: Array, b: Array, *operands: Array) -> Array:
        right = swapaxes(b, -1, -2) if problem.transposed else b
        with on(problem.device):
            wide = [astype(one, acc)._data for one in (a, right)]
            product = Array._wrap(multiply(problem.device, *wide), problem.device)
        if problem.epilogue is None:
            return astype(product, problem.elem)
        own = astype(product, problem.epilogue.inputs[0])
        return evaluate(problem.epilogue, (own, *operands))[0]

    return compute


#: Products of models: batches, rows, depth, columns; those of GPT-2, Llama, ViT, vocabularies, and heads.
_MODELS = (
    (1, 16384, 768, 3072),
    (1, 16384, 3072, 768),
    (1, 8192, 768, 2304),
    (1, 8192, 768, 768),
    (1, 8192, 768, 50304),
    (1, 4096, 4096, 4096),
    (1, 2048, 4096, 11008),
    (1, 1, 4096, 4096),
    (1, 8, 4096, 11008),
    (1, 16, 4096, 4096),
    (1, 512, 512, 512),
    (1, 64, 64, 64),
    (8, 1024, 1024, 1024),
    (32, 512, 512, 512),
    (96, 1024, 64, 1024),
    (128, 256, 256, 256),
)
#: Operations of a product at most, on a GPU and on the host.
_MOST = 2e12
_MOST_ON_HOST = 2e8


def _epilogue(then: str, dtype: dtypes.DType) -> Program | None:
    """What follows a product: a bias and a ReLU, a bias and GELU, or a bias and a matrix."""
    if then == "nothing":
        return None
    product, bias, matrix = (Expr(input_node(k, dtype)) for k in range(3))
    y: Any = add(product, bias)
    if then == "matrix":
        y = add(y, matrix)
    elif then == "function":
        y = gelu(y)
    else:
        y = relu(y)
    return program("product", (y.node,), (dtype,) * (3 if then == "matrix" else 2))


def _repeated(numbers: Any, dtype: dtypes.DType, *shape: int) -> Array:
    """An array of numbers, again and again: to draw all on the host would take longer than to multiply."""
    size = math.prod(shape)
    some = astype(asarray(numbers[:size]), dtype)
    return reshape(tile(some, -(-size // some.size))[:size], shape)


def samples(where: Device, seed: int) -> Iterator[tuple[Product, tuple[Array, ...]]]:
    """Problems of products, those of models first, without end."""
    draw, numbers = random.Random(seed), np.random.default_rng(seed).standard_normal(2**20, dtype="float32")
    kinds = ((dtypes.bfloat16, "highest"), (dtypes.float32, "highest"), (dtypes.float32, "tf32"))
    shapes = iter([one for one in _MODELS for _ in range(4)])
    while True:
        sizes = next(shapes, None) or (
            draw.choice((1, 1, 1, 8, 32)),
            *(2 ** draw.randint(3, 14) * draw.choice((2, 3)) // 2 for _ in range(3)),
        )
        batches, m, k, n = sizes
        if batches * m * k * n * 2 > (_MOST_ON_HOST if where.addressable else _MOST):
            continue
        dtype, precision = draw.choice(kinds[:1] * 3 + kinds)
        then = draw.choice(("nothing", "bias", "bias", "function", "matrix"))
        leading = (batches,) if batches > 1 else ()

        normal = partial(_repeated, numbers[draw.randrange(2**18) :], dtype)
        with device(where):
            a, transposed = normal(*leading, m, k), draw.random() < 0.6
            b = swapaxes(normal(*leading, n, k), -1, -2) if transposed else normal(*leading, k, n)
            operands = {"nothing": (), "matrix": (normal(n), normal(*leading, m, n))}.get(then, (normal(n),))
            left, right, *others = [one._planned() for one in (a, b, *operands)]
            epilogue = _epilogue(then, dtype)
            yield (
                Product(left, right, tuple(others), epilogue, precision=precision),
                (a, b, *operands),
            )


#: Alone, or with an epilogue, a reduction of rows, or the product saved beside the result.
PRODUCT: Family[Product] = Family(
    "product",
    Library,
    LibraryEpilogue,
    Simt,
    TensorCores,
    Tma,
    FewRows,
    Panels,
    InSteps,
    Aligned,
    Vectors,
    reference=reference,
    samples=samples,
)
