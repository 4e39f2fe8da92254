"""dask.array with chunks of cukern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck

da = pytest.importorskip("dask.array")
from dask.base import tokenize  # noqa: E402
from dask.sizeof import sizeof  # noqa: E402

VALUES = np.random.default_rng(0).normal(size=(8, 6)).astype("float32")
CALLS: dict[str, Callable[[Any], Any]] = {
    "argmax": lambda x: x.argmax(axis=0),
    "cumsum": lambda x: x.cumsum(axis=0),
    "einsum": lambda x: da.einsum("ij,kj->ik", x, x),
    "index": lambda x: x[[0, 3, 5], ::-2],
    "map_blocks": lambda x: x.map_blocks(np.negative),
    "map_overlap": lambda x: x.map_overlap(lambda part: part + 1, depth=1, boundary="reflect"),
    "percentile": lambda x: da.percentile(x[:, 0].rechunk(8), [25, 50]),
    "rechunk": lambda x: x.rechunk((3, 6)) * 2,
    "set": lambda x: _set(x),
    "svd": lambda x: da.linalg.svd(x.rechunk((4, 6)))[1],
    "tensordot": lambda x: da.tensordot(x, x, axes=([0], [0])),
    "zeros_like": lambda x: da.zeros_like(x, shape=(4, 2)) + da.full_like(x, 3, shape=(4, 2)),
}


def _set(x: Any) -> Any:
    x = x.copy()
    x[0] = 5.0
    return x


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with ck.device("host"):
        ck.distributed.register_dask()
        yield


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.thorough] * (one == "percentile")) for one in CALLS]
)
def test_values_and_chunks(name: str) -> None:
    ours = da.from_array(ck.asarray(VALUES), chunks=(4, 3), asarray=False)
    expected = CALLS[name](da.from_array(VALUES, chunks=(4, 3)))
    found = CALLS[name](ours)
    assert type(found._meta) is ck.Array and found.dtype == expected.dtype
    made = found.compute(scheduler="sync" if name != "tensordot" else "threads")
    assert type(made) is ck.Array and made.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(made), expected.compute(), rtol=1e-5, atol=1e-6)


def test_tokens_and_sizes() -> None:
    x = ck.asarray(VALUES)
    assert tokenize(x) == tokenize(ck.asarray(VALUES)) == tokenize(x.T.contiguous().T)
    others = [ck.asarray(VALUES + 1), x.astype("float64"), x.reshape(6, 8), ck.nn.Parameter(x)]
    assert len({tokenize(one) for one in (x, *others)}) == 5
    assert sizeof(x) == 8 * 6 * 4


def test_bytes_pass_without_pickle() -> None:
    protocol = pytest.importorskip("distributed.protocol")
    ck.distributed.register_dask()
    for dtype in ("float32", "bfloat16", "bool"):
        for x in (
            ck.asarray(VALUES).astype(dtype).T,
            ck.zeros((0, 2), dtype=dtype),
            ck.ones((), dtype=dtype),
        ):
            header, frames = protocol.serialize(x, serializers=["dask"])
            again = protocol.deserialize(header, frames)
            assert (again.dtype, again.shape, again.device) == (x.dtype, x.shape, x.device)
            np.testing.assert_array_equal(np.asarray(again), np.asarray(x))
    kept = protocol.deserialize(*protocol.serialize(ck.nn.Parameter(VALUES)))
    assert type(kept) is ck.nn.Parameter


def test_numpy_makes_arrays_like_ours() -> None:
    x = ck.asarray([1.0, 2.0])
    assert type(np.asarray([3, 4], like=x)) is ck.Array
    assert type(np.asanyarray(np.arange(3), like=x)) is ck.Array
    np.testing.assert_array_equal(np.asarray(np.arange(1, 4, like=x)), [1, 2, 3])
    assert np.einsum("i,i->", x, x, dtype="float64", casting="safe").dtype == np.float64
