"""NumPy-style arrays whose every operation is CUDA C++ to read, render, run, differentiate and replace."""

from . import creation, errors, namespace, nn, optim, testing
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
from .function import Function, once_differentiable
from .kernel import Kernel
from .namespace import *  # noqa: F403
from .render import add_templates
from .tape import Tape, stop_recording
from .transforms import checkpoint, grad, jacobian, stop_gradient, value_and_grad, vjp

__all__ = [
    "Array",
    "Device",
    "Function",
    "Kernel",
    "Tape",
    "add_templates",
    "bfloat16",
    "bool_",
    "checkpoint",
    "device",
    "devices",
    "float16",
    "float32",
    "float64",
    "grad",
    "int8",
    "int16",
    "int32",
    "int64",
    "jacobian",
    "nn",
    "once_differentiable",
    "optim",
    "result_type",
    "stop_gradient",
    "stop_recording",
    "testing",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "vjp",
]
__all__ += creation.__all__
__all__ += errors.__all__
__all__ += namespace.__all__
