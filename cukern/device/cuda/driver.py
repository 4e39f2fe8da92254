"""What CUDA's driver does: launches, of which one may begin while the previous one ends, variables, and tensor maps.

A launch with the attribute of programmatic stream serialization may start once every block of the previous kernel has
exited, or has allowed it. The previous kernel's writes may not be visible yet; the instruction
``griddepcontrol.wait`` waits for them ("Programmatic Dependent Launch and Synchronization" in NVIDIA's CUDA C++
Programming Guide). A kernel that begins with this instruction reads the same values as without the attribute, and
less time passes between the two kernels. CuPy's own launches take no attributes.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import struct
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ... import dtypes
from ...errors import DeviceError
from ...text.signature import Param, Unit
from ..interface import Prepared, Tiles

#: CUlaunchConfig: sizes of the grid, the block and the shared memory, the stream, the attributes and their number.
_CONFIG = struct.Struct("=7I4xQQI4x")
_set_stream, _STREAM = struct.Struct("=Q").pack_into, 32
#: CUlaunchAttribute: an identifier, and a value in a union of 64 bytes.
_ATTRIBUTE = struct.Struct("=I4xi60x")
_COOPERATIVE, _PROGRAMMATIC_STREAM_SERIALIZATION = 2, 6
_CONSTANT_LOADS = re.compile(r"\b__restrict(__)?\b|\b__ldg\b|\bld\.global[\w.:]*\.nc\b")
#: The first instruction of a kernel that may begin early.
WAIT = ' asm volatile("griddepcontrol.wait;" ::: "memory");'
#: In a text whose kernel waits itself: see ``templates/prelude/overlap.cuh``.
OWN_WAIT = "void wait_for_earlier_kernels()"
#: CUDA_ERROR_NOT_INITIALIZED and CUDA_ERROR_INVALID_CONTEXT.
_NO_CONTEXT = (3, 201)
#: CUtensorMapDataType, by the name of the dtype.
_TYPES = {
    name: number
    for number, name in enumerate(
        "uint8 uint16 uint32 int32 uint64 int64 float16 float32 float64 bfloat16".split()
    )
}
#: CUtensorMapSwizzle, by bytes.
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
#: CUtensorMapL2promotion, by bytes.
_PROMOTIONS = {128: 2, 256: 3}
#: CUtensorMapInterleave.
_NO_INTERLEAVE = 0
#: CUtensorMapFloatOOBfill.
_ZEROS = 0


@cache
def overlaps(cupy: Any, index: int) -> bool:
    """Whether launches on a device may begin early: hardware and driver support it, also in graphs (12.3)."""
    enough = cupy.cuda.runtime.driverGetVersion() >= 12030
    return bool(enough and cupy.cuda.runtime.getDeviceProperties(index)["major"] >= 9)


def may_overlap(unit: Unit) -> bool:
    """Whether a wait at the start of a unit's kernel precedes all its reads.

    ``__restrict__`` and ``__ldg`` promise that nothing writes the data while the kernel runs, so the compiler may
    use non-coherent loads and move them before the wait.
    """
    return _CONSTANT_LOADS.search(unit.text) is None


def waiting(unit: Unit) -> str:
    """The unit's text with a wait for earlier kernels' writes at the start of its kernel, unless it has its own."""
    if OWN_WAIT in unit.text:
        return unit.text
    text = unit.text.encode()
    return (text[: unit.body] + WAIT.encode() + text[unit.body :]).decode()


@cache
def library() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def variable(module: int, symbol: str) -> tuple[int, int]:
    """The address and the bytes of a variable of a module; zeros where it has none of this name."""
    at, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
    status = library().cuModuleGetGlobal_v2(
        ctypes.byref(at), ctypes.byref(nbytes), ctypes.c_void_p(module), symbol.encode()
    )
    return (0, 0) if status else (at.value or 0, nbytes.value)


def address(memory: bytearray) -> int:
    """The address of a parameter buffer."""
    # A bytearray whose size does not change is not moved.
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def launcher(
    cupy: Any,
    index: int,
    kernel: int,
    sizes: tuple[int, ...],
    memory: bytearray,
    pack: Callable[..., None],
    params: Sequence[Param],
    overlap: bool,
    cooperative: bool = False,
) -> Prepared:
    """A launch on the current stream.

    Args:
        index: the kernel's device.
        kernel: the driver's handle.
        sizes: of the grid and of the block, and the bytes of dynamic shared memory.
        memory: the addresses of the parameters, then the parameters.
        pack: writes the arguments of a call into ``memory``.
        params: the parameters of those arguments.
        overlap: whether the kernel may begin early, for which it must begin with the wait.
        cooperative: whether all blocks run at once, and may meet; not together with ``overlap``.
    """
    config = bytearray(_CONFIG.size + _ATTRIBUTE.size)
    _CONFIG.pack_into(config, 0, *sizes, 0, address(config) + _CONFIG.size, int(overlap or cooperative))
    attribute = _COOPERATIVE if cooperative else _PROGRAMMATIC_STREAM_SERIALIZATION
    _ATTRIBUTE.pack_into(config, _CONFIG.size, attribute, 1)
    arguments = tuple(map(ctypes.c_void_p, (address(config), kernel, address(memory), 0)))
    failure: Any = importlib.import_module("cupy_backends.cuda.api.driver").CUDADriverError
    start, stream, lock = library().cuLaunchKernelEx, cupy.cuda.get_current_stream, threading.Lock()
    acquire, release, before = lock.acquire, lock.release, 0

    def launch(*values: Any) -> None:
        nonlocal before
        acquire()  # the driver copies the parameters before it returns
        try:
            try:
                pack(*values)
            except OverflowError:
                pack(*map(Param.rounded, params, values))
            current = stream(index).ptr
            if current != before:
                _set_stream(config, _STREAM, current)
                before = current
            status = start(*arguments)
            if status in _NO_CONTEXT:
                cupy.cuda.Device(index).use()  # the first launch of a new thread
                status = start(*arguments)
        finally:
            release()
        if status:
            raise failure(status)

    return launch


def tensor_map(tiles: Tiles) -> bytes:
    """The tensor map of an array; see :class:`..interface.Backend`.

    Raises:
        DeviceError: the driver or its GPU does not take it.
    """
    size, axes = 128, len(tiles.shape)
    room = (ctypes.c_char * (2 * size))()
    begin = -ctypes.addressof(room) % 64  # the driver wants 64 bytes of alignment
    counts, words = ctypes.c_uint64 * 5, ctypes.c_uint32 * 5
    try:
        encode = library().cuTensorMapEncodeTiled
    except (OSError, AttributeError):
        raise DeviceError("TensorMap: the driver has no tensor maps, which came with CUDA 12.0") from None
    status = encode(
        ctypes.c_void_p(ctypes.addressof(room) + begin),
        _TYPES[dtypes.info(tiles.dtype).name],
        ctypes.c_uint32(axes),
        ctypes.c_void_p(tiles.address),
        counts(*reversed(tiles.shape)),
        counts(*reversed(tiles.strides)),
        words(*reversed(tiles.box)),
        words(*[1] * axes),
        _NO_INTERLEAVE,
        _SWIZZLES[tiles.swizzle],
        _PROMOTIONS[tiles.fetched],
        _ZEROS,
    )
    if status:
        raise DeviceError(f"TensorMap: cuTensorMapEncodeTiled refuses {tiles}: CUDA error {status}")
    return room.raw[begin : begin + size]
