"""A user's kernel on the host that writes where it must not, or never ends, is an error that says so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from host_support import kernel, launch, run

import cukern as ck
from cukern.device.host import backend as host
from cukern.device.host import lines, settings
from cukern.errors import DeviceError, KernelFault

RED_ZONES = "checked launches see the access itself, and need no red zones"
TIME_LIMIT = "the time limit of unchecked launches"

DOUBLED = ck.Kernel(
    """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    y[i] = 2 * x[i];
}""",
    name="doubled",
)


@pytest.mark.parametrize("checked", [False, True])
def test_a_launch_takes_nothing_but_arrays_for_arrays(checked: bool) -> None:
    """What is no ndarray has other fields where its address and its sizes would be: the launch would write anywhere."""
    with ck.device("host") as here:
        number = ck.Array._wrap(np.int64(5), here)
        with (
            ck.testing.checked() if checked else nullcontext(),
            pytest.raises(KernelFault, match="an argument is not an ndarray"),
        ):
            ck.tanh(number.astype("float32"))


@pytest.mark.parametrize("n", [0, 1, 250, 256, 1000, 2048, 2049, 100_001])
@pytest.mark.unchecked_only(RED_ZONES)
def test_a_write_past_the_end_of_an_array_is_a_fault(n):
    """The least and the largest array that is copied, those that are not, and what has no thread too many."""
    with ck.device("host"):
        # Ones behind x too: twice what memory happens to hold there may be the zone's own bytes.
        x, y = ck.ones(n + 256)[:n], ck.empty(n)
    version = y._storage.version
    if n % 256 == 0:
        DOUBLED(x, y)
    else:
        with pytest.raises(KernelFault) as caught:
            DOUBLED(x, y)
        over = 4 * (-n % 256)
        assert f"argument y: the kernel wrote past its end, {over} bytes from byte {4 * n} on" in str(
            caught.value
        )
        assert f"element {n} of {n}" in str(caught.value) and "`if (i < n)`" in str(caught.value)
    assert y._storage.version == version + (n > 0)
    assert (y.numpy() == 2).all()
    if n > 1:  # the next launch has zones as new
        DOUBLED(x[: n // 256 * 256], y[: n // 256 * 256], grid=n // 256)


@pytest.mark.parametrize("n", [10, 5000])
@pytest.mark.parametrize(("ctype", "index"), [("double", -1), ("double", -64), ("short", -3)])
@pytest.mark.unchecked_only(RED_ZONES)
def test_a_write_before_an_array_is_a_fault(n, ctype, index):
    y = ck.zeros(n, dtype={"double": ck.float64, "short": ck.int16}[ctype], device="host")
    before = ck.Kernel(
        f'extern "C" __global__ void << name >>({ctype}* y, int at) {{ y[at] = 7; }}', name="before", block=1
    )
    with pytest.raises(KernelFault, match=f"argument y: the kernel wrote before it, .*element {index}\\)"):
        before(y, index, grid=1)
    assert (y.numpy() == 0).all()


WAYS: dict[str, Callable[[int], ck.Array]] = {
    "empty_like": lambda n: ck.empty_like(ck.ones(n)),
    "zeros": ck.zeros,
    "full": lambda n: ck.full(n, 3.0),
    "copy": lambda n: ck.ones(n).copy(),
    "result": lambda n: ck.ones(n) + 1,
    "rows": lambda n: ck.zeros((3, n))[-1],
    "numpy, small": lambda n: ck.asarray(np.zeros(n % 2000, np.float32)),
    "a view, small": lambda n: ck.zeros(5000)[1000:1900],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.unchecked_only(RED_ZONES)
def test_arrays_of_all_ways_to_make_one_have_red_zones(way):
    with ck.device("host"):
        y = WAYS[way](9999)
        with pytest.raises(KernelFault, match="argument y: the kernel wrote past its end"):
            DOUBLED(ck.ones(10240), y, grid=-(-y.size // 256))
    assert (y.numpy() == 2).all()


def test_memory_with_red_zones_is_memory_as_any():
    """Of every dtype, aligned for the widest vectors, zero where zeros were asked for, freed with its last view."""
    for name in ("float16", "bfloat16", "float32", "float64", "bool", "uint8", "int64"):
        data = ck.zeros((7, 0, 9) if name == "bool" else (70, 301), dtype=name, device="host")._data
        assert data.dtype == ck.asarray([], dtype=name).dtype and data.flags.c_contiguous
        assert data.flags.writeable and not data.any()
        if data.size:
            assert data.ctypes.data % 64 == 0
            data[3:5] = 1
            assert data.sum(dtype=np.float64) == 602
    used = []
    for _ in range(60):
        kept = ck.zeros(1 << 20, device="host")[5:]
        kept[:] = 1
        used.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    assert used[-1] - used[5] < 40 << 20


def test_a_view_with_strides_and_a_null_pointer_are_left_alone():
    text = """
