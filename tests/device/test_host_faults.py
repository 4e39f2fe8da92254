"""What goes wrong in a kernel on the host is an error of the launch that says where, and the process goes on."""

from __future__ import annotations

import errno
import importlib.util
import os
import platform
import shutil
import signal as signals
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from host_support import build, kernel, launch, run

from cukern.device.host import backend as host
from cukern.device.host import compiler as host_compiler
from cukern.device.host import translate as host_source
from cukern.device.interface import CompilerFailure
from cukern.errors import DeviceError, KernelFault, LaunchError
from cukern.text import signature

OWN_WORDS = "checked launches say it in words of their own"


def fault(text: str, *values, grid=1, block=32, shared=0) -> str:
    """The message of the fault, after which the process still launches."""
    with pytest.raises(KernelFault) as caught:
        launch(text, values, grid, block, shared)
    out = np.zeros(64, np.int32)
    run("int* out", "__syncthreads(); out[threadIdx.x] = threadIdx.x;", out, block=64)
    assert out.tolist() == list(range(64))
    return str(caught.value)


def test_a_barrier_that_only_some_threads_reach_names_both_places():
    text = kernel(
        "int* x", "if (threadIdx.x < 32)\n  __syncthreads();\nelse {\n  x[0] = 1;\n  __syncthreads();\n}"
    )
    message = fault(text, np.zeros(1, np.int32), grid=3, block=(64, 2, 1))
    assert "test_kernel: block (" in message
    assert "thread (0, 0, 0) and 63 more at __syncthreads, test.cu:3" in message
    assert "thread (32, 0, 0) and 63 more at __syncthreads, test.cu:6" in message


def test_line_directives_name_the_template():
    text = kernel(
        "int n", '\n#line 40 "mine.cu"\nif (threadIdx.x < n) __syncthreads();\n\nelse __syncthreads();'
    )
    message = fault(text, 5)
    assert "mine.cu:40" in message
    assert "mine.cu:42" in message


def test_barriers_of_different_kinds_do_not_meet():
    message = fault(kernel("int n", "if (threadIdx.x < n) __syncthreads();\nelse __syncthreads_or(1);"), 5)
    assert "thread (0, 0, 0) and 4 more at __syncthreads, test.cu:2" in message
    assert "thread (5, 0, 0) and 26 more at __syncthreads_or, test.cu:3" in message


def test_a_barrier_and_a_warp_function_do_not_meet():
    message = fault(
        kernel("int n", "if (threadIdx.x < n) __syncthreads();\nelse __shfl_sync(0xffffffffu, n, 0);"), 5
    )
    assert "thread (0, 0, 0) and 4 more at __syncthreads, test.cu:2" in message
    assert "thread (5, 0, 0) and 26 more at __shfl_sync of lanes 0xffffffff, test.cu:3" in message


def test_warp_functions_with_different_masks_do_not_meet():
    body = "if (threadIdx.x < 16) __ballot_sync(0x1ffffu, 1);\nelse __ballot_sync(0xffff8000u, 1);"
    message = fault(kernel("int n", body), 5)
    assert "thread (0, 0, 0) and 15 more at __ballot_sync of lanes 0x0001ffff, test.cu:2" in message
    assert "thread (16, 0, 0) and 15 more at __ballot_sync of lanes 0xffff8000, test.cu:3" in message


def test_a_lane_that_goes_on_to_a_barrier_without_the_warp_is_named():
    body = "if (threadIdx.x != 7)\n  __reduce_add_sync(0xffffffffu, 1u);\n__syncthreads();"
    message = fault(kernel("int n", body), 5)
    assert "thread (0, 0, 0) and 30 more at __reduce_add_sync of lanes 0xffffffff, test.cu:3" in message
    assert "thread (7, 0, 0) at __syncthreads, test.cu:4" in message


def test_a_lane_outside_its_own_mask():
    message = fault(kernel("int n", "__shfl_sync(0xfffffffeu, n, 1);"), 5)
    assert "block (0, 0, 0), thread (0, 0, 0)" in message
    assert "leaves out the calling lane, test.cu:2" in message


