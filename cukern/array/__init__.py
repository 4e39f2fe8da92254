"""Arrays: memory with a shape and a dtype on a device, how they are made, and what NumPy asks of them."""

from . import numpy_dispatch as _numpy_dispatch  # noqa: F401 - answers NumPy
from .array import Array as Array
from .array import Storage as Storage
from .array import copied as copied
