"""Attention for which variants are measured: that of public models, and others drawn between and beyond them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ... import random as numbers
from ...array import Array
from ...device import Device, device
from . import reference
from .problem import Attention, Call, Options

#: Scores at most on a GPU: the reference has them all in memory.
_MOST = 2**27
#: And on the host.
_MOST_ON_HOST = 2**16


class Shape(NamedTuple):
    """Attention: batches, heads, heads of keys, queries, keys, features of a head, and whether it is causal."""

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    features: int
    causal: bool


#: GPT-2, BERT, Llama 3, a ViT, Gemma, and steps of generation by Llama 3 and by GPT-2.
MODELS = (
    Shape(8, 12, 12, 1024, 1024, 64, True),
    Shape(16, 16, 16, 512, 512, 64, False),
    Shape(1, 32, 8, 2048, 2048, 128, True),
    Shape(64, 12, 12, 197, 197, 64, False),
    Shape(2, 8, 1, 1024, 1024, 256, True),
    Shape(8, 32, 8, 1, 4096, 128, False),
    Shape(1, 12, 12, 1, 1024, 64, False),
)


def shapes(seed: int) -> Iterator[Shape]:
    """Those of models, then others without end."""
    yield from MODELS
    draw = random.Random(seed)
    while True:
        batch, heads = draw.choice((1, 1, 2, 4, 8, 16, 32)), draw.choice((1, 4, 8, 12, 16, 32))
        keys = draw.choice((64, 100, 128, 256, 512, 1024, 2048, 4096, 8192))
        queries = draw.choice((1, keys, keys, keys, 128))
        shared = draw.choice((1, 1, 1, heads, 4 if heads % 4 == 0 else 1))
        features = draw.choice((32, 64, 64, 64, 80, 96, 128, 128, 192, 256))
        yield Shape(batch, heads, heads // shared, queries, keys, features, draw.random() < 0.5)


def _calls(where: Device, seed: int, forward: bool) -> Iterator[Call]:
    """Calls of at most as many scores as the device computes in a short time."""
    draw, own = random.Random(seed), numbers.default_rng(seed)
    most = _MOST_ON_HOST if where.addressable else _MOST
    for of in shapes(seed):
        dtype = draw.choice((dtypes.bfloat16, dtypes.bfloat16, dtypes.float16, dtypes.float32))
        batch = min(of.batch, most // (of.heads * of.queries * of.keys))
        if not batch or (of.queries == 1 and not forward):
            continue

        def normal(*shape: int, dtype: dtypes.DType = dtype) -> Array:
            return ops.astype(own.standard_normal(shape, dtype="float32"), dtype)

        with device(where):
            q = normal(batch, of.heads, of.queries, of.features)
            k, v = (normal(batch, of.key_heads, of.keys, of.features) for _ in range(2))
        yield Call(q, k, v, Options(of.features**-0.5, right=0 if of.causal else None, offset=None))


def forward(where: Device, seed: int) -> Iterator[tuple[Attention, Sequence[Any]]]:
    """Problems of attention, without end."""
    for call in _calls(where, seed, True):
        yield call.problem, (call,)


def gradients(wanted: tuple[bool, bool, bool]) -> Any:
    """Problems of the gradients of q, k and v that are wanted, without end."""

    def drawn(where: Device, seed: int) -> Iterator[tuple[Attention, Sequence[Any]]]:
        for call in _calls(where, seed, False):
            made, statistics = reference.attention(call.problem)(call)
            d = ops.cos(made)
            delta = ops.sum(ops.astype(made, statistics.dtype) * ops.astype(d, statistics.dtype), axis=-1)
            yield call.problem._replace(d=d._planned(), wanted=wanted), (call, d, statistics, delta)

    return drawn
