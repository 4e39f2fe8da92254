"""The host device: kernels compiled by the system's C++ compiler, with blocks run on all cores.

A kernel is one small shared library: the names of CUDA C++ (``runtime/cukern_host.h``), the rendered
text, and an entry point. The threads of a block run as a plain loop that the compiler vectorises if they use no
barriers, else as fibers, which ``runtime/block.h`` switches.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import re
import struct
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...dtypes import DType
from ...errors import DeviceError, KernelFault, LaunchError
from ...text import Dim3
from ...text.signature import Param, Unit
from ...text.variables import device_variables
from .. import bundles
from ..ahead import ahead
from ..interface import CompilerFailure, Prepared, Properties, Style, TextureForm, Tiles
from . import processors, settings
from .asynchrony import started
from .checked import function as checked
from .checked import proof
from .checked.mode import active, current, diverting
from .compiler import (
    build_kernel,
    build_quickly,
    build_runtime,
    find_kernel,
    machine,
    precompile,
    runtime_text,
)
from .elf import static_shared
from .lines import lines_at
from .packing import GRID, HEAD, Kernel, Packing, tensor_map, variable_addresses
from .packing import load as _load
from .python import LARGEST_COPY, Form, allocation, launcher, maker, newer, python_api, reraise
from .texture import Object, Texels
from .translate import source

#: The most shared memory of a block, as on an H200.
_SHARED_BYTES = 232448
#: The most static shared memory.
_STATIC_SHARED_BYTES = 49152  # ptxas refuses more


class _StaticShared(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_longlong), ("bytes", ctypes.c_longlong))


def _limit_blas() -> None:
    """Give NumPy's products as many threads as ``CUKERN_NUM_THREADS`` gives kernels; unset, they keep their own."""
    if "CUKERN_NUM_THREADS" in os.environ:
        from threadpoolctl import threadpool_limits

        threadpool_limits(settings.thread_count(), user_api="blas")


#: Bytes of an array at most, and of all together, of which the C library keeps what they leave: glibc's largest first.
#: Of larger arrays the runtime keeps as many bytes.
_KEPT, _ALL_KEPT = 2**25, 2**28
#: glibc's numbers of both, and the variables by which a user sets them.
_MALLOPT = {-3: _KEPT, -1: _ALL_KEPT}
_MALLOC_SET = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def _keeps() -> bool:
    return not any(one in os.environ for one in _MALLOC_SET)


def _keep_memory() -> None:
    """Have the C library keep the memory that arrays leave: the system gives new memory page by page, each in 1 us."""
    if _keeps():
        with suppress(AttributeError):  # glibc alone has it
            for number, value in _MALLOPT.items():
                ctypes.CDLL(None).mallopt(number, value)


@cache
def _runtime_builder() -> threading.Thread:
    """Start the thread that compiles the runtime, in parallel with the shared header and the first kernel."""

    def build() -> None:
        with suppress(Exception):  # the thread that needs the runtime compiles it again and raises the error
            build_runtime()

    thread = threading.Thread(target=build, name="cukern compiler")
    thread.start()
    return thread


_Diverted = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
#: All kernels, by the runtime's handle.
_functions: weakref.WeakValueDictionary[int, HostFunction] = weakref.WeakValueDictionary()
_raised = threading.local()


def _launch_diverted(handle: int, packed: int) -> int:
    """Launch a kernel checked, in place of a launch; its error waits for the caller of that."""
    try:
        return _functions[handle].launch_checked(packed)
    except BaseException as error:
        _raised.error = error
        return _RAISED


_diverted = _Diverted(_launch_diverted)


