"""The fft module: values as NumPy's, and derivatives."""

from __future__ import annotations

import itertools
import math
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cukern as ck
from cukern import fft
from cukern.array.layout import address
from cukern.cache import Cache
from cukern.device.cuda import cufft
from cukern.testing import assert_close, gradcheck


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_frequencies(device: ck.Device, n: int) -> None:
    for ours, theirs in ((ck.fft.fftfreq, np.fft.fftfreq), (ck.fft.rfftfreq, np.fft.rfftfreq)):
        made = ours(n, d=0.25)
        assert made.dtype == ck.float32
        assert made.device == device
        assert_close(made, theirs(n, 0.25))
        assert_close(ours(n, dtype=ck.float64), theirs(n))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.data())
def test_shifts_are_numpys(shape: list[int], data: st.DataObject) -> None:
    every = range(-len(shape), len(shape))
    axes = data.draw(
        st.none() | st.sampled_from(every) | st.lists(st.sampled_from(range(len(shape))), unique=True)
    )
    axes = tuple(axes) if isinstance(axes, list) else axes
    x = np.arange(np.prod(shape)).reshape(shape)
    there = ck.fft.fftshift(ck.asarray(x), axes=axes)
    np.testing.assert_array_equal(there.numpy(), np.fft.fftshift(x, axes))
    np.testing.assert_array_equal(
        ck.fft.ifftshift(ck.asarray(x), axes=axes).numpy(), np.fft.ifftshift(x, axes)
    )
    np.testing.assert_array_equal(ck.fft.ifftshift(there, axes=axes).numpy(), x)


def test_gradients(device: ck.Device) -> None:
    assert gradcheck(
        lambda x: ck.fft.fftshift(x * x, axes=1),
        [ck.asarray(np.random.default_rng(0).random((2, 5)))],
        order=2,
    )


