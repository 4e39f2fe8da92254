"""``jit``: segments are combined by kernels that gather and compute the rows, forward and backward."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.index import segment_program, traced

SOURCE, TARGET, SEGMENTS = [3, -1, 0, 0, 2, 1, 3, 3, 1], [0, 2, 2, 0, -1, 2, 0, 5, 5], 6


@pytest.fixture(params=["host", "gpu"], autouse=True)
def style(request: pytest.FixtureRequest, device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> str:
    """On the host short rows are computed as well, and once more as threads of a GPU share them."""
    if device.kind == "host":
        monkeypatch.setattr(traced, "_GATHERED", 1)
        monkeypatch.setattr(traced, "_COMPUTED", 1)
        if request.param == "gpu":
            monkeypatch.setattr(segment_program, "serial", lambda device: False)
    elif request.param == "host":
        pytest.skip("a GPU is none")
    return str(request.param)


def normal(*shape: int, seed: int = 0, dtype: str = "float64") -> ck.Array:
    return ck.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def ends(nodes: int, segments: int, edges: int) -> list[ck.Array]:
    rng = np.random.default_rng(edges)
    source = rng.integers(-nodes, nodes, edges)
    return [ck.asarray(source), ck.asarray(rng.integers(-segments, segments, edges).astype(np.int32))]


def messages(how: str, n: int, x: Any, w: Any, z: Any, source: Any, target: Any) -> Any:
    return getattr(ck, f"segment_{how}")(x[source] * w + 2 * ck.tanh(z[target]), target, n)


def combined(how: str, n: int, rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """By NumPy, in the order of the rows."""
    start = {"max": -np.inf, "min": np.inf}.get(how, 0)
    ufunc = {"max": np.maximum, "min": np.minimum}.get(how, np.add)
    made = np.full((n, *rows.shape[1:]), start, rows.dtype)
    ufunc.at(made, ids % n, rows)  # type: ignore[attr-defined]
    counts = np.bincount(ids % n, minlength=n).reshape((n,) + (1,) * (rows.ndim - 1))
    return made / np.maximum(counts, 1) if how == "mean" else made


@pytest.mark.parametrize(
    ("how", "features", "dtype"),
    [
        ("sum", (128,), "float32"),
        ("sum", (2, 3), "float64"),
        ("sum", (), "float32"),
        ("mean", (1,), "bfloat16"),
        ("max", (4, 8), "float32"),
        pytest.param("min", (3,), "float16", marks=pytest.mark.thorough),
        pytest.param("sum", (8, 40), "bfloat16", marks=pytest.mark.thorough),
    ],
)
def test_values(how: str, features: tuple[int, ...], dtype: str, device: ck.Device) -> None:
    """Few rows of a segment, none, and so many that a tree combines them; all in one segment."""
    digits = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    for nodes, n, edges in ((7, 9, 40), (5, 3, 300), (3, 1, 200), (2, 2, 1)):
        x, z = normal(nodes, *features, dtype=dtype), normal(n, *features, seed=1, dtype=dtype)
        w = normal(edges, *features[:-1], *([1] if features else []), seed=2, dtype=dtype)
        places = ends(nodes, n, edges)
        jitted = ck.jit(partial(messages, how, n))
        assert [one.name for one in jitted.launches(x, w, z, *places)][-1] == f"segment_{how}"
        with ck.testing.checked() if device.kind == "host" else nullcontext():
            found = jitted(x, w, z, *places)
        assert found.dtype == x.dtype and found.shape == (n, *features)
        (x, w, z), (source, target) = ([one.numpy() for one in some] for some in ((x, w, z), places))
        wide = [one.astype(np.float64) for one in (x, w, z)]
        rows = wide[0][source] * wide[1] + 2 * np.tanh(wide[2][target])
        wanted = combined(how, n, rows, target)
        most = np.abs(wanted[np.isfinite(wanted)]).max()
        np.testing.assert_allclose(found.astype("float64").numpy(), wanted, rtol=digits, atol=digits * most)


def test_very_many_rows_are_the_same_in_every_run() -> None:
    """A tree of several levels combines them."""
    edges = 9000
    places = ends(5, 2, edges)
    given = [normal(5, 64), normal(edges, 1, seed=1), normal(2, 64, seed=2), *places]
    x, w, z, source, target = (one.numpy() for one in given)
    jitted = ck.jit(partial(messages, "sum", 2))
    first = jitted(*given)
    rows = x[source] * w + 2 * np.tanh(z[target])
    np.testing.assert_allclose(first.numpy(), combined("sum", 2, rows, target), rtol=1e-11, atol=1e-10)
    for _ in range(4):
        assert jitted(*given).tolist() == first.tolist()


def attention(x: Any, a: Any, b: Any, source: Any, target: Any) -> Any:
    """Sums that softmax over the segments weighs."""
    scores = ck.leaky_relu(a[source] + b[target], 0.2)
    scores = ck.exp(scores - ck.stop_gradient(ck.segment_max(scores, target, SEGMENTS))[target])
    weights = scores / ck.segment_sum(scores, target, SEGMENTS)[target]
    return ck.segment_sum(x[source] * weights[:, :, None], target, SEGMENTS)


def several(x: Any, w: Any, source: Any, target: Any) -> Any:
    """A mean, extremes, and segments of rows that are in order."""
    rows = ck.tanh(x[source])
    inside = ck.asarray([0, 2, 5])
    return (
        ck.segment_mean(rows * w, target, SEGMENTS),
        ck.segment_max(x[source] * w, target, SEGMENTS)[inside],
        ck.segment_sum(rows * w, offsets=ck.asarray([0, 2, 2, 7, 9])),
        ck.segment_min(rows, ck.asarray([0, 0, 1, 1, 1, 3, 3, 4, 4]), 5, indices_are_sorted=True)[::2][:1],
    )


@pytest.mark.parametrize(
    ("function", "shapes"),
    [(attention, ((4, 2, 3), (4, 2), (6, 2))), (several, ((4, 5), (9, 1)))],
)
def test_derivatives(function: Any, shapes: Any) -> None:
    """Within and around the jitted function, to second order; and along tangents."""
    given, places = (
        [normal(*one, seed=i) for i, one in enumerate(shapes)],
        [ck.asarray(SOURCE), ck.asarray(TARGET)],
    )
    k = len(given)

    def of(*args: Any) -> Any:
        return function(*args, *places)

    def pulled(*args: Any) -> Any:
        with ck.Tape() as tape:
            tape.watch(args)
            total = sum((one**2).sum() for one in ck.tree.leaves(of(*args)))
        return tape.gradient(total, list(args))

    ck.testing.gradcheck(ck.jit(of), given, order=2)
    tangents = [normal(*one, seed=10 + i) for i, one in enumerate(shapes)]
    pushed, along = ck.jit(lambda *both: ck.jvp(of, both[:k], both[k:])), ck.jit(pulled)
    for _ in range(4):
        for found, wanted in (
            (pushed(*given, *tangents), ck.jvp(of, given, tangents)),
            (ck.jvp(ck.jit(of), given, tangents), ck.jvp(of, given, tangents)),
            (along(*given), pulled(*given)),
        ):
            for one, other in zip(ck.tree.leaves(found), ck.tree.leaves(wanted), strict=True):
                # Derivatives along which a softmax does not change are rounding errors.
                one, other = (np.round(x.numpy(), 14) for x in (one, other))
                np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


def names(function: Any, *args: ck.Array) -> list[str]:
    """The launches besides those that sort and check indices."""
    found = [one.name for one in ck.jit(function).launches(*args)]
    return [name for name in found if name not in ("indices_in_range", "order_of_indices")]


def test_each_part_of_attention_is_one_kernel() -> None:
    edges = 40
    given = [normal(4, 2, 8), normal(4, 2), normal(6, 2), *ends(4, SEGMENTS, edges)]
    forward = ["segment_max", "segment_sum", "subtract_exp_divide", "segment_sum"]
    assert names(attention, *given) == forward

    def pulled(x: Any, a: Any, b: Any, g: Any, source: Any, target: Any) -> Any:
        with ck.Tape() as tape:
            tape.watch((x, a, b))
            y = attention(x, a, b, source, target)
        return tape.gradient(y, [x, a, b], g)

    given.insert(3, normal(SEGMENTS, 2, 8))
    # Of the rows that are gathered, of the weights, of the sums of scores, and of both parts of the scores.
    assert names(pulled, *given) == [*forward, "segment_sum", "multiply", *["segment_sum"] * 3]
    assert not any(
        one.nbytes >= edges * 16 * 8 for kernel in ck.jit(pulled).launches(*given) for one in kernel.outputs
    )


def test_what_is_written_meanwhile(device: ck.Device) -> None:
    def written(x: Any, source: Any, target: Any) -> Any:
        rows = x[source] * 2
        first = ck.segment_sum(rows, target, SEGMENTS)
        target += 1
        x[3] = 7
        return first, ck.segment_sum(rows, target, SEGMENTS), ck.segment_sum(x[source], target, SEGMENTS)

    def recorded(x: Any, source: Any, target: Any) -> Any:
        before = ck.segment_sum(x[source], target, SEGMENTS)
        with ck.Tape() as tape:
            tape.watch(x)
            y = ck.segment_sum(ck.sin(x[source]), target, SEGMENTS)
        source -= 1
        target += 1
        return before, tape.gradient(y, x, before)

    for function in (written, recorded):
        pairs = [(normal(4, 3), ck.asarray(SOURCE) % 4, ck.asarray(TARGET) * 0) for _ in range(2)]
        jitted = ck.jit(function)
        for _ in range(3):
            for one, other in zip(jitted(*pairs[0]), function(*pairs[1]), strict=True):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-13)


def test_what_such_kernels_take_and_what_they_leave(device: ck.Device) -> None:
    """Complex numbers, scatter, other axes, no rows, no segments, joined arrays, views of gathered rows, integers."""
    x, source, target = normal(4, 3), ck.asarray(SOURCE), ck.asarray(TARGET)
    none = ck.zeros((0,), "int64")
    for function in (
        lambda x: ck.segment_sum(x[source] * 1j, target, SEGMENTS),
        lambda x: ck.scatter(x[source] * 2, target, 0, SEGMENTS, reduce="max"),
        lambda x: ck.scatter(x[source] * 2, target, 0, reduce="sum"),
        lambda x: ck.scatter(x[source] * 2, target, 0, SEGMENTS, reduce="prod"),
        lambda x: ck.scatter(x[source] * 2, ck.broadcast_to(target[:3], (9, 3)), 1, SEGMENTS),
        lambda x: ck.segment_sum(x[source].T * 2, target, SEGMENTS, axis=1),
        lambda x: ck.segment_sum(x[none] * 2, none, 3),
        lambda x: ck.segment_sum(x[:0] * 2, none, 0),
        lambda x: ck.segment_sum(ck.concat([x, x * 2])[:-1] + x[:1], target[:7], SEGMENTS),
        lambda x: ck.segment_sum(x[source][:, ::2] + x[source][:, :1], target, SEGMENTS),
        lambda x: ck.segment_mean(x[source] > 0, target, SEGMENTS),
        lambda x: ck.segment_max(x[source] > 0, target, SEGMENTS),
        lambda x: ck.segment_sum(ck.astype(x * 3, "int32")[source] % 2, target, SEGMENTS),
        lambda x: ck.segment_sum(x.T[[0, 2, 1]].T[source] + x[source, :1], target, SEGMENTS),
        lambda x: ck.segment_sum(ck.broadcast_to(x[:1], (9, 3)) * 2, target, SEGMENTS),
        lambda x: ck.segment_sum((x * x).sum(axis=1)[source], target),
    ):
        found, wanted = ck.jit(function)(x), function(x)
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=r"segment_sum: segment_ids: expected shape \(4,\)"):
        ck.jit(lambda x: ck.segment_sum(x * 2, target, 6))(x)
    with pytest.raises(TypeError, match="expected either segment_ids or offsets, got neither"):
        ck.jit(lambda x: ck.segment_sum(x * 2))(x)
    if device.kind == "host":
        with pytest.raises(IndexError, match="segment_sum: index 5 is out of bounds for an axis of size 5"):
            ck.jit(lambda x: ck.segment_sum(x[source] * 2, target, 5))(x)
        with pytest.raises(ValueError, match="expected rising order"):
            ck.jit(lambda x: ck.segment_sum(x[source], target, 6, indices_are_sorted=True))(x)