@cache
def _runtime() -> ctypes.CDLL:
    """The runtime, from a bundle or compiled on first use on this machine, and started once per process."""
    if code := processors.bundled(runtime_text()):
        with code.on_disk() as path:
            library = _load(path, bundled=True)
    else:
        if not _runtime_builder.cache_info().currsize:  # an array comes before the first kernel
            ahead(precompile)
        _runtime_builder().join()
        library = _load(build_runtime())
    library.cukern_launch.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    library.cukern_last_error.restype = ctypes.c_char_p
    library.cukern_register.argtypes = (
        *(ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
        *(ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_uint * 3),
    )
    library.cukern_register.restype = ctypes.c_void_p
    library.cukern_replace.argtypes = (
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int),
    )
    library.cukern_start.argtypes = (ctypes.c_int, ctypes.c_void_p)
    library.cukern_set_limit.argtypes = (ctypes.c_ulonglong,)
    library.cukern_limit.restype = ctypes.c_ulonglong
    library.cukern_raised.argtypes = (ctypes.c_void_p,)
    library.cukern_probe.argtypes = (ctypes.c_ulonglong, ctypes.c_void_p)
    library.cukern_allocate_method.restype = ctypes.c_void_p
    library.cukern_launch_method.restype = ctypes.c_void_p
    library.cukern_make_method.restype = ctypes.c_void_p
    library.cukern_new_method.restype = ctypes.c_void_p
    library.cukern_set_asynchrony.argtypes = (ctypes.c_int, ctypes.c_ulonglong)
    limit = settings.time_limit()
    if library.cukern_start(settings.thread_count(), ctypes.byref(python_api())):
        raise DeviceError("the host device cannot start: the process has no thread key left")
    library.cukern_set_limit(limit)
    library.cukern_keep.argtypes = (ctypes.c_long, ctypes.c_long)
    library.cukern_keep(_KEPT, _ALL_KEPT if _keeps() else 0)
    started(library.cukern_set_asynchrony)
    library.cukern_divert.argtypes = (_Diverted,)
    library.cukern_divert(_diverted)
    library.cukern_divert_one.argtypes = (ctypes.c_void_p,)
    diverting(library.cukern_divert_all)
    probe, out = np.zeros((3, 5), np.int16)[:, ::2], (ctypes.c_longlong * 4)()
    library.cukern_probe(id(probe), out)
    if list(out) != [probe.__array_interface__["data"][0], 2, 3, 10]:
        raise DeviceError(f"the host device does not know how NumPy {np.__version__} lays out an array")
    return library


def _static_shared(path: Path, unit: Unit) -> ctypes.Array[_StaticShared]:
    """The variables in static shared memory of a kernel's library, as the runtime takes them."""
    variables = static_shared(path.read_bytes(), unit)
    return (_StaticShared * len(variables))(*(_StaticShared(*one) for one in variables))


#: The status of a launch that a signal ended, and of one that ran too long.
_INTERRUPTED, _TOO_LONG = 2, 3
#: That of a checked one that raised an error, and of one that need not be watched.
_RAISED, _UNWATCHED = 6, 7
#: That of one that has not run: the kernel is worth an optimised build, soon or before the launch.
_HAS_RUN_LONG, _WILL_RUN_LONG = 4, 5
#: That of one that has not run, as only checked launches can run the kernel's build.
_FOR_CHECKS = 8
#: A program counter in the runtime's messages.
_PC = re.compile(r" \[pc ([0-9a-f]+)\]")


class Stage(IntEnum):
    """What a build of a kernel is for, as the runtime numbers it."""

    OPTIMISED, QUICK, FOR_CHECKS = range(3)


