"""NumPy-style arrays whose every operation is CUDA C++ to read, render, run, differentiate and replace."""

from . import creation, errors
from .array import Array
from .creation import *  # noqa: F403
from .device import Device, device, devices
from .dtypes import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .errors import *  # noqa: F403
from .kernel import Kernel
from .render import add_templates

__all__ = [
    "Array",
    "Device",
    "Kernel",
    "add_templates",
    "bfloat16",
    "bool_",
    "device",
    "devices",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
__all__ += creation.__all__
__all__ += errors.__all__