extern "C" __global__ void << name >>(View<float, 1> v, float* absent) {
    if (threadIdx.x < v.shape[0] && !absent) v.data[threadIdx.x * v.strides[0]] = 1;
}"""
    y = ck.zeros(20, device="host")
    ck.Kernel(text, name="strided")(y[::2], None, grid=1)
    assert y.tolist() == [1, 0] * 10


def test_counts_of_many_threads_in_one_small_array_are_all_there():
    """A launch works on a copy of a small array, and waits for the launches that do so too."""
    text = kernel("int* count", "atomicAdd(count, 1);")
    count = np.zeros(1, np.int32)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: launch(text, [count], 3, 5), range(200)))
    assert count[0] == 200 * 15


# ---------------------------------------------------------------- shared memory


DYNAMIC = "extern __shared__ float s[];\ns[threadIdx.x] = 1; {wait} y[threadIdx.x] = s[threadIdx.x];"


@pytest.mark.parametrize("wait", ["", "__syncthreads();"])
@pytest.mark.parametrize(("shared", "first"), [(0, 0), (4, 128), (252, 252), (255, 255)])
@pytest.mark.unchecked_only(RED_ZONES)
def test_dynamic_shared_memory_ends_where_the_launch_said(wait, shared, first):
    """Beyond the next multiple of 128 an access is a fault at once; up to there a write is seen at the block's end."""
    y = np.zeros(64, np.float32)
    text = kernel("float* y", DYNAMIC.format(wait=wait))
    message = f"of dynamic shared memory, where the launch asked for {shared} bytes: shared="
    with pytest.raises(KernelFault, match=message) as caught:
        launch(text, [y], 2, 64, shared)
    assert f"byte {first} of" in str(caught.value)
    launch(text, [y], 2, 64, 256)
    assert (y == 1).all()


@pytest.mark.unchecked_only(RED_ZONES)
def test_a_write_before_dynamic_shared_memory():
    body = "extern __shared__ int s[]; s[(int)threadIdx.x - 2] = 1; __syncthreads(); y[0] = s[0];"
    with pytest.raises(KernelFault, match="byte -8 of dynamic shared memory"):
        run("int* y", body, np.zeros(1, np.int32), block=32, shared=128)


@pytest.mark.unchecked_only("reads what is unset")
def test_shared_memory_begins_unset_in_each_block():
    body = """
    extern __shared__ float dynamic[];
    __shared__ double fixed[3];
    __shared__ int number;
    int t = threadIdx.x;
    y[4 * blockIdx.x] = dynamic[7]; y[4 * blockIdx.x + 1] = fixed[1] + fixed[2]; y[4 * blockIdx.x + 2] = number;
    __syncthreads();
    dynamic[7] = fixed[1] = fixed[2] = number = t;
    y[4 * blockIdx.x + 3] = t;"""
    y = np.zeros((5, 4), np.float32)
    run("float* y", body, y, grid=5, block=32, shared=32)
    np.testing.assert_array_equal(y, np.tile(np.float32([np.nan, np.nan, -1, 31]), (5, 1)))


# ---------------------------------------------------------------- what does not end


@pytest.fixture
def limit() -> Iterator[Callable[[float], None]]:
    """Sets the time limit for the test."""
    runtime = host._runtime()
    yield lambda seconds: runtime.cukern_set_limit(int(seconds * 1e9))
    runtime.cukern_set_limit(settings.time_limit())


def overtime(body: str, grid: int = 1, block: int = 64) -> str:
    flag = np.zeros(1, np.int32)
    began = time.monotonic()
    with pytest.raises(KernelFault, match=r"ran longer than 0.2 s \(CUKERN_KERNEL_TIMEOUT") as caught:
        launch(kernel("int* flag", body), [flag], grid, block)
    assert time.monotonic() - began < 30
    run("int* flag", "__syncthreads(); atomicAdd(flag, 1);", flag, block=32)
    return str(caught.value)


@pytest.mark.unchecked_only(TIME_LIMIT)
def test_a_spin_on_another_thread_is_stopped_and_named(limit):
    limit(0.2)
    message = overtime(
        "if (threadIdx.x == 3)\n  while (*(volatile int*)flag == 0)\n    ;\nif (threadIdx.x == 9) *flag = 1;"
    )
    assert "block (0, 0, 0), thread (3, 0, 0) runs at test.cu:3" in message


