"""Functions that write to memory that they also read: the results are as if all was read before anything is written.

NumPy mostly promises that, and not always keeps it. Its results are of copies of what is read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.index import gather_scatter as launches

#: How many draws each writing function gets, and the sides of the base array.
DRAWS, SIDES = 12, (6, 5)
#: A function of the namespace, the base array, and what draws parts of it. It writes to a part and reads others.
Writer = Callable[[ModuleType, Any, "Parts"], object]


class Parts:
    """Draws views of an array, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def __call__(self, x: Any, shape: tuple[int, ...]) -> Any:
        """A view of the flattened ``x``, of this shape, or of the transposed one turned."""
        flat, turned = x.reshape(-1), len(shape) == 2 and self._random.random() < 0.3
        sizes = shape[::-1] if turned else shape
        n, count = flat.shape[0], int(np.prod(sizes))
        step = int(self._random.integers(1, (n - 1) // max(count - 1, 1) + 1))
        start = int(self._random.integers(0, n - step * (count - 1)))
        part = flat[start : start + step * (count - 1) + 1 : step]
        part = part[::-1] if self._random.random() < 0.3 else part
        made = part.reshape(sizes)
        return made.T if turned else made

    def read(self, x: Any, shape: tuple[int, ...]) -> Any:
        """A view that a writer reads."""
        return held(self(x, shape))

    def some(self, high: int, shape: Any) -> Any:
        """Integers from 0 to ``high - 1``, as an array of NumPy."""
        return self._random.integers(0, high, shape)


def held(x: Any) -> Any:
    """What a writer reads: a copy of NumPy's, and cukern's memory itself."""
    return x.copy() if isinstance(x, (np.ndarray, np.generic)) else x


WRITERS: dict[str, Writer] = {}


def writer(function: Writer) -> Writer:
    WRITERS[function.__name__] = function
    return function


@writer
def slices(xp: ModuleType, x: Any, part: Parts) -> None:
    part(x, (7,))[...] = part.read(x, (7,))
    part(x, (3, 4))[...] = part.read(x, (3, 4))
    part(x, (3, 4))[...] = part.read(x, (4,))
    part(x, (9,))[1:8] = part.read(x, (7,))
    x[1:] = held(x[:-1])
    x[:-1] = held(x[1:])
    x[...] = held(x[::-1, ::-1])


@writer
def rows(xp: ModuleType, x: Any, part: Parts) -> None:
    x[part.some(6, 6)] = held(x)
    x[part.some(6, 4)] = part.read(x, (4, 5))
    x[:, part.some(5, 5)] = held(x)
    x[part.some(6, 4), 1:4] = part.read(x, (4, 3))
    x[part.some(6, (2, 2))] = held(x[1])


@writer
def elements(xp: ModuleType, x: Any, part: Parts) -> None:
    x[part.some(6, 9), part.some(5, 9)] = part.read(x, (9,))
    x[part.some(6, (6, 1)), part.some(5, 5)] = held(x)
    flat = part(x, (8,))
    flat[part.some(8, 8)] = held(flat)
    x[part.some(2, (6, 5)) > 0] = held(x[0, 0])
    chosen = part.some(2, (6, 5)) > 0
    x[chosen] = part.read(x, (int(chosen.sum()),))
    x[part.some(2, 6) > 0] = held(x[2])
    x[x > 8] = held(x[0, 0])


@writer
def places_of_itself(xp: ModuleType, x: Any, part: Parts) -> None:
    i = part(x, (5,))
    for write in (
        lambda: operator.setitem(i, held(i), part.read(x, (5,))),
        lambda: operator.setitem(i, held(i[::-1]), 3),
        lambda: operator.setitem(i, held(i), [4, 3, 2, 1, 0]),
        lambda: operator.setitem(x, (slice(None), held(i)), held(x)),
        lambda: xp.put(i, held(i), held(i[::-1])),
        lambda: xp.put(i, held(i), 2),
        lambda: xp.put_along_axis(i, held(i), held(i[::-1]), 0),
        lambda: xp.put_along_axis(i, held(i), 3, 0),
        lambda: xp.add.at(i, held(i), held(i)),
        lambda: xp.subtract.at(i, held(i), held(i[::-1])),
        lambda: xp.floor_divide.at(i, held(i), 2),
        lambda: xp.take(held(i), held(i), out=i),
        lambda: xp.putmask(i, held(i), held(i[::-1])),
        lambda: xp.place(i, held(i), held(i[:2])),
        lambda: xp.copyto(i, held(i[::-1]), where=held(i) > 2),
    ):
        i[...] = part.some(5, 5)
        write()


@writer
def functions(xp: ModuleType, x: Any, part: Parts) -> None:
    xp.put(part(x, (9,)), part.some(9, 6), part.read(x, (6,)))
    xp.put(part(x, (3, 4)), part.some(40, 6), part.read(x, (3,)), mode="wrap")
    xp.put_along_axis(x, part.some(6, (6, 5)), held(x), 0)
    xp.put_along_axis(part(x, (3, 4)), part.some(4, (3, 2)), part.read(x, (3, 2)), 1)
    xp.copyto(part(x, (3, 4)), part.read(x, (3, 4)))
    xp.copyto(part(x, (3, 4)), part.read(x, (3, 4)), where=part.some(2, (3, 4)) > 0)
    xp.putmask(part(x, (3, 4)), part.some(2, (3, 4)) > 0, part.read(x, (5,)))
    xp.place(part(x, (3, 4)), part.some(2, (3, 4)) > 0, part.read(x, (5,)))
    xp.fill_diagonal(x, part.read(x, (3,)))
    part(x, (3, 4)).flat[1:9] = part.read(x, (5,))
    part(x, (3, 4)).sort(0)
    part(x, (9,)).sort()
    part(x, (9,)).partition(3)


@writer
def combined(xp: ModuleType, x: Any, part: Parts) -> None:
    xp.add.at(x, part.some(6, 6), held(x))
    xp.add.at(part(x, (9,)), part.some(9, 6), part.read(x, (6,)))
    xp.subtract.at(x, part.some(6, 6), held(x))
    xp.maximum.at(x, part.some(6, 6), held(x))
    xp.floor_divide.at(x, part.some(6, 4), 2)
    xp.negative.at(x, part.some(6, 4))


@writer
def in_place(xp: ModuleType, x: Any, part: Parts) -> None:
    a = part(x, (3, 4))
    a += part.read(x, (3, 4))
    a -= part.read(x, (4,))
    a = part(x, (9,))
    a //= 3
    a ^= part.read(x, (9,))
    a[1:] += held(a[:-1])
    a[:-1] -= held(a[1:])
    a += held(a[::-1])
    a %= 10
    x += held(x[0])
    x -= held(x[:, 1:2])
    x[:5, :5] += held(x[:5, :5].T)


@writer
def out(xp: ModuleType, x: Any, part: Parts) -> None:
    xp.add(part.read(x, (3, 4)), part.read(x, (3, 4)), out=part(x, (3, 4)))
    xp.negative(part.read(x, (9,)), out=part(x, (9,)))
    xp.maximum(part.read(x, (9,)), 7, out=part(x, (9,)))
    xp.add(part.read(x, (9,)), 1, out=part(x, (9,)), where=part.some(2, 9) > 0)
    xp.floor_divide(part.read(x, (9,)), 2, out=part(x, (9,)))
    xp.divmod(part.read(x, (5,)), 3, out=(x[0], x[1]))
    xp.clip(part.read(x, (9,)), 2, 9, out=part(x, (9,)))
    xp.round(part.read(x, (9,)), 0, out=part(x, (9,)))


@writer
def out_of_reductions(xp: ModuleType, x: Any, part: Parts) -> None:
    xp.sum(part.read(x, (4, 3)), 0, out=part(x, (3,)))
    xp.max(held(x), axis=1, out=x[:, 2])
    xp.argmax(part.read(x, (4, 3)), 1, out=part(x, (4,)))
    xp.cumsum(part.read(x, (4, 3)), 0, out=part(x, (4, 3)))
    xp.cumsum(held(x), 1, out=x)
    x %= 11
    xp.prod(part.read(x, (4, 3)), 1, out=part(x, (4,)))
    x %= 13
    xp.add.reduce(part.read(x, (4, 3)), 0, out=part(x, (3,)))
    xp.add.accumulate(part.read(x, (9,)), out=part(x, (9,)))
    xp.add.reduceat(part.read(x, (9,)), [0, 3, 5], out=part(x, (3,)))
    xp.add.outer(part.read(x, (3,)), part.read(x, (4,)), out=part(x, (3, 4)))


@writer
def out_of_products(xp: ModuleType, x: Any, part: Parts) -> None:
    xp.matmul(part.read(x, (4, 3)), part.read(x, (3, 4)), out=part(x, (4, 4)))
    x %= 17
    xp.dot(held(x[:5]), held(x[1:]), out=x[:5])
    x %= 17
    xp.matmul(held(x[:5]), held(x[1:].T), out=x[:5])


@writer
def out_of_joins(xp: ModuleType, x: Any, part: Parts) -> None:
    xp.take(held(x), part.some(6, 6), axis=0, out=x)
    xp.take(part.read(x, (9,)), part.some(20, 6), out=part(x, (6,)), mode="clip")
    xp.concatenate([part.read(x, (4,)), part.read(x, (3,))], out=part(x, (7,)))
    xp.concatenate([held(x[3:]), held(x[:3])], out=x)
    xp.stack([part.read(x, (4,)), part.read(x, (4,))], out=part(x, (2, 4)))


#: Functions of 24 floats and of the places [0, 1, 1, 3], whose derivatives go to these places.
INDEXED: dict[str, Callable[[Any, Any], Any]] = {
    "index": lambda x, i: x[i],
    "index of columns": lambda x, i: x.reshape(4, 6)[1:, i],
    "index of both": lambda x, i: x.reshape(4, 6)[i, i],
    "index of a mask": lambda x, i: x[:4][i > 0],
    "take": lambda x, i: ck.take(x, i),
    "take and clip": lambda x, i: ck.take(x, i, mode="clip"),
    "take along": lambda x, i: ck.take_along_axis(x.reshape(2, 12), i[None], 1),
    "embedding": lambda x, i: ck.nn.embedding(i, x.reshape(8, 3)),
    "segment_prod": lambda x, i: ck.segment_prod(x[:4], i, 5),
    "segment_max": lambda x, i: ck.segment_max(x[:4], i, 5, indices_are_sorted=True),
    "offsets": lambda x, i: ck.segment_sum(x[:3], offsets=i),
    "scatter": lambda x, i: ck.scatter(x.reshape(6, 4), i[None], 1, 5),
    "index_add": lambda x, i: ck.index_add(x, i, x[:4]),
    "at.set": lambda x, i: x.at[i].set(x[:4]),
    "at.add": lambda x, i: x.at[i].add(x[:4]),
    "at.multiply": lambda x, i: x.at[i].multiply(x[:4]),
    "at.max": lambda x, i: x.reshape(4, 6).at[:, i].max(x[:16].reshape(4, 4)),
    "reduceat": lambda x, i: ck.multiply.reduceat(x, i),
    "repeat": lambda x, i: ck.repeat(x[:4], i),
    "bincount": lambda x, i: ck.bincount(i, weights=x[:4]),
    "choose": lambda x, i: ck.choose(i, [x[:4], x[4:8], x[8:12], x[12:16]]),
    "delete": lambda x, i: ck.delete(x, i),
    "power": lambda x, i: ck.power(x[:4], i),
    "cross_entropy": lambda x, i: ck.nn.cross_entropy(x[:16].reshape(4, 4), i),
}

#: Those that save the array of the places itself.
SAVED = ("power", "cross_entropy")


def outcome(xp: ModuleType, name: str, seed: int, dtype: Any) -> Any:
    values = np.arange(int(np.prod(SIDES))).reshape(SIDES).astype(dtype)
    x = values if xp is np else ck.asarray(values)
    WRITERS[name](xp, x, Parts(seed))
    return x


@pytest.mark.parametrize("name", WRITERS)
def test_overlaps(device: ck.Device, name: str) -> None:
    for seed in range(DRAWS):
        expected = outcome(np, name, seed, np.int64)
        got = outcome(ck, name, seed, np.int64)
        np.testing.assert_array_equal(got.numpy(), expected, err_msg=f"seed {seed}")


@pytest.mark.parametrize("n", [1 << 15, pytest.param((1 << 21) + 3, marks=pytest.mark.thorough)])
def test_overlaps_of_many_elements(device: ck.Device, n: int) -> None:
    """NumPy serves some of these on the host, and kernels on several cores the longest."""
    values, places = np.arange(n), np.random.default_rng(0).permutation(n)
    for write in (
        lambda xp, x: operator.setitem(x, slice(1, None), held(x[:-1])),
        lambda xp, x: operator.setitem(x, slice(None, n // 3), held(x[: n // 3 * 2 : 2])),
        lambda xp, x: operator.setitem(x, ..., held(x[::-1])),
        lambda xp, x: operator.setitem(x, places, held(x)),
        lambda xp, x: operator.setitem(x, held(x[::-1]), 3),
        lambda xp, x: xp.copyto(x[: n // 3], held(x[: n // 3 * 2 : 2])),
        lambda xp, x: xp.put(x, held(x), held(x[::-1])),
        lambda xp, x: operator.iadd(x, held(x[::-1])),
    ):
        expected, got = values.copy(), ck.asarray(values.copy())
        write(np, expected)
        write(ck, got)
        np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("name", ["slices", "elements", "places_of_itself"])
def test_no_launch_reads_what_it_writes(name: str) -> None:
    with ck.device("host"), ck.testing.checked():
        for seed in range(2):
            np.testing.assert_array_equal(
                outcome(ck, name, seed, np.int64).numpy(), outcome(np, name, seed, np.int64)
            )


@pytest.mark.parametrize("order", [[4, 3, 2, 1, 0], [1, 2, 3, 4, 0]])
def test_a_checked_launch_of_the_library_that_does_is_reported(order: list[int]) -> None:
    """One thread of the host does what many do on a GPU: that it reads first what it writes later orders nothing."""
    with ck.device("host"), ck.testing.checked(collect=True) as reports:
        x = ck.arange(5)
        launches.put_rows(x.reshape(1, 5, 1), np.array(order), x._data, 1, 5, 1)
        (found,) = reports
        assert (
            found.kind == "race"
            and found.array == "y"
            and found.place.startswith("index/scatter_columns.cu:")
        )
        assert "by an argument that is const, and shares its memory" in found.message
        x = ck.arange(6)
        # Parts that lie side by side share nothing.
        launches.put_rows(x[:3].reshape(1, 3, 1), np.array([2, 0, 1]), x[3:]._data, 1, 3, 1)
        assert x.tolist() == [0, 1, 2, 1, 2, 0] and len(reports) == 1


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", INDEXED)
def test_a_backward_goes_to_the_places_of_its_forward(device: ck.Device, name: str, dtype: str) -> None:
    """Places are looked at once: what is written to them until the backward would lead it out of its memory."""
    x, given = ck.asarray(np.linspace(1, 2, 24)), np.array([0, 1, 1, 3], dtype)

    def loss(x: ck.Array, i: Any) -> ck.Array:
        return (INDEXED[name](x, i) ** 2).sum()

    want = ck.grad(lambda x: loss(x, ck.asarray(given)))(x).numpy()
    for i in (ck.asarray(given.copy()), given.copy()):
        with ck.Tape() as tape:
            tape.watch(x)
            y = loss(x, i)
        i[...] = 10**6
        if isinstance(i, ck.Array) and name in SAVED:
            with pytest.raises(ck.GradientError, match="was written since"):
                tape.gradient(y, x)
        else:
            np.testing.assert_array_equal(tape.gradient(y, x).numpy(), want)
