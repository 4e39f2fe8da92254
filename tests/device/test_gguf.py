"""GGUF files: what is written is read, also by the package ``gguf``, and damaged files are refused with a reason."""

from __future__ import annotations

import mmap
import os
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukern as ck

gguf = pytest.importorskip("gguf")

METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "an.int": 3,
    "a.negative": -3,
    "a.large": 2**40,
    "a.float": 0.5,
    "a.double": np.float64(0.1),
    "a.bool": True,
    "a.string": "hé",
    "an.empty.string": "",
    "strings": ["a", "", "ç"],
    "numbers": np.arange(4, dtype=np.uint16),
    "signed": [1, -1],
    "bools": [True, False],
}


def tensors(device: ck.Device) -> dict[str, ck.Array]:
    rng = np.random.default_rng(0)
    with ck.device(device):
        return {
            "matrix": ck.asarray(rng.normal(size=(3, 4)), dtype="float32"),
            "half": ck.asarray(rng.normal(size=5), dtype="bfloat16"),
            "number": ck.asarray(3.0),
            "nothing": ck.zeros((0, 3)),
            "bytes": ck.asarray(np.arange(6, dtype=np.int8).reshape(1, 2, 3)),
        }


@pytest.fixture
def path(tmp_path: Path, device: ck.Device) -> Path:
    made = tmp_path / "small.gguf"
    ck.save_gguf(made, tensors(device), METADATA)
    return made


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None) and np.all(a == b)


def test_what_is_written_is_read(path: Path, device: ck.Device, tmp_path: Path) -> None:
    read = ck.load_gguf(path, device=device)
    for name, x in tensors(device).items():
        one = read.tensors[name]
        assert (one.shape, one.dtype, one.device) == (x.shape, x.dtype, device)
        assert (one.numpy() == x.numpy()).all()
    assert list(read.metadata) == list(METADATA)
    assert same(read.metadata["an.int"], np.uint32(3)) and same(read.metadata["a.negative"], np.int32(-3))
    assert same(read.metadata["a.large"], np.uint64(2**40)) and same(
        read.metadata["a.float"], np.float32(0.5)
    )
    assert same(read.metadata["signed"], np.array([1, -1], np.int32))
    for name in "a.double a.bool a.string an.empty.string strings numbers bools".split():
        assert same(read.metadata[name], METADATA[name]), name
    again = tmp_path / "again.gguf"
    ck.save_gguf(again, read.tensors, read.metadata)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, np.uint32),
        (2**32 - 1, np.uint32),
        (2**32, np.uint64),
        (2**64 - 1, np.uint64),
        (-1, np.int32),
        (-(2**31), np.int32),
        (-(2**31) - 1, np.int64),
        (-(2**63), np.int64),
        ([0, 2**32 - 1], np.uint32),
        ([0, 2**32], np.uint64),
        ([1, 2**64 - 1], np.uint64),
        ([-1, 2**31 - 1], np.int32),
        ([2**31, -1], np.int64),
        ([-(2**31), 0], np.int32),
        ([-(2**31) - 1, 1], np.int64),
        ([-1, 2**63 - 1], np.int64),
    ],
)
def test_the_types_of_integers(tmp_path: Path, value: Any, kind: Any) -> None:
    path = tmp_path / "x.gguf"
    ck.save_gguf(path, {}, {"n": value})
    read = ck.load_gguf(path, device="host").metadata["n"]
    assert read.dtype == kind and read.tolist() == value


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, [0, 2**64], [-1, 2**63], [-(2**63) - 1, 0]])
def test_integers_that_no_type_holds_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ValueError, match="'n': expected integers"):
        ck.save_gguf(tmp_path / "x.gguf", {}, {"n": value})
    assert not list(tmp_path.iterdir())


def test_the_package_reads_the_same(path: Path, device: ck.Device) -> None:
    read = gguf.GGUFReader(path)
    assert {one.name: tuple(reversed(one.shape.tolist())) for one in read.tensors} == {
        name: x.shape for name, x in tensors(device).items()
    }
    assert (read.tensors[0].data == tensors(device)["matrix"].numpy()).all()
    assert read.fields["strings"].contents() == METADATA["strings"]


def test_the_host_shares_the_files_pages(tmp_path: Path) -> None:
    path = tmp_path / "shared.gguf"
    with ck.device("host"):
        x = ck.ones((4, 32))
        ck.save_gguf(path, {"dense": x, "blocks": ck.quant.quantize(x, "Q8_0")})
    read = ck.load_gguf(path, device="host").tensors
    for one in (read["dense"], read["blocks"].blocks):
        base = one._data
        while isinstance(base, np.ndarray):
            base = base.base
        assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


