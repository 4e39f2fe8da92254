"""Files that are cut, changed or lie about their sizes: an error that names the file and the field."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukern as ck

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([True, False, True])
C = np.array(2.5, np.float64)


def safetensors(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def entry(dtype: str, shape: Any, *offsets: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": list(offsets)}


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(save: Callable[..., None] = np.savez, **arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def npy_header(text: str, data: bytes = bytes(24), version: bytes = b"\1\0") -> bytes:
    header = text.encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + data


WHOLE = {"a": entry("F32", [2, 3], 0, 24), "b": entry("BOOL", [3], 24, 27)}
DATA = A.tobytes() + B.tobytes()
SAFETENSORS = {
    "header too large": safetensors(WHOLE, DATA, 2**62),
    "invalid header length": struct.pack("<Q", 10) + b"{",
    "not fully covered": safetensors(WHOLE, DATA[:-1]),
    "file not fully covered": safetensors(WHOLE, DATA + b"\0"),
    "invalid offset for tensor `b`": safetensors({**WHOLE, "b": entry("BOOL", [3], 20, 23)}, DATA),
    "invalid shape": safetensors({**WHOLE, "a": entry("F32", [10**12, 3], 0, 24)}, DATA),
    "unknown variant `F33`": safetensors({**WHOLE, "a": entry("F33", [2, 3], 0, 24)}, DATA),
    "missing field": safetensors({**WHOLE, "a": {"dtype": "F32"}}, DATA),
    "'b': damaged: a bool is neither": safetensors(WHOLE, A.tobytes() + b"\1\0\2"),
    "recursion": safetensors(b'{"a":' + b"[" * 100000),
    "expected a string": safetensors({"__metadata__": {"a": 1}}),
    "overflow computing": safetensors({"a": entry("F32", [2**62] * 100000, 0, 24)}, bytes(24)),
}  # fmt: skip


@pytest.mark.parametrize("problem", SAFETENSORS, ids=str)
def test_safetensors_that_lie_are_refused(tmp_path: Path, problem: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(SAFETENSORS[problem])
    for read in (ck.load, ck.nn.Linear(2, 2).load):
        with pytest.raises(ValueError, match=rf"(?s)model\.safetensors: .*({problem})"):
            read(path)


def test_safetensors_of_a_dtype_that_cukern_has_not(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors({"a": entry("F8_E4M3", [3], 0, 3)}, b"abc"))
    with pytest.raises(TypeError, match=r"model\.safetensors: 'a': dtype: .*F8_E4M3"):
        ck.load(path)


def test_safetensors_in_any_order_with_empty_arrays(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    header = {
        "b": WHOLE["b"],
        "none": entry("I64", [0, 5], 24, 24),
        "a": WHOLE["a"],
        "__metadata__": {"x": "y"},
    }
    path.write_bytes(safetensors(header, DATA))
    made = ck.load(path, device="host")
    assert isinstance(made, dict) and set(made) == {"b", "none", "a"}
    np.testing.assert_array_equal(np.asarray(made["a"]), A)
    assert made["none"].shape == (0, 5)
    made["a"][0] = 7  # writable, its own memory
    path.write_bytes(safetensors({}))
    assert ck.load(path) == {}


DESCRIPTION = "{'descr': '<f4', 'fortran_order': False, 'shape': %s}"
NPY = {
    "shape .* takes 4000000000000 bytes, and 24 follow": npy_header(DESCRIPTION % "(1000000000000,)"),
    "takes 24 bytes, and 23 follow": npy_header(DESCRIPTION % "(2, 3)", bytes(23)),
    "takes 20 bytes, and 24 follow": npy_header(DESCRIPTION % "(5,)"),
    "shape: expected sizes": npy_header(DESCRIPTION % "(-6,)"),
    "shape": npy_header(DESCRIPTION % "(2.0, 3)"),
    "header|damaged": npy_header("(" * 9000),
    "version 9.0": npy_header(DESCRIPTION % "(6,)", version=b"\x09\0"),
    "Python objects": npy(np.array([None], dtype=object)),
    "a bool is neither": npy(B)[:-1] + b"\7",
    "the header's length is 4294967295": npy(A)[:6] + b"\2\0" + b"\xff" * 4 + npy(A)[12:],
    "EOF|the header": b"\x93NUMPY\1\0",
}


@pytest.mark.parametrize("problem", NPY, ids=str)
def test_npy_files_that_lie_are_refused(tmp_path: Path, problem: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(NPY[problem])
    with pytest.raises(ValueError, match=rf"x\.npy: .*({problem})"):
        ck.load(path)
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inner.npy", NPY[problem])
    with pytest.raises(ValueError, match=rf"x\.npz: 'inner': .*({problem})"):
        ck.load(path)


def repacked(change: Callable[[zipfile.ZipFile], None]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        change(archive)
    return file.getvalue()


def stated(data: bytes, at: int, value: int) -> bytes:
    """A zip file whose first central entry states another number of four bytes."""
    place = data.index(b"PK\1\2") + at
    return data[:place] + struct.pack("<I", value) + data[place + 4 :]


def twice(archive: zipfile.ZipFile) -> None:
    archive.writestr("a.npy", npy(A))
    archive.writestr("a", npy(A))


NPZ = {
    "'a': damaged: the name comes twice": repacked(twice),
    "'a.txt': damaged: .*magic|'a.txt': .*": repacked(lambda archive: archive.writestr("a.txt", b"text")),
    "'a': damaged: it is compressed": repacked(lambda archive: archive.writestr("a.npy", npy(A), zipfile.ZIP_LZMA)),
    "'a': damaged: .* cannot hold the 4000000000": stated(npz(np.savez_compressed, a=A), 24, 4000000000),
    "'a': damaged: .* cannot hold|'b': damaged: it begins": stated(npz(a=A, b=A), 20, 4000),
    "'[ab]': damaged: it (begins|ends)": stated(npz(np.savez_compressed, a=A, b=A), 20, 400),
    "'b': damaged: it begins at 207": stated(npz(a=A, b=A), 42, 0x118),
    "the entries end": npz(a=A)[:-10] + bytes(4) + npz(a=A)[-6:],
    "'a': damaged: Bad CRC": npz(a=A).replace(A.tobytes(), A.tobytes()[::-1]),
}  # fmt: skip


@pytest.mark.parametrize("problem", NPZ, ids=str)
def test_npz_files_that_lie_are_refused(tmp_path: Path, problem: str) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(NPZ[problem])
    with pytest.raises(ValueError, match=rf"x\.npz: .*({problem})"):
        ck.load(path)


def test_names_that_are_paths_name_arrays_and_no_files(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(repacked(lambda archive: archive.writestr("../../up.npy", npy(A))))
    made = ck.load(path)
    assert isinstance(made, dict) and list(made) == ["../../up"]
    assert [one.name for one in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.parametrize(
    "array", [A.T, A.astype(">f4"), A.astype(">f4").T, C, A[:, :0]], ids=["F", ">", ">F", "0-d", "0"]
)
def test_byte_and_axis_orders_are_read(array: np.ndarray) -> None:
    for file in (npy(array), npz(x=array)):
        made = ck.load(io.BytesIO(file), device="host")
        x = made["x"] if isinstance(made, dict) else made
        np.testing.assert_array_equal(np.asarray(x), array)
        assert np.asarray(x).dtype.isnative


def test_arrays_one_after_another_in_an_open_file() -> None:
    file = io.BytesIO(npy(A) + npy(B))
    for want in (A, B):
        np.testing.assert_array_equal(np.asarray(ck.load(file)), want)


class Evil:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("unpickled",))


class Called:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> Any:
        return self.reduced


def claims(array: np.ndarray, old: bytes, new: bytes) -> bytes:
    """A pickle in which the array has another shape."""
    whole = pickle.dumps(array, protocol=2)
    assert whole.count(old) == 1
    return whole.replace(old, new)


#: Of most of these Python's unpickler takes gigabytes, or makes an array of whatever lies in memory.
PICKLES = {
    "LONG_BINPUT at 3 has the index 1073741823": b"\x80\x04Nr\xff\xff\xff\x3f.",
    "a bytearray8": b"\x80\x05\x96\0\0\0\0\4\0\0\0.",
    "a bytes8": b"\x80\x05\x8e\0\0\0\0\4\0\0\0.",
    "not callable|is not": pickle.dumps(Called(np.ndarray, (2 * 10**9,))),
    "array without elements": pickle.dumps(
        Called(np._core.multiarray._reconstruct, np.ndarray, (2 * 10**9,), b"b")
    ),
    "takes 6442450920 bytes, and 24 are there": claims(A, b"K\x02K\x03\x86", b"J\xfe\xff\xff\x1fK\x03\x86"),
    "shape is no tuple of sizes": claims(A, b"K\x02K\x03\x86", b"J\xfe\xff\xff\xffJ\xfd\xff\xff\xff\x86"),
    "the instruction EMPTY_DICT": pickle.dumps({}),
    "the instruction PUT": pickle.dumps(Called(np.dtype, "O"), protocol=0).replace(b"(", b"\x80\2(", 1),
    "it names builtins.eval": pickle.dumps(Called(eval, "pytest.fail()")),
    "a dtype has fields": pickle.dumps(Called(np.dtype, "f4,f4")),
    "neither a name": pickle.dumps(Called(np.dtype, "f4" + "," * 100)),
    "Python objects": pickle.dumps(Called(np.dtype, "O")),
    "truncated|remain|exhausted": pickle.dumps(A, protocol=4)[:-30] + b".",
    "has 1[0-9][0-9] bytes, the file": pickle.dumps(A, protocol=4) + b"more",
    "one of _Kind": pickle.dumps(Called(np.dtype, "f4")),
    "one of int": pickle.dumps(3),
}


@pytest.mark.parametrize("problem", PICKLES, ids=str)
def test_pickles_that_lie_are_refused(tmp_path: Path, problem: str) -> None:
    path = tmp_path / "x.pickle"
    data = PICKLES[problem]
    path.write_bytes(data if data[:1] == b"\x80" else b"\x80\2" + data)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"x\.pickle: .*({problem})"):
            ck.load(path, allow_pickle=True)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_numpys_pickles_are_read(protocol: int) -> None:
    for x in (A, A.T, A.astype(">f4"), B, C, A[:, :0], np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2)):
        file = io.BytesIO(pickle.dumps(x, protocol=protocol) + b"next")
        made: Any = ck.load(file, allow_pickle=True, device="host")
        assert made.shape == x.shape
        np.testing.assert_array_equal(np.asarray(made), x)
        assert file.read() == b"next"


@pytest.mark.parametrize(
    "of",
    [np.get_include, np.matrix, np.random.default_rng, np.dtypes.Float32DType, dict, os.getcwd],
    ids=lambda of: of.__name__,
)
def test_pickles_may_name_the_makers_of_arrays_alone(tmp_path: Path, of: Any) -> None:
    path = tmp_path / "x"
    path.write_bytes(pickle.dumps(Called(of)))
    with pytest.raises(ValueError, match=f"it names .*{of.__name__}"):
        ck.load(path, allow_pickle=True)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for data in (pickle.dumps(Evil()), npy(np.array([Evil()])), npz(a=np.array([Evil()]))):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="pickle"):
            ck.load(path)


LIMITS = [0, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1]


def mutations(data: bytes, count: int) -> Iterator[bytes]:
    """Files that are cut, and files with bytes changed, left out, doubled, or set to where numbers overflow."""
    rng = np.random.default_rng(count)
    for length in range(0, len(data), max(1, len(data) // 150)):
        yield data[:length]
    for _ in range(count):
        at, kind = int(rng.integers(len(data))), int(rng.integers(5))
        if kind == 0:
            new = bytes([data[at] ^ 1 << int(rng.integers(8))])
        elif kind == 1:
            new = struct.pack("<Q", LIMITS[int(rng.integers(len(LIMITS)))])
        elif kind == 2:
            new = str(int(rng.integers(10))).encode()
        else:
            cut = int(rng.integers(1, 9))
            yield data[:at] + (data[at : at + cut] * 2 if kind == 3 else b"") + data[at + cut :]
            continue
        yield data[:at] + new + data[at + len(new) :]


def outcome(path: Path) -> tuple[Any, str]:
    """What a file holds, and what is wrong with it; TypeError is for a dtype that cukern has not."""
    try:
        return ck.load(path, device="host", allow_pickle=True), ""
    except (ValueError, TypeError) as error:
        return None, str(error)


def same(made: Any, want: np.ndarray) -> bool:
    return (
        made.shape == want.shape and made.dtype == want.dtype and np.asarray(made).tobytes() == want.tobytes()
    )


#: Bytes of which a file holds a sum, and bytes that describe themselves: of these what is read is all that there is.
BASES = {
    "model.safetensors": safetensors(WHOLE, DATA),
    "x.npy": npy(A),
    "columns.npy": npy(A.T.astype(">f8")),
    "x.npz": npz(a=A, b=B),
    "small.npz": npz(np.savez_compressed, a=A, b=B),
    **{f"{n}.pickle": pickle.dumps(A, protocol=n) for n in (2, 4, 5)},
}


@pytest.mark.parametrize("count", [200, pytest.param(3000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", BASES)
def test_changed_files_are_read_as_they_are_or_refused(tmp_path: Path, name: str, count: int) -> None:
    path, refused, read = tmp_path / name, 0, 0
    original = {"a": A, "b": B}
    tracemalloc.start()
    try:
        for data in mutations(BASES[name], count):
            path.write_bytes(data)
            made, problem = outcome(path)
            if problem:
                assert name in problem
                refused += 1
                continue
            read += 1
            if name.endswith(".npz"):
                assert isinstance(made, dict)
                for key, value in made.items():
                    assert same(value, original[key])
                assert made.keys() == original.keys()
            elif name.endswith(".pickle"):
                assert made.nbytes <= len(data)
            elif name.endswith(".npy"):
                want = np.load(path)
                np.testing.assert_array_equal(np.asarray(made), want)
                assert data.endswith(want.tobytes("A")) and len(data) < want.nbytes + 200
            else:
                assert isinstance(made, dict)
                arrays = sum(value.nbytes for value in made.values())
                assert arrays == len(data) - 8 - struct.unpack_from("<Q", data)[0]
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert refused > 50 and read > 3


def test_a_pipe_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    os.mkfifo(path)
    both = os.open(path, os.O_RDWR)
    with pytest.raises(OSError, match=r"a pipe cannot be read twice.*x\.npy"):
        ck.load(path)
    os.close(both)
