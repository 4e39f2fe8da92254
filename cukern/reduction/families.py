"""The families of reductions and of softmax, their references, and problems for which they are measured."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..array.operators import FUNCTIONS
from ..device import Device, device
from ..launch.family import Family
from .plan import Reducing, load
from .softmax_variants import Packs, Passes, Registers, Softmax
from .variants import Columns, Loops, Rows


def _wide(compute: Callable[..., Any], problem: Reducing | Softmax) -> Callable[..., Array]:
    """A function of NumPy's or CuPy's arrays of float64, as one of arrays."""

    def computed(*arrays: Array) -> Array:
        made = compute(*(one.astype(dtypes.float64)._data for one in arrays))
        result = Array._wrap(problem.device.xp.asarray(made), problem.device)
        return result.astype(problem.results[0].dtype)

    return computed


def reduced(problem: Reducing) -> Callable[..., Array]:
    """NumPy's or CuPy's function of the name, for problems whose values are those of an array."""
    function = getattr(problem.device.xp, problem.reduction.name)
    axes: Any = problem.axes[0] if problem.reduction.ordered else problem.axes
    return _wide(lambda x: function(x, axis=axes, keepdims=problem.keepdims), problem)


def normalized(problem: Softmax) -> Callable[..., Array]:
    """Softmax and its derivative by NumPy's or CuPy's exponentials and sums."""
    xp = problem.device.xp
    logs, along = problem.kind.startswith("log"), {"axis": problem.axis, "keepdims": True}

    def forward(x: Any) -> Any:
        below = x - x.max(**along)
        total = xp.exp(below).sum(**along)
        return below - xp.log(total) if logs else xp.exp(below) / total

    def backward(g: Any, y: Any) -> Any:
        return g - xp.exp(y) * g.sum(**along) if logs else y * (g - (g * y).sum(**along))

    return _wide(forward if len(problem.operands) == 1 else backward, problem)


#: Shapes and axes of models: losses, biases' gradients, norms, channels of images, heads, scores of tokens, classes.
_MODELS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2**24,), (0,)),
    ((16384, 768), (0,)),
    ((4096, 4096), (1,)),
    ((64, 256, 56, 56), (0, 2, 3)),
    ((196608, 128), (1,)),
    ((2048, 50257), (1,)),
    ((512, 151936), (1,)),
    ((256, 1000), (1,)),
    ((131072, 64), (1,)),
)
#: The most elements on a GPU.
_MOST = 2**26
#: The most elements on the host.
_MOST_ON_HOST = 2**20


def _drawn(where: Device, draw: random.Random) -> Iterator[tuple[Array, tuple[int, ...]]]:
    """Arrays and axes, those of models first, without end."""
    own, models = np.random.default_rng(draw.randrange(2**32)), iter(_MODELS)
    while True:
        shape, axes = next(models, None) or (
            (2 ** draw.randint(0, 12), 2 ** draw.randint(0, 12), draw.randint(1, 2 ** draw.randint(2, 16))),
            draw.choice(((0,), (1,), (2,), (1, 2), (0, 2))),
        )
        rows = min(shape[0], (_MOST_ON_HOST if where.addressable else _MOST) // math.prod(shape[1:]))
        if rows:
            with device(where):
                x = asarray(own.standard_normal((rows, *shape[1:]), dtype=np.float32))
                yield x.astype(draw.choice((dtypes.bfloat16, dtypes.float32))), axes


def reductions(where: Device, seed: int) -> Iterator[tuple[Reducing, tuple[Array, ...]]]:
    """Problems, those of models first, without end."""
    draw = random.Random(seed)
    for x, axes in _drawn(where, draw):
        function = FUNCTIONS[draw.choice(("sum", "sum", "max", "argmax", "var"))]
        value, result = function.dtypes_of(x.dtype)
        own = axes[-1:] if function.row.ordered else axes
        yield Reducing(function.row, load(x.dtype, value), (x._planned(),), own, False, result), (x,)


def softmaxes(where: Device, seed: int) -> Iterator[tuple[Softmax, tuple[Array, ...]]]:
    """The same, of softmax; each with its derivative."""
    draw = random.Random(seed)
    for x, axes in _drawn(where, draw):
        problem = Softmax(draw.choice(("softmax", "log_softmax")), axes[-1], (x._planned(),))
        yield problem, (x,)
        y = normalized(problem)(x)
        yield Softmax(f"{problem.kind}_vjp", problem.axis, (x._planned(), y._planned())), (x, y)


REDUCTION: Family[Reducing] = Family("reduction", Loops, Rows, Columns, reference=reduced, samples=reductions)
SOFTMAX: Family[Softmax] = Family(
    "softmax", Packs, Registers, Passes, reference=normalized, samples=softmaxes
)
