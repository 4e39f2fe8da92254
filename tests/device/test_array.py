"""Creation, conversion and protocols of arrays."""

import copy
import pickle
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from dtype_rule import ruled

import cukern as ck
from cukern import dtypes


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_numpy_data_keeps_its_dtype_and_values(device, dtype):
    data = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    x = ck.asarray(data)
    assert (x.dtype, x.shape, x.device) == (dtype, (2, 3), device)
    np.testing.assert_array_equal(x.numpy(), data)
    np.testing.assert_array_equal(np.asarray(x), data)


@pytest.mark.parametrize(
    "obj, dtype",
    [
        (1.5, "float32"), (2, "int64"), (True, "bool"), ([1, 2.5], "float32"), ([[1], [2]], "int64"),
        ([], "float32"), (np.float64(1), "float64"), ([np.float64(1)], "float64"), ((1.0, 2.0), "float32"),
        (np.array(3, np.int8), "int8"), ([np.int16(3), np.int16(4)], "int16"),
    ],
)  # fmt: skip
def test_python_numbers_take_the_default_dtypes(device, obj, dtype):
    x = ck.asarray(obj)
    assert dtypes.info(x.dtype).name == dtype
    np.testing.assert_array_equal(x.numpy(), np.asarray(obj))


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_asarray_of_an_array_casts(device, dtype):
    for first in (ck.float32, ck.float64, ck.int8):
        x = ck.ones(2, dtype=first)
        assert ck.asarray(x, dtype=dtype).dtype == dtype
        assert (ck.asarray(x, dtype=dtype) is x) == (dtype == first)


def test_nested_lists_of_arrays(device):
    assert ck.asarray([ck.ones(2), ck.zeros(2)]).tolist() == [[1, 1], [0, 0]]


def test_a_numpy_array_on_the_host_is_shared():
    data = np.zeros(3, np.float32)
    x = ck.asarray(data, device="host")
    data[0] = 5
    assert x.tolist() == [5, 0, 0]
    assert ck.array(data, device="host").tolist() == [5, 0, 0]
    copied = ck.asarray(data, device="host", copy=True)
    data[1] = 7
    assert copied.tolist() == [5, 0, 0]


def test_misaligned_and_read_only_data_is_copied(device):
    raw = np.zeros(9, np.uint8)[1:].view(np.float32)
    assert not raw.flags.aligned
    assert ck.asarray(raw)._data.flags.c_contiguous
    if device.kind == "host":
        assert ck.asarray(raw)._data.flags.aligned
    frozen = np.ones(2, np.float32)
    frozen.flags.writeable = False
    x = ck.asarray(frozen)
    assert x.tolist() == [1, 1]
    with pytest.raises(ValueError, match="copy"):
        ck.asarray(frozen, copy=False)


def test_big_endian_data_is_converted(device):
    x = ck.asarray(np.array([1, 2], ">f4"))
    assert x.dtype == ck.float32 and x.tolist() == [1, 2]


@pytest.mark.parametrize(
    "obj, message",
    [
        ("text", "obj: expected numbers"),
        ([None], "obj: expected numbers"),
        (np.zeros(1, "M8[s]"), "obj: expected numbers"),
    ],
)
def test_refused_data(device, obj, message):
    with pytest.raises(TypeError, match=message):
        ck.asarray(obj)


def test_refused_dtypes(device):
    with pytest.raises(TypeError, match="dtype: cukern has no dtype complex256; it has bool, int8"):
        ck.zeros(2, dtype="clongdouble")
    with pytest.raises(TypeError, match="dtype: 'nonsense' is not a dtype"):
        ck.zeros(2, dtype="nonsense")


