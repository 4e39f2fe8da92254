"""Attention by its own kernels against NumPy in float64, on tensor cores too; derivatives by finite differences."""

from __future__ import annotations

import dataclasses
import re
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest
from nn_support import Sized, check_equal, close, doubles, sized

import cukern as ck
from cukern import nn
from cukern.cli.tune import measure
from cukern.device import current
from cukern.launch.family import STAND_IN, Family, Used
from cukern.nn.attention import reference
from cukern.nn.attention.families import ATTENTION, GRADIENT, KEYS, QUERIES
from cukern.nn.attention.problem import Attention, Options
from cukern.testing import gradcheck

#: Small tiles on tensor cores, of which small arrays take several.
SMALL = {"tile_m": 32, "tile_n": 32, "fixed": True}
#: With one multiprocessor, to which no more blocks are worth their keys being shared.
NARROW = STAND_IN._replace(multiprocessors=1)


class Both(NamedTuple):
    """The constants that were used for attention, and for gradients of all of q, k and v, of q, and of k and v."""

    forward: Used
    whole: Used
    queries: Used
    keys: Used

    @property
    def gradients(self) -> list[Any]:
        """Those of kernels."""
        return [one for used in self[1:] for one in used if one.name != "apart"]


@contextmanager
def only(variant: str, **fields: Any) -> Iterator[Both]:
    """Kernels of one variant, which computes all of half types; the rest, as of other dtypes, by the portable ones.

    Those on tensor cores have small tiles, and those of warpgroups two blocks.
    """
    device, limits = current(), None
    own = device.properties.compute_capability
    if device.kind == "cuda" and (
        own < ATTENTION.variants[variant].needs or (variant == "warpgroups" and own[0] != 9)
    ):
        pytest.skip("no GPU that has such kernels")
    if variant == "tensor cores":
        fields = SMALL | fields
    if variant == "warpgroups":
        # Two blocks make several tiles each, and stages go round.
        limits, fields = NARROW, {"blocks": 2} | fields
    with ExitStack() as stack:

        def alone(family: Family[Attention], *names: str) -> Used:
            names = tuple(one for one in names if one in family.variants)
            fields_of = {field.name for name in names for field in dataclasses.fields(family.variants[name])}
            own = {key: value for key, value in fields.items() if key in fields_of}
            known.update(own)
            return stack.enter_context(family.only(*names, limits=limits, **own))

        known: set[str] = set()
        whole = ["together"] if variant == "warpgroups" else []
        used = alone(ATTENTION, variant, "portable")
        gradients = alone(QUERIES, variant, "portable"), alone(KEYS, variant, "portable")
        both = Both(used, alone(GRADIENT, *whole, "apart"), *gradients)
        assert known == fields.keys()
        yield both
    for of in both:
        for one, problem in zip(of, of.problems, strict=True):
            if problem.half if variant in KEYS.variants else variant == "few rows" and of is used:
                assert one.name in (variant, "together", "apart"), (one, problem)


