"""CUDA devices, through CuPy: its arrays, its memory pool, its compiler cache, its current stream."""

from __future__ import annotations

import itertools
import math
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import DType
from ...errors import DeviceError
from ...text import Dim3, standard
from ...text.signature import Param, Unit
from ...text.variables import device_variables
from .. import bundles, capture_hooks, disk_cache
from ..ahead import ahead
from ..bundle_file import Target, hash_of
from ..interface import (
    CompilerFailure,
    Prepared,
    Properties,
    Style,
    TextureForm,
    Tiles,
    refuse_beyond_addresses,
)
from ..nvrtc import PLAIN, headers
from . import architectures, driver, texture
from .libraries import needed
from .staging import LARGE, PageLockedMemoryRefused, Staging

_INSTALL = 'install "cukern[cuda12]" (or "cukern[cuda13]") on a machine with an NVIDIA GPU'
# The same options for every kernel: for each distinct tuple, CuPy compiles an empty file in each process.
_OPTIONS = ("--std=c++17",)
_OPTIONS_90A = (*_OPTIONS, "-arch=sm_90a")


class CudaFunction:
    """A kernel of a loaded module."""

    def __init__(
        self,
        function: Any,
        attributes: Mapping[str, int],
        unit: Unit,
        index: int,
        cupy: ModuleType,
        overlap: bool,
        module: Any,
    ) -> None:
        self._function = function
        declared = () if unit.trusted else device_variables(unit.text)
        #: The address and the bytes of each variable.
        self._addresses = {one.name: driver.variable(module.module.ptr, one.symbol) for one in declared}
        self.variables = {
            one.name: (one, self._addresses[one.name][1]) for one in declared if self._addresses[one.name][1]
        }
        self.attributes = attributes
        self._params = unit.signature.params
        self._packers = [_packer(param) for param in unit.signature.params]
        self._index = index
        self._cupy = cupy
        self._overlap, self._cooperative = overlap, _is_cooperative(unit)
        self._start = partial(function, enable_cooperative_groups=True) if self._cooperative else function

    def __call__(self, grid: Dim3, block: Dim3, shared: int, values: Sequence[Any]) -> None:
        args = tuple(pack(value) for pack, value in zip(self._packers, values, strict=True))
        if self._cupy.cuda.runtime.getDevice() == self._index:
            self._start(grid, block, args, shared_mem=shared)
        else:
            with self._cupy.cuda.Device(self._index):
                self._start(grid, block, args, shared_mem=shared)

    def _bytes_of(self, name: str) -> Any:
        """A variable, as an array of bytes on the GPU."""
        at, nbytes = self._addresses[name]
        memory = self._cupy.cuda.UnownedMemory(at, nbytes, self._function, self._index)
        return self._cupy.ndarray((nbytes,), np.uint8, self._cupy.cuda.MemoryPointer(memory, 0))

    def read_variable(self, name: str) -> bytes:
        """See :class:`..interface.CompiledFunction`."""
        with self._cupy.cuda.Device(self._index):
            return bytes(self._bytes_of(name).get().tobytes())

    def write_variable(self, name: str, value: bytes) -> None:
        """See :class:`..interface.CompiledFunction`."""
        with self._cupy.cuda.Device(self._index):
            self._bytes_of(name)[...] = self._cupy.asarray(np.frombuffer(value, np.uint8))

    def prepare(
        self, grid: Dim3, block: Dim3, shared: int, tail: Sequence[Any], structs: Sequence[int] = ()
    ) -> Prepared:
        """See :class:`..interface.CompiledFunction`: a launch by the driver, with a reused parameter buffer."""
        leading = len(self._params) - len(tail)
        bytes_of = iter(structs)
        codes = [
            _code(param, bytes(next(bytes_of)) if param.kind == "struct" else None)
            for param in self._params[:leading]
        ]
        codes += [_code(param, value) for param, value in zip(self._params[leading:], tail, strict=True)]
        ends = list(itertools.accumulate(struct.calcsize(f"={code}") for code in codes))
        start = 8 * len(codes)  # the addresses of the parameters come first
        memory = bytearray(start + (ends[-1] if ends else 1))
        base = driver.address(memory)
        struct.pack_into(f"={len(codes)}Q", memory, 0, *(base + start + end for end in [0, *ends][:-1]))
        fixed = [_number(param, value) for param, value in zip(self._params[leading:], tail, strict=True)]
        struct.pack_into("=" + "".join(codes[leading:]), memory, start + [0, *ends][leading], *fixed)
        pack = partial(struct.Struct("=" + "".join(codes[:leading])).pack_into, memory, start)
        kernel, sizes = self._function.ptr, (*grid, *block, shared)
        return driver.launcher(
            self._cupy,
            self._index,
            kernel,
            sizes,
            memory,
            pack,
            self._params,
            self._overlap,
            self._cooperative,
        )


def _is_cooperative(unit: Unit) -> bool:
    """Whether the blocks of a launch meet, for which all of them must run at once."""
    return not unit.calls.isdisjoint({"grid_barrier", "grid_arrive"}) or unit.grid_group_meets