class HostFunction:
    """A compiled kernel of the host device.

    The library's own kernels are built quickly at first, and optimised once they have run for as long as that takes.
    What is compiled for checked launches is compiled for others at the first of these.

    Args:
        unit: the kernel's text.
        path: the shared library.
        stage: what it was built for.
        bundled: whether it is of a bundle, which another compiler may have built.
    """

    def __init__(self, unit: Unit, path: Path, stage: Stage, bundled: bool = False) -> None:
        runtime = _runtime()
        library = _load(path, bundled)
        kernel = Kernel.in_dll(library, "cukern_kernel")
        self._bundled = bundled
        self._addresses = variable_addresses(library, unit)
        self.variables = {
            one.name: (one, self._addresses[one.name][1])
            for one in (device_variables(unit.text) if self._addresses else ())
        }
        name = unit.signature.name
        self._packing = packing = Packing(unit, kernel)
        self._codes, self._converters = packing.codes, packing.converters
        #: The bytes of each parameter.
        self.param_sizes = packing.sizes
        self._pack = packing.pack
        self._launch = runtime.cukern_launch
        self._last_error = runtime.cukern_last_error
        self._name = name
        variables = _static_shared(path, unit)
        total = sum(variable.bytes for variable in variables)
        if total > _STATIC_SHARED_BYTES:
            raise LaunchError(
                f"{name}: {total} bytes of static __shared__ memory, where CUDA allows "
                f"{_STATIC_SHARED_BYTES}: declare it extern and give its size at launch, shared=..."
            )
        prints = "printf" in unit.calls
        self._kept: list[Any] = [packing, variables]  # the runtime reads them at every launch
        self._handle = runtime.cukern_register(
            ctypes.addressof(kernel),
            packing.nbytes,
            packing.table,
            prints,
            not unit.trusted,
            variables,
            len(variables),
            stage,
            (ctypes.c_uint * 3)(*unit.host_cluster),
        )
        self._unit = unit
        _functions[self._handle] = self
        if unit.checked:
            runtime.cukern_divert_one(self._handle)
        self.attributes: Mapping[str, int] = {
            "max_threads_per_block": 1024,
            "shared_size_bytes": total,
        }

    def __call__(self, grid: Dim3, block: Dim3, shared: int, values: Sequence[Any]) -> None:
        packed = self._pack(grid, block, shared, values)
        if status := self._launch(self._handle, packed):
            self._end(status, packed)

    def _end(self, status: int, packed: bytes) -> None:
        """Do what the ``status`` of a launch that is not zero asks for."""
        while status in (_HAS_RUN_LONG, _WILL_RUN_LONG, _FOR_CHECKS):  # again if other threads launch it too
            if status == _FOR_CHECKS:
                self._replace(*_built_unchecked(self._unit))
            elif status == _WILL_RUN_LONG or not ahead(self._optimise):
                self._optimise()
            status = self._launch(self._handle, packed)
        if status:
            raise self._fault(status)

    def _optimise(self) -> None:
        """Replace a quick build."""
        with suppress(CompilerFailure, DeviceError, OSError):  # it may take more memory or disk than there is
            return self._replace(build_kernel(source(self._unit)), Stage.OPTIMISED)
        _runtime().cukern_replace(self._handle, None, None, 0, Stage.OPTIMISED)

    def _replace(self, path: Path, stage: Stage) -> None:
        kernel = ctypes.addressof(Kernel.in_dll(_load(path), "cukern_kernel"))
        variables = _static_shared(path, self._unit)
        self._kept.append(variables)
        _runtime().cukern_replace(self._handle, kernel, variables, len(variables), stage)

    def _fault(self, status: int) -> KernelFault:
        """The error for the ``status`` of a launch; raises the exception of a signal's handler, if any."""
        if status == _INTERRUPTED:
            reraise(_runtime())
        if status == _RAISED:
            error, _raised.error = _raised.error, None
            raise error
        text = f"{self._name}: {self._last_error().decode(errors='replace')}"
        return KernelFault(self._overtime(text) if status == _TOO_LONG else self._with_lines(text))

    @cached_property
    def _checked(self) -> checked.CheckedFunction:
        return checked.CheckedFunction(self._unit)

    @cached_property
    def _traced(self) -> checked.CheckedFunction:
        return checked.CheckedFunction(self._unit, counts=True)

    def read_variable(self, name: str) -> bytes:
        """See :class:`..interface.CompiledFunction`."""
        return ctypes.string_at(*self._addresses[name])

    def write_variable(self, name: str, value: bytes) -> None:
        """See :class:`..interface.CompiledFunction`."""
        ctypes.memmove(self._addresses[name][0], value, len(value))

    @cached_property
    def _proof(self) -> proof.Proof | None:
        return proof.of(self._unit)

    def launch_checked(self, packed: int) -> int:
        """Launch with every access checked, unless nothing can be wrong.

        Args:
            packed: the address of a launch's bytes.

        Returns:
            The status of the launch, which may be that it need not be watched, and has not run.

        Raises:
            KernelFault: there are findings.
        """
        launch = ctypes.string_at(packed, self._packing.nbytes + HEAD)
        if self._proof is not None and checked.need_not_watch(self._proof, self._packing, launch):
            return _UNWATCHED
        tracer = current().tracer
        watched = self._traced if tracer is not None and tracer.kernel in self._name else self._checked
        for name, (at, nbytes) in self._addresses.items():
            ctypes.memmove(watched.addresses[name][0], at, nbytes)
        try:
            watched.launch(launch)
        finally:
            for name, (at, nbytes) in self._addresses.items():
                ctypes.memmove(at, watched.addresses[name][0], nbytes)
        return 0

    def _with_lines(self, text: str) -> str:
        counters = [int(pc, 16) for pc in _PC.findall(text)]
        lines = {} if self._bundled else lines_at(self._unit, counters)
        return _PC.sub(lambda pc: lines.get(int(pc[1], 16), ""), text)

    def _overtime(self, text: str) -> str:
        head, places = text.partition(": ")[::2]
        places = self._with_lines(places.replace("\n", "\n  "))
        limit = _runtime().cukern_limit() / 1e9
        return (
            f"{head}: stopped, as it ran longer than {limit:g} s ({settings.TIME_LIMIT})\n  {places}\n"
            "On the host a thread runs until it waits at a barrier, a warp's function or __nanosleep, and blocks "
            "begin in their order: to spin on what another thread or a later block writes may never end"
        )

    def prepare(
        self, grid: Dim3, block: Dim3, shared: int, tail: Sequence[Any], structs: Sequence[int] = ()
    ) -> Prepared:
        """See :class:`..interface.CompiledFunction`: packs all but the leading arguments once."""
        leading = len(self._codes) - len(tail)
        items = [
            value if convert is None else convert(value)
            for convert, value in zip(self._converters[leading:], tail, strict=True)
        ]
        head = struct.pack(f"={GRID}", *grid, *block, shared)
        fixed = struct.pack("=" + "".join(self._codes[leading:]), *items)
        codes = "".join(self._codes[:leading])
        pack = struct.Struct(f"={len(head)}s{codes}{len(fixed)}s").pack
        start, handle, params = self._launch, self._handle, self._packing.params

        def launch(*values: Any) -> None:
            try:
                packed = pack(head, *values, fixed)
            except OverflowError:
                packed = pack(head, *map(Param.rounded, params, values), fixed)
            if status := start(handle, packed):
                self._end(status, packed)

        return launcher(_runtime(), handle, (head, self._codes[:leading], fixed), self._end, launch)