def attended(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: float,
    allowed: Any = True,
    f: Callable[..., Any] | None = None,
) -> np.ndarray:
    shared = q.shape[-3] // k.shape[-3]
    k, v = (np.repeat(one, shared, axis=-3) for one in (k, v))
    scores = q @ k.swapaxes(-1, -2) * scale
    i, j = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])
    scores = scores if f is None else f(scores, i, j)
    scores = np.where(allowed, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        result: np.ndarray = np.nan_to_num(weights / weights.sum(-1, keepdims=True)) @ v
    return result


def given(dtype: str, *shapes: tuple[int, ...]) -> tuple[list[ck.Array], list[np.ndarray]]:
    rng = np.random.default_rng(sum(map(sum, shapes)))
    arrays = [ck.asarray(rng.normal(size=shape)).astype(dtype) for shape in shapes]
    return arrays, [one.numpy().astype(np.float64) for one in arrays]


def check(dtype: str) -> None:
    """Values and gradients in a dtype; rows that attend to nothing get zeros."""
    arrays, exact = given(dtype, (2, 4, 37, 8), (2, 2, 45, 8), (2, 2, 45, 16))
    i, j = np.arange(37)[:, None], np.arange(45)
    cases: tuple[tuple[dict[str, Any], Any], ...] = (
        ({}, True),
        ({"causal": True, "window": (5, 3), "offset": "end"}, (j <= i + 8) & (j >= i + 3)),
        ({"window": (None, 2), "offset": -10}, j <= i - 8),
    )
    for options, allowed in cases:
        scale = 8**-0.5
        made = nn.attention(*arrays, **options)
        close(made, sized(lambda *own, a=allowed, s=scale: attended(*own, s, a), *exact, rows=True))
        if "window" in options and options["offset"] == -10:
            assert not made[:, :, :8].numpy().any()
        check_gradients(
            lambda *own, o=options, **more: nn.attention(*own, **o, **more),
            arrays,
            ck.arange(16, dtype=dtype) - 5,
        )


def exact_gradients(call: Callable[..., Any], arrays: Sequence[Any], cotangent: Any) -> list[Sized]:
    """The result and the gradients in float64, by kernels whose derivatives finite differences are compared with.

    ``call`` takes ``return_lse``: what the sum of a cotangent times a rounded result errs has the effect of a cotangent
    of the logarithm of a row's sum, which the sizes count.
    """
    wide, (g,) = doubles(arrays), doubles([cotangent])
    with only("portable"):
        made = call(*wide)
    g = ck.broadcast_to(g, made.shape).copy()
    spread = ck.sqrt(ck.sum((made * g) ** 2, axis=-1))

    def exact(*own: np.ndarray) -> tuple[ck.Array, ...]:
        *own, g, s = (ck.asarray(one) for one in own)
        (made, _), pull = ck.vjp(lambda *own: call(*own, return_lse=True), *own)
        return made, *pull((g, s - spread))

    with only("portable"):
        found: list[Sized] = sized(exact, *wide, g, spread, rows=made.size > 5000)
    return found


def close_gradient(found: ck.Array, wanted: Sized) -> None:
    """Weights and their derivatives are rounded to half types too, ahead of products on tensor cores."""
    close(found, wanted, 2 if found.itemsize == 2 else None)


def check_gradients(
    call: Callable[..., Any],
    arrays: Sequence[ck.Array],
    cotangent: ck.Array,
    reference: Callable[..., ck.Array] | None = None,
) -> None:
    """Values and gradients in a dtype against those in float64, and these against another function if one is given."""
    made, pull = ck.vjp(call, *arrays)
    given = ck.broadcast_to(cotangent.astype(made.dtype), made.shape).copy()
    wanted = exact_gradients(call, arrays, given)
    for found, like, one in zip((made, *pull(given)), (made, *arrays), wanted, strict=True):
        assert found.dtype == like.dtype
        close_gradient(found, one)
    if reference is not None:
        with only("portable"):
            exact, pull = ck.vjp(reference, *doubles(arrays))
            others = [exact, *pull(given.astype("float64"))]
        for one, other in zip(wanted, others, strict=True):
            close(other, one)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", pytest.param("bfloat16", marks=pytest.mark.thorough)]
)
def test_values_and_gradients(device: ck.Device, dtype: str) -> None:
    with only("portable"):
        check(dtype)


@pytest.mark.parametrize(("dtype", "apart"), [("float16", True), ("bfloat16", False)])
def test_values_and_gradients_on_tensor_cores(device: ck.Device, dtype: str, apart: bool) -> None:
    with only("tensor cores", apart=apart) as used:
        check(dtype)
    assert {getattr(one, "apart", None) for one in used.gradients if one.name == "tensor cores"} == {apart}


def capped(s: Any, batch: Any, head: Any, i: Any, j: Any, slope: Any, table: Any) -> Any:
    """A cap, biases by the distance of each head, and an array of a number for each key."""
    return 2 * ck.tanh(s / 2) + slope * (j - i) + table * (head + 1)


@pytest.mark.parametrize(("dtype", "variant"), [("float64", "portable"), ("float16", "tensor cores")])
def test_functions_of_a_score(device: ck.Device, dtype: str, variant: str) -> None:
    arrays, exact = given(dtype, (2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8), (4, 1, 1), (6,), (4, 5, 6))
    hidden = np.random.default_rng(0).random((2, 1, 1, 6)) < 0.7

    def call(
        q: ck.Array,
        k: ck.Array,
        v: ck.Array,
        slope: ck.Array,
        table: ck.Array,
        bias: ck.Array,
        **options: Any,
    ) -> Any:
        given = {"arrays": [slope, table], "bias": bias, "mask": ck.asarray(hidden)}
        return nn.attention(q, k, v, scale=0.5, score=capped, **given, **options)

    def composed(
        q: np.ndarray, k: np.ndarray, v: np.ndarray, slope: np.ndarray, table: np.ndarray, bias: np.ndarray
    ) -> np.ndarray:
        def changed(s: Any, i: Any, j: Any) -> Any:
            return 2 * np.tanh(s / 2) + slope * (j - i) + table * np.arange(1, 5)[:, None, None] + bias

        return attended(q, k, v, 0.5, hidden, changed)

    with only(variant):
        close(call(*arrays), sized(composed, *exact))
        if dtype == "float64":
            assert gradcheck(call, arrays, order=1)
        else:
            check_gradients(call, arrays, ck.sin(ck.arange(8, dtype=dtype)))


