"""The cache of compiled files among many processes, and what the host device does when it breaks."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cukern.device import disk_cache
from cukern.device.disk_cache import DiskCache
from cukern.device.host import compiler as host_compiler
from cukern.device.host import translate as host_source
from cukern.device.interface import CompilerFailure
from cukern.errors import DeviceError
from cukern.text import signature

HERE = Path(__file__).parent
KEY = "ab" * 32

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from host_support import run
x = np.arange(40, dtype=np.int32)
run("int* x", "x[threadIdx.x] *= 3; __syncthreads();", x, block=40)
assert (x == 3 * np.arange(40)).all()
print("right")
"""


def start(cache: Path, **environment: str) -> subprocess.Popen[str]:
    full = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "CUKERN_CACHE_DIR": str(cache),
        **environment,
    }
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(HERE)],
        env=full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out, err) == (0, "right\n", "")


def wrapper(folder: Path, before: str) -> str:
    """A compiler that runs ``before``, unless it is only asked for its version, and then compiles."""
    script = folder / "wrapped-c++"
    real = " ".join(host_compiler.compiler().command)
    script.write_text(f'#!/bin/sh\ncase "$*" in *--version) ;; *) {before};; esac\nexec {real} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def made_at_first() -> int:
    """The runtime and the kernel, and for GCC the header that kernels share."""
    return 3 if host_compiler.compiler().is_gcc else 2


def entries(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file() and path.suffix in ("", ".gch"))


def leftovers(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.suffix not in ("", ".h", ".gch")]


# ---------------------------------------------------------------- the host device's cache


def test_six_processes_that_start_cold_compile_once(tmp_path):
    calls = tmp_path / "calls"
    compiler = wrapper(tmp_path, f"echo x >> {calls}; sleep 0.3")
    processes = [start(tmp_path / "cache", CXX=compiler) for _ in range(6)]
    for process in processes:
        finish(process)
    assert len(calls.read_text().split()) == made_at_first()
    assert len(entries(tmp_path / "cache")) == made_at_first()
    assert not leftovers(tmp_path / "cache")


def test_a_process_killed_while_it_compiles_holds_up_nobody(tmp_path):
    cache, started = tmp_path / "cache", tmp_path / "started"
    compiler = wrapper(tmp_path, f"[ -e {started} ] || {{ touch {started}; sleep 60; }}")
    first = start(cache, CXX=compiler)
    while not started.exists():
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    begin = time.monotonic()
    second = start(cache, CXX=compiler)
    finish(second)
    assert time.monotonic() - begin < 30
    assert len(entries(cache)) == made_at_first()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache in which a process has left its entries."""
    cache = tmp_path_factory.mktemp("filled") / "cache"
    finish(start(cache))
    return cache


@pytest.mark.parametrize(
    "damage",
    ["flip", "folder", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("truncate", "empty"))],
)
def test_a_damaged_entry_is_made_again(tmp_path, filled, damage):
    cache = shutil.copytree(filled, tmp_path / "cache")
    before = {path: path.read_bytes() for path in entries(cache)}
    assert len(before) == made_at_first()
    for path, content in before.items():
        if damage == "folder":
            path.unlink()
            path.mkdir()
        elif damage == "flip":
            middle = len(content) // 2
            path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        else:
            path.write_bytes(content[: len(content) // 2] if damage == "truncate" else b"")
    finish(start(cache))
    if damage != "folder":
        after = {path: path.read_bytes() for path in entries(cache)}
        assert after.keys() == before.keys()
        assert all(disk_cache._is_whole(path) for path in after)


def test_a_home_that_cannot_be_written_is_no_failure_and_no_warning(tmp_path):
    no_folder = tmp_path / "file"
    no_folder.write_text("not a folder")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    finish(start(no_folder / "cache", TMPDIR=str(temporary)))
    assert not list(temporary.iterdir())  # the process's own folder went with it


# ---------------------------------------------------------------- the header that kernels share

KERNEL = """
extern "C" __global__ void k(const float* x, float* y, int n) {
    for (int i = 0; i < n; ++i) y[i] = exp(x[i]);
}
"""


@pytest.fixture
def precompiled(tmp_path, monkeypatch):
    """The folder of the precompiled header in a cache of its own."""
    found = host_compiler.compiler()
    if not found.is_gcc:
        pytest.skip("the header is compiled in advance for GCC alone")
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path / "cache"))
    return host_compiler._precompiled(found, disk_cache.default_folder())


def test_a_kernel_reads_the_precompiled_header(precompiled, tmp_path):
    assert (precompiled / f"{host_compiler.HEADER}.gch").is_relative_to(tmp_path)
    command = host_compiler.compiler().kernel_command(tmp_path / "kernel.so", precompiled)
    text = host_source.source(signature.parse(KERNEL))
    done = subprocess.run([*command, "-H", "-Winvalid-pch"], input=text, capture_output=True, text=True)
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines[0] == f"! {precompiled / host_compiler.HEADER}.gch"
    assert not any(line.startswith(".") for line in lines)  # no header beside it


@pytest.mark.parametrize("content", [b"", b"gpch.013" + bytes(4000)])
def test_a_precompiled_header_that_breaks_is_done_without(precompiled, content):
    (precompiled / f"{host_compiler.HEADER}.gch").write_bytes(content)
    text = host_source.source(signature.parse(KERNEL))
    assert host_compiler.build_kernel(text).stat().st_size
    with pytest.raises(CompilerFailure) as failure:
        host_compiler.build_kernel(text.replace("exp(", "nothing("))
    assert "nothing" in failure.value.log
    assert ".gch" not in failure.value.log


def test_no_file_of_the_current_folder_is_read(tmp_path, monkeypatch):
    for name in [host_compiler.HEADER, "cukern_host.h"]:
        (tmp_path / name).write_text("#error read")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path / "cache"))
    assert host_compiler.build_kernel(host_source.source(signature.parse(KERNEL)))


# ---------------------------------------------------------------- DiskCache


def test_an_entry_is_made_once_and_begins_with_its_payload(tmp_path):
    cache = DiskCache(tmp_path / "cache")
    path = cache.get(KEY, lambda part: part.write_bytes(b"payload"))
    assert path.read_bytes().startswith(b"payload")
    assert cache.get(KEY, lambda part: pytest.fail("made twice")) == path
    assert DiskCache(tmp_path / "cache").get(KEY, lambda part: pytest.fail("made twice")) == path


def test_a_read_only_folder_serves_what_it_has_and_the_rest_is_private(tmp_path, monkeypatch):
    kept = DiskCache(tmp_path).get(KEY, lambda part: part.write_bytes(b"kept"))
    real = os.open

    def read_only(path: object, flags: int, *args: object, **kwargs: object) -> int:
        if flags & os.O_CREAT and str(path).startswith(str(tmp_path)):
            raise OSError(errno.EROFS, "Read-only file system", path)
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", read_only)
    cache = DiskCache(tmp_path)
    assert cache.get(KEY, lambda part: pytest.fail("made twice")) == kept
    other = cache.get("cd" * 32, lambda part: part.write_bytes(b"other"))
    assert other.read_bytes().startswith(b"other")
    assert not other.is_relative_to(tmp_path)
    assert cache.get("cd" * 32, lambda part: pytest.fail("made twice")) == other
    assert cache.get(KEY, lambda part: pytest.fail("made twice")) == kept


def test_what_the_maker_raises_is_passed_on_and_leaves_nothing(tmp_path):
    cache = DiskCache(tmp_path)

    def fail(part: Path) -> None:
        part.write_bytes(b"half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get(KEY, fail)
    assert not entries(tmp_path)
    assert not [path for path in leftovers(tmp_path) if path.suffix == ".tmp"]
    assert cache.get(KEY, lambda part: part.write_bytes(b"now")).read_bytes().startswith(b"now")


def _full(path):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_a_full_folder_is_replaced_by_a_private_one(tmp_path):
    def make(path):
        if path.is_relative_to(tmp_path):
            _full(path)
        path.write_bytes(b"made")

    assert DiskCache(tmp_path).get(KEY, make).read_bytes()[:4] == b"made"


def test_no_room_anywhere_is_a_device_error(tmp_path, monkeypatch):
    with pytest.raises(DeviceError, match="No space left.*CUKERN_CACHE_DIR"):
        DiskCache(tmp_path).get(KEY, _full)

    def nowhere(**_):
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(disk_cache.tempfile, "mkdtemp", nowhere)
    with pytest.raises(DeviceError, match="No usable temporary.*CUKERN_CACHE_DIR"):
        DiskCache(tmp_path).get(KEY, _full)


@pytest.mark.parametrize(
    ("module", "name"), [(disk_cache, "_remove_stale"), (disk_cache.tempfile, "mkstemp"), (os, "replace")]
)
def test_no_free_descriptors_are_no_fault_of_the_folder(tmp_path, monkeypatch, module, name):
    def full(*args, **options):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(module, name, full)
    with pytest.raises(OSError, match="Too many open files"):
        DiskCache(tmp_path).get(KEY, lambda path: path.write_bytes(b"x"))


def test_a_compiler_s_full_disk_is_the_cache_s(tmp_path, monkeypatch):
    script = tmp_path / "c++"
    script.write_text("#!/bin/sh\necho 'ld: final link failed: No space left on device' >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(OSError, match="No space left"):
        host_compiler._run([str(script)], "", tmp_path / "a" / "b" / "c")


def test_a_maker_that_is_slow_is_waited_for(tmp_path):
    def work(done: object, delay: float) -> None:
        def make(part: Path) -> None:
            time.sleep(delay)
            part.write_bytes(b"by " + str(delay).encode())

        payload = DiskCache(tmp_path).get(KEY, make).read_bytes()
        done.put(payload.startswith(b"by 0.5"))

    context = multiprocessing.get_context("fork")
    done = context.Queue()
    first = context.Process(target=work, args=(done, 0.5))
    first.start()
    while not leftovers(tmp_path):
        time.sleep(0.005)
    second = context.Process(target=work, args=(done, 0.0))
    second.start()
    assert done.get(timeout=20)
    assert done.get(timeout=20)
    first.join()
    second.join()


def test_a_lock_that_is_never_given_back_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "_LOCK_TIMEOUT", 0.2)
    cache = DiskCache(tmp_path)
    path = cache._path(tmp_path, KEY)
    path.parent.mkdir()
    with disk_cache._locked(path.with_suffix(".lock")):
        assert cache.get(KEY, lambda part: part.write_bytes(b"anyway")).read_bytes().startswith(b"anyway")


def test_what_a_killed_process_left_is_removed_after_an_hour(tmp_path):
    cache = DiskCache(tmp_path)
    folder = cache._path(tmp_path, KEY).parent
    folder.mkdir()
    old, new = folder / "old.tmp", folder / "new.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.get(KEY, lambda part: part.write_bytes(b"whole"))
    assert not old.exists()
    assert new.exists()


def test_the_folder_is_the_one_that_the_environment_names(monkeypatch, tmp_path):
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path))
    assert disk_cache.default_folder() == tmp_path
    monkeypatch.delenv("CUKERN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert disk_cache.default_folder() == tmp_path / "xdg" / "cukern"


def test_the_key_depends_on_compiler_options_machine_and_headers(monkeypatch, tmp_path):
    made: list[str] = []

    class Recorder:
        def get(self, key: str, make: object) -> Path:
            made.append(key)
            return tmp_path

    monkeypatch.setattr(host_compiler, "_cache", lambda folder: Recorder())
    source = "int x;"
    host_compiler.build_kernel(source)
    host_compiler.build_kernel(source)
    assert made[0] == made[1]
    host_compiler.build_kernel("int y;")
    monkeypatch.setattr(host_compiler, "machine", lambda: "another processor")
    host_compiler.build_kernel(source)
    monkeypatch.setattr(host_compiler, "_headers_hash", lambda: "other headers")
    host_compiler.build_kernel(source)
    monkeypatch.setattr(host_compiler, "_KERNEL_FLAGS", ["-O0"])
    host_compiler.build_kernel(source)
    assert len(set(made)) == len(made) - 1


def test_threads_check_a_folder_once(tmp_path, monkeypatch):
    """Both ask at once; one is told first, and the other waits for it."""
    told = []

    def warn(*about):
        told.append(about)
        time.sleep(0.05)

    monkeypatch.setattr(disk_cache.trust, "why_not", lambda *about: "it is here")
    monkeypatch.setattr(disk_cache.trust, "warn", warn)
    cache = disk_cache.DiskCache(tmp_path / "cache")
    threads = [threading.Thread(target=cache.find, args=("ab12",)) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(told) == 1