def _code(param: Param, value: Any = None) -> str:
    """The struct code that packs a parameter's value, padded to a multiple of 8 bytes."""
    if isinstance(value, bytes):
        return f"{len(value)}s{-len(value) % 8}x"
    if param.kind == "pointer":
        return "Q"
    if param.kind != "scalar" or param.dtype is None:
        raise NotImplementedError(f"a prepared launch with the parameter {param.type_text} {param.name}")
    return f"{dtypes.info(param.dtype).format}{-param.dtype.itemsize % 8}x"


def _number(param: Param, value: Any) -> Any:
    if param.kind == "scalar" and param.dtype in dtypes.COMPLEX and not isinstance(value, bytes):
        return dtypes.info(param.dtype).as_bytes(value)
    if param.dtype is not None and dtypes.info(param.dtype).extension and param.kind == "scalar":
        return int(_pack_bits(param.dtype, value))
    return value


def _same(value: Any) -> Any:
    return value


def _packer(param: Param) -> Callable[[Any], Any]:
    """A function that converts a checked value to a type that CuPy passes with the parameter's exact size."""
    if param.kind in ("pointer", "table"):
        return _pack_pointer
    if param.kind == "view":
        return _pack_view
    if param.kind == "struct":
        return _pack_struct
    assert param.dtype is not None
    if param.dtype == dtypes.int64:
        return _same
    if dtypes.info(param.dtype).extension:
        return partial(_pack_bits, param.dtype)
    return partial(_pack_float, param.dtype) if param.dtype in dtypes.INEXACT else param.dtype.type


def _pack_pointer(value: Any) -> Any:
    return 0 if value is None else value


def _pack_float(dtype: dtypes.DType, value: float) -> Any:
    with np.errstate(over="ignore"):
        return dtype.type(value)


def _pack_bits(dtype: dtypes.DType, value: float) -> Any:
    return np.array(value, dtype).view(dtypes.info(dtype).bits)[()]


def _pack_struct(value: bytes) -> Any:
    return np.frombuffer(value, dtype=f"V{len(value)}")[0]


