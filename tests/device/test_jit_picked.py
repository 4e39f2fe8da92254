"""``jit``: elements at integer arrays are read by the kernels that compute with them, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.elementwise import plan
from cukern.index import take, traced


@pytest.fixture(params=["host", "gpu"], autouse=True)
def style(request: pytest.FixtureRequest, device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> str:
    """On the host once more as threads of a GPU share elements, which wrap and clip indices."""
    if device.kind == "host":
        if request.param == "gpu":
            monkeypatch.setattr(plan, "_style", lambda device: "simt")
            monkeypatch.setattr(take, "wraps", lambda x: True)
            monkeypatch.setattr(traced, "serial", lambda device: False)
    elif request.param == "host":
        pytest.skip("a GPU is none")
    return str(request.param)


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> ck.Array:
    return ck.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def places(size: int, *shape: int, seed: int = 0, dtype: str = "int64") -> ck.Array:
    least = 0 if dtype[0] == "u" else -size
    return ck.asarray(np.random.default_rng(seed).integers(least, size, shape).astype(dtype))


def wide(x: Any) -> Any:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def agree(
    function: Callable[..., Any], xp: Callable[..., Any], make: Callable[[int], list[ck.Array]], digits: float
) -> None:
    """Three calls, the third of which repeats launches, against NumPy in float64."""
    jitted = ck.jit(function)
    for seed in range(3):
        args = make(seed)
        wanted = xp(
            *[
                wide(one.astype("float32").numpy() if "float" in str(one.dtype) else one.numpy())
                for one in args
            ]
        )
        for own, other in zip(ck.tree.leaves(jitted(*args)), ck.tree.leaves(wanted), strict=True):
            assert own.shape == other.shape
            np.testing.assert_allclose(own.astype("float64").numpy(), other, rtol=digits, atol=digits)


def kernels(style: str, function: Callable[..., Any], *args: ck.Array) -> list[str]:
    """The names of what is launched but the numbers of axes, and the checks of indices, which the host makes."""
    names = [one.name for one in ck.jit(function).launches(*args)]
    assert ("indices_in_range" in names) == (style == "host")
    return [one for one in names if one not in ("indices_in_range", "numbers_of_axis")]


def bootstrap(x: Any, index: Any) -> Any:
    sample = x[index]
    mean = sample.mean(axis=1, keepdims=True)
    return mean, ((sample - mean) ** 2).mean(axis=1)


def neighbours(u: Any, index: Any) -> Any:
    return (u[index] - u[:, None]).sum(axis=1)


def looked_up(table: Any, codes: Any, w: Any) -> Any:
    return table[codes] * w + 1


def of_two_axes(x: Any, i: Any, j: Any) -> Any:
    return x[i, j] * 2 - x.T[::-2][j[:1], i]


def nested(order: Any, codes: Any) -> Any:
    return order[order[codes]] + codes


def of_some_axes(x: Any, i: Any, j: Any) -> Any:
    xp = ck if isinstance(x, ck.Array) else np
    along = xp.take_along_axis(x[0], j, axis=1), xp.take_along_axis(x[:, 0], j[:1], axis=0)
    return (x[:, i] ** 2).sum(axis=-1), x[..., i[0]] * 2, xp.take(x, i, axis=0) + 1, along[0] - along[1][:1]


def viewed(x: Any, index: Any) -> Any:
    own = x[index] * 2
    return own[::-1].T + 1, own.reshape(2, 6) * 3, own[1:, None, 2] - x, own.sum(axis=0)


@pytest.mark.parametrize(
    ("function", "make", "launched", "digits"),
    [
        (
            bootstrap,
            lambda q: [normal(50, seed=q), places(50, 20, 40, seed=q)],
            ["take_subtract_square"],
            2e-5,
        ),
        (neighbours, lambda q: [normal(64, seed=q), places(64, 64, 6, seed=q, dtype="int32")], ["sum"], 2e-5),
        (
            looked_up,
            lambda q: [normal(256, seed=q), places(256, 300, seed=q, dtype="uint8"), normal(300, seed=q + 9)],
            1,
            2e-5,
        ),
        (
            looked_up,
            lambda q: [
                normal(9, seed=q, dtype="bfloat16"),
                places(9, seed=q, dtype="int16"),
                normal(4, 3, seed=q + 9, dtype="bfloat16"),
            ],
            1,
            2e-2,
        ),
        (
            of_two_axes,
            lambda q: [
                normal(7, 9, seed=q),
                places(7, 5, 1, seed=q),
                places(4, 6, seed=q + 9, dtype="int32"),
            ],
            1,
            2e-5,
        ),
        (nested, lambda q: [places(25, 25, seed=q), places(25, 3, 10, seed=q + 9)], None, 0),
        (
            of_some_axes,
            lambda q: [normal(3, 4, 3, seed=q), places(3, 5, 2, seed=q), places(3, 4, 3, seed=q + 9)],
            4,
            2e-5,
        ),
        (viewed, lambda q: [normal(9, seed=q), places(9, 3, 4, seed=q)], 4, 2e-5),
    ],
    ids=["bootstrap", "neighbours", "codes", "one_place", "two_axes", "nested", "some_axes", "views"],
)
def test_elements_against_numpy(
    function: Callable[..., Any], make: Any, launched: Any, digits: float, style: str
) -> None:
    agree(function, function, make, digits)
    found = kernels(style, function, *make(0))
    if launched is None:
        assert len(found) == (1 if style == "gpu" else 2)  # the host checks what is computed
    else:
        assert len(found) == launched if isinstance(launched, int) else found == launched


def test_wrong_elements_are_seen(device: ck.Device, monkeypatch: pytest.MonkeyPatch, style: str) -> None:
    """The comparison fails for elements one place further on."""
    own = traced.TracedElements.places
    monkeypatch.setattr(traced.TracedElements, "places", lambda self, steps: own(self, steps) // 2 * 2)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        agree(looked_up, looked_up, lambda q: [normal(9), places(9, 30, seed=q), normal(30)], 2e-5)


def test_what_is_written_later_is_not_read(style: str) -> None:
    def written(x: Any, index: Any) -> Any:
        x, index = x * 1, index + 0
        before = x[index] * 2
        index += 1
        index %= 3
        between = x[index]
        x[3] = 7
        x += x[index].sum(axis=1)[0]
        return before, between, x[index] * 2

    agree(written, written, lambda q: [normal(9, seed=q), places(9, 5, 2, seed=q)], 2e-5)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_indices_that_are_read_where_they_are_may_be_written(dtype: str) -> None:
    """Those in range need no copy."""

    def written(x: Any, index: Any) -> Any:
        before = x[index] * 2
        index[...] = 1
        return before, x[index] * 2

    agree(written, written, lambda q: [normal(9, seed=q), abs(places(9, 5, seed=q, dtype=dtype)) % 9], 2e-5)


def test_memory_of_tables_is_not_written(device: ck.Device, style: str) -> None:
    """An array that a kernel picks from is given away, and another that it reads in the same order."""
    jitted = ck.jit(lambda x, y, index: ck.sin(y) * x[index] + y, donate=("x", "y"))
    for seed in range(4):
        x, y, index = normal(9, seed=seed), normal(9, seed=seed + 9), places(9, 9, seed=seed)
        a, b = wide(x.numpy()), wide(y.numpy())
        made = jitted(x, y, index).numpy()
        np.testing.assert_allclose(made, np.sin(b) * a[index.numpy()] + b, rtol=2e-5, atol=2e-6)


def test_indices_are_in_range_or_clipped(device: ck.Device, style: str) -> None:
    jitted = ck.jit(lambda x, index: x[index] * 2)
    x, index = normal(9), places(9, 3, 4)
    for _ in range(3):
        jitted(x, index)
    far = index + 99
    if style == "gpu":
        np.testing.assert_allclose(jitted(x, far).numpy(), np.full((3, 4), 2 * x.numpy()[-1]))
        np.testing.assert_allclose(jitted(x, -far).numpy(), np.full((3, 4), 2 * x.numpy()[0]))
    else:
        with pytest.raises(IndexError, match=r"index: index 1\d\d is out of bounds for an axis of size 9"):
            jitted(x, far)


def test_places_beyond_32_bits(device: ck.Device) -> None:
    """Places in the first half of a large array are computed in 64 bits, too."""
    rows, columns = ck.asarray([[3], [(1 << 20) - 1]], dtype="int32"), ck.asarray([0, 4095], dtype="int32")
    of_many = traced.TracedElements((rows, columns), (1 << 20, 1 << 12))
    places = of_many.places((1 << 12, -1))
    assert places.dtype == ck.int64
    np.testing.assert_array_equal(places.numpy(), np.array([[3], [(1 << 20) - 1]]) * 4096 - [0, 4095])
    assert of_many._replace(shape=(1 << 18, 1 << 12)).places((1 << 12, 1)).dtype == ck.int32


def test_forms_of_indices(device: ck.Device, style: str) -> None:
    """No axes, no elements, of a flattened array, joined arrays, more than 32 bits; complex numbers are as before."""
    x, y, index = normal(9), normal(3, 3), places(9, 3, 4)
    narrow = index.astype("uint8") % 9

    def forms(x: ck.Array, y: ck.Array, index: ck.Array, narrow: ck.Array) -> Any:
        return (
            x[index[0, 0].copy()] * 2,
            x[index[:, :0]] * 2,
            ck.take(y, index) + 1,
            ck.concat([x[index], ck.sin(index[:1] * 1.0)]) * 2,
            x[ck.concat([index, index[:1]])] * 2,
            x[narrow] + x[narrow.astype("uint64")],
            (x * 1j)[narrow.astype("int64")] * 2,
            ck.tanh(y @ y + x[narrow[:, :3]]),
            x[narrow] @ x[narrow].T,
        )

    jitted = ck.jit(forms)
    a, b, i, n = wide(x.numpy()), wide(y.numpy()), index.numpy(), narrow.numpy()
    joined = np.concatenate([a[i], np.sin(i[:1])])
    wanted = [a[i[0, 0]] * 2, a[i[:, :0]], b.ravel()[i] + 1, joined * 2, a[np.concatenate([i, i[:1]])] * 2]
    wanted += [a[n] * 2, a[n] * 2j, np.tanh(b @ b + a[n[:, :3]]), a[n] @ a[n].T]
    for _ in range(3):
        for own, other in zip(jitted(x, y, index, narrow), wanted, strict=True):
            assert own.shape == other.shape
            np.testing.assert_allclose(own.numpy(), other, rtol=2e-5, atol=2e-5)


def test_derivatives(device: ck.Device, style: str) -> None:
    x, z = normal(9, dtype="float64"), normal(4, 5, dtype="float64")
    index, i, j = places(9, 3, 4), places(4, 3, 1), places(5, 6, dtype="int32")
    each = places(5, 4, 3)

    def value(x: Any, z: Any) -> Any:
        along = (ck.take_along_axis(z, each, axis=1) ** 2).sum(axis=0) + (z[:, i] ** 2).sum(axis=(0, 2))
        return (
            along
            + (ck.sin(x[index]) ** 2).sum(axis=1)
            + (z[i, j] ** 3).sum(axis=1) * ck.take(x, index[0, :1])
        )

    ck.testing.gradcheck(ck.jit(value), [x, z])
    pulled = ck.grad(lambda x, z: value(x, z).sum(), (0, 1))
    ck.testing.gradcheck(ck.jit(lambda x, z: pulled(x, z)[0] * 2 + pulled(x, z)[1].sum()), [x, z])
    pushed = ck.jit(lambda x: ck.jvp(lambda x: x[index] ** 2, [x], [x * 2])[1])
    mapped = ck.jit(ck.vmap(lambda z, j: z[j] * 2))
    columns = places(5, 4, 2, 3)
    for _ in range(3):
        np.testing.assert_allclose(pushed(x).numpy(), 4 * x.numpy()[index.numpy()] ** 2)
        wanted = np.stack([a[b] * 2 for a, b in zip(z.numpy(), columns.numpy(), strict=True)])
        np.testing.assert_allclose(mapped(z, columns).numpy(), wanted)


def test_backward_reads_indices_as_they_were(device: ck.Device, style: str) -> None:
    def pulled(x: ck.Array, index: ck.Array) -> Any:
        index = index + 0
        with ck.Tape() as tape:
            tape.watch(x)
            y = (x[index] ** 2).sum()
        index += 1
        return tape.gradient(y, x), index

    x, index = normal(9), places(8, 3, 4, dtype="uint8")
    jitted = ck.jit(pulled)
    wanted = 2 * x.numpy() * np.bincount(index.numpy().ravel(), minlength=9)
    for _ in range(3):
        np.testing.assert_allclose(jitted(x, index)[0].numpy(), wanted, rtol=1e-6)


def test_reads_beyond_a_table_are_refused(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    """A checked launch of the host names the access."""
    if device.kind != "host":
        pytest.skip("launches of a GPU are not checked")
    x, index, w = normal(9), places(9, 3, 4), normal(4)
    with ck.testing.checked():
        ck.jit(looked_up)(x, index, w)
        monkeypatch.setattr(traced, "bounded", lambda index, size: index + 9)
        monkeypatch.setattr(take, "bounded", lambda index, size: index + 9)
        with pytest.raises(ck.LaunchError, match=r"reads element 1\d of argument s0, which has 9"):
            ck.jit(looked_up)(x, index, w)
