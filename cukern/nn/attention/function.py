"""Attention without the matrix of scores: the function and its derivatives."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes, pytree
from ... import namespace as ops
from ...array import Array
from ...array.batched import Level
from ...array.creation import full, zeros, zeros_like
from ...array.layout import Layout
from ...array.mapping import looped, mapped
from ...autodiff import tape
from ...cache import Cache
from ...elementwise.operands import recorded_many
from ...kernel import plan
from ...kernel.strides import broadcast_shapes
from ...random import Generator
from ...transforms import vjp
from ..dropout import Draw, drawn, require_probability
from ..fused import (
    along,
    common_dtype,
    fused_vjp,
    is_int,
    require_beside,
    require_broadcast,
    require_kind,
    require_shape,
)
from . import masks
from .conditions import condition_blocks, condition_of
from .families import backward, expect_backward, forward
from .problem import Call, Options, dense
from .reference import composed
from .scores import traced

Window = int | tuple[int | None, int | None] | None
#: A window that no length exceeds; sums with positions fit an int.
_FAR = 2**29


class _Form(NamedTuple):
    """What a call has besides arrays that a tape records.

    Attributes:
        options: what is asked for.
        tables: how many of the arrays are tables.
        draw: of dropout.
        score: the function of a score.
        given: whether the last of the score's arrays are a bias and a mask.
    """

    options: Options
    tables: int = 0
    draw: Draw | None = None
    score: Callable[..., Any] | None = None
    given: tuple[bool, bool] = (False, False)

    def call(
        self,
        arrays: Sequence[Array],
        starts: tuple[Array | None, Array | None],
        blocks: masks.Blocks | None = None,
    ) -> Call:
        """The call for arrays: q, k, v, those of the score, and tables."""
        q, k, v = [dense(one) for one in arrays[:3]]
        split = len(arrays) - self.tables
        tables = tuple([one.contiguous() for one in arrays[split:]])
        operands = tuple(arrays[3:split])
        return Call(
            q, k, v, self.options, operands, tables, starts, self.draw, self.score, self.given, blocks
        )


def _computed(
    form: _Form,
    starts: tuple[Array | None, Array | None],
    arrays: Sequence[Array],
    mask: Array | None = None,
) -> tuple[Array, Array]:
    """The result and its statistics, recorded.

    Args:
        form: what is asked for.
        starts: of packed sequences.
        arrays: q, k, v, those of the score, and tables.
        mask: the last array of the score, if tiles that it empties are to be left out.
    """
    tracking = tape.tracked(arrays) if tape.opened else None

    def pull(
        cotangents: Sequence[Array | None], saved: Sequence[Any], needs: Sequence[bool]
    ) -> Sequence[Array | None]:
        *arrays, starts_q, starts_k, kinds, bits, made, statistics = saved
        call = form.call(arrays, (starts_q, starts_k), None if kinds is None else masks.Blocks(kinds, bits))
        return _gradients(call, arrays, made, statistics, cotangents, needs)

    def push(tangents: Sequence[Array | None], saved: Sequence[Any]) -> tuple[Array, ...]:
        *arrays, starts_q, starts_k, kinds, bits, _, _ = saved
        call = form.call(arrays, (starts_q, starts_k), None if kinds is None else masks.Blocks(kinds, bits))
        return along(lambda *own: composed(call, *own)[:2], arrays, tangents)

    with tape.stop_recording():
        launch = partial(plan.made, "attention", _launched) if form.draw is None else _launched
        made, statistics, blocks = launch(form, starts, arrays, mask)
        lse = statistics[..., 0]
    if tracking is not None:
        _, keys, tapes = tracking
        saved = (*arrays, *starts, *(blocks or (None, None)), made, statistics)
        forms, outputs = (
            tuple([one._layout or one._planned() for one in arrays]),
            (made._planned(), lse._planned()),
        )
        known = None if form.draw is not None else (form, forms)
        operation = None if known is None else _operations.get(known)
        if operation is None:
            operation = tape.Operation("attention", forms, outputs, pull, False, jvp=push)
            if known is not None:
                _operations.keep(known, operation)
                if not made.device.addressable:
                    expect_backward(form.call(arrays, starts, blocks), tracking[0])
        tape.record_tracked(operation, keys, (made, lse), saved, tapes)
    return made, lse


def _launched(
    form: _Form, starts: tuple[Array | None, Array | None], arrays: Sequence[Array], mask: Array | None
) -> tuple[Array, Array, masks.Blocks | None]:
    """The result, its statistics, and what a mask or a condition has in blocks."""
    bits = dtypes.info(arrays[0].dtype).narrow
    blocks = None if mask is None else masks.mask_blocks(mask, bits)
    call = form.call(arrays, starts, blocks)
    if form.options.condition is not None:
        blocks = condition_blocks(call, bits)
        call = call._replace(blocks=blocks)
    return *forward(call), blocks


#: What tapes record of calls without dropout, by what is asked for and by the layouts of arrays.
_operations: Cache[tuple[_Form, tuple[Layout, ...]], tape.Operation] = Cache()


def _gradients(
    call: Call,
    arrays: Sequence[Array],
    made: Array,
    statistics: Array,
    given: Sequence[Array | None],
    wanted: Sequence[bool],
) -> Sequence[Array | None]:
    """The gradients of ``arrays``, differentiable, from those of the result and of its rows' logarithms."""
    cotangent, of_lse = given
    of_made = zeros_like(made) if cotangent is None else cotangent
    cotangents = [of_made] if of_lse is None else [of_made, of_lse]
    # Integers have no gradient, and are no primals.
    primals = [one if (one._layout or one._planned()).floating else None for one in arrays]

    def of_arrays(*given: Array | None) -> tuple[Array, ...]:
        own = [known if one is None else one for one, known in zip(given, arrays, strict=True)]
        return composed(call, *own)[: len(cotangents)]

    def kernels() -> list[Array | None]:
        # The arrays' kernel sums over whole batches, which packed sequences are not, and has no sums for tables.
        own = 3 if call.options.packed else len(arrays) - len(call.tables)
        launch = partial(plan.made, "gradient of attention", backward) if call.draw is None else backward
        found = launch(call, made, statistics, of_made, of_lse, wanted[:own])
        rest = [i for i in range(own, len(arrays)) if wanted[i]]
        if not rest:
            return [*found, *[None] * (len(arrays) - own)]

        def of_rest(*values: Array) -> tuple[Array, ...]:
            chosen = dict(zip(rest, values, strict=True))
            return of_arrays(*(chosen.get(i) for i in range(len(arrays))))

        _, pull = vjp(of_rest, *(arrays[i] for i in rest))
        pulled = dict(zip(rest, pull(tuple(cotangents)), strict=True))
        return [*found, *(pulled.get(i) for i in range(own, len(arrays)))]

    return fused_vjp(kernels, of_arrays, primals, cotangents, wanted)


