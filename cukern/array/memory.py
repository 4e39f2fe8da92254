"""What arrays say about their memory, and methods that write to it, under NumPy's names."""

from __future__ import annotations

import operator
import os
import pickle
from dataclasses import dataclass
from typing import IO, Any, Self

import numpy as np

from .. import dtypes
from ..files import replacing
from .layout import expect_c_order
from .operators import FUNCTIONS, Operators

#: NumPy's.
_PROTOCOL = 4


@dataclass(frozen=True)
class Flags:
    """The order of an array's elements in memory: attributes of this object, or items by NumPy's names.

    Attributes:
        c_contiguous: whether the elements are contiguous, with the last axis fastest.
        f_contiguous: the same with the first axis fastest.
        owndata: whether no other array's memory is viewed.
        writeable: whether elements can be assigned.
    """

    c_contiguous: bool
    f_contiguous: bool
    owndata: bool
    writeable: bool

    @property
    def forc(self) -> bool:
        """Whether the elements are contiguous in one of the two orders."""
        return self.c_contiguous or self.f_contiguous

    @property
    def fnc(self) -> bool:
        """Whether the elements are contiguous with the first axis fastest, and not with the last."""
        return self.f_contiguous and not self.c_contiguous

    def __getitem__(self, name: str) -> bool:
        flag = _FLAGS.get(name)
        if flag is None:
            raise KeyError(f"flags: expected one of {', '.join(_FLAGS)}, got {name!r}")
        return bool(getattr(self, flag))


_FLAGS = {
    **{
        name.upper(): name for name in ("c_contiguous", "f_contiguous", "owndata", "writeable", "forc", "fnc")
    },
    "C": "c_contiguous",
    "F": "f_contiguous",
    "O": "owndata",
    "W": "writeable",
    "CONTIGUOUS": "c_contiguous",
    "FORTRAN": "f_contiguous",
}


