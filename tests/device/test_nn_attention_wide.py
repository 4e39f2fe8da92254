"""Attention of heads that no kernel holds: products and softmax of blocks of queries."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern import nn
from cukern.nn.attention import reference
from cukern.nn.attention.families import ATTENTION, GRADIENT
from cukern.nn.attention.problem import Call, Options

#: Of a head; 300 of queries and keys is more than kernels hold.
SIZE, VALUE = 300, 20
SCALE = 1 / math.sqrt(SIZE)
ROWS, COLUMNS = np.arange(7)[:, None], np.arange(9)


@pytest.fixture(params=[2**25, 2 * 2 * 4 * 9 * 2])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All seven queries in one block, or blocks of four, and of the three that are left."""
    monkeypatch.setattr(reference, "_SCORES", request.param)


def arrays(dtype: str = "float64", *more: tuple[int, ...]) -> list[ck.Array]:
    """q of four heads, k and v of two, and others."""
    rng = np.random.default_rng(5)
    shapes = ((2, 4, 7, SIZE), (2, 2, 9, SIZE), (2, 2, 9, VALUE), *more)
    return [ck.asarray(rng.normal(size=shape)).astype(dtype) for shape in shapes]


def plain(q: Any, k: Any, v: Any, allowed: Any = True, added: Any = 0.0) -> tuple[Any, Any]:
    """The result, and the logarithm of each query's sum, by the definition."""
    k, v = (ck.repeat(one, 2, axis=1) for one in (k, v))
    scores = ck.where(allowed, q @ ck.swapaxes(k, -1, -2) * SCALE + added, -math.inf)
    return ck.softmax(scores, axis=-1) @ v, ck.logsumexp(scores, axis=-1)


def check(call: Callable[..., Any], wanted: Callable[..., Any], *given: ck.Array) -> None:
    """Both results and the gradients of all arrays."""
    (made, lse), pull = ck.vjp(call, *given)
    (right, of_rows), pull_right = ck.vjp(wanted, *given)
    rng = np.random.default_rng(6)
    cotangents = tuple(ck.asarray(rng.normal(size=one.shape)) for one in (right, of_rows))
    pairs = zip((made, lse, *pull(cotangents)), (right, of_rows, *pull_right(cotangents)), strict=True)
    for found, exact in pairs:
        assert found.shape == exact.shape and np.abs(exact.numpy()).max() > 0
        np.testing.assert_allclose(found.numpy(), exact.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({}, True),
        ({"causal": True, "offset": "end"}, COLUMNS <= ROWS + 2),
        ({"window": (3, 1)}, abs(COLUMNS - ROWS + 1) <= 2),
    ],
    ids=["all keys", "causal", "window"],
)
def test_values_and_gradients(device: ck.Device, options: dict[str, Any], allowed: Any) -> None:
    allowed = ck.asarray(np.broadcast_to(allowed, (7, 9)))
    check(
        lambda *own: nn.attention(*own, **options, return_lse=True),
        lambda *own: plain(*own, allowed=allowed),
        *arrays(),
    )


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("shape", [(4, 7, 9), (1, 1, 9), (2, 1, 7, 1)], ids=["whole", "keys", "queries"])
def test_bias_and_mask(device: ck.Device, shape: tuple[int, ...]) -> None:
    """A bias along the queries is cut with them, and of any other the gradient is a sum over blocks."""
    *given, bias = arrays("float64", shape)
    mask = ck.asarray(np.random.default_rng(7).random((7, 9)) < 0.7)
    check(
        lambda q, k, v, bias: nn.attention(q, k, v, bias=bias, mask=mask, return_lse=True),
        lambda q, k, v, bias: plain(q, k, v, allowed=mask, added=bias),
        *(*given, bias),
    )


