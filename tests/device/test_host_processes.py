"""Launches on the host from several threads, after a fork, and on several cores."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from host_support import build, kernel, launch


def test_launches_from_many_python_threads():
    text = kernel(
        "const float* x, float* y, int n",
        """extern __shared__ float s[]; int i = blockIdx.x * blockDim.x + threadIdx.x;
        s[threadIdx.x] = i < n ? x[i] : 0; __syncthreads();
        if (i < n) y[i] = s[threadIdx.x] + s[0];""",
    )
    build(text)
    start = threading.Barrier(8)

    def work(seed: int) -> bool:
        x = np.random.default_rng(seed).standard_normal(64 * 300).astype(np.float32)
        start.wait()
        good = True
        for _ in range(20):
            y = np.zeros_like(x)
            launch(text, [x, y, x.size], 300, 64, 256)
            good &= bool((y == x + np.repeat(x[::64], 64)).all())
        return good

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


SCRIPT = """
import os, sys, warnings
sys.path.insert(0, {here!r})
import numpy as np
from host_support import kernel, launch
text = kernel("const float* x, float* y", "int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = 2 * x[i]; __syncthreads();")
x = np.arange(1 << 16, dtype=np.float32)
y = np.zeros_like(x)
launch(text, [x, y], 256, 256)
warnings.simplefilter("ignore", DeprecationWarning)
child = os.fork()
z = np.zeros_like(x)
launch(text, [x, z], 256, 256)
good = (z == 2 * x).all()
if child == 0:
    os._exit(0 if good else 7)
assert good and os.waitpid(child, 0)[1] == 0
print("both")
"""


def run_script(script: str, **environment: str) -> str:
    full = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", script.format(here=here)],
        env=full,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("threads", ["1", "4"])
def test_both_processes_launch_after_a_fork(threads):
    assert run_script(SCRIPT, CUKERN_NUM_THREADS=threads) == "both\n"


@pytest.mark.parametrize("threads", ["1", None])
def test_products_take_as_many_threads_as_kernels(
    monkeypatch: pytest.MonkeyPatch, threads: str | None
) -> None:
    script = """
import sys
import numpy as np
import cukern as ck
assert "threadpoolctl" not in sys.modules
ck.asarray(np.ones(3), device="host")
from threadpoolctl import threadpool_info
print([one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"])
"""
    if threads is None:
        monkeypatch.delenv("CUKERN_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("CUKERN_NUM_THREADS", threads)
    assert run_script(script, OPENBLAS_NUM_THREADS="2") == f"[{threads or 2}]\n"


def test_blocks_run_on_several_cores():
    # Each block waits for another one to have started, which can only happen on another core.
    script = """
import sys
sys.path.insert(0, {here!r})
import numpy as np
from host_support import kernel, launch
seen = np.zeros(3, np.int32)
body = "atomicAdd(seen, 1); for (long long i = 0; i < 20000000000ll; ++i) if (*(volatile int*)seen > 1) {{ seen[1 + blockIdx.x] = 1; return; }}"
text = kernel("int* seen", body)
launch(text, [seen], 2)
print(seen.tolist())
"""
    assert run_script(script, CUKERN_NUM_THREADS="2") == "[2, 1, 1]\n"


def test_many_cores_leave_stacks_for_other_threads():
    """Forty cores would take 40,960 stacks for blocks of 1024 threads that wait, more than a process may have."""
    script = """
import sys, threading
sys.path.insert(0, {here!r})
import numpy as np
from host_support import kernel, launch
body = "int i = blockIdx.x * blockDim.x + threadIdx.x; for (int k = 0; k < 3; ++k) __syncthreads(); y[i] = 2 * x[i];"
text = kernel("const float* x, float* y", body)
x = np.arange(400 * 1024, dtype=np.float32)
good = []
def work():
    y = np.zeros_like(x)
    launch(text, [x, y], 400, 1024)
    good.append(bool((y == 2 * x).all()))
work()
threads = [threading.Thread(target=work) for _ in range(3)]
[one.start() for one in threads]
[one.join() for one in threads]
print(good)
"""
    assert run_script(script, CUKERN_NUM_THREADS="40") == "[True, True, True, True]\n"


MEMORY = """
import resource
import cukern as ck
x = ck.ones((256, 1024), device="host")

def step():
    results = [x + i for i in range(4)]
    return results[0]

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(3):
    step()
before = pages()
for _ in range(10):
    step()
print(pages() - before)
x.device.backend.free_unused()
before = pages()
step()
print(pages() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how glibc keeps memory")
def test_memory_that_arrays_leave_is_kept() -> None:
    """Until it is asked for, or unless a variable of glibc's says otherwise; ten steps write 10,240 pages."""

    def run(**variables: str) -> tuple[int, int]:
        command, environment = [sys.executable, "-c", MEMORY], {**os.environ, **variables}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        steps, after = map(int, done.stdout.split())
        return steps, after

    steps, after = run()
    assert steps < 1000 <= after + 100
    assert run(MALLOC_TRIM_THRESHOLD_="65536", MALLOC_MMAP_THRESHOLD_="65536")[0] > 9000


LARGE = """
import resource
import numpy as np
import cukern as ck

def address(x):
    return np.from_dlpack(x).ctypes.data

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

ck.empty(1)
start = resident()
size = 10 << 20
first = ck.empty(size, dtype="float32")
first[:] = 1
part, foreign = first[5:7], np.from_dlpack(first[-2:])
place = address(first)
del first
second = ck.empty(size, dtype="float32")
second[:] = 2
assert address(second) != place and part.tolist() == foreign.tolist() == [1, 1]
del part
third = ck.empty(size, dtype="float32")
third[:] = 3
assert address(third) != place and foreign.tolist() == [1, 1]
del foreign
fourth = ck.empty((size // 2, 2), dtype="int32")  # as many bytes
print(address(fourth) == place)
del fourth
assert not ck.zeros(size, dtype="float32").any()
larger = ck.full(4 * size, 4, dtype="float32")
assert (float(larger[-1]), float(second[-1]), float(third[0])) == (4, 2, 3)
del second, third, larger
for some in range(40, 60):
    ck.full(some << 20, 1, dtype="uint8")
arrays = [ck.full(40 << 20, 1, dtype="uint8") for _ in range(12)]
del arrays
ck.full(300 << 20, 1, dtype="uint8")
print(resident() - start >> 20)
ck.Device("host").backend.free_unused()
print(resident() - start >> 20)
held = [ck.full(60 << 20, 1, dtype="uint8") for _ in range(5)]
start = resident()
ck.full(40 << 20, 1, dtype="uint8")
print(resident() - start >> 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what /proc says")
def test_memory_of_large_arrays_is_taken_again() -> None:
    """Where neither a view nor an array of NumPy's holds it; of all that is left 256 MiB at most are kept.

    Arrays that stay do not count.
    """

    def run(**variables: str) -> list[str]:
        command, environment = (
            [sys.executable, "-c", LARGE],
            {**os.environ, "CUKERN_DEVICE": "host", **variables},
        )
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        ).stdout.split()

    again, left, after, beside = run()
    assert again == "True" and int(beside) > 30
    assert int(after) < 40 < int(left) < 300
    _, left, *_ = run(MALLOC_MMAP_THRESHOLD_="65536")
    assert int(left) < 40
