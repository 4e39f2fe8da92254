"""Arrays shared with other libraries, copied, pickled, and kept in files."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close

A = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def test_dlpack_with_numpy_shares_memory(device: ck.Device) -> None:
    if device.kind != "host":
        pytest.skip("NumPy has no memory of a GPU")
    x = ck.asarray(A.copy())
    theirs = np.from_dlpack(x)
    x[0, 0] = 7.0
    assert theirs[0, 0] == 7.0
    source = A.copy()
    ours = ck.from_dlpack(source)
    source[1, 1] = 9.0
    assert ours[1, 1].item() == 9.0
    with pytest.raises(TypeError, match="expected an object with __dlpack__"):
        ck.from_dlpack([1.0])  # type: ignore[arg-type]


@pytest.mark.parametrize("library", ["torch", "jax.numpy", "cupy"])
def test_dlpack_with_others_shares_memory(device: ck.Device, library: str) -> None:
    module = pytest.importorskip(library, exc_type=ImportError)
    if library == "cupy" and device.kind == "host":
        pytest.skip("CuPy has no memory of the host")
    x = ck.asarray(A.copy())
    theirs = module.from_dlpack(x)
    assert_close(
        ck.asarray(
            np.asarray(theirs.get() if library == "cupy" else theirs.cpu() if library == "torch" else theirs)
        ),
        A,
    )
    back = ck.from_dlpack(theirs)
    assert back.device is device and back.dtype == ck.float32
    if library != "jax.numpy":
        x[0, 0] = 7.0
        assert back[0, 0].item() == 7.0


def test_cuda_array_interface(device: ck.Device) -> None:
    x = ck.asarray(A)
    if device.kind == "host":
        assert not hasattr(x, "__cuda_array_interface__")
    else:
        assert x.__cuda_array_interface__["shape"] == (3, 4)
        empty = {"data": (0, False), "shape": (0, 3), "typestr": "<f4", "version": 3}
        made = ck.asarray(SimpleNamespace(__cuda_array_interface__=empty))
        assert made.shape == (0, 3) and made.dtype == ck.float32


def test_numpy_reads_without_a_copy_on_the_host(device: ck.Device) -> None:
    x = ck.asarray(A.copy())
    view = np.asarray(x)
    np.testing.assert_array_equal(view, A)
    if device.kind == "host":
        x[0, 0] = 5.0
        assert view[0, 0] == 5.0 and not view.flags.writeable


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_copies_and_pickles(device: ck.Device, dtype: Any) -> None:
    x = ck.asarray(A > 0 if dtype == ck.bool_ else np.abs(A)).astype(dtype).T
    for made in (copy.copy(x), copy.deepcopy({"x": x})["x"], pickle.loads(pickle.dumps(x))):
        assert_close(made, x.numpy(), dtype=dtype)
        assert made.device is device and made._storage is not x._storage


def test_repr_is_numpys_with_dtype_and_device(device: ck.Device) -> None:
    text = repr(ck.asarray([[1.5, 2.0], [3.0, -4.0]]))
    assert text == f"Array([[ 1.5,  2. ],\n       [ 3. , -4. ]], dtype=float32, device='{device}')"


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_files_keep_every_dtype(device: ck.Device, dtype: Any, tmp_path: Path) -> None:
    x = ck.asarray(np.abs(A)).astype(dtype)
    ck.save(tmp_path / "x.npy", x)
    ck.savez(tmp_path / "x.npz", x, turned=x.T)
    ck.savez_compressed(tmp_path / "small.npz", x=x)
    arrays = {"x": x.T, "none": x[:0], "one": x[0, 0]}
    if dtype == ck.complex128:
        with pytest.raises(TypeError, match="'x': safetensors has no dtype complex128"):
            ck.save_safetensors(tmp_path / "x.safetensors", arrays)
        arrays = {}
    ck.save_safetensors(tmp_path / "x.safetensors", arrays, {"made": "here"})
    one = ck.load(tmp_path / "x.npy")
    many, small, tensors = (ck.load(tmp_path / name) for name in ("x.npz", "small.npz", "x.safetensors"))
    assert isinstance(many, dict) and isinstance(small, dict) and isinstance(tensors, dict)
    for made, want in (
        (one, x),
        (many["arr_0"], x),
        (many["turned"], x.T),
        (small["x"], x),
        *((tensors[name], want) for name, want in arrays.items()),
    ):
        assert isinstance(made, ck.Array)
        assert_close(made, want.numpy(), dtype=dtype)
        assert made.device is device


def test_files_are_numpys(device: ck.Device, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", A)
    np.testing.assert_array_equal(np.asarray(ck.load(tmp_path / "a.npy")), A)
    file = io.BytesIO()
    ck.save(file, ck.asarray(A))
    file.seek(0)
    np.testing.assert_array_equal(np.load(file), A)
    assert ck.load(io.BytesIO(file.getvalue()), device="host").device.kind == "host"


def test_bad_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"no array at all")
    np.save(tmp_path / "objects.npy", np.array([None]), allow_pickle=True)
    whole = io.BytesIO()
    np.savez(whole, a=A)
    (tmp_path / "cut.npz").write_bytes(whole.getvalue()[:100])
    for name in ("text", "objects.npy", "cut.npz"):
        with pytest.raises(ValueError, match=f"{name}: .*(pickle|damaged)"):
            ck.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        ck.load(tmp_path / "nothing.npy")
    with pytest.raises(
        TypeError, match=r"save: x: expected an array, a number or nested lists of them, got set"
    ):
        ck.save(tmp_path / "set.npy", {1.0})  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["a b c -> (a b) c", "a b c -> c b a", "a (p q) c -> p a c q"])
def test_einops_rearrange(device: ck.Device, pattern: str) -> None:
    einops = pytest.importorskip("einops")
    a = np.random.default_rng(0).normal(size=(2, 6, 3))
    sizes = {"p": 2} if "p" in pattern else {}
    got = einops.rearrange(ck.asarray(a), pattern, **sizes)
    assert type(got) is ck.Array and got.device is device
    assert_close(got, einops.rearrange(a, pattern, **sizes))


def test_einops_reduce_repeat_pack(device: ck.Device) -> None:
    einops = pytest.importorskip("einops")
    a = np.random.default_rng(0).normal(size=(2, 4, 3))
    x = ck.asarray(a)
    for how in ("mean", "max", "min", "sum", "prod"):
        assert_close(einops.reduce(x, "a b c -> b", how), einops.reduce(a, "a b c -> b", how), rtol=1e-12)
    assert_close(
        einops.repeat(x, "a b c -> a (b r) c q", r=2, q=3), einops.repeat(a, "a b c -> a (b r) c q", r=2, q=3)
    )
    packed, shapes = einops.pack([x, x[:, :1]], "a * c")
    assert packed.shape == (2, 5, 3)
    assert [one.shape for one in einops.unpack(packed, shapes, "a * c")] == [(2, 4, 3), (2, 1, 3)]
    assert_close(einops.einsum(x, x, "a b c, a b c -> a"), (a * a).sum((1, 2)), rtol=1e-12)
    gradient = ck.grad(lambda x: einops.reduce(x, "a b c -> b", "mean").sum())(x)
    assert_close(gradient, np.full(a.shape, 1 / 6))


ESTIMATORS = """
import numpy as np
import cukern as ck
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