@pytest.mark.unchecked_only(TIME_LIMIT)
def test_a_spin_on_a_later_block_is_stopped_and_named(limit):
    limit(0.2)
    body = "if (blockIdx.x < 400)\n  while (atomicAdd(flag, 0) == 0);\nelse *flag = 1;"
    message = overtime(body, grid=500)
    assert "block (0, 0, 0), thread (0, 0, 0) runs at test.cu:3" in message


@pytest.mark.parametrize("sleep", ["", "__nanosleep(10)"])
@pytest.mark.unchecked_only(TIME_LIMIT)
def test_a_stopped_block_says_where_its_threads_wait(limit, sleep):
    limit(0.2)
    body = f"""if (threadIdx.x == 3)
    while (atomicAdd(flag, 0) == 0) {sleep};
__syncthreads();
if (threadIdx.x == 5) *flag = 1;"""
    message = overtime(body)
    assert "block (0, 0, 0), thread (3, 0, 0) runs at " in message
    if sleep:
        assert "runs at __nanosleep, test.cu:3" in message or "runs at test.cu:3" in message
        assert "thread (0, 0, 0) and 62 more at __syncthreads, test.cu:4" in message
    else:
        assert "runs at test.cu:3" in message
        assert "thread (0, 0, 0) and 2 more at __syncthreads, test.cu:4" in message
        assert "60 other threads that could run have not had their turn" in message


@pytest.mark.unchecked_only(TIME_LIMIT)
def test_a_long_loop_without_a_wait_is_stopped(limit):
    limit(0.2)
    message = overtime(
        "float a = 1;\nfor (long long i = 0; i < 1ll << 40; ++i)\n  a = sqrtf(a + i);\n*flag = a;"
    )
    assert re.search(r"blocks 0 to 0, of which one runs at test.cu:[34]\b", message), message


@pytest.mark.unchecked_only(TIME_LIMIT)
def test_a_kernel_within_its_time_goes_on(limit):
    body = "float a = 1; for (int i = 0; i < n; ++i) a = sqrtf(a + i); y[threadIdx.x] = a;"
    wanted, y = np.zeros(1, np.float32), np.zeros(1, np.float32)
    limit(0)
    run("float* y, int n", body, wanted, 20_000_000)
    limit(60)
    run("float* y, int n", body, y, 20_000_000)
    assert y[0] == wanted[0] > 0


@pytest.mark.parametrize("value", ["soon", "-1", "nan", ""])
def test_a_time_limit_that_is_none(monkeypatch, value):
    monkeypatch.setenv("CUKERN_KERNEL_TIMEOUT", value)
    with pytest.raises(DeviceError, match=f"CUKERN_KERNEL_TIMEOUT: expected seconds, .* got '{value}'"):
        settings.time_limit()


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import cukern as ck

def kernel(name, body):
    made = ck.Kernel('extern "C" __global__ void << name >>(<< elem >>* y) {' + body + "}", name=name, block=64)
    made.bind("host", elem=ck.int32)
    return made

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job has not
spin = "while (*(volatile int*)y == 0);"
kernels = [
    (kernel("plain", spin), 1),
    (kernel("fibers", "__syncthreads(); if (threadIdx.x == 3) " + spin + " __syncthreads();"), 1),
    (kernel("helper", "if (blockIdx.x == 0) return; " + spin), 9),
]
other = kernel("other", "__syncthreads(); y[threadIdx.x] = threadIdx.x;")
y = ck.zeros(1, dtype=ck.int32, device="host")
for made, grid in kernels:
    version = y._storage.version
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        made(y, grid=grid)
    except KeyboardInterrupt:
        print("interrupted", y._storage.version - version)

# A handler that raises nothing: the kernel goes on, also when the handler launches others.
seen = []
def handler(*_):
    z = ck.zeros(64, dtype=ck.int32, device="host")
    other(z, grid=1)
    seen.append(z.tolist() == list(range(64)))
    try:
        kernels[1][0](z, grid=1)
    except ck.KernelFault as error:
        print(str(error).partition(": ")[2])
    flag[0] = 1

signal.signal(signal.SIGALRM, handler)
flag = np.zeros(4000, np.int32)  # shared with the array, and not copied
whole = ck.asarray(flag, device="host")
signal.setitimer(signal.ITIMER_REAL, 0.2)
kernels[1][0](whole, grid=1)
print("ended", seen)
"""


def test_a_signal_ends_a_running_kernel_if_its_handler_raises():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CUKERN_KERNEL_TIMEOUT": "30"}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", INTERRUPTED],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        *["interrupted 1"] * 3,
        "a signal's handler cannot launch the kernel that the signal interrupted",
        "ended [True]",
    ]


LEFT_ANYWHERE = """
import ctypes, signal, time
import cukern as ck

