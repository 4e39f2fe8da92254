"""NumPy-style arrays whose every operation is CUDA C++ that you can read, run, differentiate and replace."""

import contextlib
import sys as _sys
from typing import TYPE_CHECKING

from . import dtypes, errors, function, namespace, transforms, tree
from .array import Array, creation
from .array.creation import *  # noqa: F403
from .array.scalar_types import ScalarType as _ScalarType
from .autodiff.tape import Tape, stop_recording
from .capture import capture
from .device import Device, device, devices
from .device.kernels_only import kernels_only
from .device.precision import get_matmul_precision, matmul_precision, set_matmul_precision
from .dtypes import default_dtype, get_default_dtype, result_type, set_default_dtype
from .errors import *  # noqa: F403
from .function import *  # noqa: F403
from .jit import jit
from .kernel import Kernel
from .kernel.tensor_map import TensorMap
from .namespace import *  # noqa: F403
from .namespace import aliases
from .namespace import hints as _names
from .namespace.aliases import *  # noqa: F403
from .ops import info, numpys
from .ops.info import *  # noqa: F403
from .ops.info import __array_api_version__ as __array_api_version__
from .ops.info import __array_namespace_info__ as __array_namespace_info__
from .ops.numpys import *  # noqa: F403
from .text.render import add_templates
from .transforms import *  # noqa: F403

if TYPE_CHECKING:
    from . import (
        distributed,
        fft,
        generate,
        lib,
        linalg,
        nn,
        optim,
        polynomial,
        quant,
        random,
        sparse,
        testing,
    )
    from . import gguf as gguf
    from . import io as io
    from .batching import *  # noqa: F403
    from .control.loops import *  # noqa: F403
    from .control.ode import *  # noqa: F403
    from .control.roots import *  # noqa: F403
    from .device.bundles import load_bundle as load_bundle
    from .gguf import *  # noqa: F403
    from .io import *  # noqa: F403
    from .kernel.structs import Struct as Struct
    from .kernel.structs import struct as struct
    from .kernel.texture import Surface as Surface
    from .kernel.texture import Texture as Texture
    from .launch.explain import explain as explain
    from .ops.grids import *  # noqa: F403
    from .ops.sources import *  # noqa: F403
    from .ops.texts import *  # noqa: F403

#: What is imported at its first use: submodules, and names of others.
_LATER = {
    "": "distributed fft generate gguf io lib linalg nn optim polynomial quant random sparse testing",
    "batching": "vmap",
    "control.loops": "cond fori_loop scan switch while_loop",
    "control.ode": "odeint",
    "control.roots": "custom_root",
    "device.bundles": "load_bundle",
    "gguf": "GGUFFile load_gguf save_gguf",
    "io": "load save save_safetensors savez savez_compressed",
    "kernel.structs": "Struct struct",
    "kernel.texture": "Surface Texture",
    "launch.explain": "explain",
    "ops.grids": "broadcast c_ diag_indices diag_indices_from fromfunction indices ix_ mask_indices mgrid ogrid r_ "
    "tril_indices tril_indices_from triu_indices triu_indices_from",
    "ops.sources": "asarray_chkfinite frombuffer fromfile fromiter fromstring require",
    "ops.texts": "array2string array_repr array_str loadtxt savetxt",
}

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

__version__ = "0.3.0"

__all__ = [
    "Array",
    "Device",
    "Kernel",
    "Tape",
    "TensorMap",
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
    "jit",
    "kernels_only",
    "lib",
    "linalg",
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
__all__ += namespace.__all__
__all__ += info.__all__
__all__ += numpys.__all__
__all__ += transforms.__all__
__all__ += [name for place in _LATER if place for name in _LATER[place].split()]

with contextlib.suppress(ImportError):
    from .namespace import einops_backend as _einops_backend  # noqa: F401 - registers with einops, if imported
if "dask" in _sys.modules:
    with contextlib.suppress(ImportError):
        from .distributed import register_dask as _register_dask

        _register_dask()

__getattr__, __dir__ = _names.missing(__name__, __all__, _names.NAMESPACE, "numpy", _LATER)
