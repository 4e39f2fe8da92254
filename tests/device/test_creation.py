"""Arrays made from nothing: NumPy's values and dtypes, grids of places, refusals."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cukern as ck
from cukern.array import creation
from cukern.ops import spaces

SMALL = st.integers(-5, 6)


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_every_dtype(device: ck.Device, dtype: Any) -> None:
    """What a GPU makes it casts by cukern's kernels."""
    for made, want in (
        (ck.arange(2, dtype=dtype), np.arange(2)),
        (ck.eye(3, 2, k=-1, dtype=dtype), np.eye(3, 2, k=-1)),
        (ck.tri(2, 3, 1, dtype), np.tri(2, 3, 1)),
        (ck.identity(2, dtype), np.identity(2)),
        (ck.indices((2, 2), dtype), np.indices((2, 2))),
        (ck.linspace(0, 1, 2, dtype=dtype), [0, 1]),
        (ck.full((1, 2), 1, dtype), [[1, 1]]),
        (ck.ones_like(ck.zeros(2), dtype=dtype), [1, 1]),
    ):
        assert made.dtype == dtype and made.device is device
        np.testing.assert_array_equal(made.numpy(), np.asarray(want).astype(dtype))


@given(start=SMALL, stop=SMALL, step=SMALL.filter(bool), scale=st.sampled_from([1, 0.5]))
def test_arange_is_numpys(device: ck.Device, start: int, stop: int, step: int, scale: float) -> None:
    numbers = [number * scale for number in (start, stop, step)]
    made = ck.arange(*numbers)
    assert made.dtype == (ck.int64 if scale == 1 else ck.float32)
    np.testing.assert_array_equal(made.numpy(), np.arange(*numbers))


def test_arange_of_bools_and_strides_of_nothing(device: ck.Device) -> None:
    assert ck.arange(2, dtype=bool).tolist() == ck.arange(0, 6, 3, dtype=bool).tolist() == [False, True]
    with pytest.raises(TypeError, match="arange: dtype: expected numbers"):
        ck.arange(3, dtype=bool)
    assert ck.empty((1, 0, 2)).strides == ck.zeros((1, 0, 2)).strides == (0, 0, 0)


def test_arange_of_large_integers(device: ck.Device) -> None:
    np.testing.assert_array_equal(
        ck.arange(2**63, 2**63 + 3, dtype="uint64").numpy(), 2**63 + np.arange(3, dtype="u8")
    )
    np.testing.assert_array_equal(ck.arange(2**61, 2**61 + 3).numpy(), 2**61 + np.arange(3))


@given(n=st.integers(0, 4), m=st.none() | st.integers(0, 4), k=SMALL)
def test_places_of_triangles(device: ck.Device, n: int, m: int | None, k: int) -> None:
    for name in ("tril_indices", "triu_indices"):
        want = getattr(np, name)(n, k, m)
        made = getattr(ck, name)(n, k, m)
        x = ck.zeros((n, n if m is None else m))
        for got, same, places in zip(made, getattr(ck, name + "_from")(x, k), want, strict=True):
            assert got.dtype == ck.int64 and got.device is device
            np.testing.assert_array_equal(got.numpy(), places)
            np.testing.assert_array_equal(same.numpy(), places)