@lru_cache(maxsize=1024)
def _allocation(shape: tuple[int, ...], dtype: DType, zeroed: bool) -> Callable[[], Any]:
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes <= LARGEST_COPY:
        return partial(np.zeros if zeroed else np.empty, shape, dtype)
    return allocation(_runtime(), shape, dtype, nbytes, zeroed)


def _built(unit: Unit) -> tuple[Path, Stage]:
    """The library of a kernel, from the cache or compiled; where launches are checked, for these alone."""
    if not processors.bundled(runtime_text()):
        _runtime_builder()
    watched = active() and proof.of(unit) is None
    # Variables have a place in one library.
    if unit.checked or (watched and (unit.trusted or not device_variables(unit.text))):
        return checked.build(unit)[0], Stage.FOR_CHECKS
    return _built_unchecked(unit)


def _built_unchecked(unit: Unit) -> tuple[Path, Stage]:
    text = source(unit)
    if not unit.trusted or not settings.builds_quickly():
        return build_kernel(text), Stage.OPTIMISED
    path = find_kernel(text)
    return (path, Stage.OPTIMISED) if path else (build_quickly(text), Stage.QUICK)


class Host:
    """The one device of kind ``host``."""

    style: Style = "serial"
    addressable = True
    grids_meet = True  # those that are one cluster
    which = None

    def __init__(self) -> None:
        _limit_blas()
        _keep_memory()

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
            multiprocessors=settings.thread_count(),
            max_blocks_per_cluster=8,
            compute_capability=(0, 0),
        )

    def compile(self, index: int, unit: Unit) -> HostFunction:
        """Compile a unit, or load it from a bundle or the cache.

        Raises:
            CompilerFailure: the compiler refuses the text.
            DeviceError: there is no compiler, or a bundle cannot be used.
        """
        if code := processors.bundled(unit.text, unit.trusted):
            with code.on_disk() as path:
                return HostFunction(unit, path, Stage.OPTIMISED, bundled=True)
        with bundles.compiling("host", index, unit.signature.name):
            path, stage = _built(unit)
        return HostFunction(unit, path, stage)

    def ahead(self, job: Callable[[], object], plans_alone: bool = False) -> None:
        """See :class:`..interface.Backend`."""
        ahead(job)

    def upload(self, data: Any) -> Any:
        """See :class:`..interface.Backend`."""
        return data

    def download(self, data: Any) -> Any:
        """See :class:`..interface.Backend`."""
        return np.array(data)

    def allocator(self, shape: tuple[int, ...], dtype: DType, nbytes: int) -> Callable[[], Any]:
        """See :class:`..interface.Backend`."""
        if nbytes <= LARGEST_COPY:
            return partial(np.empty, shape, dtype)
        return allocation(_runtime(), shape, dtype, nbytes, False)

    def maker(self, launch: Prepared, form: Form, again: Callable[..., Any]) -> Callable[..., Any] | None:
        """See :func:`.python.maker`."""
        return maker(_runtime(), launch, form, again)

    def newer(self, form: Form, zeroed: bool) -> Callable[[], Any]:
        """See :func:`.python.newer`."""
        return newer(_runtime(), form, zeroed)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """See :class:`..interface.Backend`: large arrays lie between red zones."""
        return _allocation(shape, dtype, False)()

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """See :class:`..interface.Backend`: large arrays lie between red zones."""
        return _allocation(shape, dtype, True)()

    def operand(self, data: Any) -> int:
        """See :class:`..interface.Backend`: the ndarray object, of which the runtime reads address and size."""
        return id(data)

    def tensor_map(self, tiles: Tiles) -> bytes:
        """See :class:`..interface.Backend`."""
        return tensor_map(tiles)

    def texels(self, form: TextureForm, data: Any) -> Texels:
        """See :class:`..interface.Backend`."""
        return Texels(data if form.linear_memory else data.copy())

    def texture(self, texels: Any, form: TextureForm) -> Object:
        """See :class:`..interface.Backend`."""
        return Object(texels, form)

    def synchronize(self, index: int) -> None:
        """Return at once: a launch on the host has finished when it returns."""

    def free_unused(self) -> None:
        """See :class:`..interface.Backend`."""
        if _runtime.cache_info().currsize and _keeps():
            for kept in (0, _ALL_KEPT):
                _runtime().cukern_keep(_KEPT, kept)
        with suppress(AttributeError):  # glibc alone has it
            ctypes.CDLL(None).malloc_trim(0)


def _cpu_name() -> str:
    for line in machine().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def backend() -> Host:
    return Host()