def test_creation(device):
    np.testing.assert_array_equal(ck.zeros((2, 0, 3)).numpy(), np.zeros((2, 0, 3)))
    assert ck.ones(3, dtype="bfloat16").dtype == ml_dtypes.bfloat16
    assert ck.full((2,), 7).dtype == ck.int64 and ck.full((2,), 7.0).dtype == ck.float32
    assert ck.full_like(ck.ones(2, dtype=ck.int8), 3).tolist() == [3, 3]
    assert ck.empty((), dtype=ck.int16).shape == ()
    np.testing.assert_array_equal(ck.arange(3).numpy(), np.arange(3))
    np.testing.assert_array_equal(ck.arange(5, 1, -2).numpy(), [5, 3])
    np.testing.assert_allclose(ck.arange(0, 1, 0.25).numpy(), [0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(ck.linspace(0, 1, 5).numpy(), np.linspace(0, 1, 5))
    np.testing.assert_array_equal(ck.eye(2, 3, k=1).numpy(), np.eye(2, 3, k=1))
    for n, k in ((0, 2**31), (2, 2**40), (2, -(2**31)), (2, 2), (2, -1)):
        np.testing.assert_array_equal(ck.eye(n, k=k).numpy(), np.eye(n, k=k))
    for shape in (-1, (2, -1)):
        with pytest.raises(ValueError, match="shape: expected sizes of at least 0"):
            ck.zeros(shape)
    with pytest.raises(TypeError, match="shape: expected integers"):
        ck.zeros(2.5)
    with pytest.raises(ValueError, match="step: expected a number other than 0"):
        ck.arange(0, 3, 0)
    with pytest.raises(ValueError, match="num: expected at least 0"):
        ck.linspace(0, 1, -1)


def test_python_conversions(device):
    x = ck.asarray([[2.5]])
    assert (float(x), int(x), bool(x), x.item()) == (2.5, 2, True, 2.5)
    assert f"{ck.asarray(1.25):.1f}" == "1.2"
    assert [10, 20, 30][ck.asarray(2)] == 30
    with pytest.raises(ValueError, match="truth of an array of shape"):
        bool(ck.zeros(2))
    with pytest.raises(TypeError, match="only an array of one element becomes a float"):
        float(ck.zeros(2))
    with pytest.raises(TypeError, match="0-d integer array"):
        ck.asarray(1.0).__index__()
    with pytest.raises(ValueError, match="expected an array of one element"):
        ck.zeros(0).item()
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d array"):
        len(ck.asarray(1))
    assert ck.asarray([1.5, 2.5], dtype="bfloat16").tolist() == [1.5, 2.5]


def test_repr_names_dtype_and_device(device):
    assert repr(ck.asarray([1.0, 2.0])) == f"Array([1., 2.], dtype=float32, device='{device}')"
    assert "dtype=bfloat16" in repr(ck.ones((), dtype="bfloat16"))


def test_copies_and_pickles(device):
    x = ck.asarray(np.arange(3.0))
    for same in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (same.dtype, same.device) == (x.dtype, device)
        assert not np.may_share_memory(np.asarray(same), np.asarray(x)) or device.kind == "cuda"
        np.testing.assert_array_equal(same.numpy(), x.numpy())


def test_numpy_gets_a_view_that_it_cannot_write():
    x = ck.zeros(3, device="host")
    view = np.asarray(x)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    x.numpy()[0] = 1
    assert x.tolist() == [0, 0, 0]


def test_dlpack_shares_memory(device):
    x = ck.asarray(np.arange(4, dtype=np.float32))
    y = ck.from_dlpack(x._data)
    assert y.device is device
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    assert x.__dlpack_device__() == x._data.__dlpack_device__()
    if device.kind == "host":
        np.testing.assert_array_equal(np.from_dlpack(x), x.numpy())
    with pytest.raises(TypeError, match="x: expected an object with __dlpack__"):
        ck.from_dlpack(3)


def test_cuda_array_interface_is_the_gpus(device):
    x = ck.ones(2)
    if device.kind == "cuda":
        assert x.__cuda_array_interface__["shape"] == (2,)
        assert ck.asarray(x._data).device is device
    else:
        assert not hasattr(x, "__cuda_array_interface__")


def test_to_device_carries_values_and_gradients(device):
    x = ck.asarray([1.0, 2.0])
    assert x.to_device(device) is x
    with ck.Tape() as tape:
        tape.watch(x)
        y = x.to_device("host")
        z = y * y
    assert (y.device, z.tolist()) == (ck.Device("host"), [1, 4])
    gradient = tape.gradient(z, x)
    assert gradient.device is device and gradient.tolist() == [2, 4]
    with pytest.raises(ck.DeviceError, match="expected 'host', 'cuda' or 'cuda:N', got 'tpu'"):
        x.to_device("tpu")
    with pytest.raises(ck.DeviceError, match="'cuda:99' is not here|CuPy cannot be imported"):
        x.to_device("cuda:99")


def test_devices_and_the_current_one(device, monkeypatch):
    assert ck.Device("host") in ck.devices()
    assert ck.Device(str(device)) is device
    assert pickle.loads(pickle.dumps(device)) is device
    with ck.device("host") as inner:
        assert ck.zeros(1).device is inner
        with pytest.raises(ZeroDivisionError), ck.device(device):
            1 / 0  # noqa: B018
        assert ck.zeros(1).device is inner
    assert ck.zeros(1).device is device
    device.synchronize()
    assert device.properties.max_threads_per_block == 1024


@pytest.mark.parametrize("name", ["", "gpu", "cuda:x", "host:1", 3])
def test_no_such_device(name):
    with pytest.raises(ck.DeviceError, match="device: "):
        ck.Device(name)


def test_an_array_is_not_made_by_its_class():
    with pytest.raises(TypeError, match="cukern.asarray"):
        ck.Array([1.0])


@pytest.mark.parametrize(
    "operands, name",
    [
        (("float32", 2.5), "float32"),
        (("int32", 2), "int32"),
        (("int8", 2.5), "float32"),
        (("bool", 1), "int64"),
        (("bool", 1.0), "float32"),
        (("bfloat16", "float16"), "float32"),
        (("bfloat16", "float32"), "float32"),
        (("bfloat16", "int64"), "bfloat16"),
        (("int32", "float32"), "float32"),
        (("int64", "float16"), "float16"),
        (("int64", "uint64", "float16"), "float16"),
        (("int8", "uint8"), "int16"),
        (("uint64", "int64"), "float32"),
        ((True, 2), "int64"),
        ((2, 2.5), "float32"),
        (("float16", True), "float16"),
    ],
)
def test_result_type(operands, name):
    arrays = [dtypes.as_dtype(o) if isinstance(o, str) else o for o in operands]
    assert dtypes.info(ck.result_type(*arrays)).name == name
    assert ck.result_type(*arrays) == ck.result_type(*reversed(arrays))


def test_promotion_is_numpys_but_for_floats_of_integers():
    own = [d for d in dtypes.ALL if d != ck.bfloat16]
    for a in own:
        for b in own:
            assert dtypes.promote(a, b) == ruled(np.promote_types(a, b), a, b)
    with pytest.raises(TypeError, match="at least one operand"):
        ck.result_type()


def test_contiguous_keeps_the_gradient(device):
    x = ck.asarray(np.arange(6.0).reshape(2, 3))
    with ck.Tape() as tape:
        tape.watch(x)
        y = (x.T.contiguous() * 2).sum()
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), np.full((2, 3), 2.0))
    assert x.contiguous() is x