def test_tables_that_a_score_indexes(device: ck.Device) -> None:
    """By places, and by what another table has there; out of range the nearest element."""
    arrays, (q, k, v, table) = given("float64", (2, 4, 5, 2), (2, 2, 6, 2), (2, 2, 6, 2), (4, 9))
    which = np.array([[0, 2, 1, 3, 1, 0], [3, 3, 0, 0, 1, 2]])

    def score(s: Any, batch: Any, head: Any, i: Any, j: Any, table: Any, which: Any) -> Any:
        first = s * table[-(2**40), which[batch, j - 1]] + table[0, j.astype("int64") * 2**32]
        return first + table[i - j + 4, which[batch, j]] + table[i - j + 4, head] * which[batch, j]

    def call(q: ck.Array, k: ck.Array, v: ck.Array, table: ck.Array) -> ck.Array:
        return nn.attention(q, k, v, score=score, tables=[table.T, ck.asarray(which, dtype="int32")])

    def changed(s: Any, i: Any, j: Any) -> Any:
        at, head = np.clip(i - j + 4, 0, 8), np.arange(4)[:, None, None]
        own, before = which[:, None, None, :], which[:, None, None, np.clip(j - 1, 0, 5)]
        last = table[np.where(j > 0, 3, 0), 0]
        return s * table[before, 0] + last + table[own, at] + table[head, at] * own

    close(call(*arrays), sized(lambda *own: attended(*own, 2**-0.5, True, changed), q, k, v))
    assert gradcheck(call, arrays, order=1)


def test_second_derivatives(device: ck.Device) -> None:
    arrays, _ = given("float64", (1, 2, 3, 2), (1, 1, 3, 2), (1, 1, 3, 2))
    assert gradcheck(lambda *own: nn.attention(*own, causal=True, window=1, return_lse=True), arrays, order=2)


def test_logarithms_of_sums(device: ck.Device) -> None:
    """Their derivatives, alone too; two sets of keys are joined by them; -inf for queries that attend to no key."""
    arrays, (q, k, _) = given("float64", (2, 4, 3, 4), (2, 2, 7, 4), (2, 2, 7, 4))

    def call(*own: ck.Array, **options: Any) -> tuple[ck.Array, ck.Array]:
        made: tuple[ck.Array, ck.Array] = nn.attention(*own, return_lse=True, **options)
        return made

    _, lse = call(*arrays)
    scores = sized(
        lambda q, k: np.log(np.exp(q @ np.repeat(k, 2, axis=1).swapaxes(-1, -2) / 2).sum(-1)), q, k
    )
    close(lse, scores)
    halves = [call(arrays[0], *(one[:, :, own] for one in arrays[1:])) for own in (slice(4), slice(4, 7))]
    joined = sum(own * ck.exp(of - lse)[..., None] for own, of in halves)
    close(joined, sized(lambda *own: attended(*own, 0.5), *arrays))
    assert gradcheck(call, arrays, order=1)
    assert gradcheck(lambda *own: call(*own)[1], arrays, order=1)
    lengths, starts = ck.asarray([0, 7]), ck.asarray([0, 2])
    assert (call(*arrays, key_lengths=lengths)[1][0] == -np.inf).all()
    far = ck.asarray([-(2**32) + 3, 2**32 + 3])
    np.testing.assert_array_equal(
        call(*arrays, key_lengths=far)[0].numpy(), call(*arrays, key_lengths=lengths)[0].numpy()
    )
    # Of the third row no sequence is, and the sequence has two keys.
    _, packed = call(*(one[0] for one in arrays), starts=(starts, starts))
    assert (packed[:, 2] == -np.inf).all()
    close(packed[:, :2], call(*(one[0, :, :2] for one in arrays))[1].numpy(), 16)
    dropped = call(*arrays, dropout=1.0)
    assert not dropped[0].numpy().any()
    close(dropped[1], lse.numpy())
    nothing = call(arrays[0], arrays[1][:, :, :0], arrays[2][:, :, :0])
    assert nothing[1].shape == (2, 4, 3)
    assert (nothing[1] == -np.inf).all()