def test_a_file_larger_than_the_memory_is_mapped(tmp_path: Path) -> None:
    path, size = tmp_path / "large.gguf", 2**40
    content = a_file(tensor=a_tensor(shape=(size,), kind=24), tail=0)
    path.write_bytes(content)
    os.truncate(path, len(content) + size)  # a hole: it takes no room on the disk
    read = ck.load_gguf(path, device="host").tensors["x"]
    assert read.shape == (size,) and read[-1].item() == 0


def test_a_file_is_replaced_by_its_own_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.gguf"
    with ck.device("host"):
        ck.save_gguf(path, {"x": ck.arange(100000)})
        read = ck.load_gguf(path)
        ck.save_gguf(path, {"x": read.tensors["x"], "y": ck.ones(3)})
        assert (read.tensors["x"] == ck.arange(100000)).all()
        assert (ck.load_gguf(path).tensors["x"] == ck.arange(100000)).all()
    monkeypatch.setattr(gguf.GGUFWriter, "write_ti_data_to_file", fail)
    with pytest.raises(RuntimeError):  # a writer that fails leaves the file as it was
        ck.save_gguf(path, read.tensors)
    assert list(ck.load_gguf(path).tensors) == ["x", "y"]
    assert [one.name for one in tmp_path.iterdir()] == ["own.gguf"]


def fail(*_: Any) -> None:
    raise RuntimeError


def test_writes_to_arrays_leave_the_file(path: Path, device: ck.Device) -> None:
    before = path.read_bytes()
    read = ck.load_gguf(path, device=device)
    read.tensors["matrix"][...] = 7.0
    assert (read.tensors["matrix"].numpy() == 7).all()
    assert path.read_bytes() == before


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def a_file(
    entries: bytes = b"",
    tensor: bytes = b"",
    counts: tuple[int, int] | None = None,
    version: int = 3,
    tail: int = 256,
) -> bytes:
    found = counts if counts is not None else (int(bool(tensor)), int(bool(entries)))
    head = b"GGUF" + struct.pack("<IQQ", version, *found) + entries + tensor
    return head + bytes(-len(head) % 32) + bytes(tail)


def a_tensor(name: str = "x", shape: tuple[int, ...] = (8,), kind: int = 0, offset: int = 0) -> bytes:
    return string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


