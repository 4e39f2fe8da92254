"""The array: storage, dtype, shape and device. :mod:`.operators` has its operators and methods."""

from __future__ import annotations

import sys
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..autodiff import tape
from ..autodiff.state import opened
from ..device import Device, capture_hooks, current, dlpack, trace_hooks
from ..device.transfer import copied_across
from ..errors import DeviceError
from . import printing
from .implicit import converted
from .layout import Layout, layout_of
from .memory import Memory
from .operators import FUNCTIONS, answering, answers

#: DLPack's device types of the host's memory and of CUDA's.
_DLPACK_HOST, _DLPACK_CUDA = 1, 2


_new = object.__new__
#: By thread, what makes new arrays in another library's memory; it returns None of layouts that this cannot have.
lenders: dict[int, Callable[[Layout], Array | None]] = {}


class Storage:
    """Memory that views share, and a count of the writes to it.

    Attributes:
        version: the number of writes.
        writer: the function that wrote last.
        constant: whether writes are refused, because all arrays of one number share the memory.
        empty: the array of :func:`cukern.empty` whose memory it is, which nothing has written before the first write.
        recipe: how tapes compute again what they do not keep, see :mod:`..autodiff.recompute`.
        shared: whether another library was given it, or made it on a GPU, and may write it unseen.
        kept: what was found out about indices in it, see :mod:`..index.kept`.
    """

    # Class attributes until the first write, which makes arrays cheaper to create.
    version = 0
    writer = ""
    constant = False
    empty: weakref.ref[Array] | None = None
    recipe: Any = None
    shared = False
    kept: dict[Any, Any] | None = None