def test_packed_sequences(device: ck.Device) -> None:
    lengths_q, lengths_k = (3, 0, 20, 1), (5, 2, 20, 0)
    starts = tuple(ck.asarray(np.cumsum((0, *one))) for one in (lengths_q, lengths_k))
    arrays, exact = given("float64", (4, 24, 8), (2, 27, 8), (2, 27, 4), (4, 4, 1, 1))

    def call(q: ck.Array, k: ck.Array, v: ck.Array, slope: ck.Array) -> ck.Array:
        return nn.attention(
            q,
            k,
            v,
            causal=True,
            offset="end",
            starts=starts,
            score=lambda s, b, h, i, j, x, of_key: s + x * of_key[j] * (b + 1),
            arrays=[slope],
            tables=[ck.arange(20.0)],
        )

    def composed(q: np.ndarray, k: np.ndarray, v: np.ndarray, slope: np.ndarray) -> np.ndarray:
        parts, at_q, at_k = [], 0, 0
        for n, (of_q, of_k) in enumerate(zip(lengths_q, lengths_k, strict=True)):
            i, j = np.arange(of_q)[:, None], np.arange(of_k)
            own = (q[:, at_q : at_q + of_q], k[:, at_k : at_k + of_k], v[:, at_k : at_k + of_k])
            if of_q and of_k:
                bend = lambda s, i, j, n=n: s + slope[n] * j * (n + 1)  # noqa: E731
                parts.append(attended(*own, 8**-0.5, j <= i + of_k - of_q, bend))
            else:
                parts.append(np.zeros((4, of_q, 4)))
            at_q, at_k = at_q + of_q, at_k + of_k
        return np.concatenate(parts, axis=1)

    close(call(*arrays), sized(composed, *exact))
    assert gradcheck(call, arrays)


def test_numbers_of_keys(device: ck.Device) -> None:
    """Beyond them there may be anything."""
    (q, k, v), (a, b, c) = given("float64", (3, 2, 4, 8), (3, 2, 40, 8), (3, 2, 40, 8))
    counts = np.array([33, 0, 40])
    allowed = np.arange(40) < counts[:, None, None, None]
    k, v = (ck.where(ck.asarray(allowed.swapaxes(-1, -2)), one, ck.nan) for one in (k, v))

    def call(*own: ck.Array) -> ck.Array:
        return nn.attention(*own, key_lengths=ck.asarray(counts))

    close(call(q, k, v), sized(lambda *own: attended(*own, 8**-0.5, allowed), a, b, c))
    gradients = ck.grad(lambda *own: call(*own).sum(), argnums=(0, 1, 2))(q, k, v)
    assert not gradients[2].numpy()[1].any()
    assert not gradients[1].numpy()[0, :, 33:].any()
    assert gradients[2].numpy()[0, :, :33].all()
    table = ck.ones(40, "float64")

    def of_table(table: ck.Array) -> ck.Array:
        made = nn.attention(
            q, k, v, score=lambda s, b, h, i, j, t: s * t[j], tables=[table], key_lengths=ck.asarray(counts)
        )
        return made.sum()

    assert np.isfinite(ck.grad(of_table)(table).numpy()).all()


def test_calls_of_known_layouts_differ_by_their_options() -> None:
    """Options that follow those of an earlier call, what is asked for besides, and arguments equal to known ones."""
    x = ck.asarray(np.random.default_rng(0).standard_normal((1, 2, 6, 8)), "float32")
    places = np.arange(6)
    apart = places - places[:, None]
    for window, scale in ((1, 0.5), (None, 0.5), (1, 2), (1, 0.5)):
        found, lse = nn.attention(x, x, x, window=window, scale=scale, return_lse=True)
        scores = x.numpy().astype(np.float64) @ x.numpy().swapaxes(2, 3) * scale
        weights = np.where(abs(apart) <= (6 if window is None else window), np.exp(scores), 0)
        sums = weights.sum(-1, keepdims=True)
        shares = weights / sums
        close(found, Sized(shares @ x.numpy(), shares @ abs(x.numpy())))
        close(lse, Sized(np.log(sums)[..., 0], np.ones(sums.shape[:-1])))
        assert (nn.attention(x, x, x, window=window, scale=scale).numpy() == found.numpy()).all()
    with pytest.raises(ValueError, match="window"):
        nn.attention(x, x, x, window=True, scale=0.5)
    wrong: Any = None
    for options in ({"dropout": wrong}, {"dropout": False}, {"arrays": wrong}):
        with pytest.raises((TypeError, ValueError)):
            nn.attention(x, x, x, window=1, scale=0.5, **options)


