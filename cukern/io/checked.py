"""The common part of readers: errors that name file and field, and conversion of checked data to arrays."""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..device import Device


@contextmanager
def described(name: str, field: str = "") -> Iterator[None]:
    """Convert the errors that readers raise on damaged input to errors that name the file and the field."""
    prefix = f"{name}: {field}: " if field else f"{name}: "
    try:
        yield
    except TypeError as error:
        raise TypeError(f"{prefix}{error}") from None
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # EINVAL: a position before the file's start
            raise
        raise ValueError(f"{prefix}damaged: {error}") from None
    except (ValueError, EOFError, NotImplementedError, OverflowError, RuntimeError, struct.error) as error:
        raise ValueError(f"{prefix}damaged: {error}") from None
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{prefix}damaged: {error}") from None


def to_array(data: npt.NDArray[Any], device: Device | str | None) -> Array:
    """An array of data from a file; two raw bytes are bfloat16.

    Raises:
        ValueError: a bool is neither 0 nor 1.
        TypeError: cukern lacks the dtype.
    """
    if data.dtype.kind == "V" and data.dtype.itemsize == 2 and data.dtype.names is None:
        data = data.view(dtypes.bfloat16)
    if data.dtype == np.bool_ and np.max(data.view(np.uint8), initial=0) > 1:
        raise ValueError("a bool is neither 0 nor 1")
    return asarray(data, device=device)