BAD = {
    "nothing": (b"", "expected a GGUF file"),
    "another format": (b"PK\3\4" + bytes(60), "expected a GGUF file"),
    "old": (a_file(version=1), "header: expected version 2 or 3 .* got version 1"),
    "swapped": (a_file(version=3 << 24), ".* the byte order is big-endian"),
    "cut": (b"GGUF\3\0\0", "header: expected 4 bytes at 4, but the file ends at 7"),
    "many tensors": (a_file(counts=(2**62, 0)), "header: 4611686018427387904 tensors do not fit"),
    "many entries": (a_file(counts=(0, 2**62)), "header: 4611686018427387904 entries of metadata do not fit"),
    "name's length": (
        a_file(struct.pack("<Q", 2**63) + bytes(16)),
        "entry of metadata 0: a string's length is",
    ),
    "type of value": (a_file(string("k") + struct.pack("<I", 77)), "'k': type 77 of values is not known"),
    "bool": (a_file(string("k") + struct.pack("<IB", 7, 2)), "'k': a bool is neither 0 nor 1"),
    "text": (a_file(string("k") + struct.pack("<IQB", 8, 1, 255)), "'k': a string is not UTF-8"),
    "long array": (
        a_file(string("k") + struct.pack("<IIQ", 9, 8, 2**60)),
        "'k': 1152921504606846976 values do not",
    ),
    "type of items": (
        a_file(string("k") + struct.pack("<IIQ", 9, 99, 1)),
        "'k': type 99 of values is not known",
    ),
    "nested": (
        a_file(string("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9),
        "'k': arrays are nested",
    ),
    "twice": (
        a_file((string("k") + struct.pack("<IB", 7, 1)) * 2, counts=(0, 2)),
        "'k': the name comes twice",
    ),
    "alignment": (
        a_file(string("general.alignment") + struct.pack("<II", 4, 24)),
        "'general.alignment': expected a power of two of at least 8, got .*24",
    ),
    "axes": (a_file(tensor=a_tensor(shape=(1,) * 5)), "'x': expected at most 4 axes, got 5"),
    "overflow": (a_file(tensor=a_tensor(shape=(2**32, 2**32))), "'x': shape .* is too large"),
    "empty but large": (a_file(tensor=a_tensor(shape=(0, 2**62))), "'x': shape .* is too large"),
    "type": (a_file(tensor=a_tensor(kind=999)), "'x': type 999 of tensors is not known"),
    "blocks": (
        a_file(tensor=a_tensor(kind=8, shape=(33,))),
        "'x': Q8_0 has blocks of 32 numbers, which do not",
    ),
    "offset": (a_file(tensor=a_tensor(offset=2**40)), "'x': 32 bytes at .* beyond the file's end"),
    "end": (a_file(tensor=a_tensor(offset=256)), "'x': 32 bytes at .* beyond the file's end"),
    "misaligned": (
        a_file(tensor=a_tensor(offset=8)),
        "'x': the offset 8 is not a multiple of the alignment 32",
    ),
    "overlap": (
        a_file(tensor=a_tensor("a", (16,)) + a_tensor("b", offset=32), counts=(2, 0)),
        "'b': it begins at .*, within 'a'",
    ),
    "tensor twice": (a_file(tensor=a_tensor() * 2, counts=(2, 0)), "'x': the name comes twice"),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_files_are_refused(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"bad.gguf: {message}"):
        ck.load_gguf(path)


def test_types_that_are_lacking_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rare.gguf"
    path.write_bytes(a_file(tensor=a_tensor(kind=16, shape=(256,))))
    with pytest.raises(TypeError, match="rare.gguf: 'x': cukern does not have the type IQ2_XXS"):
        ck.load_gguf(path)


def mutations(data: bytes, count: int) -> Any:
    """The file with some bytes changed, numbers made extreme, or cut."""
    rng = random.Random(0)
    extreme = (0, 1, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)
    for _ in range(count):
        made = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            at, choice = rng.randrange(4, len(made) - 8), rng.random()
            if choice < 0.4:
                made[at] = rng.randrange(256)
            elif choice < 0.8:
                size = rng.choice((4, 8))
                number = rng.choice(extreme) % 2 ** (8 * size)
                made[at : at + size] = number.to_bytes(size, "little")
            else:
                del made[at + 8 :]
            if len(made) < 16:
                break
        yield bytes(made)


def test_mutated_files_are_read_within_bounds_or_refused(path: Path, tmp_path: Path) -> None:
    refused, named, header = 0, 0, path.read_bytes()
    target = tmp_path / "mutated.gguf"
    tracemalloc.start()
    for content in mutations(header, 800):
        target.write_bytes(content)
        try:
            read = ck.load_gguf(target, device="host")
        except (ValueError, TypeError) as error:
            named += str(error).startswith(f"{target}: ")
            refused += 1
            continue
        for one in read.tensors.values():
            one.numpy().tobytes()  # a read outside the mapping would end the process
            assert one.nbytes <= len(content)
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()
    assert refused == named
    assert 300 < refused < 800, "mutations should reach both ends"


@pytest.mark.parametrize(
    ("given", "metadata", "error", "message"),
    [
        ({"x": 1}, {}, TypeError, "save_gguf: 'x': expected a cukern array, got int"),
        ({"x": "uint8"}, {}, TypeError, "save_gguf: 'x': the format has no uint8"),
        ({"x": (1,) * 5}, {}, ValueError, "save_gguf: 'x': expected at most 4 axes"),
        ({}, {"k": []}, ValueError, "save_gguf: metadata: 'k': expected one axis and at least one item"),
        ({}, {"k": [1, "a"]}, TypeError, "save_gguf: metadata: 'k': expected a list of items of one type"),
        (
            {},
            {"k": 2**64},
            ValueError,
            "save_gguf: metadata: 'k': expected integers that one type of at most 64 bits holds",
        ),
        ({}, {"k": 1e300}, ValueError, "save_gguf: metadata: 'k': expected a number that fits float32"),
        (
            {},
            {"k": [2**63, -1]},
            ValueError,
            "save_gguf: metadata: 'k': expected integers that one type of at most 64 bits holds, got -1",
        ),
        (
            {},
            {"k": ["\ud800"]},
            ValueError,
            "save_gguf: metadata: 'k': expected a string: .* no valid Unicode",
        ),
        ({}, {"\ud800": 1}, ValueError, "save_gguf: metadata: .* no valid Unicode"),
        ({"\ud800": (2,)}, {}, ValueError, "save_gguf: tensors: .* no valid Unicode"),
        ({}, {"k": None}, TypeError, "save_gguf: metadata: 'k': expected numbers, bools, strings"),
        ({}, {"general.alignment": 5}, ValueError, "'general.alignment': expected a power of two"),
        (
            {},
            {"general.alignment": 2**31},
            ValueError,
            "save_gguf: .*'general.alignment': expected at most 2097152",
        ),
    ],
)
def test_what_cannot_be_written_is_named(
    given: Any, metadata: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    def made(x: Any) -> Any:
        return ck.zeros(2, x) if isinstance(x, str) else ck.zeros(x) if isinstance(x, tuple) else x

    path = tmp_path / "never.gguf"
    with pytest.raises(error, match=message):
        ck.save_gguf(path, {name: made(x) for name, x in given.items()}, metadata)
    assert not path.exists()