def test_windows_and_places_beyond_all_keys(device: ck.Device) -> None:
    """Numbers of rows, of several heads for each query, stay within an int."""
    arrays, _ = given("float32", (1, 8, 5, 8), (1, 1, 7, 8), (1, 1, 7, 8))

    def gradients(window: int, offset: int) -> list[ck.Array]:
        def call(*own: ck.Array) -> ck.Array:
            return (nn.attention(*own, window=window, offset=offset) ** 2).sum()

        return list(ck.grad(call, argnums=(0, 1, 2))(*arrays))

    for one, other in zip(gradients(10**9, 0), gradients(100, 0), strict=True):
        assert other.numpy().any()
        assert one.tolist() == other.tolist()
    for offset in (-(10**9), 10**9):
        assert not any(one.numpy().any() for one in gradients(100, offset))


def test_dropout_drops_as_that_of_the_weights(device: ck.Device) -> None:
    """The bits are those of the composed form, so that both agree."""
    arrays, _ = given("float64", (2, 2, 5, 4), (2, 2, 6, 4), (2, 2, 6, 4))

    for seed in (3, 4):

        def call(*own: ck.Array, seed: int = seed) -> ck.Array:
            return nn.attention(*own, dropout=0.4, rng=ck.random.default_rng(seed))

        def whole(*own: ck.Array, seed: int = seed) -> ck.Array:
            rng = ck.random.default_rng(seed)
            return nn.scaled_dot_product_attention(*own, dropout_p=0.4, rng=rng)

        check_equal(call, whole, arrays)
    rng = ck.random.default_rng(3)
    assert (
        nn.attention(*arrays, dropout=0.4, rng=rng).tolist()
        != nn.attention(*arrays, dropout=0.4, rng=rng).tolist()
    )
    assert not nn.attention(*arrays, dropout=1.0).numpy().any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_more_heads_than_a_grid_has_rows(device: ck.Device, dtype: str) -> None:
    """The y and z axes of a GPU's grid end at 65,535."""
    batches = 35000 if device.kind == "cuda" else 100
    arrays, exact = given(dtype, (batches, 2, 1, 8), (batches, 2, 2, 8), (batches, 2, 2, 8))
    made, pull = ck.vjp(nn.attention, *arrays)
    close(made, sized(lambda *own: attended(*own, 8**-0.5), *exact, rows=True))
    gradients = pull(ck.ones(made.shape, made.dtype))
    # Of a sum of all results: the weights of a query, which v's gradient has, are 1 together.
    weights = gradients[2].astype("float32").numpy()
    np.testing.assert_allclose(weights.sum(axis=2), 1, atol=0.01)
    assert abs(gradients[0].astype("float32").numpy()[-1]).max() > 0.01


def test_layouts(device: ck.Device) -> None:
    """Axes in another order in memory, broadcast batches, gaps, and a broadcast cotangent."""
    (x, k), (a, b) = given("float32", (2, 5, 3, 16), (1, 3, 7, 8))
    q = ck.permute_dims(x, (0, 2, 1, 3))[..., ::2]
    v = ck.broadcast_to(k[:, :, :, :1], (1, 3, 7, 4))
    made = nn.attention(q, k, v)
    wanted = sized(
        lambda *own: attended(*own, 8**-0.5),
        a.transpose(0, 2, 1, 3)[..., ::2],
        b,
        np.broadcast_to(b[..., :1], (1, 3, 7, 4)),
    )
    close(made, wanted)
    gradients = ck.grad(lambda *own: nn.attention(*own).sum(), argnums=(0, 1, 2))(q, k, v)
    close(gradients[2], np.broadcast_to(gradients[2].numpy()[..., :1], v.shape), 4)
    assert gradients[1].shape == k.shape
    for i in (1, 2):
        alone = ck.grad(lambda *own: nn.attention(*own).sum(), argnums=i)(q, k, v)
        assert alone.tolist() == gradients[i].tolist()
    assert nn.attention(q[:, :, :0], k, v).shape == (2, 3, 0, 4)
    assert not nn.attention(q, k[:, :, :0], v[:, :, :0]).numpy().any()


