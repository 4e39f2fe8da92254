"""Dtypes asked for: limits, kinds, promotion, what the namespace says of itself."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from dtype_rule import ruled
from hypothesis import given
from hypothesis import strategies as st

import cukern as ck
from cukern import dtypes
from cukern.array.layout import fresh_layout

ANY = st.sampled_from(dtypes.ALL)
SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


def name(dtype: Any) -> str:
    return dtypes.info(dtype).name


@pytest.mark.parametrize("dtype", dtypes.INEXACT, ids=name)
def test_limits_of_floats(dtype: Any) -> None:
    part = dtypes.info(dtype).real
    found, want = ck.finfo(dtype), ml_dtypes.finfo(part)
    assert found == ck.finfo(ck.zeros(1, dtype, device="host")) and found.dtype == part
    for attribute in ("bits", "eps", "max", "min", "smallest_normal"):
        value = getattr(found, attribute)
        assert type(value) is (int if attribute == "bits" else float)
        assert value == float(getattr(want, attribute))
    with pytest.raises(ValueError, match="expected an integer dtype"):
        ck.iinfo(dtype)


@pytest.mark.parametrize("dtype", dtypes.INTS, ids=name)
def test_limits_of_integers(dtype: Any) -> None:
    found, want = ck.iinfo(dtype), np.iinfo(dtype)
    assert (found.bits, found.max, found.min, found.dtype) == (want.bits, want.max, want.min, dtype)
    with pytest.raises(ValueError, match="expected a floating or complex dtype"):
        ck.finfo(dtype)


KINDS = {
    "bool": {"bool"},
    "signed integer": {"int8", "int16", "int32", "int64"},
    "unsigned integer": {"uint8", "uint16", "uint32", "uint64"},
    "real floating": {"float16", "bfloat16", "float32", "float64"},
    "complex floating": {"complex64", "complex128"},
}
KINDS["integral"] = KINDS["signed integer"] | KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] | KINDS["real floating"] | KINDS["complex floating"]


def test_kinds() -> None:
    for kind, members in KINDS.items():
        assert {name(d) for d in dtypes.ALL if ck.isdtype(d, kind)} == members
        assert {name(d) for d in dtypes.ALL if ck.isdtype(d, ("bool", kind))} == members | {"bool"}
    assert ck.isdtype(ck.int8, ck.int8) and not ck.isdtype(ck.int8, ck.int16)
    assert not ck.isdtype(ck.int8, ())
    with pytest.raises(ValueError, match="expected a dtype or one of bool"):
        ck.isdtype(ck.int8, "decimal")
    with pytest.raises(TypeError, match="is not a dtype"):
        ck.isdtype("text", "bool")


def test_bool_has_two_names() -> None:
    assert ck.bool is ck.bool_ and "bool" in ck.__all__


@given(a=ANY, b=ANY, c=ANY)
def test_promotion(a: Any, b: Any, c: Any) -> None:
    both = ck.promote_types(a, b)
    assert both == ck.promote_types(b, a) == ck.result_type(a, b)
    assert both == (ck.zeros(1, a, "host") + ck.zeros(1, b, "host")).dtype
    assert ck.result_type(a, a) == a
    if ck.bfloat16 not in (a, b):
        assert both == ruled(np.promote_types(a, b), a, b)
        assert ck.can_cast(a, b) == (both == b)
    assert ck.can_cast(a, both) and ck.can_cast(ck.zeros(1, b, "host"), both)
    assert ck.result_type(a, b, c) == ck.result_type(b, a, c) == ck.result_type(c, b, a)


@given(dtype=ANY, number=st.sampled_from([True, 3, 2.5, 1j]))
def test_promotion_with_numbers_is_that_of_operations(dtype: Any, number: Any) -> None:
    x = ck.ones(2, dtype, "host")
    assert ck.result_type(x, number) == ck.result_type(dtype, number) == ck.where(x == 1, x, number).dtype


def test_astype_moves_between_devices(device: ck.Device) -> None:
    x = ck.ones(3)
    made = ck.astype(x, "float64", device="host")
    assert made.dtype == ck.float64 and made.device is ck.Device("host")
    assert ck.astype(x, "float32", copy=False) is x
    assert ck.astype(x, "float32") is not x


def test_what_the_namespace_says_of_itself(device: ck.Device) -> None:
    assert ck.__array_api_version__ == "2025.12"
    assert (ck.e, ck.pi, ck.inf, ck.newaxis) == (math.e, math.pi, math.inf, None) and math.isnan(ck.nan)
    info = ck.__array_namespace_info__()
    assert info.default_device() is device and device in info.devices()
    assert info.capabilities()["boolean indexing"] is True
    made = {
        "real floating": ck.asarray(1.0),
        "complex floating": ck.asarray(1j),
        "integral": ck.asarray(1),
        "indexing": ck.argmax(ck.ones(1)),
    }
    assert info.default_dtypes(device=device) == {kind: x.dtype for kind, x in made.items()}
    assert set(info.dtypes()) == set(map(name, dtypes.ALL)) - {"float16", "bfloat16"}
    two = info.dtypes(kind=("bool", "unsigned integer"), device=device)
    assert set(two) == KINDS["unsigned integer"] | {"bool"}
    assert set(info.dtypes(kind="complex floating")) == KINDS["complex floating"]
    for name_, dtype in info.dtypes().items():
        assert getattr(ck, name_) == dtype


@given(shapes=st.lists(SHAPES, min_size=1, max_size=3))
def test_broadcast_shapes(shapes: list[tuple[int, ...]]) -> None:
    try:
        want = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ValueError, match="do not broadcast"):
            ck.broadcast_shapes(*shapes)
    else:
        assert ck.broadcast_shapes(*shapes) == want


def test_shapes_of_arrays(device: ck.Device) -> None:
    x = ck.zeros((2, 3))
    assert (ck.shape(x), ck.ndim(x), ck.size(x), ck.size(x, 1)) == ((2, 3), 2, 6, 3)
    assert (ck.shape([[1, 2]]), ck.ndim(3), ck.size([1, 2])) == ((1, 2), 0, 2)
    assert ck.broadcast_shapes() == () and ck.broadcast_shapes(3, (2, 1)) == (2, 3)


def test_shared_memory(device: ck.Device) -> None:
    x = ck.zeros((2, 4))
    assert ck.shares_memory(x, x.T) and ck.may_share_memory(x, x[1:])
    assert ck.may_share_memory(x[:, ::2], x[:, 1::2]) and not ck.shares_memory(x[:, ::2], x[:, 1::2])
    assert not ck.shares_memory(x, ck.copy(x)) and not ck.may_share_memory(x, ck.zeros(3))
    with pytest.raises(TypeError, match="shares_memory: y: expected an array, got int"):
        ck.shares_memory(x, 3)


def test_memory_shared_with_numpys_arrays(device: ck.Device) -> None:
    with ck.device("host"):
        x = ck.zeros(4)
    for shares in (np.shares_memory, np.may_share_memory, ck.shares_memory, ck.may_share_memory):
        assert shares(np.asarray(x), x) is True and shares(x, np.asarray(x)) is True
        assert shares(x, x[1:]) is True and shares(np.asarray(x)[:2], x[2:]) is False
        assert shares(x, x.numpy()) is False and shares(x.numpy(), x) is False
    assert np.may_share_memory(np.asarray(x)[::2], x[1::2]) and not np.shares_memory(
        np.asarray(x)[::2], x[1::2]
    )
    written = np.zeros(3)
    assert ck.shares_memory(written, written[1:]) and not ck.shares_memory(written, ck.zeros(3))
    if device.kind == "cuda":
        assert not np.shares_memory(np.zeros(3), ck.zeros(3))
        assert np.shares_memory(ck.ones(3), ck.ones(3)) is False


def test_promotion_of_the_types_of_numpys_scalars() -> None:
    assert ck.result_type(np.int64, np.float32) == ck.float32
    assert ck.result_type(np.int8, 2) == ck.int8


def test_dtypes_make_arrays(device: ck.Device) -> None:
    for value in (3, 3.0, True, np.float64(3), [1, 2], np.arange(3), ck.arange(3)):
        made = ck.float32(value)
        assert made.dtype == ck.float32 and made.device == device
        assert made.tolist() == np.asarray(value, "f4").tolist()
    assert ck.float32().item() == 0.0 and ck.bool(2).item() is True and ck.bfloat16(1.5).item() == 1.5
    for call in (lambda: ck.uint8(300), lambda: ck.int8([300])):
        with pytest.raises(OverflowError):
            call()
    with pytest.raises(TypeError, match="expected numbers"):
        ck.float32("a")
    assert ck.grad(lambda x: ck.float64(x) ** 2)(ck.asarray(3.0)).item() == 6.0


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: dtypes.info(d).name)
def test_public_dtypes_are_numpys(dtype: np.dtype) -> None:
    public = getattr(ck, dtypes.info(dtype).name)
    assert public == dtype and dtype == public and (public != dtype) is False and public == dtype.type
    assert public != np.dtype("S4") and public != 3 and (public == "int8") == (dtype == "int8")
    assert hash(public) == hash(dtype) and {dtype: 1}[public] == {public: 1}[dtype] == 1
    assert public in {dtype} and dtype in (public,) and public in dtypes.ALL
    assert isinstance(public, np.dtype) and np.dtype(public) is dtype
    assert (public.itemsize, public.name, public.kind, public.type) == (
        dtype.itemsize,
        dtype.name,
        dtype.kind,
        dtype.type,
    )
    assert (repr(public), str(public)) == (repr(dtype), str(dtype))
    for kept in (copy.copy(public), copy.deepcopy(public), pickle.loads(pickle.dumps(public))):
        assert kept is public
    assert np.zeros(2, public).dtype == np.zeros(2).astype(public).dtype == dtype
    assert dtypes.as_dtype(public) is dtype and ck.result_type(public) == dtype
    assert ck.zeros(2, dtype=public).dtype is dtype and not hasattr(public, "nonsense")


def test_public_dtypes_are_ordered_as_numpys_are() -> None:
    names = ("bool", "int32", "float16", "float32", "float64")
    for a in names:
        for b in names:
            own, numpys = (getattr(ck, a), getattr(ck, b)), (np.dtype(a), np.dtype(b))
            for less in (operator.lt, operator.le, operator.gt, operator.ge):
                assert less(*own) == less(*numpys) == less(own[0], numpys[1]) == less(numpys[0], own[1])
    with pytest.raises(TypeError):
        _ = ck.float32 < object()


def test_a_layout_has_a_dtype_where_what_equals_one_is_given() -> None:
    """NumPy is given its address."""
    own = fresh_layout(ck.Device("host"), ck.bfloat16, (7, 50021), (1, 0))
    assert isinstance(own.dtype, np.dtype) and own.allocate().dtype == ck.bfloat16