@pytest.mark.usefixtures("_blocks")
def test_functions_of_a_score_and_numbers_of_keys(device: ck.Device) -> None:
    """A function sees the numbers of queries of the whole, and keys that are not counted are not read."""
    q, k, v, slope = arrays("float64", (4, 1, 1))
    lengths = ck.asarray([9, 4])
    distances, present = (
        ck.asarray(COLUMNS - ROWS),
        ck.asarray(np.array([9, 4])[:, None] > COLUMNS)[:, None, None, :],
    )
    check(
        lambda *own: nn.attention(
            *own[:3],
            score=lambda s, b, h, i, j, slope: s + slope * (j - i),
            arrays=[own[3]],
            key_lengths=lengths,
            return_lse=True,
        ),
        lambda q, k, v, slope: plain(q, k, v, present, slope * distances),
        *(q, k, v, slope),
    )
    beyond = [ck.where(ck.swapaxes(present, -1, -2), one, math.nan) for one in (k, v)]
    made = nn.attention(q, *beyond, key_lengths=lengths)
    np.testing.assert_allclose(made.numpy(), plain(q, k, v, present)[0].numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("_blocks")
def test_packed_sequences(device: ck.Device) -> None:
    """Each block has queries of its own sequences; the last queries are of none."""
    q, k, v = (one[0] for one in arrays())
    starts = (ck.asarray([0, 3, 6]), ck.asarray([0, 4, 9]))
    made = nn.attention(q, k, v, starts=starts).numpy()
    for own, its in ((slice(0, 3), slice(0, 4)), (slice(3, 6), slice(4, 9))):
        alone = nn.attention(q[:, own], k[:, its], v[:, its]).numpy()
        np.testing.assert_allclose(made[:, own], alone, rtol=1e-10, atol=1e-12)
    assert not made[:, 6:].any()
    nothing = ck.asarray(np.where(np.arange(7) < 6, 0, np.nan))[:, None]
    behind = ck.asarray([0, 3, 6]), ck.asarray([0, 3, 6])
    rows = [one[:, :7] + nothing for one in (q, k, v)]  # q has four heads, k and v have two
    made, pull = ck.vjp(lambda *own: nn.attention(*own, starts=behind), *rows)
    for one in (made, *pull(ck.ones(made.shape, made.dtype))):
        assert np.isfinite(one.numpy()[:, :6]).all() and not one.numpy()[:, 6:].any()


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1e-5), ("float16", 4e-3), ("bfloat16", 3e-2)])
def test_dtypes(device: ck.Device, dtype: str, limit: float) -> None:
    given = arrays(dtype)
    cotangent = arrays(dtype, (2, 4, 7, VALUE))[-1]
    made, pull = ck.vjp(nn.attention, *given)
    right, pull_right = ck.vjp(lambda *own: plain(*own)[0], *(one.astype("float64") for one in given))
    pairs = zip((made, *pull(cotangent)), (right, *pull_right(cotangent.astype("float64"))), strict=True)
    for found, exact in pairs:
        assert found.dtype == given[0].dtype
        error = np.abs(found.astype("float64").numpy() - exact.numpy()).max()
        assert error < limit * np.abs(exact.numpy()).max()