def test_without_the_matrix_of_scores(device: ck.Device) -> None:
    """Which would have 16 MB; the gradients of what has no keys are zeros."""
    if device.kind != "host":
        pytest.skip("memory is counted by Python's own allocations")
    (x,), _ = given("float32", (1, 2048, 4))

    def gradient(x: ck.Array) -> ck.Array:
        return ck.grad(lambda x: nn.attention(x, x, x, causal=True).sum())(x)

    with ck.kernels_only():
        gradient(x[:, :8])
        tracemalloc.start()
        try:
            gradient(x)
            assert tracemalloc.get_traced_memory()[1] < 2**21
        finally:
            tracemalloc.stop()
    assert not ck.grad(lambda q: nn.attention(q, x[:, :0], x[:, :0]).sum())(x).numpy().any()


def problem_of(
    *arrays: ck.Array, gradients: tuple[bool, bool, bool] | None = None, **options: Any
) -> Attention:
    """Attention of q, k, v and arrays of the score, or gradients of it."""
    q, k, v, *operands = (one._planned() for one in arrays)
    one = Attention(q, k, v, Options(q.shape[3] ** -0.5, **options), tuple(operands))
    return one if gradients is None else one._replace(d=one.made["o"], wanted=gradients)


def forms(*arrays: ck.Array, **options: Any) -> list[tuple[Any, Attention]]:
    """The families, and problems of them: the result, all gradients, that of q, and those of k and v."""
    parts = (GRADIENT, (True, True, True)), (QUERIES, (True, False, False)), (KEYS, (False, True, True))
    gradients = [(family, problem_of(*arrays, gradients=own, **options)) for family, own in parts]
    return [(ATTENTION, problem_of(*arrays, **options)), *gradients]


@pytest.mark.parametrize("features", [64, 128, 256])
@pytest.mark.parametrize("queries", [1, 4096])
def test_tiles_fit_a_block(features: int, queries: int) -> None:
    """On tensor cores one of an A100, which has too little shared memory for no head."""
    x, y = (ck.zeros((1, 1, n, features), "bfloat16", device="host") for n in (queries, 4096))
    for family, problem in forms(x, y, y):
        if family is not GRADIENT:
            one = family.variants["tensor cores"]
            assert not one.fits(problem, STAND_IN)
            assert all(config.shared(problem) <= 160 * 1024 for config in one.configs(problem, STAND_IN))


@pytest.mark.parametrize(
    ("dtype", "queries", "capability", "wanted"),
    [
        ("bfloat16", 4096, (9, 0), ["warpgroups", "together", "warpgroups", "warpgroups"]),
        ("bfloat16", 4096, (8, 0), ["tensor cores", "apart", "tensor cores", "tensor cores"]),
        ("bfloat16", 4096, (10, 0), ["tensor cores", "apart", "tensor cores", "tensor cores"]),
        ("bfloat16", 4096, (7, 5), ["portable", "apart", "portable", "portable"]),
        ("float32", 4096, (9, 0), ["portable", "apart", "portable", "portable"]),
        ("bfloat16", 1, (9, 0), ["tensor cores", "apart", "tensor cores", "tensor cores"]),
        ("bfloat16", 1, (7, 5), ["few rows", "apart", "portable", "portable"]),
        ("float32", 1, (9, 0), ["few rows", "apart", "portable", "portable"]),
        pytest.param(
            *("float32", 1, (0, 0), ["composed", "composed", "portable", "portable"]),
            marks=pytest.mark.unchecked_only("checked ones leave the library out"),
        ),
    ],
)
def test_which_variant_computes_a_problem(
    dtype: str, queries: int, capability: tuple[int, int], wanted: list[str]
) -> None:
    """Warpgroups, else tensor cores, else for few rows the kernel of registers; all gradients at once by warpgroups."""
    x, y = (ck.zeros((4, 16, n, 64), dtype, device="host") for n in (queries, 4096))
    limits = STAND_IN._replace(compute_capability=capability)
    found = []
    for family, problem in forms(x, y, y):
        all_of = [family._choice(one, problem, limits) for one in family.variants.values()]
        found.append(min((one for one in all_of if not one.why), key=lambda one: one.seconds).variant)
    assert found == wanted


