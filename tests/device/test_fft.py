"""The fft module: frequencies and shifts as NumPy's, transforms refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cukern as ck
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


TRANSFORMS = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft".split()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_refused(device: ck.Device, name: str) -> None:
    transform: Any = getattr(ck.fft, name)
    with pytest.raises(TypeError, match=f"{name}: .*no complex dtype"):
        transform(ck.ones(4))


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