def test_a_width_that_is_no_power_of_two():
    assert "width of a shuffle is not 1, 2, 4, 8, 16 or 32, test.cu:2" in fault(
        kernel("int n", "__shfl_sync(~0u, n, 1, 12);"), 5
    )


@pytest.mark.parametrize("wait", ["", "__syncthreads();"])
def test_assert_says_what_and_where(wait):
    body = f"{wait}\nint i = blockIdx.x * 8 + threadIdx.y;\nassert(i != 21 && n == 5);"
    message = fault(kernel("int n", body), 5, grid=(4, 1, 1), block=(1, 8, 1))
    assert "block (2, 0, 0), thread (0, 5, 0): assertion failed: i != 21 && n == 5, test.cu:4" in message


def test_assert_obeys_ndebug():
    launch(kernel("int n", "assert(n != 5);", "#define NDEBUG\n#include <assert.h>\n"), [5])


@pytest.mark.parametrize("wait", ["", "__syncthreads();"])
def test_trap(wait):
    message = fault(kernel("int n", f"{wait} if (threadIdx.x == 3) __trap();"), 5)
    assert "block (0, 0, 0), thread (3, 0, 0): __trap() was called" in message


@pytest.mark.unchecked_only("blocks of a checked launch run to its end")
def test_the_other_blocks_stop_after_a_fault():
    count = np.zeros(1, np.int32)
    text = kernel("int* count, int at", "assert(blockIdx.x != at);\natomicAdd(count, 1);")
    assert "block (10, 0, 0)" in fault(text, count, 10, grid=100_000_000, block=1)
    assert count[0] < 100_000_000 - 1
    with pytest.raises(KernelFault, match=r"block \(2, 0, 0\)"):
        launch(text, [count, 2], 10)
    launch(text, [count, -1], 10)


@pytest.mark.parametrize("wait", ["", "__syncthreads();"])
@pytest.mark.unchecked_only(OWN_WORDS)
def test_integer_division_by_zero(wait):
    message = fault(kernel("int* x, int n", f"{wait} x[0] = 7 / n;"), np.zeros(1, np.int32), 0)
    assert "integer division by zero" in message
    assert "block (0, 0, 0), thread (" in message if wait else "blocks 0 to 0" in message