def _pack_view(value: Any) -> Any:
    size = value.itemsize
    numbers = (*value.shape, *(stride // size for stride in value.strides))
    return _pack_struct(struct.pack(f"Q{len(numbers)}q", value.data.ptr, *numbers))


class CudaBackend:
    """CUDA devices by their index."""

    style: Style = "simt"
    addressable = False
    grids_meet = True

    def __init__(self, cupy: ModuleType) -> None:
        self.xp = cupy
        self.which: Callable[[], int] = cupy.cuda.runtime.getDevice
        self._staging: dict[int, Staging] = {}
        self._lock = threading.Lock()
        #: By texts that a thread compiles: what others wait for, who find the result in CuPy's cache.
        self._compiling: weakref.WeakValueDictionary[str, threading.Lock] = weakref.WeakValueDictionary()

    @lru_cache(maxsize=1)  # noqa: B019 - there is one backend
    def count(self) -> int:
        try:
            return int(self.xp.cuda.runtime.getDeviceCount())
        except self.xp.cuda.runtime.CUDARuntimeError:
            return 0

    def properties(self, index: int) -> Properties:
        limits = self.xp.cuda.runtime.getDeviceProperties(index)
        x, y, z = limits["maxThreadsDim"]
        gx, gy, gz = limits["maxGridSize"]
        optin = self.xp.cuda.Device(index).attributes.get(
            "MaxSharedMemoryPerBlockOptin", limits["sharedMemPerBlock"]
        )
        return Properties(
            name=limits["name"].decode(),
            max_threads_per_block=limits["maxThreadsPerBlock"],
            max_block=(x, y, z),
            max_grid=(gx, gy, gz),
            max_shared_memory_per_block=int(optin),
            warp_size=limits["warpSize"],
            multiprocessors=limits["multiProcessorCount"],
            max_blocks_per_cluster=architectures.most_blocks_per_cluster(limits["major"]),
            compute_capability=(limits["major"], limits["minor"]),
        )

    def compile(self, index: int, unit: Unit) -> CudaFunction:
        """Compile a unit, or load it from a bundle or CuPy's cache.

        Raises:
            CompilerFailure: the compiler refuses the text.
            DeviceError: there is no NVRTC, or a bundle cannot be used.
        """
        name = unit.signature.name
        compile_error = self.xp.cuda.compiler.CompileException
        with self.xp.cuda.Device(index):
            cooperative = _is_cooperative(unit)
            overlap = not cooperative and driver.overlaps(self.xp, index) and driver.may_overlap(unit)
            if code := bundles.find(
                "cuda", index, hash_of(unit.text, unit.trusted), partial(self._why_not, index)
            ):
                with code.on_disk() as path:
                    module = self.xp.RawModule(path=str(path))
                    function = module.get_function(name)
                    attributes = dict(function.attributes)
            else:
                try:
                    with bundles.compiling("cuda", index, name), needed(self.xp, "nvrtc"):
                        options = _OPTIONS_90A if architectures.is_for_90a(unit) else _OPTIONS
                        if unit.plain:
                            options = (f"--std={standard(unit.text)}", *options[1:], PLAIN)
                        text = driver.waiting(unit) if overlap else unit.text
                        with self._alone(text):
                            try:
                                module = self.xp.RawModule(code=text, options=options)
                                function = module.get_function(name)
                            except compile_error as error:
                                if "open source file" not in str(error):
                                    raise
                                # CuPy's own folders of headers lack some, such as those of crt/.
                                more = (f"-I{folder}" for folder in headers())
                                module = self.xp.RawModule(code=text, options=(*options, *more))
                                function = module.get_function(name)
                except compile_error as error:
                    raise CompilerFailure(str(error).replace(driver.WAIT, "")) from None
                attributes = dict(function.attributes)
            if unit.dynamic_shared:
                limit = self.properties(index).max_shared_memory_per_block
                function.max_dynamic_shared_size_bytes = limit - attributes["shared_size_bytes"]
            # RawKernel's underlying function on the active device, which saves a query per call.
            return CudaFunction(function.kernel, attributes, unit, index, self.xp, overlap, module)

    def _why_not(self, index: int, target: Target) -> str | None:
        """Why a device cannot run what was compiled for a target; None if it can."""
        return architectures.why_not(self.properties(index), self.xp.cuda.runtime, target)

    @contextmanager
    def _alone(self, text: str) -> Iterator[None]:
        """A with-block that one thread enters at a time for a text."""
        with self._lock:
            lock = self._compiling.setdefault(text, threading.Lock())
        with lock:
            yield

    def ahead(self, job: Callable[[], object], plans_alone: bool = False) -> None:
        """Run ``job`` where it ``plans_alone`` and no bundle has kernels: see :class:`..interface.Backend`."""
        if plans_alone and not bundles.loaded():
            ahead(job)

    def upload(self, data: Any) -> Any:
        """See :class:`..interface.Backend`."""
        recorder = capture_hooks.recorder()
        return self._uploaded(data) if recorder is None else recorder.constant(lambda: self._uploaded(data))

    def _uploaded(self, data: Any) -> Any:
        if self._is_staged(data.nbytes):
            for given, transposed in ((data, False), (data.T, True)):
                if given.flags.c_contiguous:
                    with suppress(PageLockedMemoryRefused):
                        uploaded = self._stage().upload(given)
                        return uploaded.T if transposed else uploaded
        # CuPy makes a 0-d array by filling it with a number, which loses the sign of -0.0.
        return self.xp.array(data.reshape(1) if not data.ndim else data).reshape(data.shape)

    def download(self, data: Any) -> Any:
        """See :class:`..interface.Backend`."""
        if self._is_staged(data.nbytes) and data.flags.c_contiguous:
            with suppress(PageLockedMemoryRefused):
                return self._stage().download(data)
        return data.get()

    def _is_staged(self, nbytes: int) -> bool:
        return nbytes >= LARGE and not self.xp.cuda.get_current_stream().is_capturing()

    def _stage(self) -> Staging:
        index = self.which()
        with self._lock:
            if index not in self._staging:
                self._staging[index] = Staging(self.xp, index)
            return self._staging[index]

    def allocator(self, shape: tuple[int, ...], dtype: DType, nbytes: int) -> Callable[[], Any]:
        """See :class:`..interface.Backend`."""
        refuse_beyond_addresses(nbytes, shape, dtype)
        return partial(self.xp.cuda.alloc, nbytes)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """See :class:`..interface.Backend`."""
        refuse_beyond_addresses(math.prod(shape) * dtype.itemsize, shape, dtype)
        return self.xp.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """See :class:`..interface.Backend`."""
        refuse_beyond_addresses(math.prod(shape) * dtype.itemsize, shape, dtype)
        return self.xp.zeros(shape, dtype)

    def operand(self, data: Any) -> int:
        """The address: see :class:`..interface.Backend`."""
        return 0 if data is None else int(data.data.ptr)

    def tensor_map(self, tiles: Tiles) -> bytes:
        """See :class:`..interface.Backend`."""
        return driver.tensor_map(tiles)

    def texels(self, form: TextureForm, data: Any) -> texture.Texels:
        """See :class:`..interface.Backend`."""
        return texture.Texels(self.xp, form, data)

    def texture(self, texels: Any, form: TextureForm) -> texture.Object:
        """See :class:`..interface.Backend`."""
        return texture.Object(self.xp, texels, form)

    def synchronize(self, index: int) -> None:
        self.xp.cuda.Device(index).synchronize()

    def free_unused(self) -> None:
        """See :class:`..interface.Backend`: CuPy's default pool."""
        self.xp.get_default_memory_pool().free_all_blocks()


def backend() -> CudaBackend:
    """The one CUDA backend.

    Raises:
        DeviceError: CuPy is not installed.
    """
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(f"device: CuPy cannot be imported ({error}); {_INSTALL}") from error
    disk_cache.protect_cupy()
    return CudaBackend(cupy)