def test_variants_are_what_the_reference_says(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every variant that fits, as ``python -m cukern tune attention`` compares them."""
    shapes = reference.Shape(1, 4, 2, 70, 70, 16, True), reference.Shape(2, 4, 4, 1, 90, 8, False)
    monkeypatch.setattr(reference, "MODELS", shapes)
    for family, count in ((ATTENTION, 2), (GRADIENT, 1), (QUERIES, 1), (KEYS, 1)):
        entries, refused = measure(family, device, count, 1, 0, 60)
        assert refused == [] and entries
        assert all(one.variants for one in entries)


def test_explain_shows_the_variants(device: ck.Device) -> None:
    x = ck.zeros((1, 1, 5, 8))
    (family, problem) = ck.explain(nn.attention, x, x, x).problems[0]
    assert family is ATTENTION
    lines = ATTENTION.explain(problem).splitlines()
    assert lines[0].startswith("attention: attention of 1 x 1 x 5 queries to 1 x 5 keys of 8 and 8 float32; ")
    assert len(lines) == 2 + len(ATTENTION.variants)
    assert sum(line.startswith(">") for line in lines) == 1


def test_refused(device: ck.Device) -> None:
    (q, k), _ = given("float32", (2, 4, 5, 8), (2, 2, 6, 8))
    cases: tuple[tuple[Callable[[], Any], type[Exception], str], ...] = (
        (
            lambda: nn.attention(q[0, 0], k, k),
            ValueError,
            "q: expected shape (..., heads, length, features), got (5, 8)",
        ),
        (
            lambda: nn.attention(q, q[:, :3], q[:, :3]),
            ValueError,
            "number of heads that divides the 4 of q, got 3",
        ),
        (
            lambda: nn.attention(q, k, k[:, :, :3]),
            ValueError,
            "v: expected shape (..., 2, 6, V), got (2, 2, 3, 8)",
        ),
        (lambda: nn.attention(q, k, k, window=-1), ValueError, "window: expected a number of keys"),
        (
            lambda: nn.attention(q, k, k, offset="start"),
            ValueError,
            "offset: expected an int or 'end', got 'start'",
        ),
        (
            lambda: nn.attention(q, k, k, bias=q),
            ValueError,
            "bias: expected a shape that broadcasts to (2, 4, 5, 6)",
        ),
        (lambda: nn.attention(q, k, k, mask=q), TypeError, "mask: expected an array of bools, got float32"),
        (lambda: nn.attention(q, k, k, arrays=[q]), ValueError, "arrays: expected none without score"),
        (lambda: nn.attention(q, k, k, tables=[q]), ValueError, "tables: expected none without score"),
        (
            lambda: nn.attention(q, k, k, score=lambda *given: given[0], tables=[q[:0]]),
            TypeError,
            "tables[0]: expected an array of numbers, with an axis, got float32 of shape (0, 4, 5, 8)",
        ),
        (
            lambda: nn.attention(q, k, k, score=lambda s, *given: s + given[-1][given[2]], tables=[q]),
            TypeError,
            "tables[0]: expected an integer for each axis of shape (2, 4, 5, 8), got Expr",
        ),
        (
            lambda: nn.attention(q, k, k, score=lambda s, *given: s + given[-1][s], tables=[q[0, 0, 0]]),
            TypeError,
            "tables[0]: expected an integer for each axis of shape (8,), got Expr",
        ),
        (
            lambda: nn.attention(q, k, k, score=lambda s, *p: 1.0),
            TypeError,
            "a function that returns a score, got float",
        ),
        (
            lambda: nn.attention(q, k, k, key_lengths=q),
            TypeError,
            "key_lengths: expected a cukern array of integers",
        ),
        (
            lambda: nn.attention(q, k, k, starts=(k, k)),
            ValueError,
            "starts: expected q of shape (heads, rows, features)",
        ),
    )
    packed = q.reshape((-1, *q.shape[-2:]))
    for wrong in ([0, 10**6], [2, 1], [-1, 1]):
        places = ck.asarray(wrong)
        call = lambda places=places: nn.attention(packed, packed, packed, starts=(places, places))  # noqa: E731
        if packed.device.addressable:
            cases += (
                (call, ValueError, f"starts[0]: expected places in 0 to {packed.shape[1]} that do not fall"),
            )
        else:
            assert call().shape == packed.shape
    for call, error, message in cases:
        with pytest.raises(error, match=re.escape(message)):
            call()


#: How far gradients of large scores may be from exact ones, as a share of their norm: half types round by it.
LARGE_SCORES = {"float64": 1e-14, "float32": 2e-6, "float16": 7e-4, "bfloat16": 6e-3}


def check_large_scores(
    dtype: str, size: float, queries: int, scale: float = 1.0, added: np.ndarray | None = None, **options: Any
) -> None:
    """Gradients where products are near ``size``, 0 and ``-size``, by turns of rows, and not rounded.

    Not the gradient of the query's first feature, which is multiplied by ``size``.

    Args:
        added: to the scores, (queries, keys); -inf where there is none.
        options: of attention, which make it so.
    """
    rng = np.random.default_rng(0)
    keys = 300
    q, k = (rng.integers(-1, 2, (1, 2, n, 16)).astype(float) for n in (queries, keys))
    q[..., 4:], k[..., 4:], q[..., 0], k[..., 0] = 0, 0, np.resize([4, 0, -4, 0], queries), size / 4
    v, d = rng.normal(size=(1, 2, keys, 16)), rng.normal(size=(1, 2, queries, 16))
    arrays = [ck.asarray(one, dtype=dtype) for one in (q, k, v, d)]
    assert (arrays[1].astype("float64").numpy() == k).all()
    v, d = (one.astype("float64").numpy() for one in arrays[2:])
    scores = q[..., 1:] @ k[..., 1:].swapaxes(-1, -2) * scale + (0 if added is None else added)
    p = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -99))
    p /= np.maximum(p.sum(-1, keepdims=True), 1e-99)
    made = p @ v
    slopes = p * (d @ v.swapaxes(-1, -2) - (d * made).sum(-1, keepdims=True)) * scale
    wanted = [made, (slopes @ k)[..., 1:], slopes.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d]
    result, pull = ck.vjp(lambda *own: nn.attention(*own, scale=scale, **options), *arrays[:3])
    found = [one.astype("float64").numpy() for one in (result, *pull(arrays[3]))]
    found[1] = found[1][..., 1:]
    for one, other in zip(found, wanted, strict=True):
        assert np.linalg.norm(one - other) <= LARGE_SCORES[dtype] * np.linalg.norm(other)


@pytest.mark.parametrize(
    ("dtype", "size", "scale"),
    [
        ("float32", 1e5, 1.0),
        ("float64", 1e5, 1.0),
        ("float16", 99840.0, 0.55),
        ("bfloat16", 798720.0, 1.0),
        *(
            pytest.param(*other, marks=pytest.mark.thorough)
            for other in (("float32", 1e4, 1.0), ("float16", 9984.0, 0.55), ("float16", 99840.0, 1.0))
        ),
    ],
)
@pytest.mark.parametrize("queries", [40, 1])
def test_large_scores(device: ck.Device, dtype: str, size: float, scale: float, queries: int) -> None:
    """The sum of a row's exponentials is not rounded to the scores' digits, also where parts of the keys are joined."""
    variant, parts = (
        "tensor cores" if dtype[0] == "b" or dtype == "float16" else "portable",
        3 if queries == 1 else 1,
    )
    with only(variant, parts=parts) as used:
        check_large_scores(dtype, size, queries, scale)
    assert [one.parts for one in used.forward] == [parts]


@pytest.mark.parametrize("queries, keys", [(0, 5), (4, 0)])
def test_gradients_where_nothing_is_attended_to(device: ck.Device, queries: int, keys: int) -> None:
    """They are zeros: the result is connected with all that it could have depended on."""
    q, k = ck.ones((2, 3, queries, 8)), ck.ones((2, 3, keys, 8))
    bias = ck.ones((3, queries, keys))
    with ck.Tape() as tape:
        tape.watch(q, k, bias)
        total = ck.sum(nn.attention(q, k, k, bias=bias))
    for primal, gradient in zip((q, k, bias), tape.gradient(total, [q, k, bias]), strict=True):
        assert gradient.shape == primal.shape and not gradient.numpy().any()


def test_gradients_where_all_weights_are_dropped(device: ck.Device) -> None:
    q = ck.ones((2, 3, 4, 8))
    with ck.Tape() as tape:
        tape.watch(q)
        total = ck.sum(nn.attention(q, q, q, dropout=1.0))
    assert not tape.gradient(total, q).numpy().any()
