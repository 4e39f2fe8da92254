"""Arrays: memory with a shape and a dtype on a device; creation, operators and NumPy's protocols."""

from . import numpy_dispatch as _numpy_dispatch  # noqa: F401 - implements NumPy's protocols
from .array import Array as Array
from .array import Storage as Storage
from .array import copied as copied