def _values(shape: tuple[int, ...], real: bool = False) -> np.ndarray:
    rng = np.random.default_rng(len(shape))
    return rng.normal(size=shape) if real else rng.normal(size=shape) + 1j * rng.normal(size=shape)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward", None])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms_along_an_axis(device: ck.Device, name: str, norm: Any) -> None:
    x = _values((4, 5), name in ("rfft", "ihfft"))
    for n in (None, 1, 3, 8):
        for axis in (-1, 0):
            got = getattr(ck.fft, name)(ck.asarray(x), n, axis, norm)
            assert_close(got, getattr(np.fft, name)(x, n, axis, norm), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"])
def test_transforms_along_axes(device: ck.Device, name: str) -> None:
    x = _values((2, 3, 4), name.startswith("r"))
    places: Any = ((None, None), ((3, 4), (0, 2)), ((-1, 3), (1, 0)), ((2, 5), (-2, -1)))
    for s, axes in places if name.endswith("n") else places[1:]:
        for norm in ("backward", "ortho", "forward"):
            got = getattr(ck.fft, name)(ck.asarray(x), s, axes, norm)
            assert_close(got, getattr(np.fft, name)(x, s, axes, norm), rtol=1e-12, atol=1e-12)


def test_a_size_of_none_is_that_of_the_axis(device: ck.Device) -> None:
    a = np.random.default_rng(0).standard_normal((3, 4))
    made = ck.fft.fftn(ck.asarray(a), s=(None, 5), axes=(0, 1))
    assert_close(made, np.fft.fftn(a, s=(3, 5), axes=(0, 1)), rtol=1e-12)


def test_dtypes_and_layouts(device: ck.Device) -> None:
    x = _values((6, 4))
    for dtype, want in (
        ("float16", "complex64"),
        ("int8", "complex64"),
        ("float64", "complex128"),
        ("complex64",) * 2,
    ):
        made = ck.fft.fft(
            ck.asarray(x).real.astype(dtype) if dtype != "complex64" else ck.asarray(x).astype(dtype)
        )
        assert made.dtype == getattr(ck, want)
    assert ck.fft.irfft(ck.asarray(x.astype("c8"))).dtype == ck.float32
    assert_close(ck.fft.fft(ck.asarray(x)[::2].T), np.fft.fft(x[::2].T))
    assert ck.fft.rfft(ck.zeros((0, 4))).shape == (0, 3)
    given = ck.asarray(x)
    ck.fft.ifftn(given)
    assert_close(given, x, rtol=0, atol=0)


def test_gradients_of_transforms(device: ck.Device) -> None:
    def along(z: Any, x: Any) -> list[Any]:
        forth = [
            ck.fft.fft(z, 5),
            ck.fft.ifft(z, norm="ortho"),
            ck.fft.fft(x),
            ck.fft.rfft(x),
            ck.fft.rfft(x, 4),
        ]
        back = [
            ck.fft.irfft(z, 5),
            ck.fft.irfft(z, norm="forward"),
            ck.fft.hfft(z, norm="ortho"),
            ck.fft.ihfft(x),
        ]
        return forth + back

    def several(z: Any, x: Any) -> list[Any]:
        return [ck.fft.fftn(z), ck.fft.irfftn(z), ck.fft.rfftn(x), ck.fft.ifft2(x)]

    for function, width in ((along, 4), (several, 3)):
        z, x = _values((2, width)), _values((2, width + 1), real=True)
        assert gradcheck(function, [ck.asarray(z), ck.asarray(x)], order=2)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "complex": (lambda: ck.fft.rfft(ck.ones(3, "complex64")), TypeError, "rfft: x: expected real numbers"),
    "norm": (lambda: ck.fft.fft(ck.ones(3), norm="no"), ValueError, "fft: norm: expected 'backward'"),
    "n": (lambda: ck.fft.irfft(ck.ones(1)), ValueError, "irfft: n: expected at least 1 sample, got 0"),
    "s": (
        lambda: ck.fft.fftn(ck.ones((2, 2)), s=(2,), axes=(0, 1)),
        ValueError,
        "fftn: s: expected a number",
    ),
    "axis": (lambda: ck.fft.fft(ck.ones(3), axis=1), ValueError, "fft: axis 1 is out of bounds"),
    "no axis": (lambda: ck.fft.rfftn(ck.ones(())), ValueError, "rfftn: axes: expected at least one"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_transforms(device: ck.Device, case: str) -> None:
    call, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        call()


def test_refusals(device: ck.Device) -> None:
    with pytest.raises(TypeError, match="floating dtype"):
        ck.fft.fftfreq(4, dtype=ck.int32)
    for frequencies in (ck.fft.fftfreq, ck.fft.rfftfreq):
        with pytest.raises(ValueError, match="n: expected at least 1, got 0"):
            frequencies(0)
    with pytest.raises(np.exceptions.AxisError):
        ck.fft.fftshift(ck.ones(3), axes=1)
    with pytest.raises(TypeError, match=r"expected an array, a number or nested lists of them"):
        ck.fft.fftshift("12")  # type: ignore[arg-type]


def test_spacing_by_position(device: ck.Device) -> None:
    for name in ("fftfreq", "rfftfreq"):
        made = getattr(ck.fft, name)(5, 0.1, dtype="float64")
        np.testing.assert_array_equal(made.numpy(), getattr(np.fft, name)(5, 0.1))


def test_several_axes_of_which_one_is_too_long() -> None:
    """Their sizes alone are looked at, before anything is allocated."""
    x = ck.zeros((2, 2), "complex64")
    with pytest.raises(
        ValueError, match=r"fftn: x: expected at most 2147483647 elements along each of several axes"
    ):
        fft._of_long_axis(x, "fftn", (2, 2**31), (0, 1), x.dtype)


#: Functions, and whether they take real numbers.
_ALL = {
    "rfft": True,
    "ihfft": True,
    "rfftn": True,
    "rfft2": True,
    "fft": True,
    "irfft": False,
    "hfft": False,
    "irfftn": False,
}


@pytest.mark.parametrize("real", ["float32", "float64"])
def test_transforms_of_memory_at_odd_addresses(device: ck.Device, real: str) -> None:
    """Real numbers, and on the host complex ones, at an address that is no multiple of a complex number's size."""
    numbers = _values((41,), real=True).astype(real)
    memory = ck.asarray(numbers)
    for name, takes_real in _ALL.items():
        if not takes_real and device.kind != "host":  # GPUs read no complex numbers there
            continue
        for count in (10, 9) if takes_real else (20,):
            x, given = memory[1 : 4 * count + 1], numbers[1 : 4 * count + 1]
            if not takes_real:
                x, given = x.view(ck.dtypes.complex_of(x.dtype)), given.view(np.result_type(given, 1j))
            x, given = x.reshape(4, -1), given.reshape(4, -1)
            assert_close(getattr(ck.fft, name)(x), getattr(np.fft, name)(given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["rfftn", "fftn", "irfftn"])
def test_cufft_is_given_addresses_of_complex_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NumPy's functions in the place of cuFFT's."""
    function = getattr(np.fft, name)

    def checked(data: Any, **options: Any) -> Any:
        assert address(data) % 16 == 0
        return function(data, **options)

    monkeypatch.setattr(np.fft, name, checked)
    with ck.device("host"):
        x = ck.asarray(_values((9,), real=True))[1:]
        if name != "rfftn":
            x = x.view("complex128")
    assert address(x._data) % 16
    shape = {"rfftn": (5,), "fftn": (4,), "irfftn": (6,)}[name]
    dtype = ck.float64 if name == "irfftn" else ck.complex128
    made = fft._by_cufft(x, fft._Transform(name, shape, dtype, (0,), "backward"))
    assert_close(made, function(x.numpy()), rtol=1e-12, atol=1e-12)


class _Plan:
    """CuPy's ``PlanNd``, computed by NumPy from what the sizes say of memory."""

    made: ClassVar[list[_Plan]] = []

    def __init__(self, sizes: Any, inner: Any, *rest: Any) -> None:
        self.sizes, self.inner = sizes, inner
        step, self.apart, self.outer, to_step, self.to_apart, self.kind, self.batch, *_ = rest
        assert step == to_step == 1
        _Plan.made.append(self)

    def fft(self, x: Any, out: Any, direction: int) -> None:
        axes, n = tuple(range(-len(self.sizes), 0)), math.prod(self.sizes)
        rows = x.ravel()[: self.batch * self.apart].reshape(self.batch, *self.inner)
        if x.dtype.kind == "f":
            made = np.fft.rfftn(rows, axes=axes)
        elif out.dtype.kind == "f":
            made = n * np.fft.irfftn(rows, s=self.sizes, axes=axes)
        else:
            made = np.fft.fftn(rows, axes=axes) if direction < 0 else n * np.fft.ifftn(rows, axes=axes)
        assert made.shape == (self.batch, *self.outer) and self.to_apart * self.batch == out.size
        out[...] = made.reshape(out.shape)
        if out.dtype.kind == "f":
            x[...] = np.nan  # as cuFFT may


@pytest.mark.parametrize("name", ["rfftn", "fftn", "ifftn", "irfftn"])
@pytest.mark.parametrize("axes", [(1,), (2,), (1, 2), (2, 1), (0, 1, 2)], ids=str)
@pytest.mark.unchecked_only("NumPy stands in for cuFFT, and its writes are not seen")
def test_plans_of_cufft(name: str, axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """With NumPy in the place of cuFFT, on the host."""
    current = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=0))
    current.runtime = SimpleNamespace(getDevice=lambda: 0)
    transform = partial(cufft.transform, SimpleNamespace(cuda=current))
    monkeypatch.setitem(sys.modules, "cupy.cuda.cufft", SimpleNamespace(PlanNd=_Plan))
    for module, key, value in (
        (cufft, "_thread", cufft._Thread()),
        (cufft, "plans", lambda xp: True),
        (cufft, "transform", lambda xp, *given: transform(*given)),
        (fft, "_planned", Cache()),
        (_Plan, "made", []),
    ):
        monkeypatch.setattr(module, key, value)
    halved = "rfft" in name
    for turned, norm in itertools.product((False, True)[: 1 + halved], ("backward", "ortho", "forward")):
        x = _values((3, 4, 6), real=name == "rfftn")
        given = x.conj() if turned and name == "irfftn" else x
        wanted = getattr(np.fft, name)(given, axes=axes, norm=norm)
        wanted = wanted.conj() if turned and name == "rfftn" else wanted
        operand = ck.asarray(x, device="host")
        dtype = ck.dtypes.as_dtype(wanted.dtype)
        made = fft._by_cufft(operand, fft._Transform(name, wanted.shape, dtype, axes, norm, turned))
        assert_close(made, wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(operand.numpy(), x)
    planned = axes[-1] == 2 or (not halved and axes == (2, 1))
    assert len(_Plan.made) == planned


def test_numbers_that_are_no_integers_are_refused_again(device: ck.Device) -> None:
    x = ck.ones((2, 4), dtype="complex64")
    ck.fft.fft(x, 1, 0), ck.fft.fftn(x, (1, 1))
    for call in (
        lambda: ck.fft.fft(x, 1.0, 0),
        lambda: ck.fft.fft(x, 1, 0.0),
        lambda: ck.fft.fftn(x, (1.0, 1)),
    ):
        with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
            call()
