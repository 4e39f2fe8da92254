"""The host runtime's access to Python's and NumPy's C interfaces, and the arrays that it creates with them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...dtypes import DType
from ..interface import refuse_beyond_addresses

#: Written arrays of at most this many bytes are copied between red zones for the launch; see zones.h.
LARGEST_COPY = 8192

#: One object for each dtype, kept alive so that its address stays valid.
_dtypes: dict[DType, DType] = {}
# Indices in the table of NumPy's C interface, which are the same in all releases.
_NEW_FROM_DESCR, _ZEROS, _SET_BASE_OBJECT = 94, 183, 282


class _Python(ctypes.Structure):
    """The struct ``Python`` of python.h."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in (
            *(
                "none",
                "array_type",
                "uint8",
                "object_header_bytes",
                "bytes_as_string",
                "increase",
                "decrease",
            ),
            *("take_lock", "release_lock", "run_signal_handlers", "fetch_error"),
            *("new_array", "new_zeros", "set_base"),
            *("tuple_item", "as_unsigned", "as_signed", "as_double", "error", "clear_error"),
            *("save_thread", "restore_thread", "from_long", "from_bytes", "call_with", "call_vector"),
            *("new_object", "from_unsigned", "is_subtype"),
        )
    )


@cache
def python_api() -> _Python:
    """The functions and objects of Python and NumPy that the runtime uses."""
    api = ctypes.pythonapi
    pointer_of = api.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = (ctypes.c_void_p * (_SET_BASE_OBJECT + 1)).from_address(
        pointer_of(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    )
    names = (
        *("PyBytes_AsString", "Py_IncRef", "Py_DecRef", "PyGILState_Ensure", "PyGILState_Release"),
        *("PyErr_CheckSignals", "PyErr_Fetch"),
    )
    later = (
        *("PyTuple_GetItem", "PyLong_AsUnsignedLongLong", "PyLong_AsLongLong", "PyFloat_AsDouble"),
        *("PyErr_Occurred", "PyErr_Clear", "PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromLong"),
        *("PyBytes_FromStringAndSize", "PyObject_CallFunctionObjArgs", "PyObject_Vectorcall"),
        *("PyType_GenericAlloc", "PyLong_FromUnsignedLongLong", "PyType_IsSubtype"),
    )

    def addresses(names: Sequence[str]) -> Iterator[ctypes.c_void_p]:
        return (ctypes.cast(getattr(api, name), ctypes.c_void_p) for name in names)

    return _Python(
        *(id(None), id(np.ndarray), id(np.dtype(np.uint8)), object.__basicsize__),
        *addresses(names),
        *(table[index] for index in (_NEW_FROM_DESCR, _ZEROS, _SET_BASE_OBJECT)),
        *addresses(later),
    )


def _method(method: int, bound: object) -> Callable[..., Any]:
    """A function of Python's that calls one of the runtime with ``bound``."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function: Callable[..., Any] = make(method, bound, None)
    return function


def allocation(
    runtime: ctypes.CDLL, shape: tuple[int, ...], dtype: DType, nbytes: int, zeroed: bool
) -> Callable[[], Any]:
    """A function that allocates an ndarray in C order between red zones, as fast as ``np.empty`` or ``np.zeros``."""
    return _method(runtime.cukern_allocate_method(), _wanted(shape, dtype, nbytes, zeroed))


def _wanted(shape: tuple[int, ...], dtype: DType, nbytes: int, zeroed: bool) -> bytes:
    """The struct ``Wanted`` of python.h.

    Raises:
        MemoryError: no memory has so many bytes.
    """
    refuse_beyond_addresses(nbytes, shape, dtype)
    lasting = _dtypes.setdefault(dtype, np.dtype(dtype))
    return struct.pack(f"=Q{3 + len(shape)}q", id(lasting), nbytes, zeroed, len(shape), *shape)


#: The formats of leading values that the runtime packs, and the most of them.
_PACKED, _MOST_LEADING = frozenset(("Q", "i4x", "q", "f4x", "d")), 16


def launcher(
    runtime: ctypes.CDLL,
    handle: int,
    packed: tuple[bytes, Sequence[str], bytes],
    end: Callable[[int, bytes], None],
    launch: Callable[..., None],
) -> Callable[..., None]:
    """A faster ``launch``, or itself if it takes values that the runtime does not pack.

    Args:
        runtime: the runtime.
        handle: the kernel in it.
        packed: what comes before the values, the format of each, and what comes behind them.
        end: called with the status of a launch that is not zero, and its bytes.
        launch: launches with the same values.
    """
    head, codes, fixed = packed
    if len(codes) > _MOST_LEADING or not _PACKED.issuperset(codes):
        return launch
    whole = head + bytes(8 * len(codes)) + fixed
    letters = "".join(code[0] for code in codes).encode()
    prepared = struct.pack(f"=Qqq{_MOST_LEADING}s", handle, len(codes), len(whole), letters) + whole
    return _method(runtime.cukern_launch_method(), (prepared, end, launch))


class Form(NamedTuple):
    """How the runtime creates a new array object around an ndarray.

    Attributes:
        shape, dtype, nbytes: of the ndarray, in C order.
        places: the bytes from an object's address to its parts, as in the struct ``Places`` of python.h.
        like: an object that has the parts that the new ones share.
        storage: the type of one of the other parts, an object without arguments.
    """

    shape: tuple[int, ...]
    dtype: DType
    nbytes: int
    places: tuple[int, ...]
    like: object
    storage: type

    def packed(self, zeroed: bool) -> tuple[bytes, bytes, object, type]:
        """The form as the runtime reads it."""
        wanted = _wanted(self.shape, self.dtype, self.nbytes, zeroed)
        return wanted, struct.pack(f"={len(self.places)}q", *self.places), self.like, self.storage


def newer(runtime: ctypes.CDLL, form: Form, zeroed: bool) -> Callable[[], Any]:
    """A function that creates a new array object, with all bytes 0 if so wanted."""
    return _method(runtime.cukern_new_method(), form.packed(zeroed))


def maker(
    runtime: ctypes.CDLL, launch: Callable[..., None], form: Form, again: Callable[..., Any]
) -> Callable[..., Any] | None:
    """A function of array objects and numbers that launches with a new one behind them, and returns it.

    Args:
        runtime: the runtime.
        launch: what :func:`launcher` has returned.
        form: the new object.
        again: does the same in Python, for values that the runtime does not pack.

    Returns:
        None if the runtime does not pack the values of ``launch``.
    """
    bound = getattr(launch, "__self__", None)
    if type(bound) is not tuple:
        return None
    prepared, end, _ = bound
    return _method(runtime.cukern_make_method(), (prepared, end, again, *form.packed(False)))


def reraise(runtime: ctypes.CDLL) -> None:
    """Raise the exception of a signal's handler that the runtime let Python run."""
    error = (ctypes.c_void_p * 3)()
    runtime.cukern_raised(error)
    restore = ctypes.pythonapi.PyErr_Restore
    restore.restype, restore.argtypes = None, (ctypes.c_void_p,) * 3
    restore(*error)