class Array(Memory):
    """An n-dimensional array on a device, made by :func:`cukern.asarray` and similar functions.

    Attributes:
        device: the device of its memory.
    """

    __slots__ = (
        "__weakref__",
        "_key",
        "_layout",
        "_memory",
        "_ndarray",
        "_operand",
        "_storage",
        "_viewed",
        "device",
    )
    __array_priority__ = 1000
    # Whether every tape watches the array without being told, as it does a trainable parameter.
    _trainable = False
    # Whether it is a parameter, trainable or frozen, which others refer to by identity.
    _is_parameter = False
    # Whether it stands for the examples of a batch, see :mod:`.batched`.
    _is_of_batch = False

    _storage: Storage
    _key: int | None
    device: Device
    # An array made by a launch has a layout and a launch operand, and its ndarray is None until needed; an array
    # made of an ndarray has that, and its layout and launch operand are None until needed.
    _ndarray: Any
    _memory: Any
    _layout: Layout | None
    _operand: Any
    #: The array whose memory this one views; None if it is no view.
    _viewed: Array | None

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise TypeError("an Array is made by cukern.asarray, cukern.zeros and their like")

    @classmethod
    def _wrap(cls, data: Any, device: Device, storage: Storage | None = None) -> Array:
        """An Array over an ndarray of the device; a view passes the ``storage`` of its base."""
        result = _new(cls)
        result._ndarray = data
        result._layout = result._memory = result._operand = result._viewed = None
        result.device = device
        result._storage = Storage() if storage is None else storage
        result._key = None
        return result

    @staticmethod
    def _made(layout: Layout) -> Array:
        """A new, uninitialized Array of a layout, whose device must be the current one."""
        if lenders and (lend := lenders.get(get_ident())) is not None and (lent := lend(layout)) is not None:
            return lent
        result = _new(Array)
        result._memory = memory = layout.allocate()
        if layout.on_host:
            result._ndarray = memory
            result._operand = id(memory)
        else:
            result._ndarray = None
            result._operand = memory.ptr
        result._layout = layout
        result.device = layout.device
        result._storage = Storage()
        result._key = result._viewed = None
        return result

    def _seen(self, layout: Layout, offset: int = 0) -> Array:
        """A view on a GPU with another layout of the same dtype, from a byte on; tapes do not track it."""
        if self._layout is None:
            self._planned()
        result = _new(Array)
        result._ndarray, result._layout, result._operand = None, layout, self._operand + offset
        memory = self._ndarray.data if self._memory is None else self._memory
        result._memory = memory + offset if offset else memory
        result.device, result._storage, result._key = self.device, self._storage, None
        owner = self._viewed
        result._viewed = self if owner is None or owner._storage is not self._storage else owner
        return result

    def _alias(self) -> Array:
        """Another array with the same memory, which no tape tracks."""
        result = _new(Array)
        result._ndarray, result._memory = self._ndarray, self._memory
        result._layout, result._operand = self._layout, self._operand
        result.device, result._storage, result._key = self.device, self._storage, None
        result._viewed = None
        return result

    @property
    def _data(self) -> Any:
        """The elements as an ndarray of the device."""
        data = self._ndarray
        if data is None:
            layout = self._layout
            assert layout is not None
            strides = None if layout.contiguous else layout.strides
            data = self.device.xp.ndarray(layout.shape, layout.dtype, self._memory, strides=strides)
            self._ndarray = data
        return data

    def _replace(self, other: Array) -> None:
        """Become another array, sharing its memory."""
        if other is self:
            return
        if trace_hooks.traced_threads:
            trace_hooks.writes(self)
        for name in ("_ndarray", "_layout", "_memory", "_operand", "_storage", "device"):
            setattr(self, name, getattr(other, name))
        capture_hooks.replaced += 1

    def _planned(self) -> Layout:
        """Compute the layout and the operand for prepared launches; return the layout."""
        layout = self._layout
        if layout is None:
            data = self._ndarray
            layout = layout_of(self.device, data)
            self._operand = self.device.backend.operand(data)
            self._layout = layout
        return layout

    def _bump(self, writer: str) -> None:
        """Count a write to the memory by ``writer``."""
        storage = self._storage
        storage.version += 1
        storage.writer = writer
        if capture_hooks.capturing and (recorder := capture_hooks.recorder()) is not None:
            recorder.written(self, writer)

    @property
    def dtype(self) -> dtypes.DType:
        """The dtype of the elements."""
        dtype: dtypes.DType = (self._layout or self._ndarray).dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each axis."""
        shape: tuple[int, ...] = (self._layout or self._ndarray).shape
        return shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len((self._layout or self._ndarray).shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int((self._layout or self._ndarray).size)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int((self._layout or self._ndarray).dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int((self._layout or self._ndarray).nbytes)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        strides: tuple[int, ...] = (self._layout or self._ndarray).strides
        return strides

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in C order."""
        layout = self._layout
        return layout.contiguous if layout is not None else bool(self._ndarray.flags.c_contiguous)

    @property
    def at(self) -> Any:
        """Updates that return a new array: ``x.at[key].set(value)``, ``.add``, ``.multiply``, ``.min``, ``.max``."""
        return FUNCTIONS["at"](self)

    def contiguous(self) -> Array:
        """This array if it is contiguous in C order, else a copy that is."""
        if self.is_contiguous:
            return self
        result: Array = FUNCTIONS["contiguous_copy"](self)
        tape.record_copy("contiguous", self, result)
        return result

    def to_device(self, device: Device | str, /, *, stream: None = None) -> Array:
        """This array on ``device``: itself if it is there already, else a copy.

        Raises:
            DeviceError: there is no such device.
            ValueError: ``stream`` is not None; copies run on the current stream, and between GPUs are ordered with
                the current streams of both.
        """
        if stream is not None:
            raise ValueError(f"stream: expected None, got {stream!r}")
        where, home = Device(device), self.device
        if where is home:
            return self
        if where.addressable:
            result = Array._wrap(self._fetched(), where)
        elif home.addressable:
            capture_hooks.leave("copies an array of the host, whose values may change")
            with where.activate():
                result = Array._wrap(self._moved(where.backend.upload), where)
        else:
            with tape.stop_recording():
                dense = self if self._planned().order else self.contiguous()
                result = Array._wrap(dense._moved(lambda data: copied_across(data, home, where)), where)
        if tape.recording((self,)):
            tape.record(
                "to_device",
                (self,),
                (result,),
                lambda gradients, *_: (gradients[0].to_device(home),),
                jvp=lambda tangents, *_: (tangents[0].to_device(where),),
            )
        return result

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements as a NumPy array on the host, in C order.

        To a tape the copy is a constant: no gradient flows through it. The same holds for :meth:`item`, :meth:`tolist`,
        ``float(x)`` and pickle; in :func:`cukern.testing.strict_tape` these are errors. Conversions that another
        library asks for, by ``__array__``, DLPack or CUDA's array interface, are a :class:`GradientError` while a tape
        tracks the array.
        """
        trace_hooks.reads(self, "numpy()")
        if capture_hooks.refuse is not None:
            capture_hooks.refuse(self, "numpy()")
        return np.asarray(self._fetched(), order="C")

    def _fetched(self) -> npt.NDArray[Any]:
        """:meth:`numpy` for uses that lose no gradient, allowed in ``strict_tape``."""
        trace_hooks.reads(self)
        if not self.device.addressable:
            capture_hooks.leave("reads values of an array on the host")
        with self.device.activate():
            data: npt.NDArray[Any] = self._moved(self.device.backend.download)
        return data

    def _moved(self, move: Callable[[Any], Any]) -> Any:
        """What ``move``, which takes C order, makes of the elements; they keep their order in memory."""
        own, data = self._planned(), self._data
        if own.contiguous or own.order is None:
            return move(data)
        return move(data.transpose(own.order)).transpose(np.argsort(own.order))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False and (
            not self.device.addressable or (dtype is not None and np.dtype(dtype) != self.dtype)
        ):
            raise ValueError(f"copy: a copy is needed to make a NumPy array of this array on {self.device}")
        converted(self, "__array__, which NumPy's functions take it by,")
        if self.device.addressable and not copy:
            # Read-only: a write through NumPy would not be counted, so a tape could miss it.
            data: npt.NDArray[Any] = self._data.view()
            data.flags.writeable = False
        else:
            data = self._fetched()
        return data if dtype is None else data.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if any(answers(x) for x in inputs):
            return NotImplemented
        return FUNCTIONS["array_ufunc"](ufunc, method, inputs, options)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any],
        options: dict[str, Any],
    ) -> Any:
        if any(answering(kind, "__array_function__") for kind in types):
            return NotImplemented
        return FUNCTIONS["array_function"](function, args, options)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.device.addressable:
            return _DLPACK_HOST, 0
        with self.device.activate():
            kind, index = self._data.__dlpack_device__()
        return int(kind), int(index)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The DLPack capsule that shares the memory. Tapes do not notice the consumer's writes.

        Args:
            stream: the consumer's stream; ignored on the host.
            max_version: the newest version of the protocol that the consumer supports.
            dl_device: the device that the consumer wants.
            copy: True forces a copy, False forbids one.

        Raises:
            BufferError: the memory cannot be shared this way.
        """
        converted(self, "DLPack")
        self._storage.empty, self._storage.shared = None, True
        data = self._data
        if not self.device.addressable:
            moved = None if dl_device is None or tuple(dl_device) == self.__dlpack_device__() else dl_device
            if moved and copy is False:
                raise BufferError(
                    f"copy: a copy is needed to give the memory of {self.device} to {dl_device}"
                )
            if moved and moved[0] == _DLPACK_CUDA:
                try:
                    there = self.to_device(f"cuda:{moved[1]}")
                except DeviceError as error:
                    raise BufferError(f"dl_device: {error}") from error
                return there.__dlpack__(stream=stream, max_version=max_version)
            # CuPy copies to the host only on request, and never within a GPU.
            if moved:
                return self._fetched().__dlpack__(max_version=max_version, dl_device=dl_device)
            with self.device.activate():
                return (data.copy() if copy else data).__dlpack__(stream=stream, max_version=max_version)
        return dlpack.exported(data, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device.addressable:
            raise AttributeError(f"__cuda_array_interface__: the array is on {self.device}")
        converted(self, "__cuda_array_interface__")
        self._storage.shared = True
        with self.device.activate():  # the interface contains the current stream
            interface: dict[str, Any] = self._data.__cuda_array_interface__
        return interface

    def item(self, *index: Any) -> Any:
        """An element as a Python number, a constant to tapes: see :meth:`numpy`.

        Args:
            index: none for the only element; an integer counts elements in C order; several, or a tuple, count
                along the axes.

        Raises:
            IndexError: the index is out of range.
            ValueError: there is not exactly one element and no index, or an index of other than one integer an axis.
        """
        trace_hooks.reads(self, "item()")
        if capture_hooks.refuse is not None:
            capture_hooks.refuse(self, "item()")
        return self._chosen(*index)._number() if index else self._number()

    def _number(self) -> Any:
        """:meth:`item` for uses that lose no gradient, allowed in ``strict_tape``."""
        if self.size != 1:
            raise ValueError(f"item: expected an array of one element, got shape {self.shape}")
        value = (self._data if self.device.addressable else self._fetched()).item()
        return float(value) if dtypes.info(self.dtype).extension else value

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers, constants to tapes: see :meth:`numpy`."""
        trace_hooks.reads(self, "tolist()")
        if capture_hooks.refuse is not None:
            capture_hooks.refuse(self, "tolist()")
        data = self._fetched()
        row = dtypes.info(self.dtype)
        return (data.astype(row.acc) if row.extension else data).tolist()

    def _scalar(self, wanted: str) -> Any:
        if self.ndim and self.size != 1:
            raise TypeError(f"only an array of one element becomes {wanted}; this one has shape {self.shape}")
        trace_hooks.reads(self, wanted)
        converted(self, wanted, number=True)
        return self._number()

    def _real(self, wanted: str) -> Any:
        if self.dtype in dtypes.COMPLEX:
            raise TypeError(
                f"an array of {self.dtype} does not become {wanted}: take cukern.real(x) or cukern.abs(x)"
            )
        return self._scalar(wanted)

    def __bytes__(self) -> bytes:
        """The bytes of the elements in C order."""
        return self.numpy().tobytes()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth of an array of shape {self.shape} is ambiguous; use any() or all()")
        trace_hooks.reads(self, "bool(x), as of if and while,")
        return bool(self._number())

    def __int__(self) -> int:
        return int(self._real("an int"))

    def __float__(self) -> float:
        if self.device.addressable and not (opened or capture_hooks.refuse or trace_hooks.traced_threads):
            try:
                return float(self._ndarray.item())
            except (TypeError, ValueError):
                pass  # the general path below raises the error
        return float(self._real("a float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("a complex"))

    def __index__(self) -> int:
        if self.ndim or dtypes.info(self.dtype).kind not in "iu":
            raise TypeError(
                f"only a 0-d integer array is an index; this one is {self.dtype}, shape {self.shape}"
            )
        return int(self.item())

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: object) -> bool:
        return bool(FUNCTIONS["any"](FUNCTIONS["equal"](self, value)))

    def __repr__(self) -> str:
        return printing.described(self)

    def __str__(self) -> str:
        return printing.text(self)

    def __format__(self, spec: str) -> str:
        return printing.formatted(self, spec)

    def __dir__(self) -> list[str]:
        # Without names of other libraries, which only raise a hint.
        return [name for name in super().__dir__() if name in self.__slots__ or hasattr(type(self), name)]

    def __copy__(self) -> Array:
        if type(self) is Array:
            return copied(self)
        with self.device.activate():  # the copy of a parameter is an independent parameter
            return type(self)._wrap(self._data.copy("K"), self.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        trace_hooks.reads(self, "a pickle")
        if capture_hooks.refuse is not None:
            capture_hooks.refuse(self, "a pickle")
        own, data = self._planned(), self._fetched()
        order = () if own.contiguous else own.order or ()
        return _restore, (type(self), data.transpose(order) if order else data, str(self.device), order)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The namespace of the Array API functions: cukern itself.

        Raises:
            ValueError: ``api_version`` is not a version of the standard.
        """
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
            raise ValueError(f"api_version: expected a version of the standard, got {api_version!r}")
        return sys.modules["cukern"]


def _restore(cls: type[Array], data: npt.NDArray[Any], device: str, order: tuple[int, ...] = ()) -> Array:
    """Unpickle an array to its device, or to the current one if this machine lacks that, with its axes in an order."""
    try:
        where = Device(device)
    except DeviceError:
        where = current()
    with where.activate():
        uploaded = where.backend.upload(data)
        return cls._wrap(uploaded.transpose(np.argsort(order)) if order else uploaded, where)


def copied(x: Array) -> Array:
    """A copy of ``x`` that tapes record."""
    if x._is_of_batch:
        example: Array = FUNCTIONS["positive"](x)
        return example
    with x.device.activate():
        if not x.device.addressable:
            data = x._data.copy()
        else:
            data = x.device.backend.empty(x.shape, x.dtype)
            data[...] = x._data
        result = Array._wrap(data, x.device)
    tape.record_copy("copy", x, result)
    return result


def holders(x: Array) -> tuple[int, int]:
    """The references to the storage and to the ndarray of an array."""
    return sys.getrefcount(x._storage), sys.getrefcount(x._ndarray)


#: Those of an array alone.
ALONE = holders(Array._wrap(np.empty(0), None))  # type: ignore[arg-type]


def has_others(x: Array) -> bool:
    """Whether other arrays are on the memory of an array."""
    return holders(x)[0] > ALONE[0]
