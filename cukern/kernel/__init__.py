"""Kernels: templates compiled for a device, and launches with arguments checked against the signature."""

from .bound import BoundKernel as BoundKernel
from .kernel import Kernel as Kernel
from .structs import Struct as Struct
from .structs import struct as struct
from .tensor_map import TensorMap as TensorMap
from .texture import Surface as Surface
from .texture import Texture as Texture
