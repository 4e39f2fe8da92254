"""The host device: kernels compiled by the system's C++ compiler, their blocks run on all cores.

A kernel is one small shared library: the names of CUDA C++ (``host_runtime/cukern_host.h``), the rendered
text, and an entry point. Threads without barriers run as a plain loop that the compiler vectorises;
threads with barriers run as fibers, switched by ``host_runtime/block.h``.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from .. import dtypes
from ..errors import DeviceError, KernelFault, LaunchError
from ..signature import DynamicShared, Param
from .base import CompilerFailure, Properties, Unit
from .diskcache import DiskCache, default_folder

_RUNTIME = Path(__file__).parent / "host_runtime"
_SHARED_BYTES = 232448

#: A kernel that reaches one of these needs its threads to take turns.
_COLLECTIVES = frozenset(
    "__syncthreads __syncthreads_count __syncthreads_and __syncthreads_or __syncwarp __activemask __nanosleep "
    "__shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync __ballot_sync __all_sync __any_sync "
    "__match_any_sync __match_all_sync __reduce_add_sync __reduce_min_sync __reduce_max_sync "
    "__reduce_and_sync __reduce_or_sync __reduce_xor_sync".split()
)

# No fast-math: NaN and infinity are NumPy's. Pointers may be cast as freely as in CUDA.
_FLAGS = (
    "-std=c++17 -shared -fPIC -pipe -w -fvisibility=hidden -fno-exceptions -fno-rtti -fno-plt -fno-math-errno "
    "-fno-trapping-math -ffp-contract=off -fno-strict-aliasing"
).split()
#: A kernel has no use for the C++ library, whose start-up files cost half of the link.
_BARE_LINK = "-nostartfiles -nodefaultlibs -lm -lc -lgcc".split()


# ---------------------------------------------------------------- compiler


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: how it is called, and what it says it is."""

    command: tuple[str, ...]
    version: str

    @property
    def is_gcc(self) -> bool:
        return "Free Software Foundation" in self.version

    def build(self, source: str, output: Path, flags: Sequence[str], bare: bool) -> None:
        """Compile ``source`` to the shared library ``output``; ``bare``: one that uses C alone.

        Raises:
            CompilerFailure: the compiler refuses it.
        """
        command = [*self.command, *_FLAGS, *flags, f"-I{_RUNTIME}"]
        command += [f"-I{_RUNTIME / 'include'}"] if bare else []
        command += ["-x", "c++", "-", "-o", str(output)]
        command += _BARE_LINK if bare and self.is_gcc else []
        done = subprocess.run(command, input=source, capture_output=True, text=True)
        if done.returncode:
            raise CompilerFailure(done.stderr or f"{shlex.join(command)} ended with status {done.returncode}")


def _try_compiler(command: Sequence[str]) -> Compiler | None:
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run([*command, "--version"], capture_output=True, text=True)
    return None if done.returncode else Compiler(tuple(command), done.stdout.strip())


@cache
def _find_compiler(chosen: str | None) -> Compiler:
    if chosen:
        found = _try_compiler(shlex.split(chosen))
        if found is None:
            raise DeviceError(f"CXX is {chosen!r}, which is no compiler that runs here")
        return found
    for name in ("c++", "g++", "clang++"):
        if found := _try_compiler([name]):
            return found
    if importlib.util.find_spec("ziglang") and (found := _try_compiler([sys.executable, "-m", "ziglang", "c++"])):
        return found
    raise DeviceError(
        "the host device needs a C++ compiler and found none: install the system's (such as g++ or "
        'clang++; CXX may name it), or run: pip install "cukern[zig]"'
    )


def compiler() -> Compiler:
    """The C++ compiler: ``$CXX``, or the first of c++, g++, clang++ and ziglang that is installed.

    Raises:
        DeviceError: there is none.
    """
    return _find_compiler(os.environ.get("CXX"))


@cache
def _machine() -> str:
    """What ``-march=native`` and the C library mean here, as caches may be shared by machines."""
    lines = []
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if not line.strip():
                    break
                if line.startswith(("model name", "flags", "Features", "CPU implementer", "CPU part", "isa")):
                    lines.append(line)
    except OSError:
        lines.append(platform.processor())
    return "".join([platform.machine(), "\n", " ".join(platform.libc_ver()), "\n", *lines])