@pytest.mark.parametrize("wait", ["", "__syncthreads();"])
@pytest.mark.unchecked_only(OWN_WORDS)
def test_invalid_address(wait):
    message = fault(kernel("int* x, int n", f"{wait} if (threadIdx.x == 4) x[2] = 7;"), None, 0)
    assert "invalid access of memory at 0x8" in message


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors allow it")
def test_misaligned_vector_access():
    if not host_compiler.compiler().is_gcc:
        pytest.skip("only GCC uses the instruction that refuses it")
    text = kernel("float* x", "reinterpret_cast<float4*>(x)[threadIdx.x] = make_float4(1, 2, 3, 4);")
    aligned = np.zeros(68, np.float32)
    aligned = aligned[-(aligned.ctypes.data // 4) % 4 :]
    assert "misaligned access of memory" in fault(text, aligned[1:], block=16)
    launch(text, [aligned], 1, 16)
    assert aligned[:64].tolist() == [1, 2, 3, 4] * 16


@pytest.mark.parametrize("wait", ["", "__syncthreads();"])
def test_stack_overflow(wait):
    before = "__device__ __noinline__ int deep(volatile int* x, int n) {\n  volatile int a[256]; a[n & 255] = x[0];\n"
    before += "  return deep(x, n + 1) + a[n & 255];\n}\n"
    message = fault(kernel("int* x", f"{wait} x[1] = deep(x, 0);", before), np.zeros(2, np.int32))
    assert "stack overflow" in message


def test_a_signal_outside_of_kernels_ends_the_process_as_before():
    build(kernel("int* x", "x[0] = 1;"))
    script = (
        "import sys; sys.path.insert(0, {!r}); from host_support import run; import numpy as np, ctypes; "
    )
    script += "run('int* x', 'x[0] = 1;', np.zeros(1, np.int32)); ctypes.string_at(0)"
    here = os.path.dirname(os.path.abspath(__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script.format(here)], env=environment, capture_output=True)
    assert done.returncode == -11


def test_too_much_dynamic_shared_memory():
    with pytest.raises(KernelFault, match="more dynamic shared memory than a block has"):
        launch(kernel("int n", "if (n < 0) __syncthreads();"), [5], shared=232449)


# ---------------------------------------------------------------- compiling


def log_of(text: str) -> str:
    with pytest.raises(CompilerFailure) as caught:
        build(text)
    return caught.value.log


def test_a_compiler_error_names_the_template_s_line():
    log = log_of(kernel("float* x", '\n#line 7 "mine.cu"\nx[0] = 1;\nx[1] = undefined_name;'))
    assert "mine.cu:8" in log
    assert "undefined_name" in log


def test_a_thread_with_more_local_memory_than_cuda_s_is_refused():
    text = kernel(
        "float* x, int n", "float a[200000]; for (int i = 0; i < n; ++i) a[x[i] > 0] = x[i]; x[0] = a[n];"
    )
    assert "frame" in log_of(text)


def test_a_kernel_includes_no_header_of_the_compiler(tmp_path):
    """Which is what keeps the compilation of one short."""
    text = kernel(
        "const __half* x, __half* y", "int i = threadIdx.x; y[i] = hexp(x[i]);", "#include <cuda_fp16.h>\n"
    )
    command = [*host_compiler.compiler().kernel_command(tmp_path / "kernel.so"), "-E"]
    command[command.index("-o") + 1] = "-"
    done = subprocess.run(
        command, input=host_source.source(signature.parse(text)), text=True, check=True, capture_output=True
    )
    files = {line.split('"')[1] for line in done.stdout.splitlines() if line.startswith("# ") and '"' in line}
    assert files
    # GCC reads this one, of a few macros, before any text.
    assert {name for name in files if name.startswith("/usr")} <= {"/usr/include/stdc-predef.h"}


@pytest.mark.unchecked_only(OWN_WORDS)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("float a[4];\nfor (int i = 0; i < 4; ++i) a[i] = y[i];\na[n + 8000] = 3;\ny[0] = a[n & 3];",
         "access past the thread's local memory, as by an index beyond the end of a local array at test.cu:4"),
        ("y[0] = 1;\nif (n == 4) __builtin_unreachable();", "__builtin_unreachable() is reached, test.cu:3"),
        ("y[0] = 2;\ny[1] = 1 / (n - n);", "integer division by zero, or of the lowest number by -1 at test.cu:3"),
    ],
)  # fmt: skip
def test_what_went_wrong_is_said_as_it_is(body, message):
    text = kernel("float* y, int n", body)
    assert message in fault(text, np.zeros(8, np.float32), 4, block=1)


def test_no_compiler_names_both_ways_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r'(?s)g\+\+ or clang\+\+.*pip install "cukern\[zig\]"'):
        host_compiler.compiler()


def test_a_cxx_that_is_no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(DeviceError, match="CXX is 'no-such-compiler -O2', which is not a compiler"):
        host_compiler.compiler()


@pytest.mark.parametrize("chosen", ['g++ "', " "])
def test_a_cxx_that_is_no_command(monkeypatch, chosen):
    monkeypatch.setenv("CXX", chosen)
    with pytest.raises(DeviceError, match="CXX is .* not a compiler that runs here"):
        host_compiler.compiler()


def test_a_cxx_that_makes_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "true")
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path))
    with pytest.raises(DeviceError, match="true made no file.*CXX"):
        host_compiler.build_kernel("int x;")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_cxx_that_reads_no_cxx(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "cat")
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path))
    with pytest.raises(DeviceError, match="cat is not a C.. compiler that works here.*CXX may name another"):
        host_compiler.build_kernel("int x;")