class Memory(Operators):
    """NumPy's attributes and methods of an array's memory, which symbols of fused functions do not have."""

    __slots__ = ()

    @property
    def flags(self) -> Flags:
        """The order of the elements in memory."""
        x: Any = self
        flags, sizes = x._data.flags, zip(x.strides, x.shape, strict=True)
        writeable = not x._storage.constant and all(stride or n <= 1 for stride, n in sizes)
        return Flags(bool(flags.c_contiguous), bool(flags.f_contiguous), bool(flags.owndata), writeable)

    @property
    def base(self) -> Self | None:
        """The array that this one is a view of, itself no view; None of an array with memory of its own."""
        x: Any = self
        base: Any = x._viewed
        return base if base is not None and base._storage is x._storage else None

    @property
    def flat(self) -> Any:
        """The elements in C order as an iterator that can be indexed and assigned to, such as ``x.flat[3] = 1.0``."""
        return FUNCTIONS["flat"](self)

    @flat.setter
    def flat(self, values: Any) -> None:
        FUNCTIONS["flat"](self)[...] = values

    @property
    def real(self) -> Self:
        """The real part, a view; a real array itself. Assigning to it writes to the array."""
        return self._call("real")

    @real.setter
    def real(self, value: Any) -> None:
        self._call("real")[...] = value

    @property
    def imag(self) -> Self:
        """The imaginary part, a view; zeros of a real array, which cannot be assigned to."""
        return self._call("imag")

    @imag.setter
    def imag(self, value: Any) -> None:
        x: Any = self
        if x.dtype not in dtypes.COMPLEX:
            raise TypeError(f"imag: expected a complex array to assign to, got {x.dtype}")
        self._call("imag")[...] = value

    def conj(self) -> Self:
        """The complex conjugate; a real array itself."""
        x: Any = self
        return self._call("conj") if x.dtype in dtypes.COMPLEX else self

    conjugate = conj

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", *, copy: bool = True) -> Self:
        """The elements as another dtype; differentiable between floating and complex dtypes.

        Args:
            dtype: the dtype of the result.
            order: the order in memory, of which there is one for new arrays: "C".
            casting: which casts are allowed, as of ``numpy.can_cast``.
            copy: whether to copy an array that already has that dtype.

        Raises:
            TypeError: the cast is not allowed.
            ValueError: ``order`` is "F".
        """
        expect_c_order("astype", order)
        return self._call("cast_to", dtypes.as_named(dtype), casting, copy)

    def fill(self, value: Any) -> None:
        """Assign ``value``, a number or a 0-d array, to all elements; see :func:`cukern.copyto`."""
        self[...] = value

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Assign ``values`` to the indices of the flattened array, in place; see :func:`cukern.put`."""
        self._call("put", indices, values, mode)

    def choose(self, *choices: Any, out: Any = None, mode: str = "raise") -> Any:
        """The elements of ``choices``, in one or several arguments, that these choose; see :func:`cukern.choose`."""
        return self._call("choose", choices[0] if len(choices) == 1 else choices, out, mode)

    def tobytes(self, order: str = "C") -> bytes:
        """The bytes of the elements in C order, or in Fortran order if ``order`` is "F"."""
        x: Any = self
        result: bytes = x.numpy().tobytes(order)
        return result

    def dumps(self) -> bytes:
        """A pickle of the elements as a NumPy array, which :func:`cukern.load` reads with ``allow_pickle=True``."""
        x: Any = self
        return pickle.dumps(x.numpy(), protocol=_PROTOCOL)

    def dump(self, file: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write :meth:`dumps` to a path, whose file is replaced as by :func:`cukern.save`, or to a binary file."""
        _write(file, self.dumps())

    def tofile(self, file: str | os.PathLike[str] | IO[bytes], sep: str = "", format: str = "%s") -> None:
        """Write the elements in C order as bytes, or as text divided by ``sep``, each by ``format``.

        Args:
            file: a path, whose file is replaced as by :func:`cukern.save`, or a binary file.
            sep: what stands between elements; for bytes when empty.
            format: of an element as text, as of the operator ``%``.
        """
        x: Any = self
        text = sep.join(format % value for value in x.numpy().reshape(-1).tolist()) if sep else ""
        _write(file, text.encode() if sep else self.tobytes())

    def view(self, dtype: Any = None) -> Any:
        """A view of the same memory, whose bytes are read as ``dtype``.

        The last axis, which must be contiguous if the sizes of the dtypes differ, grows or shrinks in proportion.

        Args:
            dtype: a dtype; by default the array's own.

        Raises:
            GradientError: a tape tracks the array and the dtype is another.
            ValueError: the last axis cannot be divided so, or the array is 0-d and the sizes of the dtypes differ; on a
                GPU, the array does not begin at a multiple of the dtype's size.
        """
        return self._call("viewed", dtype)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        x: Any = self
        if not x.device.addressable or dtypes.info(x.dtype).extension:
            raise AttributeError(f"__array_interface__: the array is {x.dtype} on {x.device}")
        interface: dict[str, Any] = x.__array__().__array_interface__
        return interface

    def __buffer__(self, flags: int) -> memoryview:
        """The memory for ``memoryview(x)``, read-only; Python asks for it from 3.12 on."""
        x: Any = self
        if not x.device.addressable or dtypes.info(x.dtype).extension:
            raise BufferError(f"memoryview: the array is {x.dtype} on {x.device}: take x.numpy()")
        return memoryview(x.__array__())

    def __round__(self, ndigits: int | None = None) -> Any:
        """``round(x)``: the nearest int of one element, half to even; with digits, an array: :func:`cukern.round`."""
        x: Any = self
        return round(x._real("an int")) if ndigits is None else self._call("round", ndigits)

    def _chosen(self, *index: Any) -> Any:
        """The 0-d array at the index of :meth:`~cukern.Array.item`."""
        x: Any = self
        indices = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
        if len(indices) == 1 and x.ndim != 1:
            flat = operator.index(indices[0])
            if not -x.size <= flat < x.size:
                raise IndexError(f"item: index {flat} is out of bounds for an array of {x.size} elements")
            indices = tuple(int(i) for i in np.unravel_index(flat % x.size, x.shape))
        if len(indices) != x.ndim:
            raise ValueError(f"item: expected an integer, or one for each of {x.ndim} axes, got {indices}")
        return self[tuple(operator.index(i) for i in indices)]


def _write(file: str | os.PathLike[str] | IO[bytes], data: bytes) -> None:
    if isinstance(file, (str, os.PathLike)):
        with replacing(file) as result:
            result.write(data)
    else:
        file.write(data)