def _require_shapes(q: Array, k: Array, v: Array) -> None:
    for argument, one in (("q", q), ("k", k), ("v", v)):
        require_shape("attention", argument, one, ..., "heads", "length", "features")
    if k.shape[-1] != q.shape[-1]:
        raise ValueError(f"attention: k: expected {q.shape[-1]} features as q has, got shape {k.shape}")
    require_shape("attention", "v", v, ..., *k.shape[-3:-1], "V")
    if not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(
            f"attention: k: expected a number of heads that divides the {q.shape[-3]} of q, got {k.shape[-3]}"
        )
    for argument, one in (("q", q), ("v", v)):
        if not one.shape[-1]:
            raise ValueError(f"attention: {argument}: expected at least 1 feature, got shape {one.shape}")


def _sides(causal: bool, window: Window) -> tuple[int | None, int | None]:
    """How many keys before and after its position a query attends to."""
    if window is None or is_int(window):
        sides: tuple[Any, ...] = (window, window)
    else:
        sides = tuple(window) if isinstance(window, (tuple, list)) else (window,)
    if len(sides) != 2 or not all(one is None or (is_int(one) and one >= 0) for one in sides):
        raise ValueError(
            f"attention: window: expected a number of keys of at least 0, or a pair of them or None, got {window!r}"
        )
    left, right = (None if one is None else min(int(one), _FAR) for one in sides)
    return left, 0 if causal else right


