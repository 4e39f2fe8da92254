"""NVRTC through ctypes: CUDA C++ to PTX and machine code on a machine without a GPU or CuPy.

The library and CUDA's headers come from NVIDIA's pip wheels where they are installed, else from a
system toolkit (``CUDA_PATH``, ``CUDA_HOME``, ``/usr/local/cuda``, that of ``nvcc``, the loader's own search path).
A toolkit of the same version also has the headers that the wheels lack, such as those of ``crt/``.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ..errors import DeviceError
from ..text import standard
from .interface import CompilerFailure

_Handle = ctypes.c_void_p


@dataclass(frozen=True)
class Program:
    """The result of NVRTC: PTX, the machine code for ``arch``, and the messages."""

    arch: str
    ptx: str
    cubin: bytes
    log: str


#: The option for plain CUDA C++, by which functions without an execution space are the device's.
PLAIN = "--device-as-default-execution-space"
#: Wheels with headers that users' kernels include beside CUDA's: cub and libcu++, cuRAND, and what mma.h includes.
_MORE_HEADERS = ("cuda_cccl", "curand", "cuda_nvcc")


@dataclass(frozen=True)
class Toolkit:
    """An NVRTC library and the folders of headers that belong to it: first CUDA's own, if there are any."""

    library: str
    includes: tuple[str, ...]


def _wheels() -> Iterator[Toolkit]:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    more = [root / name / "include" for root in roots for name in _MORE_HEADERS]
    for root in roots:
        for pattern in ("cuda_nvrtc/lib/libnvrtc.so.*", "cu[0-9]*/lib/libnvrtc.so.*"):
            for library in sorted(root.glob(pattern), reverse=True):
                if "alt" not in library.name:
                    beside = library.parent.parent / "include"
                    include = root / "cuda_runtime" / "include" if "cuda_nvrtc" in pattern else beside
                    yield Toolkit(str(library), _headers(include, *more))


def _toolkits() -> list[Path]:
    nvcc = shutil.which("nvcc")
    roots = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    return [*(Path(root) for root in roots if root), *([Path(nvcc).resolve().parent.parent] if nvcc else [])]


def _system() -> Iterator[Toolkit]:
    for root in _toolkits():
        for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
            library = root / folder / "libnvrtc.so"
            if library.exists():
                yield Toolkit(str(library), _headers(root / "include"))
    name = ctypes.util.find_library("nvrtc")
    if name:
        yield Toolkit(name, _headers(Path("/usr/include")))


def _headers(folder: Path, *more: Path) -> tuple[str, ...]:
    if not (folder / "cuda_fp16.h").is_file():
        return ()
    # CUDA 13 has the headers of cub and libcu++ in a folder of their own.
    return tuple(str(one) for one in (folder, folder / "cccl", *more) if one.is_dir())


def _version(include: Path) -> str:
    """The version of CUDA whose headers a folder has, as ``cuda.h`` defines it; "" if it has none."""
    header = include / "cuda.h"
    text = header.read_text(errors="replace") if header.is_file() else ""
    found = re.search(r"define CUDA_VERSION (\d+)", text)
    return found[1] if found else ""


@lru_cache(maxsize=1)
def toolkit() -> Toolkit:
    """The NVRTC that :func:`compile` uses, preferring one with headers.

    Raises:
        DeviceError: there is no NVRTC on this machine.
    """
    kits = sorted([*_wheels(), *_system()], key=lambda kit: not kit.includes)
    if not kits:
        raise DeviceError(
            "no NVRTC found, which compiles kernels for CUDA: pip install nvidia-cuda-nvrtc-cu12 "
            "nvidia-cuda-runtime-cu12, or point CUDA_PATH at a CUDA toolkit"
        )
    kit = kits[0]
    more = [root / "include" for root in _toolkits()] if kit.includes else []
    version = _version(Path(kit.includes[0])) if more else ""
    same = [str(one) for one in more if version and _version(one) == version]
    return replace(kit, includes=tuple(dict.fromkeys((*kit.includes, *same))))


def headers() -> tuple[str, ...]:
    """The folders of CUDA's headers on this machine; none where there is no NVRTC."""
    try:
        return toolkit().includes
    except DeviceError:
        return ()


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    kit = toolkit()
    try:
        library = ctypes.CDLL(kit.library)
    except OSError as error:
        raise DeviceError(f"NVRTC at {kit.library} cannot be loaded: {error}") from error
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _check(status: int, call: str) -> None:
    if status != 0:
        message = _library().nvrtcGetErrorString(status)
        raise DeviceError(f"NVRTC's {call} failed: {message.decode()}")


def version() -> tuple[int, int]:
    """NVRTC's version, as (major, minor).

    Raises:
        DeviceError: there is no NVRTC on this machine.
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    return major.value, minor.value


def _fetch(program: _Handle, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(_library(), f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
    return buffer.raw


def _read_text(program: _Handle, what: str) -> str:
    return _fetch(program, what).rstrip(b"\0").decode(errors="replace")


def compile(text: str, arch: str = "sm_90", name: str = "kernel.cu", options: Sequence[str] = ()) -> Program:
    """Compile CUDA C++ for one architecture.

    Args:
        text: the rendered text of a kernel.
        arch: a real architecture, such as ``"sm_80"``.
        name: the file name in NVRTC's messages where the text has no ``#line``.
        options: further NVRTC options.

    Raises:
        CompilerFailure: NVRTC refused the text; its ``log`` says why.
        DeviceError: there is no NVRTC on this machine.
    """
    library, includes = _library(), toolkit().includes
    flags = [
        f"--gpu-architecture={arch}",
        f"--std={standard(text)}",
        *(f"--include-path={folder}" for folder in includes),
    ]
    encoded = [flag.encode() for flag in (*flags, *options)]
    program = _Handle()
    created = library.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), name.encode(), ctypes.c_int(0), None, None
    )
    _check(created, "nvrtcCreateProgram")
    try:
        status = library.nvrtcCompileProgram(
            program, ctypes.c_int(len(encoded)), (ctypes.c_char_p * len(encoded))(*encoded)
        )
        log = _read_text(program, "ProgramLog").strip()
        if status != 0:
            raise CompilerFailure(log or library.nvrtcGetErrorString(status).decode())
        return Program(arch, _read_text(program, "PTX"), _fetch(program, "CUBIN"), log)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
