"""NumPy-style arrays whose every operation is CUDA C++ that you can read, run, differentiate and replace."""

import contextlib
import sys as _sys

from . import (
    distributed,
    dtypes,
    errors,
    fft,
    function,
    generate,
    gguf,
    io,
    lib,
    linalg,
    namespace,
    nn,
    optim,
    polynomial,
    quant,
    random,
    sparse,
    testing,
    transforms,
    tree,
)
from .array import Array, creation
from .array.creation import *  # noqa: F403
from .array.scalar_types import ScalarType as _ScalarType
from .autodiff.tape import Tape, stop_recording
from .capture import capture
from .device import Device, device, devices
from .device.bundles import load_bundle
from .device.precision import get_matmul_precision, matmul_precision, set_matmul_precision
from .dtypes import default_dtype, get_default_dtype, result_type, set_default_dtype
from .errors import *  # noqa: F403
from .function import *  # noqa: F403
from .gguf import *  # noqa: F403
from .io import *  # noqa: F403
from .kernel import Kernel, Struct, Surface, TensorMap, Texture, struct
from .namespace import *  # noqa: F403
from .namespace import aliases
from .namespace import hints as _names
from .namespace.aliases import *  # noqa: F403
from .ops import grids, info, numpys, sources, texts
from .ops.grids import *  # noqa: F403
from .ops.info import *  # noqa: F403
from .ops.info import __array_api_version__ as __array_api_version__
from .ops.info import __array_namespace_info__ as __array_namespace_info__
from .ops.numpys import *  # noqa: F403
from .ops.sources import *  # noqa: F403
from .ops.texts import *  # noqa: F403
from .text.render import add_templates
from .transforms import *  # noqa: F403

bool = bool_ = _ScalarType(dtypes.bool_)
bfloat16 = _ScalarType(dtypes.bfloat16)
complex64 = _ScalarType(dtypes.complex64)
complex128 = _ScalarType(dtypes.complex128)
float16 = _ScalarType(dtypes.float16)
float32 = _ScalarType(dtypes.float32)
float64 = _ScalarType(dtypes.float64)
int8 = _ScalarType(dtypes.int8)
int16 = _ScalarType(dtypes.int16)
int32 = _ScalarType(dtypes.int32)
int64 = _ScalarType(dtypes.int64)
uint8 = _ScalarType(dtypes.uint8)
uint16 = _ScalarType(dtypes.uint16)
uint32 = _ScalarType(dtypes.uint32)
uint64 = _ScalarType(dtypes.uint64)

__version__ = "0.2.0"

__all__ = [
    "Array",
    "Device",
    "Kernel",
    "Struct",
    "Surface",
    "Tape",
    "TensorMap",
    "Texture",
    "add_templates",
    "bfloat16",
    "bool",
    "bool_",
    "capture",
    "complex64",
    "complex128",
    "default_dtype",
    "device",
    "devices",
    "distributed",
    "dtypes",
    "fft",
    "float16",
    "float32",
    "float64",
    "generate",
    "get_default_dtype",
    "get_matmul_precision",
    "int8",
    "int16",
    "int32",
    "int64",
    "lib",
    "linalg",
    "load_bundle",
    "matmul_precision",
    "nn",
    "optim",
    "polynomial",
    "quant",
    "random",
    "result_type",
    "set_default_dtype",
    "set_matmul_precision",
    "sparse",
    "stop_recording",
    "struct",
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
__all__ += gguf.__all__
__all__ += grids.__all__
__all__ += info.__all__
__all__ += io.__all__
__all__ += namespace.__all__
__all__ += numpys.__all__
__all__ += sources.__all__
__all__ += texts.__all__
__all__ += transforms.__all__

with contextlib.suppress(ImportError):
    from .namespace import einops_backend as _einops_backend  # noqa: F401 - registers with einops, if imported
if "dask" in _sys.modules:
    with contextlib.suppress(ImportError):
        distributed.register_dask()


__getattr__, __dir__ = _names.missing(__name__, __all__, _names.NAMESPACE, "numpy")