def _require_starts(name: str, starts: object, beside: Array, size: int | None) -> Array:
    if not isinstance(starts, Array) or dtypes.info(starts.dtype).kind not in "iu" or starts.ndim != 1:
        raise TypeError(
            f"attention: {name}: expected a cukern array of integers with one axis, got {starts!r}"
        )
    require_beside("attention", name, starts, beside, "q")
    require_shape("attention", name, starts, "places" if size is None else size)
    if starts.dtype not in (dtypes.int8, dtypes.int16, dtypes.uint8, dtypes.uint16, dtypes.int32):
        starts = ops.clip(starts, 0 if dtypes.info(starts.dtype).kind == "u" else -1, 2**31 - 1)
    return starts.astype("int32", copy=False).contiguous()


def _starts(
    starts: tuple[Array, Array] | None, key_lengths: Array | None, q: Array, k: Array, batch: int
) -> tuple[Array | None, Array | None]:
    if starts is None:
        return (
            (None, None)
            if key_lengths is None
            else (None, _require_starts("key_lengths", key_lengths, q, batch))
        )
    if key_lengths is not None:
        raise ValueError("attention: key_lengths: none may be given with starts")
    if not isinstance(starts, tuple) or len(starts) != 2:
        raise TypeError("attention: starts: expected a pair of arrays, for the queries and for the keys")
    if q.ndim != 3 or k.ndim != 3:
        raise ValueError(f"attention: starts: expected q of shape (heads, rows, features), got {q.shape}")
    first = _require_starts("starts[0]", starts[0], q, None)
    if first.size < 1:
        raise ValueError("attention: starts[0]: expected at least one number, got none")
    second = _require_starts("starts[1]", starts[1], q, first.size)
    for which, places, rows in ((0, first, q.shape[1]), (1, second, k.shape[1])):
        if q.device.addressable and (np.diff(places.numpy(), prepend=0, append=rows) < 0).any():
            raise ValueError(
                f"attention: starts[{which}]: expected places in 0 to {rows} that do not fall, got {places.tolist()}"
            )
    return first, second


def _operands(
    arrays: Sequence[Array], bias: Array | None, mask: Array | None, shape: tuple[int, ...], q: Array
) -> tuple[Array, ...]:
    """The arrays of the score with at most four axes, which broadcast to ``shape``."""
    named = [(f"arrays[{i}]", one, "biuf") for i, one in enumerate(arrays)]
    named += [
        (name, one, kind) for name, one, kind in (("bias", bias, "f"), ("mask", mask, "b")) if one is not None
    ]
    found = []
    for name, one, kinds in named:
        wanted = {"f": "floats", "b": "bools"}.get(kinds, "numbers")
        require_kind("attention", name, one, kinds, f"an array of {wanted}")
        require_beside("attention", name, one, q, "q")
        require_broadcast("attention", name, one, shape)
        if one.ndim > 4 or (len(shape) > 4 and one.ndim == 4):
            lead = one.shape[:-3]
            whole = lead if all(n == 1 for n in lead) else shape[:-3]
            one = ops.reshape(ops.broadcast_to(one, (*whole, *one.shape[-3:])), (-1, *one.shape[-3:]))
        found.append(one)
    return tuple(found)