def test_memory_that_may_not_be_written_is_copied(device):
    frozen = bytes(8)
    x = ck.asarray(memoryview(frozen))
    x += 1
    assert frozen == bytes(8) and x.tolist() == [1] * 8

    class Exposing:
        data = np.zeros(2)
        data.flags.writeable = False

        def __array__(self, dtype=None, copy=None):
            return self.data

    y = ck.asarray(Exposing())
    y += 1
    assert Exposing.data.tolist() == [0, 0]
    buffer = bytearray(4)
    z = ck.array(np.frombuffer(buffer, np.uint8))
    z += 1
    assert buffer == bytearray(4)
    read_only = np.zeros(2)
    read_only.flags.writeable = False
    if device.kind == "host":
        w = ck.from_dlpack(read_only)
        w += 1
        assert read_only.tolist() == [0, 0]


def test_numbers_that_a_dtype_cannot_hold(device):
    with pytest.raises(OverflowError):
        ck.asarray(300, dtype="int8")
    with pytest.raises(OverflowError):
        ck.asarray([-1], dtype="uint8")
    with pytest.raises(TypeError, match="numbers that a dtype of cukern holds, got object data"):
        ck.asarray(2**64)
    assert ck.asarray(1e40).item() == float("inf")


def test_numbers_beyond_a_float_are_infinite(device: ck.Device) -> None:
    x = ck.asarray([1.0, -2.0], device=device)
    ends = [np.inf, -np.inf]
    assert (x * 1e300).tolist() == ends and (x * 10**39).tolist() == ends
    assert ck.where(x > 0, 1e300, -1e300).tolist() == ends
    assert ck.full(2, -1e300, device=device).tolist() == [-np.inf] * 2
    assert (x < 1e300).tolist() == [True, True] and (x / 0 == [1e300, -1e300]).tolist() == [True, True]
    out = ck.zeros_like(x)
    assert ck.multiply(x, 1e300, out=out).tolist() == ends
    x *= -1e300
    assert x.tolist() == ends[::-1]
    assert ck.sum(ck.ones(2, device=device), initial=1e300).item() == np.inf
    with pytest.raises(OverflowError):
        ck.ones(2, device=device) * 10**400