def test_grids(device: ck.Device) -> None:
    for got, want in zip(ck.indices((2, 3), sparse=True), np.indices((2, 3), sparse=True), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(ck.indices((2, 0, 3)).numpy(), np.indices((2, 0, 3)))
    assert ck.indices(()).shape == np.indices(()).shape
    made = ck.fromfunction(lambda i, j, scale: i * scale + j, (2, 3), scale=10)
    np.testing.assert_array_equal(made.numpy(), np.fromfunction(lambda i, j: 10 * i + j, (2, 3)))
    x = ck.asarray(np.arange(9).reshape(3, 3))
    np.testing.assert_array_equal(x[ck.diag_indices(3)].numpy(), [0, 4, 8])
    np.testing.assert_array_equal(x[ck.diag_indices_from(x)].numpy(), [0, 4, 8])
    key: tuple[Any, ...] = ([0, 2], [False, True, True])
    np.testing.assert_array_equal(x[ck.ix_(*key)].numpy(), x.numpy()[np.ix_(*key)])
    assert x[ck.ix_([], [0])].shape == (0, 1)
    masked = ck.ix_(ck.asarray([True, False, True]), ck.asarray([1]))
    np.testing.assert_array_equal(x[masked].numpy(), [[1], [7]])


def test_axes_of_copies(device: ck.Device) -> None:
    assert ck.array(3, ndmin=2).shape == (1, 1)
    assert ck.array([[1]], ndmin=1).shape == (1, 1)
    x = ck.asarray(np.arange(6.0).reshape(2, 3))
    assert ck.ascontiguousarray(x) is x and ck.ascontiguousarray(x.T).is_contiguous
    assert ck.ascontiguousarray(3.0).shape == (1,)
    assert ck.array(x, copy=None) is x


def test_spaces_are_numpys(device: ck.Device) -> None:
    for ours, numpys, args in (
        (ck.linspace, np.linspace, (0, 5)),
        (ck.logspace, np.logspace, (0, 3)),
        (ck.geomspace, np.geomspace, (1, 1000)),
    ):
        for options in ({}, {"num": 4}, {"num": 0}, {"num": 5, "endpoint": False}):
            made = ours(*args, **options)
            np.testing.assert_allclose(made.numpy(), numpys(*args, **options), rtol=2e-6)
            assert made.dtype == ck.float32


def test_spaces_of_complex_ends_are_numpys(device: ck.Device) -> None:
    """Of numbers, and of arrays, which another path computes."""
    for name, start, stop, options in (
        ("linspace", 1 + 2j, 3 + 4j, {}),
        ("linspace", 0, np.complex64(1j), {"endpoint": False}),
        ("geomspace", 1j, 1000j, {}),
        ("geomspace", 1 + 0j, -1, {}),
        ("geomspace", 1, -1, {"dtype": "complex128"}),
        ("logspace", 0, 1j, {}),
        ("logspace", 0, 2, {"base": 2j}),
    ):
        wanted = getattr(np, name)(start, stop, 4, **options)
        arrays = ck.asarray([start]), ck.asarray([stop])
        for ends in ((start, stop), arrays, (arrays[0], stop)):
            made = getattr(ck, name)(*ends, 4, **options)
            assert made.dtype == options.get("dtype", "complex64")
            np.testing.assert_allclose(made.numpy().reshape(-1), wanted, rtol=2e-6, atol=1e-6)
    step = ck.linspace(1 + 2j, 3 + 4j, 3, retstep=True)[1]
    assert step == 1 + 1j
    assert ck.linspace(np.array([1j]), 3, 2).dtype == ck.complex128
    slope = ck.grad(lambda z: ck.real(ck.linspace(z, 3 + 4j, 3)).sum())(ck.asarray(1 + 2j))
    assert slope.item() == 1.5
    for end in (1j, ck.asarray(1j)):
        for function in (ck.linspace, ck.logspace, ck.geomspace):
            with pytest.raises(
                TypeError, match=r"space: dtype: expected a complex one for complex ends, got float32"
            ):
                function(end, 2, 3, dtype="float32")


def test_numbers_of_a_complex_range_are_numpys(device: ck.Device) -> None:
    for numbers in ((0, 3j, 1j), (0, 3 + 3j, 1 + 1j), (0, 3 + 1j, 1), (0, 3 + 3j, 0.5 + 1j), (0, -3j, -1j)):
        made = ck.arange(*numbers)
        np.testing.assert_array_equal(made.numpy(), np.arange(*numbers))
        assert made.dtype == ck.complex64


def test_grids_of_complex_scalars(device: ck.Device) -> None:
    """An imaginary step is a count, also NumPy's complex64, which is no complex number of Python's."""
    for count in (5j, np.complex128(5j), np.complex64(5j)):
        for name in ("r_", "ogrid", "mgrid"):
            np.testing.assert_allclose(getattr(ck, name)[0:36:count].numpy(), getattr(np, name)[0:36:5j])
        assert ck.mgrid[0:36:count, 0:2:3j].shape == (2, 5, 3)
    np.testing.assert_allclose(ck.r_[0 : 1 + 1j : 3j].numpy(), np.r_[0 : 1 + 1j : 3j])


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "complex data": (
        lambda: ck.asarray([1j], "float32"),
        TypeError,
        "complex numbers, which float32 does not",
    ),
    "complex array": (lambda: ck.asarray(np.zeros(2, "c8"), "int8"), TypeError, "drop the imaginary part"),
    "complex dtype": (
        lambda: ck.zeros(2, "complex64").astype("float64"),
        TypeError,
        "drop the imaginary part",
    ),
    "complex fill": (lambda: ck.full_like(ck.zeros(2), 1j), TypeError, "drop the imaginary part"),
    "complex item": (lambda: ck.zeros(2).__setitem__(0, 1j), TypeError, "expected a real number for float32"),
    "complex part": (
        lambda: ck.zeros(2).__setitem__(0, ck.asarray(1j)),
        TypeError,
        "drop the imaginary part",
    ),
    "complex sum": (
        lambda: ck.sum(ck.asarray([1j]), dtype="float32"),
        TypeError,
        "sum: .*the imaginary part",
    ),
    "complex float": (lambda: float(ck.asarray(1j)), TypeError, "does not become a float"),
    "complex in place": (lambda: ck.zeros(2).__iadd__(1j), TypeError, "complex64 cannot be written"),
    "complex floor": (
        lambda: ck.floor(ck.asarray(1j)),
        TypeError,
        "floor: expected any real dtype, got complex64",
    ),
    "diagonal": (lambda: ck.diag_indices_from(ck.zeros((2, 3))), ValueError, "two equal axes at least"),
    "triangle": (lambda: ck.tril_indices_from(ck.zeros(2)), ValueError, "expected two axes"),
    "crossed": (lambda: ck.ix_([[1]]), ValueError, r"arrays\[0\]: expected one axis"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals(device: ck.Device, case: Any) -> None:
    function, error, message = case
    with pytest.raises(error, match=message):
        function()


def test_copies_and_lists_of_tracked_arrays_are_differentiable(device):
    x = ck.asarray(np.asarray([1.0, 2.0, 3.0]))
    for copied in (
        ck.array,
        copy.copy,
        copy.deepcopy,
        lambda x: copy.deepcopy({"a": [x]})["a"][0],
        lambda x: ck.asarray(x, copy=True),
        ck.from_dlpack,
        lambda x: ck.array([[x[0], 2], [1.5, x[2]]]),
        lambda x: ck.asarray((x, [x[1], 1.0, np.float64(2)])),
    ):
        assert ck.testing.gradcheck(lambda x, copied=copied: copied(x) ** 2, [x], order=2)
    y = ck.from_dlpack(x)
    y[0] = 5.0
    assert x[0].item() == 5.0


def test_lists_of_tracked_arrays_as_other_functions_take_them(device):
    x = ck.asarray(np.asarray([1.0, 2.0]))
    assert ck.testing.gradcheck(lambda x: np.add.outer(x, [x[0], 1.0]) ** 2, [x])
    assert ck.testing.gradcheck(lambda x: x.at[:].multiply([x[1], 3.0]), [x])
    with ck.Tape() as tape:
        tape.watch(x)
        y = ck.zeros(2)
        for key in (slice(None), [0, 1], ([0, 1],)):
            with pytest.raises(ck.GradientError, match="x.at"):
                y[key] = [x[0], 1.0]


def test_lists_of_arrays_have_the_dtype_that_they_promote_to(device):
    x = ck.asarray([1.0, 2.0])
    for values in ([x, [1.5, 2]], [x[0], 1.0], [[x, x], [x, [True, 3]]]):
        with ck.Tape() as tape:
            untracked = ck.asarray(values)
            tape.watch(x)
            tracked = ck.asarray(values)
        assert untracked.dtype == tracked.dtype == ck.float32
        assert untracked.tolist() == tracked.tolist()
    assert ck.asarray([ck.asarray(2, dtype="int8"), 3]).dtype == ck.int8
    assert ck.asarray([x, x], dtype="float16").dtype == ck.float16
    with ck.Tape() as tape:
        tape.watch(x)
        with pytest.raises(ValueError, match=r"of one shape in a list, got shapes \(2,\), \(\)"):
            ck.asarray([x, x[0]])
        with pytest.raises(ValueError, match="copy: a copy is needed"):
            ck.asarray([x, x], copy=False)
        assert ck.asarray([x, x[:0].sum() + x]).shape == (2, 2)


def test_a_copy_of_a_parameter(device):
    p = ck.nn.Parameter([1.0, 2.0])
    with ck.Tape() as tape:
        loss = ck.sum(ck.array(p) * ck.asarray(p, copy=True))
        apart = copy.deepcopy(p)
        assert type(apart) is ck.nn.Parameter and type(ck.array(p)) is ck.Array
        other = ck.sum(apart * 3.0)
    assert tape.gradient([loss, other], [p, apart])[0].tolist() == [2.0, 4.0]


def test_full_of_an_array(device):
    fill = np.asarray([1.5, 2.5, 3.5])
    made = ck.full((2, 3), ck.asarray(fill))
    np.testing.assert_array_equal(made.numpy(), np.full((2, 3), fill))
    assert made.dtype == ck.float64 and made.is_contiguous
    made[0, 0] = 7.0
    assert made.numpy()[1, 0] == 1.5
    assert ck.full((3,), [1.5, 2.5, 3.5]).tolist() == fill.tolist()
    assert ck.full_like(ck.zeros((2, 3), dtype="int32"), ck.asarray(fill)).tolist() == [[1, 2, 3]] * 2
    assert ck.full((), ck.asarray(2.0)).item() == 2.0
    assert ck.full((0, 3), ck.asarray(fill)).shape == (0, 3)
    with pytest.raises(ValueError, match="broadcast"):
        ck.full((2, 2), ck.asarray(fill))


SPACES = [
    ("linspace", (0.5, 2.0), {}),
    ("linspace", ([0.0, 1.0], [3.0, -1.0]), {"axis": 1}),
    ("linspace", ([[0.0], [1.0]], [3.0, -1.0]), {"axis": -1, "endpoint": False}),
    ("linspace", ([0.0, 1.0], 2.5), {"dtype": "int64"}),
    ("logspace", (0.5, 2.0), {"base": 2.0}),
    ("logspace", ([0.5, 1.0], [2.0, 3.0]), {"base": [2.0, 10.0], "axis": 1}),
    ("logspace", ([0.5, 1.0], 2.0), {"endpoint": False}),
    ("geomspace", (1.0, 256.0), {}),
    ("geomspace", ([1.0, -2.0], [256.0, -32.0]), {"axis": -1}),
    ("geomspace", ([1.0, 2.0], 32.0), {"endpoint": False}),
]


@pytest.mark.parametrize(("name", "ends", "options"), SPACES)
@pytest.mark.parametrize("num", [0, 1, 2, 5])
def test_spaces_of_arrays(device, name, ends, options, num):
    want = getattr(np, name)(*map(np.asarray, ends), num, **options)
    given = [
        {k: ck.asarray(np.asarray(v)) if k == "base" and wrap else v for k, v in options.items()}
        for wrap in (0, 1)
    ]
    made = [
        getattr(ck, name)(*(ck.asarray(np.asarray(end)) for end in ends), num, **given[1]),
        getattr(ck, name)(*map(np.asarray, ends), num, **given[0]),
    ]
    dtype = ck.int64 if "dtype" in options else ck.float64
    assert made[0].dtype == dtype
    for one in made:
        assert one.shape == want.shape
        np.testing.assert_allclose(one.numpy(), want, rtol=1e-14 if one.dtype == ck.float64 else 1e-6)
    assert (
        getattr(np, name)(*(ck.asarray(np.asarray(end)) for end in ends), num, **given[1]).shape == want.shape
    )


def test_the_steps_and_dtypes_of_spaces(device):
    samples, step = ck.linspace(0, 1, 5, retstep=True)
    assert step == 0.25 and samples.dtype == ck.float32
    low, high = ck.asarray([0.0, 1.0]), ck.asarray([1.0, 5.0])
    samples, step = ck.linspace(low, high, 5, retstep=True)
    assert samples.dtype == ck.float32 and step.tolist() == [0.25, 1.0] and step.dtype == ck.float32
    assert np.isnan(ck.linspace(low, high, 1, retstep=True)[1].numpy()).all()
    assert ck.linspace(low.astype("float16"), 1, 3).dtype == ck.float16
    assert ck.linspace(ck.asarray([0, 1]), 4, 3).dtype == ck.float32
    assert ck.linspace([0.0, 1.0], 4, 3).dtype == ck.float32
    assert ck.linspace(ck.asarray(-3.4e38), ck.asarray(3.4e38), 3).tolist()[1] == 0.0
    assert ck.linspace([low[0], 1.0], 4, 3).shape == (3, 2)
    with pytest.raises(ValueError, match="num: expected at least 0"):
        ck.linspace(low, high, -1)
    with pytest.raises(ValueError, match="broadcast"):
        ck.linspace(ck.zeros(2), ck.zeros(3), 3)
    if device.kind == "host":
        with pytest.raises(ValueError, match="geomspace: start, stop"):
            ck.geomspace(low, high, 3)


def test_arange_of_arrays(device):
    start = ck.asarray(np.asarray(0.5))
    for args in (
        (start, 2.25, 0.5),
        (start,),
        (ck.asarray(1), ck.asarray(7), ck.asarray(2)),
        (0.0, start, 0.25),
    ):
        want = np.arange(*(a.numpy() if isinstance(a, ck.Array) else a for a in args))
        np.testing.assert_allclose(ck.arange(*args).numpy(), want)
        with ck.Tape() as tape:
            tape.watch(start)
            np.testing.assert_allclose(ck.arange(*args).numpy(), want)


def test_spaces_between_numbers_are_as_numpys_where_a_gpu_computes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spaces, "_made_there", lambda *given: True)
    for name, ends in (("linspace", (-1, 2.5)), ("logspace", (-1, 2.5)), ("geomspace", (-2.0, -0.5))):
        for endpoint in (True, False):
            want = getattr(np, name)(*ends, 7, endpoint=endpoint)
            for dtype, tolerance in (("float64", 1e-14), ("float32", 6e-8)):
                made = getattr(ck, name)(*ends, 7, endpoint=endpoint, dtype=dtype).numpy()
                np.testing.assert_allclose(made, want, rtol=tolerance)


@pytest.mark.parametrize("n, m, k", [(3, 4, 0), (4, 3, -1), (0, 3, 0), (3, 3, -7), (2, 0, 0)])
def test_triangles_by_a_comparison(device: ck.Device, n: int, m: int, k: int) -> None:
    np.testing.assert_array_equal(creation._triangle(n, m, k, device), np.tri(n, m, k, dtype=bool))


#: Wrong arguments of a function between 1 and 2, and what its error says.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"start": "one"}, "start: expected a number or an array, got 'one'"),
    ({"stop": None}, "stop: expected a number or an array, got None"),
    ({"num": 2.5}, "num: expected an int, got 2.5"),
    ({"num": True}, "num: expected an int, got True"),
    ({"num": -1}, "num: expected at least 0, got -1"),
    ({"axis": 1}, "axis 1 is out of bounds for an array with 1 axes"),
    ({"start": np.ones(2), "stop": np.ones(3)}, "shapes (2,), (3,)"),
]


@pytest.mark.parametrize("name", ["linspace", "logspace", "geomspace"])
def test_wrong_arguments_of_spaces(name: str) -> None:
    for wrong, message in WRONG:
        with pytest.raises((TypeError, ValueError, IndexError), match=f"^{re.escape(f'{name}: {message}')}"):
            getattr(ck, name)(**{"start": 1.0, "stop": 2.0, **wrong})
