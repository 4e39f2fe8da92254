"""Launches by CUDA's driver, which may begin while the kernel before them ends.

A launch with the attribute of programmatic stream serialization starts once every block of the kernel before it has
left, or has said that it may; that kernel's writes may still be on their way, and an instruction waits for them
("Programmatic Dependent Launch and Synchronization" in NVIDIA's CUDA C++ Programming Guide). A kernel that begins with
that instruction reads what it would after any other launch, and less time passes between two kernels.
CuPy's own launches take no attributes.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import struct
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from ...text.signature import Unit
from ..interface import Prepared

#: CUlaunchConfig: the sizes of the grid and the block and the shared memory, the stream, the attributes, their number.
_CONFIG = struct.Struct("=7I4xQQI4x")
_set_stream, _STREAM = struct.Struct("=Q").pack_into, 32
#: CUlaunchAttribute: its identifier, and its value in a union of 64 bytes.
_ATTRIBUTE = struct.Struct("=I4xi60x")
_PROGRAMMATIC_STREAM_SERIALIZATION = 6
_CONSTANT_LOADS = re.compile(r"\b__restrict(__)?\b|\b__ldg\b|\bld\.global[\w.:]*\.nc\b")
#: What a kernel that may begin early does first.
WAIT = ' asm volatile("griddepcontrol.wait;" ::: "memory");'
#: CUDA_ERROR_NOT_INITIALIZED and CUDA_ERROR_INVALID_CONTEXT.
_NO_CONTEXT = (3, 201)


@cache
def overlaps(cupy: Any, index: int) -> bool:
    """Whether launches on a device may begin early: its hardware can, and its driver in graphs as well (12.3)."""
    enough = cupy.cuda.runtime.driverGetVersion() >= 12030
    return bool(enough and cupy.cuda.runtime.getDeviceProperties(index)["major"] >= 9)


def may_overlap(unit: Unit) -> bool:
    """Whether a unit's kernel is held up by a wait.

    ``__restrict__`` and ``__ldg`` say that nothing writes what is read while the kernel runs. The loads that a
    compiler makes of this are not coherent, and may come before the wait.
    """
    return _CONSTANT_LOADS.search(unit.text) is None


def waiting(unit: Unit) -> str:
    """The unit's text, its kernel beginning with the wait for the writes of the kernels before it."""
    text = unit.text.encode()
    return (text[: unit.body] + WAIT.encode() + text[unit.body :]).decode()


@cache
def _library() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def address(memory: bytearray) -> int:
    """Where memory that a launch reads begins."""
    # It stays where it is, as it keeps its size.
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def launcher(
    cupy: Any,
    index: int,
    kernel: int,
    sizes: tuple[int, ...],
    memory: bytearray,
    pack: Callable[..., None],
    overlap: bool,
) -> Prepared:
    """A launch on the current stream.

    Args:
        index: the kernel's device.
        kernel: the driver's handle.
        sizes: those of the grid, those of the block, and the bytes of dynamic shared memory.
        memory: the addresses of the parameters, then the parameters.
        pack: puts the arguments of a call in ``memory``.
        overlap: whether it may begin early, for which the kernel has to begin with the wait.
    """
    config = bytearray(_CONFIG.size + _ATTRIBUTE.size)
    _CONFIG.pack_into(config, 0, *sizes, 0, address(config) + _CONFIG.size, int(overlap))
    _ATTRIBUTE.pack_into(config, _CONFIG.size, _PROGRAMMATIC_STREAM_SERIALIZATION, 1)
    arguments = tuple(map(ctypes.c_void_p, (address(config), kernel, address(memory), 0)))
    failure: Any = importlib.import_module("cupy_backends.cuda.api.driver").CUDADriverError
    start, stream, lock = _library().cuLaunchKernelEx, cupy.cuda.get_current_stream, threading.Lock()

    def launch(*values: Any) -> None:
        with lock:  # the driver copies the parameters before it returns
            pack(*values)
            _set_stream(config, _STREAM, stream().ptr)
            status = start(*arguments)
            if status in _NO_CONTEXT:
                cupy.cuda.Device(index).use()  # the first launch of a new thread
                status = start(*arguments)
        if status:
            raise failure(status)

    return launch
