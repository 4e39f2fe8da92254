"""Compiles CUDA C++ by NVRTC, and launches it by the CUDA driver."""

from __future__ import annotations

import ctypes
import glob
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

#: CUdevice_attribute: the two parts of the compute capability.
_MAJOR, _MINOR = 75, 76
#: CUfunction_attribute: the most bytes of dynamic shared memory.
_DYNAMIC_SHARED = 8
_lock = threading.Lock()
_functions: dict[tuple[str, int], Any] = {}


def divided(a: Any, b: int) -> Any:
    """``a / b``, rounded up."""
    return -(-a // b)


def _libraries(name: str) -> Iterator[str]:
    """Where a library of NVIDIA's may be: known to the loader, in Python's packages, in a toolkit."""
    yield from (f"lib{name}.so{version}" for version in ("", ".13", ".12", ".1"))
    for folder in sys.path:
        yield from sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", f"lib{name}.so*")))
    yield from sorted(glob.glob(f"/usr/local/cuda*/lib64/lib{name}.so*"))


@cache
def _library(name: str) -> Any:
    for path in _libraries(name):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise RuntimeError(f"this operator needs a GPU and lib{name}, which was not found")


def _driver() -> Any:
    driver = _library("cuda")
    _check(driver.cuInit(0), "cuInit")
    return driver


def _check(status: int, call: str) -> None:
    if status:
        text = ctypes.c_char_p()
        _library("cuda").cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{call}: {(text.value or b'').decode() or status}")


def _includes() -> list[str]:
    found = [
        path for folder in sys.path for path in glob.glob(os.path.join(folder, "nvidia", "*", "include"))
    ]
    root = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return [*found, os.path.join(root, "include")]


def _compiled(text: str, architecture: str, options: Sequence[str]) -> bytes:
    nvrtc, program = _library("nvrtc"), ctypes.c_void_p()
    flags = [
        f"--gpu-architecture={architecture}",
        *options,
        *(f"--include-path={one}" for one in _includes()),
    ]
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None):
        raise RuntimeError("NVRTC cannot be used")

    def fetched(what: str) -> bytes:
        size = ctypes.c_size_t()
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw

    try:
        encoded = [one.encode() for one in flags]
        if nvrtc.nvrtcCompileProgram(program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded)):
            raise RuntimeError(fetched("ProgramLog").rstrip(b"\0").decode(errors="replace"))
        return fetched("CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _function(path: Path, options: Sequence[str], device: int) -> Any:
    key = str(path), device
    found = _functions.get(key)
    if found is not None:
        return found
    with _lock:
        if key not in _functions:
            driver, capability = _driver(), []
            for attribute in (_MAJOR, _MINOR):
                value = ctypes.c_int()
                _check(
                    driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device),
                    "cuDeviceGetAttribute",
                )
                capability.append(value.value)
            own = "a" if capability[0] >= 9 else ""  # with the instructions that this GPU alone has
            binary = _compiled(path.read_text(), "sm_{}{}{}".format(*capability, own), options)
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            _check(driver.cuModuleLoadData(ctypes.byref(module), binary), "cuModuleLoadData")
            name = path.stem.encode()
            _check(driver.cuModuleGetFunction(ctypes.byref(function), module, name), "cuModuleGetFunction")
            _functions[key] = function
        return _functions[key]


@contextmanager
def _entered(device: int) -> Iterator[None]:
    """A with-block in which the primary context of a GPU, which PyTorch and JAX use, is the current one."""
    driver, context, where = _driver(), ctypes.c_void_p(), ctypes.c_int(-1)
    driver.cuCtxGetCurrent(ctypes.byref(context))
    if context.value:
        driver.cuCtxGetDevice(ctypes.byref(where))
    if where.value == device:
        yield
        return
    _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    _check(driver.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")
    try:
        yield
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))


