"""Files of bundles that are cut, damaged or malformed: the error names the field."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cukern as ck
from cukern.device.bundle_file import TEMPLATES, BundleFile, Code, Target, hash_of, write


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of three kernels of one target, and of a template."""
    path = tmp_path_factory.mktemp("bundle") / "built"
    codes = [
        Code(name, hash_of(name), name.encode() * 700, {"name": name}) for name in ("add", "scan", "sort")
    ]
    template = Code("add.cu", hash_of("add.cu"), b"code" * 50)
    parts = [(Target("host", {"c library": "glibc 2.36"}), codes), (Target(TEMPLATES, {}), [template])]
    write(path, ck.__version__, parts)
    return path


def index_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The index of a bundle, and the machine code behind it."""
    size = struct.unpack_from("<Q", content, 8)[0]
    return json.loads(content[16 : 16 + size]), content[48 + size :]


def bundle_of(index: Any, code: bytes) -> bytes:
    text = json.dumps(index).encode()
    head = b"ckbundle" + struct.pack("<Q", len(text)) + text
    return head + hashlib.sha256(head).digest() + code


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(ck.DeviceError) as error:
        ck.load_bundle(path)
    assert str(error.value).startswith(f"bundle {path}: ")
    return str(error.value).removeprefix(f"bundle {path}: ")


def test_a_file_that_is_cut_anywhere_is_refused(built: Path, tmp_path: Path) -> None:
    content = built.read_bytes()
    for size in {*range(24), *range(24, len(content), len(content) // 200), len(content) - 1}:
        message = refused(tmp_path / "cut", content[:size])
        field = message.partition(":")[0].partition("[")[0]
        assert field in ("magic", "index size", "size", "kernels"), message
    assert "size: expected" in refused(tmp_path / "longer", content + b"\0")


def test_a_byte_that_changed_is_found(built: Path, tmp_path: Path) -> None:
    content = built.read_bytes()
    index, code = index_of(content)
    start = len(content) - len(code)
    for at in range(0, start, 97):
        changed = content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]
        assert refused(tmp_path / "changed", changed).startswith(("magic", "index size", "index hash"))
    for number, row in enumerate(index["kernels"]):
        at = start + row["start"] + row["size"] // 2
        (tmp_path / "code").write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        damaged = BundleFile(tmp_path / "code")
        with pytest.raises(ck.DeviceError, match=f"machine code of {row['name']}: expected SHA-256"):
            damaged.find(row["target"], row["key"])
        other = index["kernels"][number - 1]
        assert damaged.find(other["target"], other["key"]) is not None


def change(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda index: index["kernels"][0].__setitem__(name, value)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda index: index.pop("format"), "format: expected a field of type int, got none"),
        (lambda index: index.update(format=2), "format: expected 1, which this version of cukern reads, got 2"),
        (lambda index: index.update(format=True), "format: expected type int, got True"),
        (lambda index: index.pop("cukern"), "cukern: expected a field"),
        (lambda index: index.update(targets={}), "targets: expected type list, got {}"),
        (lambda index: index.update(targets=[3]), r"targets\[0\].facts: expected a field"),
        (lambda index: index["targets"][0]["facts"].update(x=1), r"targets\[0\].facts.x: expected type str, got 1"),
        (lambda index: index["kernels"].append(None), r"kernels\[\d+\].name: expected a field"),
        (change("target", 7), r"kernels\[0\].target: expected one of 2 targets, got 7"),
        (change("target", -1), r"kernels\[0\].target: expected one of 2 targets, got -1"),
        (change("start", -1), r"kernels\[0\].start: expected an offset within \d+ bytes"),
        (change("start", 2**70), r"kernels\[0\].start: expected an offset within \d+ bytes"),
        (change("size", -5), r"kernels\[0\].size: expected at most"),
        (change("size", 2**63), r"kernels\[0\].size: expected at most"),
        (change("size", "4"), r"kernels\[0\].size: expected type int, got '4'"),
        (change("key", "../../etc"), r"kernels\[0\].key: expected 64 hexadecimal digits"),
        (change("sha256", "0" * 63), r"kernels\[0\].sha256: expected 64 hexadecimal digits"),
        (change("parsed", []), r"kernels\[0\].parsed: expected type dict, got \[\]"),
    ],
)  # fmt: skip
def test_a_field_that_is_wrong_is_named(built: Path, tmp_path: Path, edit: Any, message: str) -> None:
    index, code = index_of(built.read_bytes())
    edit(index)
    (tmp_path / "wrong").write_bytes(bundle_of(index, code))
    with pytest.raises(ck.DeviceError, match=message):
        ck.load_bundle(tmp_path / "wrong")


@pytest.mark.parametrize("text", [b"[1]", b"{", b"[" * 100_000, b"\xff"])
def test_an_index_that_is_no_object_is_refused(tmp_path: Path, text: bytes) -> None:
    head = b"ckbundle" + struct.pack("<Q", len(text)) + text
    assert refused(tmp_path / "odd", head + hashlib.sha256(head).digest()).startswith("index: expected")


def test_no_room_for_machine_code_is_an_error_that_names_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "begun").touch()
    full = os.open("/dev/full", os.O_WRONLY), str(tmp_path / "begun")
    monkeypatch.setattr("tempfile.mkstemp", lambda **_: full)
    with (
        pytest.raises(ck.DeviceError, match="kernel scan .*No space left.*set TMPDIR to a folder"),
        Code("scan", hash_of("scan"), b"code").on_disk(),
    ):
        pass
    assert not (tmp_path / "begun").exists()
