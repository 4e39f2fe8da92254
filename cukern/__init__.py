"""NumPy-style arrays whose every operation is CUDA C++ to read, render, run, differentiate and replace."""

import contextlib

from . import (
    aliases,
    creation,
    dtypes,
    errors,
    fft,
    function,
    grids,
    info,
    io,
    linalg,
    namespace,
    nn,
    optim,
    random,
    testing,
    transforms,
    tree,
)
from .aliases import *  # noqa: F403
from .array import Array
from .capture import capture
from .creation import *  # noqa: F403
from .device import Device, device, devices
from .dtypes import (
    bfloat16,
    bool_,
    default_dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    result_type,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .dtypes import bool_ as bool
from .errors import *  # noqa: F403
from .function import *  # noqa: F403
from .grids import *  # noqa: F403
from .info import *  # noqa: F403
from .info import __array_api_version__ as __array_api_version__
from .info import __array_namespace_info__ as __array_namespace_info__
from .io import *  # noqa: F403
from .kernel import Kernel
from .namespace import *  # noqa: F403
from .render import add_templates
from .tape import Tape, stop_recording
from .transforms import *  # noqa: F403

__version__ = "0.1.0"

__all__ = [
    "Array",
    "Device",
    "Kernel",
    "Tape",
    "add_templates",
    "bfloat16",
    "bool",
    "bool_",
    "capture",
    "default_dtype",
    "device",
    "devices",
    "dtypes",
    "fft",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "int8",
    "int16",
    "int32",
    "int64",
    "linalg",
    "nn",
    "optim",
    "random",
    "result_type",
    "set_default_dtype",
    "stop_recording",
    "testing",
    "tree",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
__all__ += aliases.__all__
__all__ += creation.__all__
__all__ += errors.__all__
__all__ += function.__all__
__all__ += grids.__all__
__all__ += info.__all__
__all__ += io.__all__
__all__ += namespace.__all__
__all__ += transforms.__all__

with contextlib.suppress(ImportError):
    from . import einops_backend as _einops_backend  # noqa: F401 - einops is there, and finds it


def __getattr__(name: str) -> object:
    """Of NumPy's other names, what to do instead."""
    import numpy

    hint = f"; NumPy has it: numpy.{name} takes x.numpy()" if hasattr(numpy, name) else ""
    raise AttributeError(f"module 'cukern' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return __all__