def on_gpu(
    path: Path,
    options: Sequence[str],
    device: int,
    stream: int,
    grid: Sequence[int],
    block: Sequence[int],
    shared: int,
    values: Sequence[Any],
) -> None:
    """Launch the kernel of a file, of the same name.

    Args:
        path, options: the text, and NVRTC's options.
        device, stream: where.
        grid, block, shared: the shape of the launch.
        values: ctypes' numbers, and bytes of structs.
    """
    if 0 in grid:
        return
    kept = [ctypes.create_string_buffer(one, len(one)) if isinstance(one, bytes) else one for one in values]
    pointers = (ctypes.c_void_p * len(kept))(*[ctypes.addressof(one) for one in kept])
    with _entered(device):
        function = _function(path, options, device)
        if shared > 48 << 10:
            _check(_driver().cuFuncSetAttribute(function, _DYNAMIC_SHARED, shared), "cuFuncSetAttribute")
        status = _library("cuda").cuLaunchKernel(
            function, *grid, *block, shared, ctypes.c_void_p(stream), pointers, None
        )
    _check(status, path.stem)


def clear_on_gpu(address: int, nbytes: int, device: int, stream: int) -> None:
    """Set memory to zeros."""
    with _entered(device):
        status = _library("cuda").cuMemsetD8Async(
            ctypes.c_uint64(address), 0, ctypes.c_size_t(nbytes), ctypes.c_void_p(stream)
        )
    _check(status, "cuMemsetD8Async")


#: What launches and clears; tests put others in their places.
launch: Callable[..., None] = on_gpu
clear: Callable[..., None] = clear_on_gpu


def available() -> bool:
    """Whether there is a GPU, or a stand-in for one."""
    if launch is not on_gpu:
        return True
    try:
        count = ctypes.c_int()
        return not _driver().cuDeviceGetCount(ctypes.byref(count)) and count.value > 0
    except RuntimeError:
        return False


def run(program: Any, plan: Any, addresses: Sequence[int], device: int, stream: int) -> None:
    """Launch a program's kernels in order.

    Args:
        program: the module of the program.
        plan: what its ``forward`` or ``backward`` has returned for the shapes.
        addresses: of arguments, results and further memory.
    """
    for index, nbytes in plan.cleared:
        clear(addresses[index], nbytes, device, stream)
    folder = Path(program.__file__).parent / "kernels"
    for name, grid, block, shared, values in plan.launches(addresses):
        launch(folder / f"{name}.cu", program.OPTIONS, device, stream, grid, block, shared, values)


class Plan:
    """What is launched for arguments of some shapes.

    Args:
        expected: the shape of each argument.
        results: shape and dtype of each result.
        memory: bytes of further memory; of a constant its content.
        cleared: the index of each buffer that begins as zeros, and its bytes.
        launches: gives launches, from addresses.
    """

    def __init__(
        self,
        expected: Sequence[Sequence[Any]],
        results: Sequence[tuple[Sequence[Any], str]],
        memory: Sequence[Any],
        cleared: Sequence[tuple[int, Any]],
        launches: Callable[[Sequence[int]], Sequence[Any]],
    ) -> None:
        self.expected, self.results, self.memory = expected, results, memory
        self.cleared, self.launches = cleared, launches


def planned(
    program: Any, make: Callable[..., Plan], ranks: Sequence[int], names: Sequence[str], shapes: Any
) -> Plan:
    """The plan for shapes, which are checked.

    Raises:
        ValueError: a shape is not one that the program takes.
    """
    for name, rank, shape in zip(names, ranks, shapes, strict=True):
        if len(shape) != rank:
            raise ValueError(
                f"{program.NAME}: argument {name}: expected {rank} axes, got shape {tuple(shape)}"
            )
    plan = make(*shapes)
    for name, expected, shape in zip(names, plan.expected, shapes, strict=True):
        if tuple(expected) != tuple(shape):
            raise ValueError(
                f"{program.NAME}: argument {name}: expected shape {tuple(expected)}, got {tuple(shape)}"
            )
    return plan