@cache
def _runtime_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(_RUNTIME.rglob("*")):
        if path.is_file() and path.suffix in ("", ".h", ".cpp"):
            digest.update(f"{path.relative_to(_RUNTIME)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


_caches: dict[Path, DiskCache] = {}
_lock = threading.Lock()


def _disk_cache() -> DiskCache:
    folder = default_folder() / "host"
    with _lock:
        return _caches.setdefault(folder, DiskCache(folder))


def _build(source: str, flags: Sequence[str], bare: bool) -> Path:
    """The shared library of ``source``, from the cache or compiled."""
    found = compiler()
    parts = [*found.command, found.version, *_FLAGS, *flags, *_BARE_LINK, str(bare), _machine(), _runtime_hash(), source]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return _disk_cache().get(key, lambda path: found.build(source, path, flags, bare))


# ---------------------------------------------------------------- text


def _fixed_shared(text: str, declarations: Sequence[DynamicShared]) -> str:
    """``text`` with each dynamic shared array made a pointer to the block's buffer, on as many lines."""
    source = text.encode()
    for found in sorted(declarations, key=lambda d: -d.start):
        old = source[found.start : found.end].decode()
        _, _, dimensions = old.rpartition(found.name)[2].partition("]")
        inner = dimensions.rstrip().removesuffix(";").strip()
        pointer = f"(*const {found.name}){inner}" if inner else f"* const {found.name}"
        cast = f"{found.type_text} (*){inner}" if inner else f"{found.type_text}*"
        storage = "static thread_local " if found.at_file_scope else ""
        new = f"{storage}{found.type_text} {pointer} = ({cast})cukern::dynamic_shared();" + "\n" * old.count("\n")
        source = source[: found.start] + new.encode() + source[found.end :]
    return source.decode()


_ENTRY = """
#line 1 "cukern entry point"
namespace cukern {{
using Function = decltype(&::{name});
{loads_macro}
{entry}
}}
extern "C" __attribute__((visibility("default"))) const cukern::Kernel cukern_kernel = {{
    cukern::abi_version, cukern::Params<cukern::Function>::count, cukern::Params<cukern::Function>::sizes,
    &cukern::runtime, {functions}}};
"""

_PLAIN = """
static void run_blocks(const Launch* launch, unsigned long long first, unsigned long long count, void* shared) {{
    begin_block(launch, block_at(launch, first), shared);
    {loads}
    const int x_end = launch->block.x, y_end = launch->block.y, z_end = launch->block.z;
    for (unsigned long long done = 0; done < count; ++done) {{
        for (int z = 0; z < z_end; ++z) {{
            threadIdx.z = z;
            for (int y = 0; y < y_end; ++y) {{
                threadIdx.y = y;
                for (int x = 0; x < x_end; ++x) {{
                    threadIdx.x = x;
                    ::{name}({arguments});
                }}
            }}
        }}
        next_block(launch);
    }}
}}"""

_FIBERS = """
static void run_thread(const Launch* launch, Dim thread) {{
    threadIdx.x = thread.x;
    threadIdx.y = thread.y;
    threadIdx.z = thread.z;
    {loads}
    ::{name}({arguments});
}}"""


def needs_fibers(unit: Unit) -> bool:
    """Whether the threads of the unit's kernel wait for each other."""
    return not _COLLECTIVES.isdisjoint(unit.calls)


def source(unit: Unit) -> str:
    """The C++ that is compiled for ``unit``, the included headers aside."""
    name = unit.signature.name
    count = len(unit.signature.params)
    loads = " ".join(f"const auto a{i} = load<Param<{i}, Function>::type>(launch->params + Params<Function>::offset({i}));"
                     for i in range(count))
    fibers = needs_fibers(unit)
    body = (_FIBERS if fibers else _PLAIN).format(
        name=name, loads=loads, arguments=", ".join(f"a{i}" for i in range(count))
    )
    functions = "nullptr, cukern::begin_block, cukern::run_thread" if fibers else "cukern::run_blocks, nullptr, nullptr"
    entry = _ENTRY.format(name=name, loads_macro="", entry=body, functions=functions)
    half = '#include "cukern_half.h"\n' if "half" in unit.text or "bf" in unit.text else ""
    return f'#include "cukern_host.h"\n{half}{_fixed_shared(unit.text, unit.dynamic_shared)}{entry}'


# ---------------------------------------------------------------- launch


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_uint),
        ("param_count", ctypes.c_uint),
        ("param_sizes", ctypes.POINTER(ctypes.c_uint)),
    )


class _Param(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint),
        ("offset", ctypes.c_uint),
        ("axes", ctypes.c_uint),
        ("itemsize", ctypes.c_uint),
    )


def _thread_count() -> int:
    chosen = os.environ.get("CUKERN_NUM_THREADS")
    if chosen is None:
        return len(os.sched_getaffinity(0))
    if not chosen.isdigit() or int(chosen) < 1:
        raise DeviceError(f"CUKERN_NUM_THREADS: expected a number of threads that is at least 1, got {chosen!r}")
    return int(chosen)