class Left(Exception):
    pass

class Event(ctypes.Structure):  # struct sigevent
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int)]
    _fields_ += [("rest", ctypes.c_char * 48)]

def leave(*_):
    global launched
    if launched:
        launched = False
        raise Left

y, launched, count = ck.zeros(32, device="host"), False, 0
stores = ck.Kernel(text, name="stores", block=32)
stores(y, 10, grid=1)
signal.signal(signal.SIGALRM, leave)
library = ctypes.CDLL(None)
for period in (50_000, 50_011):  # ns: apart by any time, once in a quarter of a second
    timer = ctypes.c_void_p()
    library.timer_create(1, ctypes.byref(Event(None, signal.SIGURG, 0)), ctypes.byref(timer))
    library.timer_settime(timer, 0, (ctypes.c_long * 4)(0, period, 0, period), None)
signal.setitimer(signal.ITIMER_REAL, 2e-4, 2e-4)
end = time.monotonic() + 5
while time.monotonic() < end:
    try:
        launched = True
        stores(y, 1 << 30, grid=1)
    except Left:
        count += 1
signal.setitimer(signal.ITIMER_REAL, 0)
stores(y, 10, grid=1)
print(count > 0 and y.tolist() == [1.0] * 4 + [0.0] * 28)
"""
STORES = """
<% include "prelude/bulk_copy.cuh" %>
extern "C" __global__ void << name >>(float* y, int count) {
    __shared__ __align__(16) float ones[4];
    if (threadIdx.x < 4) ones[threadIdx.x] = 1;
    fence_to_async();
    __syncwarp();
    for (int i = 0; threadIdx.x == 0 && i < count; ++i) {
        store_bulk(y, ones, sizeof ones);
        commit_stores();
        wait_stores<0>();
    }
}
"""


@pytest.mark.thorough
def test_a_kernel_is_left_wherever_a_signal_finds_it():
    """Also where one tick comes while another is handled: the C library's memory stays whole, and the runtime's."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", f"text = {STORES!r}\n{LEFT_ANYWHERE}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stdout + done.stderr


@pytest.mark.unchecked_only(TIME_LIMIT)
def test_only_the_threads_of_the_stopped_launch_are_stopped(limit):
    """While some threads' kernels spin until they are stopped, those of others end as ever."""
    limit(0.4)
    spin = kernel("int* flag", "while (*(volatile int*)flag == 0);")
    fine = kernel(
        "const float* x, float* y", "__syncthreads(); int i = blockIdx.x * 64 + threadIdx.x; y[i] = 2 * x[i];"
    )
    launch(fine, [np.ones(64, np.float32), np.ones(64, np.float32)], 1, 64)
    x = np.arange(6400, dtype=np.float32)

    def stopped(_: int) -> bool:
        with pytest.raises(KernelFault, match="ran longer"):
            launch(spin, [np.zeros(1, np.int32)], 2, 1)
        return True

    def ends(_: int) -> bool:
        y = np.zeros_like(x)
        launch(fine, [x, y], 100, 64)
        return bool((y == 2 * x).all())

    with ThreadPoolExecutor(6) as pool:
        assert all([*pool.map(stopped, range(3)), *pool.map(ends, range(60))])


def test_a_child_of_a_fork_has_its_own_watch():
    script = """
import os, sys, time
import numpy as np
sys.path.insert(0, {here!r})
from host_support import kernel, launch
spin = kernel("int* flag", "while (*(volatile int*)flag == 0);")
flag = np.ones(1, np.int32)
launch(spin, [flag])
child = os.fork()
flag[0] = 0
try:
    launch(spin, [flag])
except Exception as error:
    good = "ran longer" in str(error)
if child == 0:
    os._exit(0 if good else 7)
assert good and os.waitpid(child, 0)[1] == 0
print("both")
"""
    here = os.path.dirname(os.path.abspath(__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CUKERN_KERNEL_TIMEOUT": "0.2"}
    command = [sys.executable, "-W", "ignore", "-c", script.format(here=here)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "both\n", done.stdout + done.stderr


def test_a_line_of_a_template_is_told_before_one_of_the_prelude() -> None:
    templates = ["own.cu", "prelude/base.cuh"]
    frames = ["/a/prelude/base.cuh:3", "/b/own.cu:7 (discriminator 2)", "/b/own.cu:9"]
    assert lines.template_line(frames, templates) == "own.cu:7"
    assert lines.template_line(frames[:1], templates) == "prelude/base.cuh:3"
    assert lines.template_line(["/c/other.cu:4", "/b/own.cu:?"], templates) is None