def test_gradients_of_halves_are_sums_that_are_not_rounded(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a bias and an array of a score, over blocks of a query each."""
    q, k = ck.zeros((1, 1, 2000, 264), "bfloat16"), ck.zeros((1, 1, 8, 264), "bfloat16")
    v = ck.asarray(np.eye(8, 264)[None, None]).astype("bfloat16")
    cotangent = ck.asarray(np.eye(1, 264) * np.ones((1, 1, 2000, 1))).astype("bfloat16")
    monkeypatch.setattr(reference, "_SCORES", 8 * 100)
    for call in (
        lambda b: nn.attention(q, k, v, bias=b),
        lambda b: nn.attention(q, k, v, score=lambda s, batch, head, i, j, b: s + b, arrays=[b]),
    ):
        (gradient,) = ck.vjp(call, ck.ones((1, 1, 8), "bfloat16"))[1](cotangent)
        np.testing.assert_allclose(gradient.numpy().astype("f8").ravel(), [218.75, *[-31.25] * 7], rtol=2**-8)


def test_dropout_is_that_of_the_whole_matrix(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """It drops what attention of narrow heads drops, whose weights are the same, and says no less in its gradient."""
    monkeypatch.setattr(reference, "_SCORES", 8)
    q, k, v = arrays()
    narrow, values = ck.zeros((2, 4, 7, 8)), ck.eye(9) * ck.ones((2, 2, 1, 1))
    dropped = [
        nn.attention(*own, values, dropout=0.4, rng=ck.random.default_rng(3))
        for own in ((q * 0, k), (narrow, ck.zeros((2, 2, 9, 8))))
    ]
    assert 0.3 < (dropped[0].numpy() == 0).mean() < 0.5
    np.testing.assert_allclose(dropped[0].numpy(), dropped[1].numpy(), rtol=1e-6)

    def again(*own: ck.Array) -> ck.Array:
        made: ck.Array = nn.attention(*own, dropout=0.4, rng=ck.random.default_rng(3))
        return made

    ck.testing.gradcheck(again, (q, k, v))


@pytest.mark.usefixtures("_blocks")
def test_second_derivatives(device: ck.Device) -> None:
    """Against finite differences, as the first."""
    ck.testing.gradcheck(lambda *own: nn.attention(*own, causal=True), arrays(), order=2)


def test_explain_says_why(device: ck.Device) -> None:
    told = str(ck.explain(nn.attention, *arrays("float32")))
    chosen = [line.split()[1] for line in told.splitlines() if line.startswith(">")]
    assert "attention of 2 x 4 x 7 queries" in told and chosen[0] == "composed"
    assert "for heads of at most 256 features" in told


def test_narrow_heads_have_kernels(device: ck.Device) -> None:
    x = ck.zeros((1, 2, 5, 256))
    problem = Call(x, x, x, Options(1.0)).problem
    for family, own in ((ATTENTION, problem), (GRADIENT, problem._replace(d=problem.q, wanted=(True,) * 3))):
        with ck.kernels_only():
            (choice,) = [one for one in family.choices(own) if one.variant == "composed"]
        assert choice.why == "kernels hold these heads"


@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"window": (2, 3), "offset": 1}], ids=["all", "causal", "window"]
)
@pytest.mark.unchecked_only("checked launches leave the library out")
def test_narrow_heads_on_the_host(
    device: ck.Device, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By products of a library, in blocks of queries, with the results of the kernels."""
    if device.kind != "host":
        pytest.skip("kernels are faster")
    monkeypatch.setattr(reference, "_SCORES_OF_HOST", 300)
    q, k, v = (ck.random.default_rng(i).normal(size=(2, 4 // n, 37, 8)) for i, n in ((0, 1), (1, 2), (2, 2)))

    def both() -> list[ck.Array]:
        made, pull = ck.vjp(lambda *own: nn.attention(*own, return_lse=True, **options), q, k, v)
        return [*made, *pull((ck.cos(made[0]), ck.sin(made[1])))]

    with ATTENTION.only("composed") as used, GRADIENT.only("composed") as of_gradient:
        found = both()
    assert len(used) == len(of_gradient) == 1
    with ck.kernels_only():
        wanted = both()
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-5, atol=2e-5)


def test_memory_on_the_host(device: ck.Device) -> None:
    """Not of the matrix of scores, which would have 64 MB."""
    if device.kind != "host":
        pytest.skip("memory is counted by Python's own allocations")
    x = ck.random.default_rng(0).normal(size=(1, 1, 4096, 4))
    gradient = ck.grad(lambda x: nn.attention(x, x, x, causal=True).sum())
    gradient(x[:, :, :8])
    tracemalloc.start()
    try:
        gradient(x)
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