def test_more_bytes_than_an_address_counts_are_refused(device: ck.Device) -> None:
    for make in (ck.zeros, ck.empty, ck.ones):
        for shape in ((2**61,), (2**63,), (2**62, 2**62)):
            with pytest.raises(MemoryError):
                make(shape, device=device)


def test_protocol_arguments(device):
    x = ck.ones(2)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float64, copy=False)
    with pytest.raises(ValueError, match="api_version: expected a version of the standard, got '1999.01'"):
        x.__array_namespace__(api_version="1999.01")
    assert x.__array_namespace__(api_version="2025.12") is ck
    with pytest.raises(
        TypeError, match="zeros_like: x: expected an array, a number or nested lists of them, got str"
    ):
        ck.zeros_like("ab")
    assert ck.linspace(-1, 0, 5, dtype="int64").tolist() == [-1, -1, -1, -1, 0]
    assert ck.full(2, ck.asarray(3, dtype="int8")).dtype == ck.int8
    with pytest.raises(TypeError, match="dtype: expected a dtype, got ndarray"):
        ck.zeros(2, dtype=np.zeros(2))


def test_arrays_are_made_on_the_device_that_is_asked_for(monkeypatch):
    """With two GPUs, each call must run while its own is the active one."""
    active, seen = [0], []

    class Scope:
        def __init__(self, index):
            self.index = index

        def __enter__(self):
            self.before, active[0] = active[0], self.index

        def __exit__(self, *error):
            active[0] = self.before

    device = object.__new__(ck.Device)
    device.kind, device.index = "fake", 1
    device.style, device.addressable, device.which = "simt", True, lambda: active[0]
    monkeypatch.setattr(ck.Device, "activate", lambda self: Scope(self.index))

    class Recorder:
        def upload(self, data):
            seen.append(("upload", active[0]))
            return data

        def allocator(self, shape, dtype, nbytes):
            def allocate():
                seen.append(("empty", active[0]))
                return SimpleNamespace(ptr=0)

            return allocate

        def __getattr__(self, name):
            def call(*args, **kwargs):
                seen.append((name, active[0]))
                return getattr(np, name)(*args, **kwargs)

            return call

    device.backend = Recorder()
    monkeypatch.setattr(ck.Device, "xp", property(lambda self: Recorder()))
    for make in (
        lambda: ck.zeros(3, device=device),
        lambda: ck.empty(3, device=device),
        lambda: ck.asarray([1.0], device=device),
        lambda: ck.arange(3, device=device),
        lambda: ck.eye(3, device=device),
    ):
        x = make()
        assert seen and all(index == 1 for _, index in seen), seen
        x = ck.Array._wrap(np.zeros((2, 3)).T, x.device)

        copy.copy(x)
    assert all(index == 1 for _, index in seen), seen


def test_the_default_device_is_set_for_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["cukern.device"]
    monkeypatch.setattr(module._current, "device", None)
    monkeypatch.setenv("CUKERN_DEVICE", "host")
    try:
        module.set_default("host")
        assert ck.zeros(1).device is ck.Device("host")
        module.set_default("cuda:63")
        with pytest.raises(ck.DeviceError, match="CUKERN_DEVICE: device"):
            ck.zeros(1)
    finally:
        module._default.cache_clear()


def test_contains_an_element(device: ck.Device) -> None:
    x = ck.asarray([[1.0, 2.0], [3.0, np.nan]])
    assert 3 in x and 2.0 in x and 4 not in x and np.nan not in x
    assert 1 not in ck.zeros((0, 2)) and 5 in ck.asarray(5)


def test_flags_are_those_of_the_memory(device: ck.Device) -> None:
    a = np.arange(24.0).reshape(4, 6)
    x = ck.asarray(a.copy())
    for view in (
        lambda x: x,
        lambda x: x.T,
        lambda x: x[::2],
        lambda x: x[1:3],
        lambda x: x[:, :1],
        lambda x: x[0],
    ):
        made, want = view(x).flags, view(a).flags
        assert (made.c_contiguous, made.f_contiguous) == (want.c_contiguous, want.f_contiguous)
        assert (made["C"], made["F"], made["W"]) == (want["C"], want["F"], True)
    for shape, writeable in (((4, 6), True), ((1, 4, 6), True), ((2, 4, 6), False)):
        assert ck.broadcast_to(x, shape).flags.writeable is writeable
    assert ck.broadcast_to(x[:1, :1], (1, 1)).flags.writeable
    assert not ck.broadcast_to(x[:, :1], (4, 6)).flags.writeable