@cache
def _runtime() -> ctypes.CDLL:
    """The runtime, compiled on this machine's first use and started once a process."""
    path = _build((_RUNTIME / "runtime.cpp").read_text(), ["-O2", "-pthread"], bare=False)
    library = ctypes.CDLL(str(path))
    library.cukern_launch.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    library.cukern_last_error.restype = ctypes.c_char_p
    library.cukern_register.argtypes = (ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_int)
    library.cukern_register.restype = ctypes.c_void_p
    library.cukern_start.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_ulonglong)
    library.cukern_probe.argtypes = (ctypes.c_ulonglong, ctypes.c_void_p)
    if library.cukern_start(_thread_count(), id(None), object.__basicsize__):
        raise DeviceError("the host device cannot start: the process has no thread key left")
    probe, out = np.zeros((3, 5), np.int16)[:, ::2], (ctypes.c_longlong * 4)()
    library.cukern_probe(id(probe), out)
    if list(out) != [probe.__array_interface__["data"][0], 2, 3, 10]:
        raise DeviceError(f"NumPy {np.__version__} lays out its arrays in a way that the host device does not know")
    return library


def _bfloat16_bits(value: float) -> int:
    return int(np.asarray(value, ml_dtypes.bfloat16).view(np.uint16))


def _struct_check(kernel: str, param: Param, size: int) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if len(value) != size:
            raise LaunchError(
                f"{kernel}: parameter {param.name}: {param.type_text} has {size} bytes, got {len(value)}"
            )
        return value

    return check


_FORMATS = {
    **{"bool": "?", "float16": "e", "bfloat16": "H", "float32": "f", "float64": "d"},
    **{"int8": "b", "int16": "h", "int32": "i", "int64": "q"},
    **{"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"},
}


def _layout(kernel: str, param: Param, size: int) -> tuple[str, Callable[[Any], Any] | None, int]:
    """How a parameter of ``size`` bytes is packed: its struct format, its conversion, the size it should have."""
    padding = -size % 8
    if param.kind == "pointer":
        return "Q", id, 8
    if param.kind == "view":
        expected = 8 + 16 * param.ndim
        return f"Q{expected - 8}x", id, expected
    if param.kind == "struct" or param.dtype is None:
        return f"{size}s{padding}x", _struct_check(kernel, param, size), size
    code = _FORMATS[param.dtype.name]
    convert = _bfloat16_bits if param.dtype == dtypes.bfloat16 else None
    return f"{code}{padding}x", convert, param.dtype.itemsize


class HostFunction:
    """A compiled kernel of the host device."""

    def __init__(self, unit: Unit, path: Path) -> None:
        runtime = _runtime()
        self._library = ctypes.CDLL(str(path))
        kernel = _Kernel.in_dll(self._library, "cukern_kernel")
        name = unit.signature.name
        sizes = [kernel.param_sizes[i] for i in range(kernel.param_count)]
        form, offset, table = "=6IQ", 0, (_Param * max(1, len(sizes)))()
        self._converters: list[Callable[[Any], Any] | None] = []
        for i, (param, size) in enumerate(zip(unit.signature.params, sizes, strict=True)):
            code, convert, expected = _layout(name, param, size)
            if size != expected:
                raise LaunchError(
                    f"{name}: parameter {param.name}: {param.type_text} has {size} bytes for the compiler "
                    f"and {expected} by its signature"
                )
            itemsize = param.dtype.itemsize if param.dtype is not None else 1
            kind = {"pointer": 1, "view": 2}.get(param.kind, 0)
            table[i] = _Param(kind, offset, param.ndim, itemsize)
            form += code
            offset += -(-size // 8) * 8
            self._converters.append(convert)
        self._pack = struct.Struct(form).pack
        self._launch = runtime.cukern_launch
        self._last_error = runtime.cukern_last_error
        self._name = name
        self._handle = runtime.cukern_register(ctypes.addressof(kernel), offset, table, "printf" in unit.calls)
        self.attributes: Mapping[str, int] = {
            "max_threads_per_block": 1024,
            "shared_size_bytes": 0,
        }

    def __call__(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, values: Sequence[Any]
    ) -> None:
        packed = [v if convert is None else convert(v) for convert, v in zip(self._converters, values)]
        if self._launch(self._handle, self._pack(*grid, *block, shared, *packed)):
            raise KernelFault(f"{self._name}: {self._last_error().decode(errors='replace')}")


class Host:
    """The one device of kind ``host``."""

    @property
    def xp(self) -> ModuleType:
        return np

    def count(self) -> int:
        return 1

    def properties(self, index: int) -> Properties:
        return Properties(
            name=_cpu_name(),
            max_threads_per_block=1024,
            max_block=(1024, 1024, 64),
            max_grid=(2**31 - 1, 65535, 65535),
            max_shared_memory_per_block=_SHARED_BYTES,
            warp_size=32,
            multiprocessors=_thread_count(),
        )

    def compile(self, index: int, unit: Unit) -> HostFunction:
        """Compile a unit, or load what an earlier process compiled.

        Raises:
            CompilerFailure: the compiler refuses the text.
            DeviceError: there is no compiler.
        """
        return HostFunction(unit, _build(source(unit), ["-O3", "-march=native"], bare=True))

    def synchronize(self, index: int) -> None:
        """Returns at once: a launch on the host ends when it returns."""


def _cpu_name() -> str:
    for line in _machine().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def backend() -> Host:
    return Host()
