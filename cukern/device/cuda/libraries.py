"""NVIDIA's libraries beside the driver: loaded from the wheels that the extras install, named where one is missing.

CuPy loads most of them by their names, which a loader finds on its own paths, and not all in wheels.
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
#: The libraries that each calls, which are loaded before it.
NEEDS: dict[str, tuple[str, ...]] = {
    "cublas": ("cublasLt",),
    "cufft": ("nvJitLink",),
    "cusolver": ("cublas", "nvJitLink", "cusparse"),
    "cusparse": ("nvJitLink",),
}
#: The libraries of CuPy's submodules; everything else of CuPy that is called has kernels alone, which take nvrtc.
SUBMODULES = {"linalg": "cusolver", "fft": "cufft", "random": "curand"}


@cache
def load(name: str) -> None:
    """Load a library and those that it calls; what is not found is left for CuPy to look for."""
    for needed in NEEDS.get(name, ()):
        load(needed)
    with suppress(ImportError, OSError, RuntimeError):  # pathfinder's own error is a RuntimeError
        importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib(name)


@contextmanager
def needed(cupy: Any, name: str) -> Iterator[None]:
    """A with-block that calls a library.

    Raises:
        DeviceError: the library, or one that it calls, cannot be loaded.
    """
    load(name)
    try:
        yield
    except (ImportError, OSError, RuntimeError) as error:
        # The libraries raise RuntimeError about their arguments too; a loader's error has no errno, a file's has one.
        if isinstance(error, RuntimeError) and "failed to load" not in str(error):
            raise
        if isinstance(error, OSError) and error.errno is not None:
            raise
        major = int(cupy.cuda.runtime.runtimeGetVersion()) // 1000
        raise DeviceError(
            f"NVIDIA's library {name} cannot be loaded ({error}): pip install "
            f'"cukern[cuda{major}]", or point LD_LIBRARY_PATH at the lib64 of a CUDA {major} toolkit'
        ) from error