rng = np.random.default_rng(0)
x = rng.normal(size=(60, 5))
y = (x[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(np.int64)
t = x @ np.arange(5.0) + 1
for make, arguments, apply in (
    (lambda: PCA(n_components=2, svd_solver="full"), (x,), "transform"),
    (lambda: LinearDiscriminantAnalysis(), (x, y), "predict"),
    (lambda: LinearDiscriminantAnalysis(), (x, y), "transform"),
    (lambda: Ridge(solver="svd"), (x, t), "predict"),
):
    want = getattr(make().fit(*arguments), apply)(x)
    with config_context(array_api_dispatch=True):
        ours = [ck.asarray(a) for a in arguments]
        got = getattr(make().fit(*ours), apply)(ours[0])
    assert type(got) is ck.Array, type(got)
    np.testing.assert_allclose(np.abs(got.numpy()), np.abs(want), rtol=1e-6, atol=1e-8)
print("fitted")
"""


def test_estimators_of_scikit_learn(device: ck.Device) -> None:
    """In a process of its own: SciPy looks at SCIPY_ARRAY_API when it is imported."""
    pytest.importorskip("sklearn")
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "CUKERN_DEVICE": str(device)}
    root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", ESTIMATORS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.stdout.strip() == "fitted", ran.stderr


def test_functions_of_scipy_that_support_the_array_api(device: ck.Device) -> None:
    """In a process of its own, as SciPy reads the setting when it is imported."""
    program = """
import numpy as np
import scipy.fft, scipy.signal
import cukern as ck
real = np.random.default_rng(0).standard_normal(32)
complex_ = real + 1j * real[::-1]
b, a = scipy.signal.butter(3, 0.3)
calls = {
    "fft.fft": (complex_,), "fft.hfft": (complex_,), "fft.rfft": (real,), "fft.irfft": (complex_,), "fft.dct": (real,),
    "signal.convolve": (real, real[:5]), "signal.fftconvolve": (real, real[:5]), "signal.hilbert": (real,),
    "signal.detrend": (real,), "signal.resample": (real, 20), "signal.lfilter": (b, a, real),
    "signal.filtfilt": (b, a, real),
}
for name, given in calls.items():
    module, function = name.split(".")
    call = getattr(getattr(scipy, module), function)
    made = call(*(ck.asarray(one) if isinstance(one, np.ndarray) else one for one in given))
    assert isinstance(made, ck.Array), name
    np.testing.assert_allclose(made.numpy(), call(*given), rtol=1e-9, atol=1e-12, err_msg=name)
"""
    pytest.importorskip("scipy")
    if device.kind != "host":
        pytest.skip("SciPy computes most of these on the host")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "CUKERN_DEVICE": "host"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_address_in_a_capsule() -> None:
    from importlib import import_module

    from cukern.export.folder.of_jax import _address

    address = import_module("cukern.device.dlpack").address
    x = np.arange(12.0).reshape(3, 4)
    for part in (x, x[1:, 2:]):
        for options in ({}, {"max_version": (1, 0)}):
            for read in (address, _address):
                assert read(part.__dlpack__(**options)) == part.__array_interface__["data"][0]
    used = x.__dlpack__()
    np.from_dlpack(SimpleNamespace(__dlpack__=lambda **_: used, __dlpack_device__=lambda: (1, 0)))
    with pytest.raises(BufferError, match="expected a DLPack capsule that is not consumed"):
        address(used)
