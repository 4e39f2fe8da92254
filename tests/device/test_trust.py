"""Compiled code that another user may have written is not loaded."""

from __future__ import annotations

import grp
import os
import stat
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest

from cukern.device import disk_cache, trust
from cukern.device.disk_cache import DiskCache

KEY = "ab" * 32
STRANGER = 12345

RUNS_KERNELS = """
import cukern as ck
with ck.device("host"):
    x = ck.asarray([1.0, 2.0])
    print((x + x).tolist(), (x * x).tolist())
"""


@pytest.fixture(autouse=True)
def said_anew(monkeypatch):
    """Warnings that other tests have had come again."""
    trust.warn.cache_clear()
    trust._own_group.cache_clear()


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``path`` another user's: by root really, else by taking this process for another user's."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)


def kept(folder: Path) -> Path:
    return DiskCache(folder).get(KEY, lambda part: part.write_bytes(b"kept"))


def test_a_folder_of_one_s_own_is_read(tmp_path):
    assert trust.why_not(tmp_path / "cache" / "none" / "yet") is None
    path = kept(tmp_path / "cache")
    assert trust.why_not(path) is None
    assert DiskCache(tmp_path / "cache").get(KEY, lambda part: pytest.fail("made twice")) == path


@pytest.mark.parametrize("mode,reason", [(0o777, "every user may write"), (0o775, "group .* may write")])
@pytest.mark.parametrize("above", [False, True])
def test_a_folder_that_others_may_write_to_is_not_read(tmp_path, monkeypatch, mode, reason, above):
    monkeypatch.setattr(trust, "_own_group", lambda group: False)
    folder = tmp_path / "above" / "cache"
    kept(folder)
    (folder.parent if above else folder).chmod(mode)
    with pytest.warns(RuntimeWarning, match=rf"{folder} are not used, as {reason}.*set CUKERN_CACHE_DIR"):
        path = DiskCache(folder).get(KEY, lambda part: part.write_bytes(b"made"))
    assert path.read_bytes().startswith(b"made")
    assert not path.is_relative_to(tmp_path)
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    with warnings.catch_warnings():  # said once
        warnings.simplefilter("error")
        DiskCache(folder).get(KEY, lambda part: part.write_bytes(b"made"))


def test_a_folder_of_another_user_is_not_read(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    kept(folder)
    give_away(folder, monkeypatch)
    with pytest.warns(RuntimeWarning, match="belongs to user .*CUKERN_CACHE_DIR"):
        path = DiskCache(folder).get(KEY, lambda part: part.write_bytes(b"made"))
    assert path.read_bytes().startswith(b"made")


@pytest.mark.parametrize("how", ["mode", "link", "folder"])
def test_an_entry_that_others_may_have_written_is_made_again(tmp_path, how):
    path = kept(tmp_path / "cache")
    if how == "mode":
        path.chmod(0o666)
    elif how == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.parent.chmod(0o777)
    made = DiskCache(tmp_path / "cache").get(KEY, lambda part: part.write_bytes(b"anew"))
    assert made.read_bytes().startswith(b"anew")
    assert not made.is_symlink()
    assert trust.why_not(made) is None


def test_what_is_made_is_for_nobody_else_to_write_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:

        def make(part: Path) -> None:
            part.unlink()  # as linkers do
            part.write_bytes(b"made")

        path = DiskCache(tmp_path / "some" / "cache").get(KEY, make)
    finally:
        os.umask(before)
    for one in (path, *path.parents[:4]):
        assert not one.stat().st_mode & 0o022, one
    DiskCache(tmp_path / "some" / "cache").get(KEY, lambda part: pytest.fail("made twice"))


def test_a_sticky_folder_is_safe_above_one_s_own(tmp_path):
    tmp_path.chmod(0o1777)
    path = kept(tmp_path / "cache")
    assert DiskCache(tmp_path / "cache").get(KEY, lambda part: pytest.fail("made twice")) == path


def test_the_group_of_one_user_is_that_user(tmp_path, monkeypatch):
    import pwd

    user = types.SimpleNamespace(pw_name="anna")
    monkeypatch.setattr(pwd, "getpwuid", lambda number: user)
    groups = ("anna", [], True), ("anna", ["anna"], True), ("anna", ["bert"], False), ("users", [], False)
    for name, members, own in groups:
        group = types.SimpleNamespace(gr_name=name, gr_mem=members)
        monkeypatch.setattr(grp, "getgrgid", lambda number, group=group: group)
        trust._own_group.cache_clear()
        tmp_path.chmod(0o775)
        assert (trust.why_not(tmp_path) is None) == own


def test_kernels_of_a_folder_of_others_are_not_loaded(tmp_path):
    def run() -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "CUKERN_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, "-c", RUNS_KERNELS], env=environment, capture_output=True, text=True
        )

    folder = tmp_path / "cache"
    assert run().stderr == ""
    for path in folder.rglob("*"):  # what ends the process that loads it
        if path.is_file() and path.suffix == "":
            path.write_bytes(b"")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    folder.chmod(0o777)
    done = run()
    assert done.stdout == "[2.0, 4.0] [1.0, 4.0]\n"
    assert done.stderr.count("are not used") == 1
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_cupy_s_cache_is_turned_away_from_a_folder_of_others(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "kernels"))
    disk_cache.protect_cupy()
    assert os.environ["CUPY_CACHE_DIR"] == str(tmp_path / "kernels")
    tmp_path.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="every user may write .* set CUPY_CACHE_DIR"):
        disk_cache.protect_cupy()
    chosen = Path(os.environ["CUPY_CACHE_DIR"])
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o700
    assert not chosen.is_relative_to(tmp_path)
