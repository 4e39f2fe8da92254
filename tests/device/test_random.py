"""Random numbers: known answers of the bits, distributions, streams, and the refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.random import philox
from cukern.random.generator import random_order
from cukern.testing import gradcheck

FLOATS = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize(
    "counter, key, words",
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers_of_philox(counter: Any, key: Any, words: Any) -> None:
    """The test vectors that Random123 is published with."""
    assert tuple(philox.philox(counter, key)) == words


def test_bits_are_philox(device: ck.Device) -> None:
    rng = ck.random.default_rng(3)
    key = rng.state["key"]
    rng.state = rng.state | {"counter": 2**32 - 2}
    words = [
        word for i in range(2**32 - 2, 2**32 + 2) for word in philox.philox((i % 2**32, i >> 32, 0, 0), key)
    ]
    assert rng.bits(7).tolist() == words[:7]
    assert rng.state["counter"] == 2**32
    wide = rng.bits((2, 2), "uint64")
    assert wide.tolist() == [
        [words[8] | words[9] << 32, words[10] | words[11] << 32],
        [words[12] | words[13] << 32, words[14] | words[15] << 32],
    ]


@pytest.mark.parametrize("bits", [32, 64])
def test_integers_are_the_same_on_every_device_and_in_one_draw_or_several(
    device: ck.Device, bits: int
) -> None:
    """Beside the bits: a range that refuses a quarter of the words, by Lemire's rule in Python."""
    span = 2 ** (bits - 1) + 2 ** (bits - 2)
    each = 128 // bits
    rng = ck.random.default_rng(5)
    key = rng.state["key"]
    want = []
    for i in range(200):
        attempt = 0
        while True:
            words = philox.philox((i // each, 0, 0, attempt), key)
            word = words[i % 4] if each == 4 else words[i % 2 * 2] | words[i % 2 * 2 + 1] << 32
            product = word * span
            if product % 2**bits >= (2**bits - span) % span:
                break
            attempt += 1
        want.append(product >> bits)
    assert rng.integers(span, size=200, dtype="uint64").tolist() == want
    again = ck.random.default_rng(5)
    parts = again.integers(span, size=120, dtype="uint64").tolist()
    assert parts + again.integers(span, size=80, dtype="uint64").tolist() == want


def test_seldom_refused_integers_are_drawn_again(device: ck.Device) -> None:
    """Of 50,000 words a few are refused, which a fast path of the host finds after it has drawn many at once."""
    span = next(n for n in range(2**21, 2**22) if 2**19 < 2**32 % n < 2**20)
    rng = ck.random.default_rng(5)
    words, key = rng.bits(50_001).numpy().astype(np.uint64), rng.state["key"]
    want, refused = words * span >> 32, np.flatnonzero(words * span % 2**32 < 2**32 % span)
    assert 3 <= refused.size <= 30
    for i in refused.tolist():
        tries = (philox.philox((i // 4, 0, 0, n), key)[i % 4] for n in range(1, 10))
        want[i] = next(word * span >> 32 for word in tries if word * span % 2**32 >= 2**32 % span)
    for dtype in ("int32", "int64"):
        got = ck.random.default_rng(5).integers(-7, span - 7, 50_001, dtype=dtype)
        assert (got.numpy() == want.astype(np.int64) - 7).all()


def test_launch_shapes_draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ck.random.default_rng(1).bits(1003).tolist()
    monkeypatch.setattr(philox, "_HOST_PIECE", 7)
    assert ck.random.default_rng(1).bits(1003).tolist() == whole


#: A distribution: how it is drawn, and its distribution function.
DISTRIBUTIONS: dict[str, tuple[Callable[..., ck.Array], Callable[[np.ndarray], np.ndarray]]] = {
    "random": (lambda rng, **o: rng.random(**o), lambda x: np.clip(x, 0, 1)),
    "uniform": (lambda rng, **o: rng.uniform(-3.0, 5.0, **o), lambda x: np.clip((x + 3) / 8, 0, 1)),
    "standard_normal": (
        lambda rng, **o: rng.standard_normal(**o),
        lambda x: 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2)),
    ),
    "normal": (
        lambda rng, **o: rng.normal(2.0, 3.0, **o),
        lambda x: 0.5 * np.vectorize(math.erfc)(-(x - 2) / 3 / math.sqrt(2)),
    ),
    "standard_exponential": (lambda rng, **o: rng.standard_exponential(**o), lambda x: -np.expm1(-x)),
    "exponential": (lambda rng, **o: rng.exponential(0.5, **o), lambda x: -np.expm1(-2 * x)),
    "gumbel": (lambda rng, **o: rng.gumbel(1.0, 2.0, **o), lambda x: np.exp(-np.exp(-(x - 1) / 2))),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(device: ck.Device, name: str, dtype: str) -> None:
    """Kolmogorov and Smirnov's distance, whose 1e-6 quantile for n numbers is about 2.69 / sqrt(n)."""
    draw, cdf = DISTRIBUTIONS[name]
    n = 20_000
    x = draw(ck.random.default_rng(11), size=n, dtype=dtype)
    assert x.dtype == ck.dtypes.as_dtype(dtype) and x.shape == (n,)
    values = np.sort(x.numpy().astype(np.float64))
    assert np.isfinite(values).all()
    # Halves are rounded: equal values share a step of the distribution function.
    want = cdf(values)
    above = np.searchsorted(values, values, side="right") / n
    below = np.searchsorted(values, values, side="left") / n
    rounding = {"float16": 1e-3, "bfloat16": 8e-3}.get(dtype, 0.0)
    distance = max((want - above).max(), (below - want).max())
    assert distance < 2.69 / math.sqrt(n) + rounding


@pytest.mark.parametrize("dtype, low, high", [("int8", -5, 6), ("uint8", 0, 256), ("int64", -(2**62), 2**62)])
def test_integers_are_uniform(device: ck.Device, dtype: str, low: int, high: int) -> None:
    n = 30_000
    x = ck.random.default_rng(2).integers(low, high, n, dtype=dtype)
    assert x.dtype == np.dtype(dtype)
    values = x.numpy().astype(np.float64)
    assert values.min() >= low and values.max() < high
    cells = min(high - low, 64)
    counts = np.bincount(((values - low) / (high - low) * cells).astype(int), minlength=cells)
    chi2 = ((counts - n / cells) ** 2 / (n / cells)).sum()
    # Wilson and Hilferty's approximation of the 1 - 1e-6 quantile.
    k = cells - 1
    assert chi2 < k * (1 - 2 / (9 * k) + 4.75 * math.sqrt(2 / (9 * k))) ** 3


def test_integers_at_the_ends_of_dtypes(device: ck.Device) -> None:
    rng = ck.random.default_rng(0)
    assert set(rng.integers(-128, 127, 20_000, dtype="int8", endpoint=True).tolist()) == set(range(-128, 128))
    words = rng.integers(0, 2**32, 1000).numpy()
    assert words.max() > 2**31 and words.min() < 2**30
    full = rng.integers(0, 2**64, 1000, dtype="uint64").numpy()
    assert full.max() > 2**63 and full.min() < 2**62
    signed = rng.integers(-(2**63), 2**63, 1000).numpy()
    assert (signed < 0).any() and (signed > 0).any()
    assert rng.integers(5, 6, 3).tolist() == [5, 5, 5]
    assert set(rng.integers(2, size=100).tolist()) == {0, 1}


def test_shapes_and_empty(device: ck.Device) -> None:
    rng = ck.random.default_rng(0)
    assert rng.random().shape == () and rng.random(3).shape == (3,) and rng.random((2, 0)).shape == (2, 0)
    before = rng.state["counter"]
    rng.random((0, 4))
    assert rng.state["counter"] == before
    low = ck.asarray([[0.0], [10.0]])
    assert rng.uniform(low, ck.asarray([1.0, 2.0, 3.0])).shape == (2, 3)
    assert rng.normal(low, 1.0, size=(2, 5)).shape == (2, 5)


def test_streams_of_children_differ_and_are_reproducible(device: ck.Device) -> None:
    rng = ck.random.default_rng(9)
    state = rng.state
    children = rng.split(50)
    drawn = {tuple(child.bits(4).tolist()) for child in [rng, *children]}
    assert len(drawn) == 51
    again = ck.random.default_rng(9)
    again.state = state
    assert [c.state for c in again.split(50)] == [c.state | {"counter": 0} for c in children]
    assert again.split(1)[0].state["key"] not in [c.state["key"] for c in children]
    grand = children[0].split(2)
    assert grand[0].state["key"] != rng.split(1)[0].state["key"]


def test_seeds(device: ck.Device) -> None:
    def first(seed: Any) -> Any:
        return ck.random.default_rng(seed).bits(2).tolist()

    assert first(1) == first(1) != first(2)
    assert first([1, 2]) == first(np.random.SeedSequence([1, 2])) != first([2, 1])
    assert first(None) != first(None)
    assert first(2**200) == first(2**200)
    rng = ck.random.default_rng(4)
    assert ck.random.default_rng(rng) is rng
    assert rng.device is device


def test_equal_words_are_in_every_order_as_often(device: ck.Device) -> None:
    runs = 6000
    words = ck.asarray(np.tile(np.arange(runs, dtype="uint32")[::-1], 3))
    places = random_order(words, 7, (1, 2)).numpy().reshape(runs, 3)
    np.testing.assert_array_equal(places % runs, np.arange(runs)[::-1, None].repeat(3, 1))
    counts = np.unique(places // runs @ [9, 3, 1], return_counts=True)[1]
    assert len(counts) == 6 and np.all(abs(counts - 1000) < 150)


def test_permutations(device: ck.Device) -> None:
    rng = ck.random.default_rng(1)
    order = rng.permutation(1000).numpy()
    assert sorted(order.tolist()) == list(range(1000)) and (order != np.arange(1000)).any()
    x = ck.asarray(np.arange(12.0).reshape(3, 4))
    columns = rng.permutation(x, axis=1).numpy()
    np.testing.assert_array_equal(np.sort(columns, 1), x.numpy())
    assert (columns[0] + 4 == columns[1]).all()
    counts = np.zeros((3, 3))
    for _ in range(300):
        counts[np.arange(3), rng.permutation(3).numpy()] += 1
    assert ((counts - 100) ** 2 / 100).sum() < 40
    before = x.numpy()
    rng.shuffle(x)
    assert sorted(map(tuple, x.tolist())) == sorted(map(tuple, before.tolist()))


def test_choice(device: ck.Device) -> None:
    rng = ck.random.default_rng(6)
    assert rng.choice(5).shape == () and rng.choice(5, (2, 3)).shape == (2, 3)
    assert sorted(rng.choice(5, 5, replace=False).tolist()) == [0, 1, 2, 3, 4]
    p = [0.2, 0.0, 0.5, 0.3]
    counts = np.bincount(rng.choice(4, 20_000, p=p).numpy(), minlength=4)
    assert counts[1] == 0
    np.testing.assert_allclose(counts / 20_000, p, atol=0.02)
    firsts = np.bincount([rng.choice(4, 2, replace=False, p=p).tolist()[0] for _ in range(400)], minlength=4)
    np.testing.assert_allclose(firsts / 400, p, atol=0.1)
    assert firsts[1] == 0
    x = ck.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    picked = rng.choice(x, 5, axis=1)
    assert picked.shape == (2, 5) and (picked[1] == picked[0] + 3).all()
    assert rng.choice(0, 0).shape == (0,)


def test_bernoulli(device: ck.Device) -> None:
    rng = ck.random.default_rng(8)
    x = rng.bernoulli(0.3, 40_000)
    assert x.dtype == ck.bool_
    assert abs(float(x.numpy().mean()) - 0.3) < 0.012
    rows = rng.bernoulli(ck.asarray([0.0, 1.0, 0.5])).tolist()
    assert rows[:2] == [False, True]


def test_derivatives_by_location_and_scale(device: ck.Device) -> None:
    loc, scale = ck.asarray(np.array([0.5, -1.0, 2.0])), ck.asarray(np.array([1.0, 2.0, 0.3]))
    for name in ("normal", "uniform", "gumbel"):
        assert gradcheck(
            lambda a, b, name=name: getattr(ck.random.default_rng(3), name)(a, b, dtype="float64"),
            [loc, scale],
            order=2,
        )


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda rng: rng.integers(3, 3), ValueError, "low < high"),
        (lambda rng: rng.integers(0, 300, dtype="int8"), ValueError, "int8"),
        (lambda rng: rng.integers(0.5), TypeError, "low, high"),
        (lambda rng: rng.integers(3, dtype="float32"), TypeError, "integer dtype"),
        (lambda rng: rng.random(3, dtype="int32"), TypeError, "floating dtype"),
        (lambda rng: rng.random(-1), ValueError, "at least 0"),
        (lambda rng: rng.normal(0.0, -1.0), ValueError, "scale"),
        (lambda rng: rng.bits(2, "int32"), TypeError, "uint32 or uint64"),
        (lambda rng: rng.bernoulli(1.5), ValueError, "bernoulli: p: expected a number from 0 to 1"),
        (lambda rng: rng.choice(3, 4, replace=False), ValueError, "cannot draw 4 of 3"),
        (lambda rng: rng.choice(0, 1), ValueError, "cannot draw 1 of 0"),
        (lambda rng: rng.choice(2, 1, p=[0.5, 0.6]), ValueError, "sum to 1"),
        (lambda rng: rng.choice(3, 1, p=[0.5, 0.5]), ValueError, "shape"),
        (lambda rng: rng.choice(3, 2, replace=False, p=[1.0, 0.0, 0.0]), ValueError, "fewer slices"),
        (lambda rng: rng.split(-1), ValueError, "split"),
        (lambda rng: rng.shuffle([1, 2]), TypeError, "shuffle: x"),
        (lambda rng: rng.permutation(ck.asarray(1.0)), ValueError, "axis 0"),
        (lambda rng: setattr(rng, "state", {"bit_generator": "PCG64"}), ValueError, "Philox4x32-10"),
    ],
)
def test_refusals(device: ck.Device, call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call(ck.random.default_rng(0))


def test_keys_of_children(device: ck.Device) -> None:
    """No child has the words that the parent draws, or the key of a child that comes 2**32 later."""
    rng = ck.random.default_rng(9)
    state, words = rng.state, rng.bits(4).tolist()
    first = rng.split(1)[0].state["key"]
    assert first != words[:2]
    made = [first]
    for children in (2**32 - 1, 2**33):
        rng.state = {**state, "children": children}
        made += [child.state["key"] for child in rng.split(2)]
    assert rng.state["children"] == 2**33 + 2 and rng.state["counter"] == state["counter"]
    assert len({tuple(key) for key in made}) == 5
    assert rng.split(0) == []
    for n in (np.int64(2), 2):
        assert len(rng.split(n)) == 2
    with pytest.raises(TypeError):
        rng.split(1.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": [2**32, 0]}, "two words of 32 bits"),
        ({"key": [0, 2**32]}, "two words of 32 bits"),
        ({"key": [-1, 0]}, "two words of 32 bits"),
        ({"key": [0, -1]}, "two words of 32 bits"),
        ({"counter": 2**63}, "expected 0 to"),
        ({"counter": -1}, "expected 0 to"),
        ({"children": 2**63}, "expected 0 to"),
        ({"children": -1}, "expected 0 to"),
    ],
)
def test_states_out_of_range_change_nothing(change: dict[str, Any], message: str) -> None:
    rng = ck.random.default_rng(0)
    before = rng.state
    with pytest.raises(ValueError, match=message):
        rng.state = {**before, "key": [1, 2], **change}
    assert rng.state == before
    ends = {**before, "key": [2**32 - 1] * 2, "counter": 2**63 - 1, "children": 2**63 - 1}
    rng.state = ends
    assert rng.state == ends


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_integers_up_to_the_ends_of_a_dtype(device: ck.Device, dtype: str) -> None:
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    rng = ck.random.default_rng(0)
    for first, end in ((low, low + 2), (high - 1, high + 1)):
        drawn = rng.integers(first, end, 64, dtype)
        assert set(drawn.tolist()) == {first, first + 1}
        assert set(rng.integers(first, end - 1, 64, dtype, endpoint=True).tolist()) == {first, first + 1}
    assert len(set(rng.integers(low, high, 512, dtype, endpoint=True).tolist())) > 200
    for first, end in ((low - 1, low + 1), (high - 1, high + 2), (low, low)):
        with pytest.raises(ValueError, match="low < high"):
            rng.integers(first, end, 2, dtype)
    with pytest.raises(ValueError, match="low < high"):
        rng.integers(high, high + 1, 2, dtype, endpoint=True)


def test_words_that_integers_take(device: ck.Device) -> None:
    """One of 32 bits up to 2**32 integers, else two; a counter is four words."""
    rng = ck.random.default_rng(0)
    for end, groups in ((2**32, 2), (2**32 + 1, 4)):
        before = rng.state["counter"]
        rng.integers(0, end, 8)
        assert rng.state["counter"] - before == groups


@pytest.mark.parametrize("seed", ["one", -1, 1.5])
def test_seeds_refused(seed: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="seed"):
        ck.random.default_rng(seed)


def test_arrays_of_scales_keep_the_side_of_the_tail(device: ck.Device) -> None:
    """Of laws that are not symmetric: exponential above 0, and Gumbel's with a mean of loc + 0.5772 scale."""
    rng, ones = ck.random.default_rng(3), ck.ones(4000)
    drawn = rng.exponential(2 * ones).numpy()
    assert drawn.min() >= 0 and abs(drawn.mean() - 2) < 0.2
    assert abs(rng.gumbel(5 * ones, 2.0).numpy().mean() - (5 + 2 * np.euler_gamma)) < 0.2


@pytest.mark.parametrize("n", [2**24, 2**31, 2**40])
def test_a_few_of_many_are_chosen_without_memory_for_all(device: ck.Device, n: int) -> None:
    made = ck.random.default_rng(1).choice(n, (4, 50), replace=False).numpy()
    assert made.shape == (4, 50) and len(np.unique(made)) == 200
    assert 0 <= made.min() < n / 20 and n * 19 / 20 < made.max() < n
    assert made.tolist() == ck.random.default_rng(1).choice(n, (4, 50), replace=False).tolist()
    with pytest.raises(ValueError, match="cannot draw"):
        ck.random.default_rng(0).choice(4, 5, replace=False)


def test_a_few_of_many_are_distinct_and_equally_probable(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 256 in place of millions, where draws are often alike."""
    monkeypatch.setattr("cukern.random.generator._MANY", 256)
    rng = ck.random.default_rng(0)
    made = np.array([rng.choice(256, 4, replace=False).numpy() for _ in range(500)])
    assert all(len(set(row)) == 4 for row in made.tolist())
    counts = np.bincount(made.ravel() // 16, minlength=16)
    assert ((counts - 125) ** 2 / 125).sum() < 37.7  # of 15 degrees of freedom, in 999 of 1000
    assert abs(made.mean(0) - 127.5).max() < 4 * 73.9 / np.sqrt(500)


def test_parameters_of_numpy_and_lists(device: ck.Device) -> None:
    """Each has a number of its own."""
    rng = ck.random.default_rng(0)
    for made in (rng.normal(np.zeros(100)), rng.normal([0.0] * 100), rng.uniform(np.zeros(100), [1.0] * 100)):
        assert made.shape == (100,) and len(set(made.tolist())) > 90
    assert len(set(rng.gumbel(np.zeros(100), 1.0).tolist())) > 90
    assert len(set(rng.exponential(np.ones(100)).tolist())) > 90
    assert rng.bernoulli(np.asarray([0.0, 1.0])).tolist() == [False, True]
    assert sorted(rng.permutation([3, 1, 2]).tolist()) == [1, 2, 3]
    assert set(rng.choice(np.asarray([10, 20]), 100).tolist()) == {10, 20}


@pytest.mark.parametrize("kind", ["normal", "gumbel", "uniform"])
def test_parameters_must_broadcast_to_the_size(device: ck.Device, kind: str) -> None:
    rng = ck.random.default_rng(0)
    with pytest.raises(ValueError, match=r"shapes \[\(2, 3\)\] do not broadcast to size \(3,\)"):
        getattr(rng, kind)(ck.zeros((2, 3)), 1.0, size=3)
    with pytest.raises(ValueError, match="do not broadcast to size"):
        rng.bernoulli(ck.zeros(3), size=(3, 1))


@pytest.mark.parametrize(
    "bad", [None, [1], {}, {"bit_generator": "Philox4x32-10"}, {"bit_generator": "PCG64"}]
)
def test_what_is_no_state_is_named(bad: Any) -> None:
    with pytest.raises(ValueError, match="state: expected the state of a Philox4x32-10 generator, got"):
        ck.random.default_rng(0).state = bad
