"""What programs written for NumPy do with arrays, beside NumPy: as text, as numbers, in files, in memory."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

RNG = np.random.default_rng(0)
A = RNG.uniform(-2, 2, (3, 4))
#: Arrays whose text is compared, by what is special about them.
TEXTS = {
    "number": np.asarray(0.45, np.float32),
    "double": np.asarray(0.1),
    "integer": np.asarray(-3),
    "bool": np.asarray(True),
    "complex": np.asarray(1 + 2j, np.complex64),
    "nan": np.asarray([np.nan, np.inf, 1.5], np.float32),
    "matrix": A.astype(np.float32),
    "half": A.astype(np.float16),
    "long": np.arange(2000),
    "long rows": np.arange(2400.0).reshape(3, 800),
    "wide": A.repeat(6, 1),
    "no element": np.zeros(0, np.float32),
    "no row": np.zeros((0, 3)),
    "no column": np.zeros((2, 0), np.int32),
}


def as_ours(text: str, x: ck.Array) -> str:
    """NumPy's ``repr`` with what cukern's says besides: the dtype in any case, and the device."""
    head = text.removesuffix(")")
    name = f"dtype={ck.dtypes.info(x.dtype).name}"
    return f"{head.removesuffix(name).rstrip(', ') if name in head else head}, {name}, device='{x.device}')"


@pytest.mark.parametrize("case", TEXTS)
def test_text(device: ck.Device, case: str) -> None:
    values = TEXTS[case]
    x = ck.asarray(values)
    assert str(x) == f"{x}" == str(values) == np.array_str(x) == ck.array_str(x)
    assert np.array2string(x, separator=",") == ck.array2string(x, separator=",")
    assert ck.array2string(x, separator=",") == np.array2string(values, separator=",")
    with np.printoptions(threshold=5, edgeitems=1, precision=2):
        assert str(x) == str(values)
        assert " ".join(repr(x).split()) == " ".join(
            as_ours(np.array_repr(values), x).replace("array(", "Array(").split()
        )
    assert repr(x) == ck.array_repr(x) == np.array_repr(x)
    for part in ("shape=(", "..."):
        assert (part in repr(x)) == (part in repr(values))


def test_lines_of_repr_are_as_long_as_numpys(device: ck.Device) -> None:
    for n in range(1, 60):
        x = ck.ones(n, dtype="int64")
        assert max(map(len, repr(x).splitlines())) <= 75
        assert repr(x).count("Array(") == 1 and repr(x).endswith(f"dtype=int64, device='{device}')")


def test_a_print_of_a_loss(device: ck.Device, capsys: pytest.CaptureFixture[str]) -> None:
    loss = ck.asarray(0.45)
    with ck.Tape() as tape:
        tape.watch(loss)
        print("loss", loss, f"{loss:.3f} {loss:>8}", f"{ck.asarray(7):04d}")
        print(ck.asarray(0.45, dtype="bfloat16"), f"{ck.asarray(0.45, dtype='bfloat16'):.2f}")
    assert capsys.readouterr().out == "loss 0.45 0.450 0.44999998807907104 0007\n0.449219 0.45\n"
    with pytest.raises(
        TypeError, match=r"format: expected an array of one element for '\.2f', got shape \(2,\)"
    ):
        f"{ck.ones(2):.2f}"


def test_numbers(device: ck.Device) -> None:
    x = ck.asarray(A)
    for index in ((1,), (-1,), (11,), (1, 2), (-1, 0), ((2, 3),)):
        assert x.item(*index) == A.item(*index)
    assert ck.asarray([5, 6]).item(-1) == 6 and x.T.item(1) == A.T.item(1)
    for bad, error in (
        ((12,), IndexError),
        ((3, 0), IndexError),
        ((0, 0, 0), ValueError),
        ((1.5,), TypeError),
    ):
        with pytest.raises(error):
            x.item(*bad)
    assert round(x[0, 0], 2).item() == round(A[0, 0], 2) and type(round(x[0, 0], 2)) is ck.Array
    assert (round(ck.asarray(2.5)), round(ck.asarray(3.5)), round(ck.asarray(-7))) == (2, 4, -7)
    assert type(round(ck.asarray(2.5))) is int
    assert_close(round(x, 1), A.round(1))
    with pytest.raises(TypeError, match="only an array of one element"):
        round(x)


def test_files(device: ck.Device, tmp_path: Path) -> None:
    x = ck.asarray(A)
    np.save(tmp_path / "a.npy", x)
    np.savez(tmp_path / "a.npz", x, named=x[0])
    x.T.tofile(tmp_path / "a.bin")
    x.tofile(tmp_path / "a.txt", sep=",", format="%.3f")
    assert (np.load(tmp_path / "a.npy") == A).all()
    with np.load(tmp_path / "a.npz") as both:
        assert (both["arr_0"] == A).all() and (both["named"] == A[0]).all()
    assert (np.fromfile(tmp_path / "a.bin") == A.T.reshape(-1)).all()
    assert (tmp_path / "a.txt").read_text() == ",".join(f"{v:.3f}" for v in A.reshape(-1))
    for save in (np.savetxt, ck.savetxt):
        ours, theirs = io.StringIO(), io.StringIO()
        save(ours, x, fmt="%.4f", delimiter=";", header="h")
        np.savetxt(theirs, A, fmt="%.4f", delimiter=";", header="h")
        assert ours.getvalue() == theirs.getvalue()
    lines = ours.getvalue().splitlines()
    made = ck.loadtxt(lines, delimiter=";", usecols=(0, 2), unpack=True)
    assert made.device is device and made.dtype == ck.float32
    assert_close(made, A.T[[0, 2]].astype(np.float32), atol=1e-4)
    ck.savetxt(tmp_path / "half.txt", ck.asarray([1.5, 2], dtype="bfloat16"))
    assert ck.loadtxt(tmp_path / "half.txt", "bfloat16").tolist() == [1.5, 2.0]


def test_memory(device: ck.Device) -> None:
    x = ck.asarray(A)[:, ::2]
    if not device.addressable:
        assert not hasattr(x, "__array_interface__")
        with pytest.raises(BufferError, match=r"x\.numpy\(\)"):
            x.__buffer__(0)
        return
    interface = x.__array_interface__
    assert interface["shape"] == (3, 2) and interface["strides"] == x.strides and interface["data"][1]
    seen = memoryview(x) if sys.version_info >= (3, 12) else x.__buffer__(0)
    assert seen.readonly and seen.tolist() == x.tolist()
    narrow = ck.ones(2, dtype="bfloat16")
    assert not hasattr(narrow, "__array_interface__") and np.asarray(narrow).dtype == ck.bfloat16
    with pytest.raises(BufferError, match="bfloat16"):
        narrow.__buffer__(0)


def test_views_by_strides(device: ck.Device) -> None:
    x = ck.asarray(A)
    ours, theirs = ck.lib.stride_tricks, np.lib.stride_tricks
    for shape, strides in (
        ((3, 3), (32, 8)),
        ((2, 2, 3), (32, 8, 16)),
        ((4,), (0,)),
        ((0, 2), (8, 8)),
        (None, None),
    ):
        made = ours.as_strided(x, shape, strides)
        assert_close(made, theirs.as_strided(A, shape, strides), rtol=0, atol=0)
        assert ck.shares_memory(made, x) or not made.size
    back = ours.as_strided(x[2, 3:], (3, 4), (-32, -8))
    assert_close(back, A[::-1, ::-1], rtol=0, atol=0)
    ours.as_strided(x[1], (2,), (8,))[...] = 0
    assert x.tolist()[1][:2] == [0.0, 0.0]
    for bad in (
        ((130,), (8,)),  # beyond what a GPU's allocator rounds up to
        ((2,), (-8,)),
        ((2, 5), (32 * 20, 8)),
        ((2,), (4,)),
        ((2,), (8, 8)),
        ((-1,), (8,)),
    ):
        with pytest.raises(ValueError, match="as_strided"):
            ours.as_strided(x, *bad)
    assert_close(
        np.lib.stride_tricks.sliding_window_view(x, 2, axis=1), ours.sliding_window_view(x, 2, axis=1)
    )
    low, high = ck.lib.array_utils.byte_bounds(x[::-1, ::2])
    assert high - low == 11 * 8
    given = ck.asarray(A)
    gradcheck(lambda x: ours.as_strided((x * 2).contiguous(), (3, 2, 2), (16, 8, 32)) ** 2, (given,), order=2)
    gradcheck(lambda x: ours.as_strided((x * 2).contiguous()[1:, 1:], (2, 2), (32, 16)) ** 3, (given,))
    with ck.Tape() as tape:
        tape.watch(given)
        with pytest.raises(ck.GradientError, match="not elements of x"):
            ours.as_strided(given[1:, 1::2], (2, 2), (8, 8))
    with ck.Tape() as tape:
        one = ck.asarray([3.0])
        tape.watch(one)
        made = ours.as_strided(ck.broadcast_to(one, (4,)), (2, 3), (0, 0)).sum()
    assert tape.gradient(made, one).tolist() == [6.0]


#: Of NumPy's functions and of cukern's, on arrays that ``v`` makes.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "einsum of arrays of labels": lambda m, v: m.einsum(v(A), v([0, 1]), v(A), [v(0), 1], v([1, 0])[1:]),
    "einsum of a row": lambda m, v: m.einsum(v(A), [0, ...], [..., 0]),
    "take_along_axis of a broadcast array": lambda m, v: m.take_along_axis(v(A[:1]), v([[0], [3], [1]]), 1),
    "take_along_axis both": lambda m, v: m.take_along_axis(v(A[:, None, :1]), v([[[0, 0]] * 5] * 1), 2),
    "insert, a row of values": lambda m, v: m.insert(v(np.arange(5)), [1, 3], v([[10, 20]])),
    "insert, a mask": lambda m, v: m.insert(v(np.arange(5)), v([True, True, False, False, True]), 9),
    "insert, several at one": lambda m, v: m.insert(v(A), [1], v([7.0, 8.0]), axis=1),
    "insert, a slice": lambda m, v: m.insert(v(A), slice(0, 3, 2), v([[7.0], [8.0]]), axis=0),
    "insert, negative": lambda m, v: m.insert(v(A), [-1, 0], v([[1.0, 2.0]]), axis=1),
    "insert, nothing": lambda m, v: m.insert(v(A), [], 1.0, axis=1),
    "apply_along_axis of empty vectors": lambda m, v: m.apply_along_axis(m.sum, 0, v(np.zeros((0, 3)))),
    "histogramdd of nothing": lambda m, v: m.histogramdd(v(np.zeros((0, 2))), bins=([0, 1], [0, 1, 2]))[0],
    "histogramdd of empty lists": lambda m, v: m.histogramdd([[], []], bins=([0, 1], [0, 1, 2]))[0],
    "histogramdd of lists": lambda m, v: m.histogramdd([[0, 1, 1], [2, 2, 3]], bins=2)[0],
    "partition of nothing": lambda m, v: m.partition(v(np.zeros((3, 0))), 0),
    "argpartition of nothing": lambda m, v: m.argpartition(v(np.zeros(0)), [0, 1]),
    "interp of complex": lambda m, v: m.interp(v([0.5, 1.5, -1.0]), v([0.0, 1, 2]), v([1 + 1j, 2, 3j])),
    "interp of complex beyond": lambda m, v: m.interp(v([9.0, -1]), v([0.0, 1]), v([1j, 2]), 2j, 1),
    "interp of complex, periodic": lambda m, v: m.interp(v([9.0, -1]), v([0.0, 1]), v([1j, 2]), period=3),
    "std with a mean": lambda m, v: m.std(v(A), 1, mean=v(A.mean(1, keepdims=True)), ddof=1),
    "var with another mean": lambda m, v: m.var(v(A), 0, mean=v(A[:1])),
    "var, some, with a mean": lambda m, v: m.var(v(A), mean=v([[0.5]]), where=v(A > 0), keepdims=True),
    "var of complex with a mean": lambda m, v: m.var(
        v(A * 1j + 1), 0, mean=v((A * 1j + 1).mean(0, keepdims=True))
    ),
    "nanstd with a mean": lambda m, v: m.nanstd(v([[1, np.nan, 4.0]]), 1, mean=v([[2.5]])),
    "nanvar with a mean": lambda m, v: m.nanvar(v([[1, np.nan, 4.0]]), mean=v([[2.0]])),
    "method with a mean": lambda m, v: v(A).var(mean=v([[0.5]])) + v(A).std(mean=v([[0.5]])),
    "clip, cast": lambda m, v: m.clip(v(A), -1, 1, dtype=np.float32, casting="same_kind"),
    "clip, one bound, cast": lambda m, v: m.clip(v(np.arange(4)), None, 2, dtype=np.float64),
    "clip, bounds cast": lambda m, v: m.clip(v(np.arange(4)), 0.5, 2.5, dtype=np.int64, casting="unsafe"),
    "add, number cast": lambda m, v: m.add(v(np.arange(4)), 1.7, dtype=np.int32, casting="unsafe"),
    "power, number cast": lambda m, v: m.power(v(A), 2.7, dtype=np.int64, casting="unsafe"),
    "svd of symmetric matrices": lambda m, v: m.linalg.svd(
        v(A[:, :3] + A[:, :3].T), compute_uv=False, hermitian=True
    ),
    "fft along an axis twice": lambda m, v: m.fft.fftn(v(A), axes=(0, 0)),
    "fft along axes, one twice": lambda m, v: m.fft.ifftn(v(A), s=(4, 3, 5), axes=(1, 0, 1)),
    "rfft along an axis twice": lambda m, v: m.fft.rfftn(v(A), axes=(0, 1, 1)),
    "irfft along an axis twice": lambda m, v: m.fft.irfftn(v(A), axes=(0, 1, 0)),
    "histogram by the rule stone": lambda m, v: m.histogram(v(np.sort(A.reshape(-1))), "stone")[0],
    "histogram by the rule stone in a range": lambda m, v: m.histogram(v(A), "stone", (-1.0, 1.5))[0],
    "pad by means of nothing": lambda m, v: m.pad(v(A[0]), 1, "mean", stat_length=0),
    "isclose, arrays of tolerances": lambda m, v: m.isclose(
        v(A), v(A * 1.1), rtol=v([0.2, 0.01, 0.2, 0.05]), atol=0.0
    ),
    "isclose, a tolerance of float64": lambda m, v: m.isclose(
        v(np.ones(2, np.float32)), np.float32(0), atol=np.float64(1) - 2**-50
    ),
    **{
        f"{name}, an array as shape": lambda m, v, call=call: call(m, v(A), v([2, 6]))
        for name, call in {
            "zeros": lambda m, x, shape: m.zeros(shape),
            "ones": lambda m, x, shape: m.ones(np.asarray(shape)),
            "full": lambda m, x, shape: m.full(shape, 2.0),
            "reshape": lambda m, x, shape: x.reshape(shape),
            "broadcast_to": lambda m, x, shape: m.broadcast_to(x[0, 0], shape),
            "tile": lambda m, x, shape: m.tile(x, shape),
            "resize": lambda m, x, shape: m.resize(x, shape),
        }.items()
    },
    "block of numbers": lambda m, v: m.block([[1, v([2.0, 3.0])], [4, 5, 6]]),
    "moveaxis by ranges": lambda m, v: m.moveaxis(v(np.zeros((2, 3, 4))), range(2), range(1, 3)),
    **{
        f"{name}, a tolerance for each matrix, {kind.__name__}": lambda m, v, name=name, kind=kind: getattr(
            m.linalg, name
        )(v([np.diag([1.0, 0.1])] * 2), rtol=kind([0.5, 0.01]))
        for name in ("matrix_rank", "pinv")
        for kind in (list, np.asarray)
    },
    "isclose of lists": lambda m, v: m.isclose([1.0, 2.0], [1.0, 2.1]) & v([True, True]),
    "choose, weak numbers": lambda m, v: m.choose(v([1, 0]), (9, v(np.uint8([1, 2])))),
    "choose, several arguments": lambda m, v: v([1, 0]).choose(v([1, 2]), v([3, 4])),
    "arange by name": lambda m, v: m.arange(stop=3) + m.arange(start=1, stop=4) + v([0, 0, 0]),
    "sort by a name's first letter": lambda m, v: (
        m.sort(v([3, 1, 2]), kind="q") + m.argsort(v([3, 1, 2]), kind="M")
    ),
    "partition of a range": lambda m, v: m.partition(v([3, 1, 2]), range(3)),
    "rollaxis to the end": lambda m, v: m.rollaxis(v(np.zeros((2, 3, 4))), 0, 3),
    "rollaxis, negative": lambda m, v: m.rollaxis(v(np.zeros((2, 3, 4))), 2, -3),
    "bincount of an empty list": lambda m, v: m.bincount([], minlength=2) + v([0, 0]),
    "var of a number": lambda m, v: v([0.0]) + m.var(1 + 2j),
    "sort_complex": lambda m, v: m.sort_complex(v([3.0, 1.0])),
    "copyto where numbers": lambda m, v: _copied(m, v),
    **{
        f"quantile of weights, {name}": lambda m, v, name=name, q=q: getattr(m, name)(
            v([[1.0, np.nan, 4.0, 2.0], [np.nan] * 4]),
            [q * 0.2, q * 0.5, q],
            axis=1,
            weights=v([[1.0, 9.0, 1.0, 2.0]] * 2),
            method="inverted_cdf",
        )
        for name, q in (("nanquantile", 1), ("nanpercentile", 100))
    },
}


def _copied(m: Any, v: Any) -> Any:
    x = v(np.arange(3))
    m.copyto(x, 9, where=[1, 0, 2])
    return x


#: Calls that NumPy refuses too, by the error.
REFUSED: dict[str, tuple[type[Exception], Callable[[Any], Any]]] = {
    "pad: constant_values: no argument of mode 'edge'": (
        ValueError,
        lambda x: ck.pad(x, 1, "edge", constant_values=1),
    ),
    "pad: mode: expected a function": (ValueError, lambda x: ck.pad(x, 1, True)),
    "pad: stat_length: expected at least 1": (ValueError, lambda x: ck.pad(x, 0, "minimum", stat_length=0)),
    "sort: kind": (ValueError, lambda x: x.sort(kind="bogus")),
    "argsort: kind": (ValueError, lambda x: ck.argsort(x, kind="bogus")),
    "partition: kind": (ValueError, lambda x: x.partition(1, kind="stable")),
    "isin: kind": (ValueError, lambda x: ck.isin(x, x, kind="quick")),
    "einsum: casting": (ValueError, lambda x: ck.einsum("ij->i", x, casting="never")),
    "copyto: cannot cast 3 to uint8": (
        TypeError,
        lambda x: ck.copyto(ck.zeros(1, dtype="uint8"), 3, casting="equiv"),
    ),
    "two names of one argument": (ValueError, lambda x: ck.std(x, ddof=1, correction=0)),
    "arange: expected stop": (TypeError, lambda x: ck.arange()),
    "vectorize: pyfunc": (TypeError, lambda x: ck.vectorize(3)),
    "view: uint8 .* as float64: these are read at multiples of 8 bytes": (
        ValueError,
        lambda x: x.view("uint8").reshape(-1)[1:9].view("float64"),
    ),
    "axis 3 is out of bounds": (np.exceptions.AxisError, lambda x: ck.rollaxis(x, 0, 3)),
    "mean: expected shape": (ValueError, lambda x: ck.var(x, 0, mean=ck.mean(x, 0))),
    "insert: |shape mismatch|broadcast": (ValueError, lambda x: ck.insert(x[0], [1, 2], [1.0, 2.0, 3.0])),
}


@pytest.mark.parametrize("said", REFUSED)
def test_refused_calls(device: ck.Device, said: str) -> None:
    error, call = REFUSED[said]
    with pytest.raises(error, match=said):
        call(ck.asarray(A))


def test_products_written_to_out(device: ck.Device) -> None:
    x, y = ck.asarray(A), ck.asarray(A.T)
    for shape, call, expected in (
        ((3, 3), lambda out: ck.einsum("ij,jk->ik", x, y, out=out), A @ A.T),
        ((3, 3), lambda out: ck.linalg.multi_dot([x, y], out=out), A @ A.T),
        ((4, 3), lambda out: ck.outer(x[0], y[0], out), np.outer(A[0], A.T[0])),
        (
            (4,),
            lambda out: ck.choose(ck.asarray([0, 1, 0, 1]), [x[0], x[1]], out=out),
            np.choose([0, 1] * 2, A[:2]),
        ),
        ((3, 3), lambda out: np.einsum("ij,jk->ik", x, y, out=out), A @ A.T),
    ):
        out = ck.empty(shape, dtype="float64")
        assert call(out) is out
        assert_close(out, expected)
    with pytest.raises(TypeError, match="einsum: out"):
        ck.einsum("ij->i", x, out=ck.empty(3, dtype="int64"))
    assert ck.einsum("ij->i", x, out=ck.empty(3, dtype="int64"), casting="unsafe").dtype == ck.int64
    taken = np.empty((3, 3))
    assert np.einsum("ij,jk->ik", x, y, out=taken) is taken and np.allclose(taken, A @ A.T)


def test_decorators_and_shapes(device: ck.Device) -> None:
    @ck.vectorize(otypes=["float32"])
    def half(x: Any) -> Any:
        return x / 2

    assert half(ck.asarray([1, 3])).dtype == ck.float32
    assert ck.size(ck.ones((2, 3, 4)), (0, 2)) == 8 and ck.size(ck.ones((2, 3)), -1) == 3
    pair = ck.broadcast(ck.ones((3, 1)), ck.ones(2))
    assert pair.numiter == 2 and ck.broadcast(pair, ck.ones(2)).numiter == 3


@pytest.mark.filterwarnings(
    "ignore:All-NaN:RuntimeWarning",
    "ignore:invalid value:RuntimeWarning",
    "ignore:Mean of empty:RuntimeWarning",
)
@pytest.mark.parametrize("name", CALLS)
def test_calls(device: ck.Device, name: str) -> None:
    call = CALLS[name]
    got, expected = call(ck, ck.asarray), np.asarray(call(np, np.asarray))
    assert got.device is device and got.shape == expected.shape
    if expected.dtype.kind in "iu" or name.startswith("clip"):
        assert got.dtype == expected.dtype
    assert_close(got, expected.astype(got.dtype), rtol=1e-6, atol=1e-12)


def test_put_along_axis_of_broadcast_arrays(device: ck.Device) -> None:
    for shape, indices, values, axis in (
        ((3, 4), [[1]], [[5.0], [6.0], [7.0]], 1),
        ((3, 4), [[0, 2]], 9.0, 1),
        ((1, 4), [[0], [2], [2]], [[1.0], [2.0], [3.0]], 1),
        ((3, 4), [0, 11, 5], [1.0, 2.0, 3.0], None),
    ):
        expected = np.zeros(shape)
        np.put_along_axis(expected, np.asarray(indices), np.asarray(values), axis)
        x = ck.zeros(shape, dtype="float64")
        ck.put_along_axis(x, ck.asarray(indices), ck.asarray(values), axis)
        assert x.tolist() == expected.tolist()
    with pytest.raises(ValueError, match="indices: expected 2 axes"):
        ck.put_along_axis(x, ck.asarray([1]), 0.0, 1)


def test_results_written_to_out(device: ck.Device) -> None:
    x = ck.asarray(A)
    for name in ("median", "nanmedian"):
        out = ck.empty(4, dtype="float64")
        assert getattr(ck, name)(x, 0, out) is out
        assert_close(out, np.median(A, 0))
        assert np.median(x, axis=0, out=out) is out
    for name in ("fft", "ifft", "hfft", "fftn", "ifft2", "rfft", "irfft", "rfft2", "irfftn", "ihfft"):
        expected = getattr(np.fft, name)(A)
        out = ck.empty(expected.shape, dtype=expected.dtype)
        assert getattr(ck.fft, name)(x, out=out) is out
        assert_close(out, expected, rtol=1e-10, atol=1e-10)
        with pytest.raises((TypeError, ValueError), match=f"{name}: out"):
            getattr(ck.fft, name)(x, out=ck.empty(5, dtype=expected.dtype))


def test_hermitian_svd(device: ck.Device) -> None:
    matrix = A[:, :3] + A[:, :3].T
    u, s, vh = ck.linalg.svd(ck.asarray(matrix), hermitian=True)
    assert_close((u * s) @ vh, matrix, rtol=1e-10, atol=1e-10)
    assert_close(s, np.linalg.svd(matrix)[1], rtol=1e-10)
    gradcheck(lambda x: ck.linalg.svd(x + x.mT, hermitian=True)[1], (ck.asarray(A[:, :3]),))
    gradcheck(lambda x: ck.std(x, 0, mean=ck.mean(x, 0, keepdims=True)), (ck.asarray(A),), order=2)
    gradcheck(lambda x, i: ck.interp(i, ck.arange(4.0, dtype="float64"), ck.asarray(x * 1j + x * x)[0]).imag,
              (ck.asarray(A), ck.asarray([0.5, 2.2], dtype="float64")))  # fmt: skip


def test_dtypes(device: ck.Device) -> None:
    for name in ("float16", "float32", "float64"):
        ours, theirs = ck.finfo(name), np.finfo(name)
        for field in ("tiny", "smallest_subnormal", "smallest_normal", "epsneg", "resolution", "precision", "nmant",
                      "iexp", "machep", "negep", "minexp", "maxexp", "eps", "bits"):  # fmt: skip
            assert getattr(ours, field) == float(getattr(theirs, field)), field
    assert ck.finfo("bfloat16").tiny == 2.0**-126 and ck.finfo("bfloat16").smallest_subnormal == 2.0**-133
    kinds = ("int8", "uint8", "int64", "float32", "float64", "complex64")
    for casting in ("no", "equiv", "same_kind", "unsafe"):
        for source in kinds:
            for target in kinds:
                assert ck.can_cast(source, target, casting) == np.can_cast(source, target, casting)
    assert ck.can_cast(ck.ones(1), "float64") and not ck.can_cast("float64", "int8", casting="safe")
    with pytest.raises(ValueError, match="casting"):
        ck.can_cast("int8", "int8", "never")
    for name in ("bartlett", "blackman", "hamming", "hanning", "kaiser"):
        more = (14.0,) if name == "kaiser" else ()
        for dtype, rtol in (("float64", 1e-12), ("float16", 1e-3)):
            made = getattr(ck, name)(51, *more, dtype=dtype)
            assert made.dtype == dtype
            assert_close(
                made, getattr(np, name)(51, *more).astype(dtype), rtol=rtol, atol=1e-7 if more else rtol
            )
        with pytest.raises(TypeError, match="floating"):
            getattr(ck, name)(3, *more, dtype="int32")


def test_functions_of_python(device: ck.Device) -> None:
    assert list(ck.ndindex(2, 2)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert ck.s_[1:, ..., 2] == np.s_[1:, ..., 2] and ck.index_exp[1] == (1,)
    both = ck.frompyfunc(lambda x, y: (x + y, x > y), 2, 2)
    total, larger = both(ck.asarray([1, 5]), 3)
    assert (total.tolist(), larger.tolist()) == ([4, 8], [False, True])
    with pytest.raises(TypeError, match="expected 2 arguments, got 1"):
        both(ck.ones(1))
    with pytest.raises(ValueError, match="expected 1 results, got 2"):
        ck.frompyfunc(lambda x: (x, x), 1, 1)(ck.ones(1))
    operands = "ij,jk,kl->il", np.ones((2, 9)), np.ones((9, 9)), np.ones((9, 3))
    ours = [one if isinstance(one, str) else ck.asarray(one) for one in operands]
    assert ck.einsum_path(*ours) == np.einsum_path(*operands) == np.einsum_path(*ours)
    lists = A, [0, 1], A, [0, 2], [1, 2]
    assert ck.einsum_path(*lists)[0] == np.einsum_path(*lists)[0]
