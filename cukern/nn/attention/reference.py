"""Attention composed of products and softmax: for derivatives of higher order, and for heads that no kernel holds.

Of these the queries are cut into blocks, and each block's scores are made again for the gradients, so that memory stays
bounded. Kernels are compared with it on problems of public models, and others drawn between and beyond them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ... import random as numbers
from ...array import Array
from ...array.creation import arange, zeros_like
from ...autodiff import tape
from ...device import Device, device
from ...elementwise.fuse import fuse
from ...launch.variant import Plan
from ...reduction.rows import sum_to_shape
from ...transforms import vjp
from ..dropout import dropped
from .problem import Attention, Call, Options
from .scores import Table, changed


def _places(call: Call, first: int, count: int) -> tuple[list[Array], Array | None]:
    """The batch, head, query and key of each score of some queries, and whether the query may attend to the key.

    The second is None if each query attends to all keys.
    """
    (batch, heads, length, _), keys, device = call.q.shape, call.k.shape[2], call.q.device
    options = call.options
    rows = arange(first, first + count, dtype="int32", device=device)[:, None]
    columns = arange(keys, dtype="int32", device=device)
    which = arange(batch, dtype="int32", device=device)[:, None, None, None]
    lengths: Any = length
    ends: Any = keys
    allowed: Array | None = None
    if options.packed:
        starts_q, starts_k = call.starts
        assert starts_q is not None
        assert starts_k is not None
        of_q, of_k = (
            ops.subtract(ops.searchsorted(starts, places, side="right"), 1)
            for starts, places in ((starts_q, rows[:, 0]), (starts_k, columns))
        )
        of_q = ops.clip(of_q, 0, starts_q.size - 2)
        allowed = ops.logical_and(ops.equal(of_q[:, None], of_k), ops.less(rows, starts_q[-1]))
        lengths, ends = (ops.take(starts[1:] - starts[:-1], of_q)[:, None] for starts in (starts_q, starts_k))
        rows = rows - ops.take(starts_q, of_q)[:, None]
        columns = columns - ops.take(starts_k, ops.clip(of_k, 0, starts_k.size - 2))
        which = of_q[:, None].astype("int32")
    elif options.counted:
        assert call.starts[1] is not None
        ends = ops.clip(call.starts[1], 0, keys)[:, None, None, None]
        allowed = ops.less(columns, ends)
    at = rows + (ops.subtract(ends, lengths) if options.offset is None else options.offset)
    for side, reach, compare in ((-1, options.left, ops.greater_equal), (1, options.right, ops.less_equal)):
        if reach is not None:
            inside = compare(columns, at + side * reach)
            allowed = inside if allowed is None else ops.logical_and(allowed, inside)
    head = arange(heads, dtype="int32", device=device)[:, None, None]
    return [which, head, rows, columns], allowed


def composed(call: Call, *arrays: Array, first: int = 0) -> tuple[Array, Array, Array]:
    """The result of a call for other arrays: q, k, v, the score's, of which the last are a bias and a mask, and tables.

    The second result has, for each query, the logarithm of the sum of the exponentials of its scores, and the third
    what that logarithm lacks as it is rounded to the digits of large scores; on a GPU zeros.

    Args:
        call: what is asked for.
        arrays: q may have some of the queries alone, and then arrays of the score that have an axis of queries too.
        first: the number of the first of these queries.
    """
    s, alive, _, _, v = _scored(call, arrays, first)
    total: Array | None = None
    if call.draw is None and call.q.device.addressable:
        # Sums of exponentials are in fewer passes by loops of their own; results have fewer elements than weights.
        with tape.stop_recording():
            peak = ops.max(s, axis=-1, keepdims=True)
        weights = _below(s, peak)
        total = ops.sum(weights, axis=-1, keepdims=True)
        more = ops.log(total)
        lse = (peak + more)[..., 0]
        with tape.stop_recording():
            rest = _rest(peak[..., 0], more[..., 0], lse)
    else:
        lse = ops.logsumexp(s, axis=-1)
        weights, rest = ops.softmax(s, axis=-1), zeros_like(lse)
    if alive is not None:
        lse = ops.where(alive[..., 0], lse, -math.inf)
    if call.draw is not None:
        weights = dropped(weights, call.options.dropout, call.draw)
    found = _by_heads(call, ops.matmul(_by_keys(call, weights), _shared(call, v)))
    if total is not None:
        found = found / total
    found = found if alive is None else ops.where(alive, found, 0.0)
    return found.astype(call.q.dtype, copy=False), lse, rest


@fuse
def _below(s: Any, peak: Any) -> Any:
    return ops.exp(s - peak)


@fuse
def _rest(peak: Any, more: Any, lse: Any) -> Any:
    """What ``peak + more`` lacks that was rounded to ``lse``."""
    return ops.where(ops.isfinite(lse), (peak - lse) + more, 0.0)


def _by_keys(call: Call, x: Array) -> Array:
    """An array of heads with those that share a head of keys along an axis of their own."""
    heads, key_heads = call.q.shape[1], call.k.shape[1]
    if heads == key_heads:
        return x
    return ops.reshape(x, (x.shape[0], key_heads, heads // key_heads, *x.shape[2:]))


def _by_heads(call: Call, x: Array) -> Array:
    """The inverse of :func:`_by_keys`."""
    heads, key_heads = call.q.shape[1], call.k.shape[1]
    return x if heads == key_heads else ops.reshape(x, (x.shape[0], heads, *x.shape[3:]))


def _shared(call: Call, x: Array) -> Array:
    """An array of heads of keys, for products with those that :func:`_by_keys` returns."""
    return x if call.q.shape[1] == call.k.shape[1] else x[:, :, None]


def _scored(
    call: Call, arrays: Sequence[Array], first: int
) -> tuple[Array, Array | None, Array, Array, Array]:
    """The scores, whether a query attends to any key, scaled q, and k and v, all in the dtype of sums.

    Scores of a query without keys are 0; the second result is None if each has some.
    """
    acc = dtypes.info(call.q.dtype).acc
    q, k, v = (one if one.dtype is acc else one.astype(acc, copy=False) for one in arrays[:3])
    length, keys = q.shape[2], k.shape[2]
    options, places = call.options, list[Array]()
    allowed: Array | None = None
    ranged = options.packed or options.counted or options.left is not None or options.right is not None
    if ranged or call.score is not None:
        places, allowed = _places(call, first, length)
    if call.options.counted:
        # What is beyond the numbers of keys may be NaN, which a weight of 0 does not hide.
        assert call.starts[1] is not None
        present = ops.less(places[3][:, None], call.starts[1][:, None, None, None])
        k, v = (ops.where(present, one, 0.0) for one in (k, v))
    elif call.options.packed:
        # So may be what is of no sequence.
        ends = [one[-1] for one in call.starts if one is not None]
        rows = arange(first, first + length, dtype="int32", device=q.device)[:, None]
        columns = arange(keys, dtype="int32", device=q.device)[:, None]
        q = ops.where(rows < ends[0], q, 0.0)
        k, v = (ops.where(columns < ends[1], one, 0.0) for one in (k, v))
    q = _by_keys(call, q * call.options.scale)
    s = _by_heads(call, ops.matmul(q, _shared(call, ops.swapaxes(k, -1, -2))))
    tables = [Table(k, one) for k, one in enumerate(arrays[len(arrays) - len(call.tables) :])]
    rest = list(arrays[3 : len(arrays) - len(tables)])
    mask = rest.pop() if call.given[1] else None
    bias = rest.pop() if call.given[0] else None
    if call.options.packed:
        rest = [_taken(one, places[0]) for one in rest]
    s = changed(call.score, s, places, [*rest, *tables], bias, mask)
    if allowed is not None:
        s = ops.where(allowed, s, -math.inf)
    alive = None
    if allowed is not None or call.score is not None or any(call.given):
        alive = ops.greater(ops.max(s, axis=-1, keepdims=True), -math.inf)
        s = ops.where(alive, s, 0.0)
    return s, alive, q, k, v


def _taken(x: Array, which: Array) -> Array:
    """An array of (sequences, heads, 1, 1) for the rows of packed sequences: (heads, rows, 1)."""
    wide = ops.reshape(x, (1,) * (4 - x.ndim) + x.shape)
    if wide.shape[0] == 1:
        return wide[0]
    return ops.swapaxes(ops.take(wide[..., 0, 0], which[:, 0], axis=0), 0, 1)[..., None]


#: Scores of a block of queries at most: 128 MiB of float32, of which some such arrays are in memory at a time.
_SCORES = 2**25
#: The same on the host, whose caches hold them, unless these are too few queries for products to be quick.
_SCORES_OF_HOST, _FEWEST = 2**20, 16


def _blocks(call: Call) -> Iterator[slice]:
    """The queries of each block; all in one with dropout, which counts the elements of the whole matrix of scores."""
    (batch, heads, length, _), keys = call.q.shape, call.k.shape[2]
    of_query = max(1, batch * heads * keys)
    count = max(1, _SCORES // of_query)
    if call.q.device.addressable:
        count = min(count, max(_FEWEST, _SCORES_OF_HOST // of_query))
    if call.draw is not None:
        count = length
    return (slice(i, min(i + count, length)) for i in range(0, length, count))


def _of_block(call: Call, queries: slice) -> list[Array]:
    """The arrays of a call for some queries: those that have an axis of queries are cut along it."""

    def cut(one: Array) -> Array:
        along = not call.options.packed and one.ndim > 1 and one.shape[-2] == call.q.shape[2] > 1
        return one[..., queries, :] if along else one

    return [call.q[:, :, queries], call.k, call.v, *map(cut, call.operands)]


def attention(problem: Attention) -> Plan:
    """What computes the result of a call, and the statistics of its rows, as the kernels do."""

    def compute(call: Call) -> list[Array]:
        parts = [
            composed(call, *_of_block(call, queries), *call.tables, first=queries.start)
            for queries in _blocks(call)
        ]
        made, lse, rest = (
            one[0] if len(one) == 1 else ops.concat(one, axis=2) for one in zip(*parts, strict=True)
        )
        return [made, ops.stack([lse, rest], axis=-1)]

    return compute


@fuse
def _of_scores(scores: Any, lse: Any, rest: Any, dweights: Any, delta: Any) -> tuple[Any, Any]:
    """Weights, and the cotangent of scores from that of the weights and its mean by them."""
    weights = ops.exp((scores - lse) - rest)
    return weights, weights * (dweights - delta)


@fuse
def _of_scores_alive(
    scores: Any, lse: Any, rest: Any, dweights: Any, delta: Any, alive: Any
) -> tuple[Any, Any]:
    """The same where some queries have no keys."""
    weights = ops.where(alive, ops.exp((scores - lse) - rest), 0.0)
    return weights, weights * (dweights - delta)


@fuse
def _of_weights(weights: Any, dweights: Any, delta: Any) -> Any:
    """The cotangent of scores from that of their softmax, and the mean of this by the weights."""
    return weights * (dweights - delta)


def _pulled(
    call: Call,
    arrays: Sequence[Array],
    d: Array,
    statistics: Array,
    delta: Array,
    wanted: Sequence[int],
    first: int,
) -> Iterator[Array]:
    """The gradients of the arrays of a block, q, k, v and a bias, where no function changes the scores.

    On the host the logarithms of the rows' sums of exponentials, in two terms, make the weights again.

    Source: Dao and others, "FlashAttention: fast and memory-efficient exact attention with IO-awareness", 2022.
    """
    s, alive, q, k, v = _scored(call, arrays, first)
    g = _by_keys(call, d.astype(s.dtype, copy=False))
    dweights = _by_heads(call, ops.matmul(g, _shared(call, ops.swapaxes(v, -1, -2))))
    ends = dweights, delta.astype(s.dtype, copy=False)[..., None]
    if call.q.device.addressable:
        terms = statistics.astype(s.dtype, copy=False)
        given = s, terms[..., :1], terms[..., 1:], *ends
        weights, ds = _of_scores(*given) if alive is None else _of_scores_alive(*given, alive)
    else:
        weights = ops.softmax(s, axis=-1)
        weights = weights if alive is None else ops.where(alive, weights, 0.0)
        ds = _of_weights(weights, *ends)

    def summed(left: Array, right: Array) -> Array:
        """The products of transposed ``left`` and ``right``, summed over the heads that share one of keys."""
        if left.ndim > 4:
            left, right = (ops.reshape(one, (*one.shape[:2], -1, one.shape[-1])) for one in (left, right))
        return ops.matmul(ops.swapaxes(left, -1, -2), right)

    for i in wanted:
        if i == 0:
            of_q = ops.matmul(_by_keys(call, ds), _shared(call, k)) * call.options.scale
            yield _by_heads(call, of_q).astype(call.q.dtype, copy=False)
        elif i < 3:
            yield summed(_by_keys(call, ds), q) if i == 1 else summed(_by_keys(call, weights), g)
        else:
            yield sum_to_shape(ds, arrays[i].shape)


def gradient(problem: Attention) -> Plan:
    """What computes the gradients of a call from the cotangent of its result, and from a term of each query.

    That is the dot product of the query's result and its cotangent, less the cotangent of the logarithm of its sum of
    exponentials; without it there is no such cotangent.
    """
    wanted = (
        [3 + problem.of_array] if problem.of_array is not None else [i for i in range(3) if problem.wanted[i]]
    )

    def compute(
        call: Call, d: Array, statistics: Array | None = None, delta: Array | None = None
    ) -> list[Array]:
        acc, found = dtypes.info(call.q.dtype).acc, dict[int, list[Array]]()
        shapes = [one.shape for one in (*call[:3], *call.operands)]

        def add(gradients: Iterable[Array]) -> None:
            for i, one in zip(wanted, gradients, strict=True):
                summed = one.shape == shapes[i] and i in found
                found[i] = [found[i][0] + one] if summed else [*found.get(i, ()), one]

        for queries in _blocks(call):
            own = _of_block(call, queries)
            if statistics is not None and delta is not None and call.score is None and call.draw is None:
                of_rows = statistics[:, :, queries], delta[..., queries]
                gradients = _pulled(call, own, d[:, :, queries], *of_rows, wanted, queries.start)
                add(gradients)
                continue

            def of_wanted(*given: Array, own: list[Array] = own, first: int = queries.start) -> Any:
                chosen = dict(zip(wanted, given, strict=True))
                arrays = [chosen.get(i, one) for i, one in enumerate(own)]
                return composed(call, *arrays, *call.tables, first=first)[:2]

            # Gradients of all but q are sums over the blocks, which halves would round.
            primals = [own[i].astype(acc, copy=False) if i else own[i] for i in wanted]
            (made, lse), pull = vjp(of_wanted, *primals)
            of_made, of_lse = d[:, :, queries], zeros_like(lse)
            if delta is not None:
                dots = ops.sum(made.astype(acc) * of_made.astype(acc), axis=-1)
                of_lse = (dots - delta[..., queries]).astype(lse.dtype)
            add(pull((of_made, of_lse)))
        parts = [(found[i], (*call[:3], *call.operands)[i].dtype) for i in wanted]
        return [
            (one[0] if len(one) == 1 else ops.concat(one, axis=-2)).astype(dtype, copy=False)
            for one, dtype in parts
        ]

    return compute


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


def samples(where: Device, seed: int) -> Iterator[tuple[Attention, Sequence[Any]]]:
    """Problems of attention, without end."""
    for call in _calls(where, seed, True):
        yield call.problem, (call,)


def samples_of_gradients(wanted: tuple[bool, bool, bool]) -> Any:
    """Problems of the gradients of q, k and v that are wanted, without end."""

    def drawn(where: Device, seed: int) -> Iterator[tuple[Attention, Sequence[Any]]]:
        for call in _calls(where, seed, False):
            made, statistics = attention(call.problem)(call)
            d = ops.cos(made)
            delta = ops.sum(ops.astype(made, statistics.dtype) * ops.astype(d, statistics.dtype), axis=-1)
            yield call.problem._replace(d=d._planned(), wanted=wanted), (call, d, statistics, delta)

    return drawn
