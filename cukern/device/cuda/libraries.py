"""Load NVIDIA's libraries from the wheels that the extras install, and name the missing one in an error.

CuPy loads most libraries by name, so the system's loader finds them only on its own paths, not in all wheels.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from ...errors import DeviceError

#: The wheel of each library, without the suffix ``-cu12`` that it has for CUDA 12.
WHEELS = {
    "cublas": "nvidia-cublas",
    "cublasLt": "nvidia-cublas",
    "cudart": "nvidia-cuda-runtime",
    "cufft": "nvidia-cufft",
    "curand": "nvidia-curand",
    "cusolver": "nvidia-cusolver",
    "cusparse": "nvidia-cusparse",
    "nvJitLink": "nvidia-nvjitlink",
    "nvrtc": "nvidia-cuda-nvrtc",
}
#: The libraries on which each depends, which are loaded first.
NEEDS: dict[str, tuple[str, ...]] = {
    "cublas": ("cublasLt",),
    "cufft": ("nvJitLink",),
    "cusolver": ("cublas", "nvJitLink", "cusparse"),
    "cusparse": ("nvJitLink",),
}
#: The libraries of CuPy's submodules; the other functions of CuPy used here only need nvrtc for their kernels.
SUBMODULES = {"linalg": "cusolver", "fft": "cufft", "random": "curand"}


@cache
def load(name: str) -> None:
    """Load a library and its dependencies; CuPy will look for those that are not found."""
    for needed in NEEDS.get(name, ()):
        load(needed)
    with suppress(ImportError, OSError, RuntimeError):  # pathfinder raises RuntimeError
        importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib(name)


@contextmanager
def needed(cupy: Any, name: str) -> Iterator[None]:
    """A with-block that calls a library.

    Raises:
        DeviceError: the library or one of its dependencies cannot be loaded.
    """
    load(name)
    try:
        yield
    except (ImportError, OSError, RuntimeError) as error:
        # Libraries also raise RuntimeError about arguments; a loader's OSError has no errno, unlike a file's.
        if isinstance(error, RuntimeError) and "failed to load" not in str(error):
            raise
        if isinstance(error, OSError) and error.errno is not None:
            raise
        major = int(cupy.cuda.runtime.runtimeGetVersion()) // 1000
        raise DeviceError(
            f"NVIDIA's library {name} cannot be loaded ({error}): pip install "
            f'"cukern[cuda{major}]", or point LD_LIBRARY_PATH at the lib64 of a CUDA {major} toolkit'
        ) from error