def test_a_compiler_that_cannot_be_started(monkeypatch):
    def full(*args, **options):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(subprocess, "run", full)
    with pytest.raises(DeviceError, match="c.. could not be started: Too many open files"):
        host_compiler._find(None, os.environ["PATH"] + os.pathsep)


#: Takes some ten seconds, and half a gigabyte, to compile.
LONG = "\n".join(
    f"float f{i}(float* y) {{ return y[{i % 7}] * {i}.5f + f{i - 1}(y); }}" for i in range(1, 30_000)
)
LONG = (
    f'float f0(float* y) {{ return y[1]; }}\n{LONG}\nextern "C" float last(float* y) {{ return f29999(y); }}'
)


@pytest.mark.parametrize(
    ("variable", "limit", "message"),
    [
        (
            "CUKERN_COMPILER_TIMEOUT",
            "0.5",
            "took more than 0.5 s, the limit that CUKERN_COMPILER_TIMEOUT sets",
        ),
        (
            "CUKERN_COMPILER_MEMORY",
            "0.03",
            "refused memory: the limit is 0.03 GiB, which CUKERN_COMPILER_MEMORY sets",
        ),
    ],
)
def test_a_compiler_has_limits(monkeypatch, tmp_path, variable, limit, message):
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path))
    host_compiler.build_kernel("int x;")  # has the precompiled header, which the memory does not suffice for
    monkeypatch.setenv(variable, limit)
    with pytest.raises(DeviceError, match=message):
        host_compiler.build_kernel(LONG)
    monkeypatch.setenv(variable, "little")
    with pytest.raises(DeviceError, match=f"{variable}: expected .*, 0 for no limit, got 'little'"):
        host_compiler.build_kernel("int y;")


@pytest.mark.parametrize(
    ("signal", "message"),
    [
        ("KILL", "was killed by another process: by the system itself, if memory ran out before 4 GiB"),
        ("XCPU", "took more than 600 s, the limit that CUKERN_COMPILER_TIMEOUT sets"),
    ],
)
@pytest.mark.parametrize("whose", ["driver", "its own process"])
def test_a_compiler_that_is_killed(monkeypatch, tmp_path, signal, message, whose):
    """As the system does to the largest process where memory runs out: time is not the reason then."""
    plain = shutil.which("c++")
    dying = tmp_path / "dying"
    dying.mkdir()
    (dying / "cc1plus").write_text(f"#!/bin/sh\nkill -{signal} $$\n")
    (dying / "cc1plus").chmod(0o755)
    own = f'exec {plain} -B{dying} "$@"' if whose == "its own process" else f"kill -{signal} $$"
    wrapper = tmp_path / "c++"
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *--version*) exec {plain} "$@";; esac\n{own}\n')
    wrapper.chmod(0o755)
    if whose == "its own process" and not host_compiler.compiler().is_gcc:
        pytest.skip("clang compiles in one process")
    monkeypatch.setenv("CXX", str(wrapper))
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(DeviceError, match=message):
        host_compiler.build_kernel("int killed;", lines=True)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_compiler_runs_without_proc(monkeypatch, tmp_path, shell):
    """As in some sandboxes; also where another shell has the name sh, which says nothing that the compiler did not."""
    if not Path(f"/bin/{shell}").exists():
        pytest.skip(f"no {shell} here")
    run = subprocess.run
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, **how: run([command[0].replace("/bin/sh", f"/bin/{shell}"), *command[1:]], **how),
    )
    monkeypatch.setattr(host_compiler, "_GUARD", host_compiler._GUARD.replace("/proc/self", "/nowhere"))
    command = ["c++", "-x", "c++", "-c", "-", "-o", str(tmp_path / "made")]
    assert host_compiler._run(command, f"int without_proc_{shell};", tmp_path / "made") == ""