def _require_tables(tables: Sequence[Array], q: Array) -> None:
    for k, one in enumerate(tables):
        if (
            not isinstance(one, Array)
            or dtypes.info(one.dtype).kind not in "biuf"
            or not one.ndim
            or not one.size
        ):
            got = f"{one.dtype} of shape {one.shape}" if isinstance(one, Array) else type(one).__name__
            raise TypeError(f"attention: tables[{k}]: expected an array of numbers, with an axis, got {got}")
        require_beside("attention", f"tables[{k}]", one, q, "q")


#: What is asked for, by what :func:`_key` says, by calls that gave three matrices of one dtype and at most a mask; and
#: how many scores there are.
_known: Cache[Any, tuple[_Form, int]] = Cache()
_PLAIN = frozenset((bool, int, float, str, type(None)))


def _key(matrices: Sequence[Any], *numbers: Any) -> Any:
    """All on which the checks of a call of such arrays depend; None of arguments that may be no such."""
    if not all(type(one) is Array for one in matrices) or not _PLAIN.issuperset(map(type, numbers)):
        return None
    # True equals 1, and is not the same argument.
    return (*[one._layout or one._planned() for one in matrices], *numbers, *map(type, numbers))


def _of_all(level: Level, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of :func:`attention`: the batch is one more leading axis."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    given, rank = bound.arguments, max([one.ndim for one in args[:3]], default=0)
    places = ("q", "k", "v", "bias", "mask")
    others = [one for name, one in given.items() if name not in places]
    if any(map(level.holds, pytree.leaves(others))) or rank < 3:
        return looped(level, function, args, kwargs)
    for name in places:
        if isinstance(given.get(name), Array):
            given[name] = level.value(given[name], rank)
    if not any(map(level.holds, args[:3])):  # then a bias or a mask is
        q = given["q"]
        given["q"] = level.front(ops.expand_dims(q, tuple(range(rank - q.ndim))))
    return function(*bound.args, **bound.kwargs)


@mapped(_of_all)
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    window: Window = None,
    offset: int | str = 0,
    scale: float | None = None,
    score: Callable[..., Any] | None = None,
    arrays: Sequence[Array] = (),
    tables: Sequence[Array] = (),
    bias: Array | None = None,
    mask: Array | None = None,
    dropout: float = 0.0,
    rng: Generator | None = None,
    starts: tuple[Array, Array] | None = None,
    key_lengths: Array | None = None,
    return_lse: bool = False,
    deterministic: bool = False,
) -> Any:
    """``softmax(q @ k.T * scale) @ v`` for each head, without the matrix of scores in memory, forward and backward.

    The kernels walk along the keys with the running maximum and sum of each row (the online softmax), and the backward
    computes the weights again. Tiles of scores that ``causal``, ``window``, ``starts`` or ``key_lengths`` exclude, or
    for which ``mask`` is False throughout, are skipped. On GPUs, blocks share the keys of few queries, and another
    launch combines their results. Results are the same in each run; of gradients see ``deterministic``. Derivatives of
    second and higher order compute the whole matrix of scores. Heads of more than 256 features, which no kernel holds,
    are products and a softmax of blocks of queries, of as many as have 2^25 scores, at least one, or all with dropout.
    So are others on the host where nothing changes scores, as its library multiplies faster: of as many queries as have
    2^20 scores, at least 16.

    ``score`` changes the scaled scores: ``score(s, batch, head, i, j, *arrays, *tables)`` is traced as
    :func:`cukern.fuse` traces, where ``s`` is the score of query i and key j, whose places are integers. It may index
    ``tables``, as in ``s + table[head, j - i + 8]``. For half types, what it makes of ``s`` is exact to about 1e-6 of
    its largest term: constants are multiplied with each other, and a quotient by one is a product. Then ``bias`` is
    added, and where ``mask`` is False the query does not attend to the key. Where ``score`` is ``where(condition, ...,
    -inf)``, tiles that the condition empties are skipped as a mask's are, if it depends on nothing but the batch, i, j
    and what it reads by them: ``where(document[i] == document[j], s, -inf)`` needs no mask, but for half types two
    bits for each score of a head (above 2**32 of them no tile is skipped).

    Args:
        q: shape (..., heads, L, E), a floating dtype.
        k: shape (..., heads of keys, S, E), whose heads divide those of q: each serves as many neighbouring ones.
        v: shape (..., heads of keys, S, V).
        causal: whether a query attends only to keys up to its own position.
        window: how many keys before and after its position a query attends to; a pair for both sides, where None
            stands for all.
        offset: the position of the first query among the keys; ``"end"`` if the last query is at the last key.
        scale: the factor of the scores; ``1 / sqrt(E)`` when None.
        score: an elementwise function of a score, its place, and arrays.
        arrays: the arrays that ``score`` takes, which broadcast to (..., heads, L, S); they get gradients.
        tables: arrays of any shape of which ``score`` reads elements, by an integer for each axis, clipped to those
            that there are. They get gradients, for which the whole matrix of scores is computed.
        bias: an array of floats that is added to the scores, and broadcasts as they do; it gets a gradient.
        mask: an array of bools that broadcasts as they do. What a tile that it empties has of q, k and v is not read.
        dropout: the probability of dropping a weight, see :func:`dropout`.
        rng: the generator of dropout.
        starts: for sequences of unequal lengths, packed behind one another in q of shape (heads, rows, E) and k of
            (heads of keys, rows of keys, E): where each begins in q and in k, and the last ends. ``batch`` is then the
            number of the sequence, i and j count from its start, and ``arrays`` broadcast to (sequences, heads, 1, 1).
            Places out of range raise on the host and are clipped on GPUs.
        key_lengths: for each batch, how many of its keys there are.
        return_lse: whether to return also the logarithm of each query's sum of exponentials of its scores. With it,
            results for several sets of keys can be joined: weighted by the exponentials of these numbers, their mean is
            the result for all the keys.
        deterministic: whether gradients are the same in every run to the last bit. Otherwise blocks of the backward
            pass may add to the gradient of q in any order, which takes less time.

    Returns:
        Shape (..., heads, L, V), in the promoted dtype of q, k and v; zeros where a query attends to no key. With
        ``return_lse`` a pair of it and an array of shape (..., heads, L), float32 for half types, -inf there.

    Raises:
        TypeError: an argument is no array of the right kind, or ``score`` is not elementwise.
        ValueError: the shapes do not fit.

    Sources: Dao, "FlashAttention-2: faster attention with better parallelism and work partitioning", 2023; Dong and
    others, "Flex Attention: a programming model for generating optimized attention kernels", 2024.

    >>> import cukern as ck
    >>> x = ck.random.default_rng(0).normal(size=(2, 5, 8))
    >>> ck.nn.attention(x, x, x, causal=True).shape
    (2, 5, 8)
    >>> slopes = ck.asarray([0.5, 0.25]).reshape(2, 1, 1)  # attention with linear biases
    >>> y = ck.nn.attention(x, x, x, score=lambda s, b, h, i, j, slope: s + slope * (j - i), arrays=[slopes])
    """
    key = None
    absent = score is None and bias is None and starts is None and key_lengths is None
    listed = arrays is not None and tables is not None
    if absent and listed and not (arrays or tables or dropout):
        every = (q, k, v) if mask is None else (q, k, v, mask)
        key = _key(every, causal, window, offset, scale, deterministic, dropout)
        if (known := _known.get(key)) is not None:
            made, lse = _computed(known[0], (None, None), every, mask if known[1] >= masks.FEWEST else None)
            return (made, lse) if return_lse else made
    dtype = common_dtype("attention", {"q": q, "k": k, "v": v})
    _require_shapes(q, k, v)
    _require_tables(tables, q)
    if score is None and (arrays or tables):
        name = "arrays" if arrays else "tables"
        raise ValueError(f"attention: {name}: expected none without score, which takes them")
    options = _options(q, causal, window, offset, scale, dropout)
    lead = broadcast_shapes("attention", [q.shape[:-3], k.shape[:-3], v.shape[:-3]])
    shape = (*lead, *q.shape[-3:-1], k.shape[-2])
    where = _starts(starts, key_lengths, q, k, math.prod(lead))
    if where[0] is not None:
        if bias is not None or mask is not None:
            raise ValueError("attention: bias and mask: none may be given with starts; use score")
        operands = _operands(arrays, None, None, (where[0].size - 1, shape[0], 1, 1), q)
    else:
        operands = _operands(arrays, bias, mask, shape, q)
    result = (*lead, *q.shape[-3:-1], v.shape[-1])
    nothing = not math.prod(shape) or (where[0] is not None and where[0].size == 1)
    if nothing or (options.dropout == 1 and not return_lse):
        primals = [one for one in (q, k, v, *operands, *tables) if one.dtype in dtypes.FLOATS]
        made = recorded_many(
            "attention", primals, zeros(result, dtype, q.device), lambda _, needs: [*map(zeros_like, primals)]
        )
        lse = full(result[:-1], -math.inf, dtypes.info(dtype).acc, q.device)
        return (made, lse) if return_lse else made
    given = (bias is not None, mask is not None)
    options = options._replace(
        packed=where[0] is not None, counted=key_lengths is not None, deterministic=bool(deterministic)
    )
    if score is not None or any(given):
        kinds = [one.dtype for one in operands]
        program, lookups = traced(score, kinds, given, dtypes.info(dtype).acc, tables)
        options = options._replace(program=program, lookups=lookups)
        if program is not None and mask is None and not options.packed and math.prod(shape) >= masks.FEWEST:
            scores = (math.prod(lead), *shape[len(lead) :])
            options = options._replace(condition=condition_of(program, lookups, scores, operands))
    matrices = [_joined(one.astype(dtype, copy=False), lead) for one in (q, k, v)]
    dropped = options.dropout == 1  # all; but the logarithms are asked for
    if dropped:
        options = options._replace(dropout=0.0)
    draw = drawn("attention", "q", q, rng, math.prod(shape)) if options.dropout else None
    form = _Form(options, len(tables), draw, score, given)
    skipping = operands[-1] if mask is not None and math.prod(shape) >= masks.FEWEST else None
    if key is not None and all(a is b for a, b in zip((*matrices, *operands), every, strict=True)):
        _known.keep(key, (form, math.prod(shape)))
    made, lse = _computed(form, where, (*matrices, *operands, *tables), skipping)
    made = zeros(result, dtype, q.device) if dropped else _shaped(made, result)
    return (made, _shaped(lse, result[:-1])) if return_lse else made


def _options(
    q: Array, causal: bool, window: Window, offset: int | str, scale: float | None, dropout: float
) -> Options:
    if not (offset == "end" or is_int(offset)):
        raise ValueError(f"attention: offset: expected an int or 'end', got {offset!r}")
    if scale is not None and not isinstance(scale, Real):
        raise TypeError(f"attention: scale: expected a number or None, got {type(scale).__name__}")
    factor = float(scale) if scale is not None else 1 / math.sqrt(q.shape[-1])
    place = None if offset == "end" else max(-_FAR, min(int(offset), _FAR))
    return Options(factor, *_sides(causal, window), place, dropout=require_probability("attention", dropout))


def _joined(x: Array, lead: tuple[int, ...]) -> Array:
    """``x`` with its leading axes broadcast, and as one."""
    if len(lead) == 1 and x.shape[:-3] == lead:
        return x
    return ops.reshape(ops.broadcast_to(x, (*lead, *x.shape[-3:])), (math.prod(lead), *x.shape[-3:]))


def _shaped(x: Array, shape: tuple[int, ...]) -> Array:
    return x if x.shape == shape else ops.reshape(x, shape)
