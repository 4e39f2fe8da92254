"""Files are written whole or not at all, whatever ends the writing, and keep what their users gave them."""

from __future__ import annotations

import errno
import json
import os
import random
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import saving

import cukern as ck
from cukern import files

SAVERS = saving.savers()


@pytest.fixture(params=["unnamed", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether the file system has files without names."""
    if request.param == "named":
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    return str(request.param)


@pytest.fixture(autouse=True)
def on_host() -> Iterator[None]:
    with ck.device("host"):
        yield


def run(what: str, folder: Path, way: str) -> list[str]:
    return [sys.executable, saving.__file__, what, str(folder), way]


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("how", ["unnamed", "named"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, how: str) -> None:
    done = subprocess.run(
        run("full", tmp_path, how),
        env={**os.environ, "CUKERN_DEVICE": "host"},
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    found = json.loads(done.stdout)
    assert sorted(found) == sorted(SAVERS) == names(tmp_path)
    for name, (kind, number, text) in found.items():
        assert (kind, number) == ("OSError", errno.EFBIG), (name, text)
        assert str(tmp_path / name) in text
        assert (tmp_path / name).read_bytes() == b"old"


@pytest.mark.parametrize("times", [2, pytest.param(30, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("how", ["unnamed", "named"])
def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path, how: str, times: int) -> None:
    rng = random.Random(times)
    for _ in range(times):
        command = run("endless", tmp_path, how)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "CUKERN_DEVICE": "host"}
        ) as job:
            assert job.stdout is not None
            assert job.stdout.readline() == b"saved\n"
            time.sleep(rng.random() * 0.1)
            job.kill()
        for name in SAVERS:
            if name.endswith((".npy", ".npz", ".safetensors", ".pickle")):
                made: Any = ck.load(tmp_path / name, allow_pickle=True)
                values = np.asarray(made if isinstance(made, ck.Array) else made["x"])
                assert values.shape == (saving.SIZE,) and (values == values[0]).all()
        left = set(names(tmp_path)) - set(SAVERS)
        assert len(left) <= 1  # at most what was written at that moment
    for name, save in SAVERS.items():
        save(tmp_path / name, ck.ones(3))
    assert names(tmp_path) == sorted(SAVERS)  # and the next save removes it


def test_what_a_running_process_writes_is_not_removed(tmp_path: Path, way: str) -> None:
    path = tmp_path / "x"
    with files.replacing(path) as first:
        first.write(b"first")
        with files.replacing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["x"]


def test_an_error_of_the_writer_leaves_nothing(tmp_path: Path, way: str) -> None:
    with pytest.raises(KeyError), files.replacing(tmp_path / "x"):
        raise KeyError
    assert names(tmp_path) == []


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_modes(tmp_path: Path, way: str, mask: int) -> None:
    path = tmp_path / "x.npy"
    before = os.umask(mask)
    try:
        ck.save(path, ck.ones(1))
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
        for mode in (0o600, 0o640, 0o664, 0o755):
            path.chmod(mode)
            ck.save(path, ck.ones(1))
            assert stat.S_IMODE(path.stat().st_mode) == mode
        path.chmod(0o666)
        with files.replacing(path, 0o644):
            pass
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    finally:
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user who can give files away")
def test_owners_stay(tmp_path: Path, way: str) -> None:
    path = tmp_path / "x.npy"
    ck.save(path, ck.ones(1))
    os.chown(path, 1234, 1235)
    path.chmod(0o640)
    ck.save(path, ck.zeros(1))
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 1235, 0o640)


def test_a_group_that_cannot_be_kept_gives_nobody_else_its_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o660)
    found = os.stat(path)
    other = os.stat_result((*found[:5], found.st_gid + 1, *found[6:]))

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr(files, "_status", lambda target: other)
    with files.replacing(path):
        pass
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_links_are_followed(tmp_path: Path, way: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link.npy").symlink_to("in/middle.npy")
    (tmp_path / "in" / "middle.npy").symlink_to("x.npy")
    for number in (1.0, 2.0):  # first the file is not there
        ck.save(tmp_path / "link.npy", ck.asarray([number]))
        assert ck.load(tmp_path / "in" / "x.npy").tolist() == [number]  # type: ignore[union-attr]
    assert names(tmp_path / "in") == ["middle.npy", "x.npy"]
    (tmp_path / "round.npy").symlink_to("round.npy")
    with pytest.raises(OSError, match=r"round\.npy"):
        ck.save(tmp_path / "round.npy", ck.ones(1))


@pytest.mark.parametrize("name", sorted(set(SAVERS) - {"x.pickle", "x.html"}))
def test_pipes_are_written_to(tmp_path: Path, name: str) -> None:
    path, read = tmp_path / name, tmp_path / f"read.{name}"
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.write_bytes(path.read_bytes()))
    reader.start()
    SAVERS[name](path, ck.ones(5))
    reader.join()
    SAVERS[name](whole := tmp_path / f"whole.{name}", ck.ones(5))
    assert stat.S_ISFIFO(path.stat().st_mode)
    if name.endswith(".npz"):  # whose entries in a pipe have their sizes behind them
        with np.load(read) as piped, np.load(whole) as saved:
            assert sorted(piped) == sorted(saved) == ["x", "y"]
            assert (piped["x"] == saved["x"]).all() and (piped["y"] == saved["y"]).all()
    else:
        assert read.read_bytes() == whole.read_bytes()


def test_the_standard_output_is_written_to(tmp_path: Path) -> None:
    text = (
        "import sys, cukern as ck; x = ck.ones(3); ck.save('/dev/stdout', x); ck.save(sys.stdout.buffer, x);"
        "ck.save_safetensors('/dev/stdout', {'x': x})"
    )
    piped = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True).stdout
    single = tmp_path / "x.npy"
    ck.save(single, ck.ones(3))
    assert piped.startswith(single.read_bytes() * 2)
    assert piped.endswith(np.ones(3, np.float32).tobytes())


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no/x\.npy"):
        ck.save(tmp_path / "no" / "x.npy", ck.ones(1))
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        ck.save_safetensors(tmp_path, {})
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        ck.save_safetensors("/dev/full", {"x": ck.ones(10000)})
    with pytest.raises(OSError, match=r"File name too long"):
        ck.save(tmp_path / ("x" * 300), ck.ones(1))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write to every file")
def test_files_that_may_not_be_written_are_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match=r"x\.npy"):
        ck.save(path, ck.ones(1))
    assert path.read_bytes() == b"old"


def test_names_of_arrays_in_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    given: dict[Any, Any]
    for given, metadata, error, message in (
        ({"__metadata__": ck.ones(1)}, None, ValueError, "arrays: '__metadata__' is the format's own name"),
        ({3: ck.ones(1)}, None, TypeError, "arrays: expected names that are strings, got 3"),
        ({"\ud800": ck.ones(1)}, None, ValueError, "no valid Unicode"),
        ({}, {"a": 1}, TypeError, "metadata: expected texts by name, got 'a': 1"),
        ({}, {"a": "\ud800"}, ValueError, "no valid Unicode"),
        ([], None, TypeError, "arrays: expected arrays by name, got list"),
    ):
        with pytest.raises(error, match=f"save_safetensors: .*{message}"):
            ck.save_safetensors(path, given, metadata)  # type: ignore[arg-type]
    assert names(tmp_path) == []


def test_other_programs_read_safetensors(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    path = tmp_path / "x.safetensors"
    arrays = {
        "é": np.arange(3, dtype=np.int8),
        "w": np.arange(6, dtype=np.float64).reshape(3, 2).T,
        "none": np.zeros((0, 4), np.float32),
        "flag": np.array(True),
    }
    ck.save_safetensors(path, {name: ck.asarray(x) for name, x in arrays.items()}, {"made": "ü"})
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == {"made": "ü"}
        assert sorted(file.keys()) == sorted(arrays)
        for name, x in arrays.items():
            read = file.get_tensor(name)
            assert read.dtype == x.dtype and read.shape == x.shape and (read == x).all()


def test_any_name_of_an_array_in_npz(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    ck.savez(path, ck.ones(2), file=ck.zeros(1), allow_pickle=ck.arange(2))
    with np.load(path) as read:
        assert {name: read[name].tolist() for name in read} == {
            "file": [0.0],
            "allow_pickle": [0, 1],
            "arr_0": [1.0, 1.0],
        }
    with pytest.raises(ValueError, match="savez: arr_0 is the name of the positional array 0"):
        ck.savez(path, ck.ones(2), arr_0=ck.ones(1))