COMPILES = "import sys; from cukern.device.host import compiler; compiler.build_kernel(sys.stdin.read())"
#: The same in a thread, beside which a process is forked.
FORKS = """
import os, sys, threading, time
from cukern.device.host import compiler
threading.Thread(target=compiler.build_kernel, args=[sys.stdin.read(), True]).start()
while not compiler._lifelines:
    time.sleep(0.01)
if not os.fork():
    time.sleep(600)
"""


@pytest.mark.parametrize("code", [COMPILES, FORKS], ids=["alone", "with a fork"])
def test_a_compiler_ends_with_the_process_that_started_it(tmp_path, code):
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CUKERN_CACHE_DIR": str(tmp_path), "CXX": "c++",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(LONG)
    process.stdin.close()

    def compilers() -> list[str]:
        """The command lines of living processes that write into the test's folder."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                alive = " Z " not in (folder / "stat").read_text()
                if alive and any(str(tmp_path) in word for word in words) and "cc1plus" in words[0]:
                    found.append(words[0])
        return found

    def until(done: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not done():
            assert time.monotonic() < end
            time.sleep(0.05)

    try:
        until(lambda: bool(compilers()) or process.poll() is not None)
        assert process.poll() is None
        process.kill()
        process.wait()
        until(lambda: not compilers())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signals.SIGKILL)  # what was forked


def test_many_parameters():
    """Looking up the type of each by peeling the others off took time that grew with the cube of their number."""
    count = 300
    params = ", ".join(f"int a{i}" for i in range(count))
    out = np.zeros(1, np.int32)
    text = kernel(f"int* out, {params}", f"out[0] = {' + '.join(f'{i} * a{i}' for i in range(count))};")
    launch(text, [out, *range(count)])
    assert out[0] == sum(i * i for i in range(count))


def test_a_library_that_cannot_be_loaded(tmp_path):
    path = tmp_path / "library"
    path.write_bytes(b"")
    with pytest.raises(DeviceError, match="cannot be loaded.*noexec.*CUKERN_CACHE_DIR"):
        host._load(path)


def test_a_process_without_further_mappings_says_so(tmp_path):
    """Pages of which every second one has another protection are a mapping each."""
    (tmp_path / "library").write_bytes(b"")
    program = """
import ctypes, mmap, pathlib, sys
from cukern.device.host.packing import load
mprotect = ctypes.CDLL(None).mprotect
area = mmap.mmap(-1, 4096 << 17)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
page = 0
while not mprotect(ctypes.c_void_p(start + 4096 * page), 4096, mmap.PROT_READ):
    page += 2
for last in range(1, 5):
    mprotect(ctypes.c_void_p(start + 4096 * (page - 2 * last)), 4096, mmap.PROT_READ | mmap.PROT_WRITE)
try:
    load(pathlib.Path(sys.argv[1]))
except Exception as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "library")], capture_output=True, text=True
    )
    most = Path("/proc/sys/vm/max_map_count").read_text().strip()
    if int(most) > 2**16:
        pytest.skip("this machine allows more mappings")
    assert f"as many memory mappings as it may have, {most} (vm.max_map_count)" in done.stdout, done


def test_cxx_may_carry_options(monkeypatch):
    compiler = host_compiler.compiler()
    monkeypatch.setenv("CXX", " ".join([*compiler.command, "-DCHOSEN=12"]))
    out = np.zeros(1, np.int32)
    host_text = kernel("int* out", "out[0] = CHOSEN;")
    launch(host_text, [out])
    assert out[0] == 12


@pytest.mark.parametrize("value", ["0", "many", "-3"])
def test_a_thread_count_that_is_none(monkeypatch, value):
    monkeypatch.setenv("CUKERN_NUM_THREADS", value)
    with pytest.raises(DeviceError, match=f"CUKERN_NUM_THREADS: expected .* got '{value}'"):
        host.backend().properties(0)


def test_a_fault_is_a_launch_error():
    assert issubclass(KernelFault, LaunchError)
