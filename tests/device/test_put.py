"""Writes to arrays under NumPy's names, what arrays say of their memory, and grids, beside NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.index import bits
from cukern.index.gather_scatter import put_number, ranges
from cukern.ops import grids

WRITES: dict[str, Callable[[Any, Any], None]] = {
    "copyto": lambda xp, x: xp.copyto(x, xp.asarray([[1, 2, 3, 4]])),
    "copyto where": lambda xp, x: xp.copyto(x, 7, where=xp.asarray([True, False, True, False])),
    "put": lambda xp, x: xp.put(x, [1, -1, 1], [5, 6]),
    "put wrap": lambda xp, x: xp.put(x, [13, -14], 5, mode="wrap"),
    "put clip": lambda xp, x: xp.put(x, [13, -14], [5, 6], "clip"),
    "put method": lambda xp, x: x.put([0, 2], 9),
    "putmask": lambda xp, x: xp.putmask(x, x > 2, xp.asarray([10, 20, 30])),
    "place": lambda xp, x: xp.place(x, x > 2, [10, 20]),
    "fill": lambda xp, x: x.fill(3),
    "flat": lambda xp, x: x.flat.__setitem__(slice(1, 8, 2), [1, 2]),
    "flat index": lambda xp, x: x.flat.__setitem__(-1, 5),
    "all flat": lambda xp, x: setattr(x, "flat", [1, 2, 3]),
}


@pytest.mark.parametrize("turned", [False, True], ids=["contiguous", "transposed"])
@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str, turned: bool) -> None:
    expected = np.arange(12).reshape(3, 4)
    x = ck.asarray(expected.copy())
    if turned:
        expected, x = expected.reshape(4, 3).T, x.reshape(4, 3).T
    WRITES[name](np, expected)
    WRITES[name](ck, x)
    np.testing.assert_array_equal(x, expected)


def test_writes_refuse() -> None:
    x = ck.arange(3)
    for call, error, match in (
        (lambda: ck.copyto(x, 0.5), TypeError, "copyto: cannot cast 0.5 to int64"),
        (lambda: ck.copyto(x, [1, 2]), ValueError, "broadcast"),
        (lambda: ck.copyto(x, 1, "never"), ValueError, "copyto: casting: expected one of no, equiv"),
        (lambda: ck.copyto(np.zeros(3), x), TypeError, r"copyto: dst: expected a cukern\.Array"),
        (lambda: ck.put(x, [0], 1, "none"), ValueError, "put: mode: expected 'raise', 'wrap' or 'clip'"),
        (lambda: ck.put(x, [0.0], 1), IndexError, "put: expected integer indices"),
        (lambda: ck.putmask(x, [True], 1), ValueError, "putmask: mask: expected 3 elements, got 1"),
        (lambda: ck.putmask(x, x > 0, 0.5), TypeError, "putmask: cannot cast 0.5 to int64"),
        (lambda: ck.place(x, x > 0, []), ValueError, "place: vals: expected at least one value, got none"),
        (lambda: x.flat[None], IndexError, "flat: expected an integer"),
        (lambda: setattr(x, "imag", 1), TypeError, "imag: expected a complex array to assign to, got int64"),
    ):
        with pytest.raises(error, match=match):
            call()
    floats = ck.zeros(3)
    with ck.Tape() as tape:
        tape.watch(floats)
        for write in (
            lambda: ck.put(floats, [0], 1.0),
            lambda: floats.fill(1.0),
            lambda: ck.copyto(floats, 1.0),
        ):
            with pytest.raises(ck.GradientError):
                write()


def test_flat_is_an_iterator_of_all_elements() -> None:
    x = ck.asarray(np.arange(6).reshape(2, 3)).T
    assert [int(one) for one in x.flat] == [0, 3, 1, 4, 2, 5]
    assert len(x.flat) == 6 and x.flat.base is x
    assert x.flat[1].item() == 3 and x.flat[::2].tolist() == [0, 1, 2] and x.flat[[5, 0]].tolist() == [5, 0]
    assert x.flat.copy().tolist() == x.reshape(-1).tolist()


def test_flags_bytes_and_views() -> None:
    data = np.arange(6, dtype="float32").reshape(2, 3)
    for view in (lambda x: x, lambda x: x.T, lambda x: x[:, ::2], lambda x: x[:1]):
        flags, expected = view(ck.asarray(data)).flags, view(data).flags
        for name in ("C_CONTIGUOUS", "F_CONTIGUOUS", "FORC", "FNC", "WRITEABLE"):
            assert flags[name] == expected[name], name
    with pytest.raises(KeyError, match="flags: expected one of C_CONTIGUOUS"):
        ck.zeros(2).flags["ALIGNED?"]
    assert not ck.broadcast_to(ck.zeros(()), (2,)).flags.writeable
    x = ck.asarray(data.copy())
    assert x.tobytes("F") == data.tobytes("F")
    bits = x.view("int32")
    np.testing.assert_array_equal(bits, data.view("int32"))
    assert x.view("uint8").shape == (2, 12) and x.view().shape == (2, 3)
    bits[0, 0] = np.float32(1.0).view("int32")
    assert x[0, 0].item() == 1.0
    with pytest.raises(ValueError, match="view: float32 of shape"):
        x[:, :1].T.view("float64")
    assert x.conj() is x and x.astype("float64", "C", "safe").dtype == "float64"
    with pytest.raises(TypeError, match="astype: cannot cast float32 to int32, casting='same_kind'"):
        x.astype("int32", casting="same_kind")
    with pytest.raises(ValueError, match="astype: order: expected 'C'"):
        x.astype("int32", "F")
    assert x.T.copy("K").flags.c_contiguous and x.T.copy(order="C").tolist() == x.T.tolist()
    with pytest.raises(ValueError, match="copy: order: expected 'C'"):
        x.copy("F")
    z = ck.asarray([1 + 2j])
    z.real, z.imag = 3, 4
    assert z.tolist() == [3 + 4j]


GRIDS: dict[str, Callable[[Any], Any]] = {
    "mgrid": lambda xp: xp.mgrid[0:3, 1:2:3j],
    "mgrid of one": lambda xp: xp.mgrid[0:3],
    "ogrid": lambda xp: xp.ogrid[0:3, 4:6],
    "r_ along the last": lambda xp: xp.r_["-1", xp.asarray([[1, 2]]), xp.asarray([[3]])],
    "r_ raised": lambda xp: xp.r_["0,2", [1, 2], [3, 4]],
    "r_ raised behind": lambda xp: xp.r_["1,3,0", [1, 2], [3, 4]],
    "mask_indices": lambda xp: xp.mask_indices(3, xp.triu, 1),
    "packbits": lambda xp: xp.packbits(xp.asarray([[0, 2, 0], [1, 1, 0]]), 1, "little"),
    "packbits of all": lambda xp: xp.packbits(xp.asarray([True] * 9)),
    "unpackbits": lambda xp: xp.unpackbits(xp.asarray([[3], [128]], dtype="uint8"), axis=0, count=-2),
    "unpackbits to more": lambda xp: xp.unpackbits(
        xp.asarray([3], dtype="uint8"), count=10, bitorder="little"
    ),
    "ravel_multi_index": lambda xp: xp.ravel_multi_index(([0, 1], [5, -1]), (2, 3), ("raise", "wrap"), "F"),
    "unravel_index": lambda xp: xp.unravel_index(xp.asarray([1, 4]), (2, 3), order="F"),
    "flatten by memory": lambda xp: xp.asarray(np.arange(6).reshape(2, 3)).T.flatten("K"),
    "ravel of a slice": lambda xp: xp.ravel(xp.asarray([1, 2, 3])[::2]),
    "roll by an array": lambda xp: xp.roll(xp.asarray([[1, 2], [3, 4]]), xp.asarray([1, 1]), (0, 1)),
    "repeat by bools": lambda xp: xp.repeat(xp.asarray([1, 2, 3]), xp.asarray([True, False, True])),
    "resize of nothing": lambda xp: xp.resize(xp.zeros(0), (2, 1)),
    "tril of a vector": lambda xp: xp.tril(xp.asarray([1, 2, 3]), -1),
    "take_along_axis": lambda xp: xp.take_along_axis(xp.asarray([[1, 2], [3, 4]]), xp.asarray([3, 0]), None),
    "frombuffer": lambda xp: xp.frombuffer(b"\x01\x02\x03", dtype="uint8", offset=1),
    "fromstring": lambda xp: xp.fromstring("1.5 2", sep=" "),
    "ravel by memory": lambda xp: xp.ravel(
        xp.asarray(np.arange(24).reshape(2, 3, 4)).transpose(1, 2, 0), "K"
    ),
    "concat": lambda xp: xp.concatenate(
        (xp.asarray([1, 2]), xp.asarray([3])), out=xp.zeros(3, dtype="int64")
    ),
    "stack": lambda xp: xp.stack((xp.asarray([1]), xp.asarray([3])), out=xp.zeros((2, 1), dtype="int64")),
}


@pytest.mark.parametrize("name", GRIDS)
def test_grids_bits_and_joins(name: str) -> None:
    made, expected = GRIDS[name](ck), GRIDS[name](np)
    several = isinstance(expected, tuple)
    assert isinstance(made, tuple) == several
    for ours, theirs in zip(made if several else [made], expected if several else [expected], strict=True):
        assert ours.dtype.kind == theirs.dtype.kind
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_broadcast_and_kinds_of_dtypes() -> None:
    b = ck.broadcast(ck.zeros((2, 1)), [1, 2, 3])
    assert (b.shape, b.nd, b.size) == ((2, 3), 2, 6) and [x.shape for x in b.values] == [(2, 3)] * 2
    with pytest.raises(ValueError, match="broadcast"):
        ck.broadcast(ck.zeros(2), ck.zeros(3))
    assert (
        ck.iscomplexobj(ck.zeros(1, "complex64")) and ck.isrealobj(2.0) and ck.isfortran(ck.zeros((2, 3)).T)
    )
    assert ck.issubdtype(ck.bfloat16, np.inexact) and not ck.issubdtype("bfloat16", np.integer)
    assert ck.issubdtype(ck.float32, np.floating) and not ck.issubdtype(np.float32, ck.bfloat16)
    with pytest.raises(NotImplementedError, match="r_: there is no class of matrices"):
        ck.r_["r", [1, 2]]


@pytest.mark.parametrize("shape", [(2, 64), (5, 13), (3, 0)])
@pytest.mark.parametrize("dtype", ["bool", "int16"])
def test_packed_by_the_kernel(dtype: str, shape: tuple[int, int]) -> None:
    """Several bytes a thread, and one; a last byte with less than eight bits; an integer whose first byte is 0."""
    x = (np.arange(math.prod(shape)).reshape(shape) ** 3 % 5 % 2 * 256).astype(dtype)
    for order in ("big", "little"):
        np.testing.assert_array_equal(bits._packed(ck.asarray(x), order), np.packbits(x, -1, order))


def test_a_number_put_by_the_kernel() -> None:
    for dtype in (ck.bfloat16, ck.complex64, ck.int8):
        x = ck.zeros((2, 5, 3), dtype)
        put_number(x, ck.asarray([4, 0, 4])._data, 3, 2, 5, 3)
        expected = np.zeros((2, 5, 3))
        expected[:, [4, 0]] = 3
        np.testing.assert_array_equal(x.astype("complex64"), expected)


@pytest.mark.parametrize("n, k, m", [(5, 1, 3), (40, -2, 400), (3, 9, None), (3, -9, None)])
def test_indices_of_triangles_by_the_kernel(device: ck.Device, n: int, k: int, m: int | None) -> None:
    last = grids._diagonal_at(n, k + 1, m)
    np.testing.assert_array_equal(ranges(device, np.zeros_like(last), last), np.tril_indices(n, k, m))
    first = grids._diagonal_at(n, k, m)
    places = ranges(device, first, (n if m is None else m) - first)
    np.testing.assert_array_equal(places, np.triu_indices(n, k, m))


def test_a_view_begins_where_its_dtype_may(device: ck.Device) -> None:
    """A GPU reads a number at multiples of its size; the host reads it anywhere."""
    x = ck.asarray(np.arange(9, dtype=np.float32))[1:]
    if device.kind == "host":
        np.testing.assert_array_equal(
            x.view("complex64").numpy(), np.arange(1, 9, 2) + 1j * np.arange(2, 9, 2)
        )
    else:
        with pytest.raises(
            ValueError, match="view: float32 .* as complex64: these are read at multiples of 8 bytes"
        ):
            x.view("complex64")
    assert x[1:7].view("complex64")[0].item() == 2 + 3j
