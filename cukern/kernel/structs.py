"""Structs of kernels: one declaration in Python gives C++'s and NumPy's, with the same offsets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..text.signature import VECTORS, canonical

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class _Type:
    """What a field holds: the NumPy dtype, its C++ type, the lengths of its arrays, and its alignment in bytes."""

    dtype: np.dtype[Any]
    cxx: str
    lengths: tuple[int, ...]
    alignment: int
    nameless: bool = False

    @property
    def size(self) -> int:
        """Bytes of one element of the arrays."""
        return self.dtype.itemsize // math.prod(self.lengths)

    def declared(self, name: str) -> str:
        return f"{self.cxx} {name}{''.join(f'[{n}]' for n in self.lengths)};"


@dataclass(frozen=True)
class _Field:
    name: str
    type: _Type
    offset: int


class Struct:
    """A struct that kernels take, declared by :func:`struct`.

    Called with the values of its fields, by position or by name, it gives a NumPy structured scalar, the argument for a
    parameter of its type; fields that are left out are zero.

    >>> import cukern as ck
    >>> Range = ck.struct("Range", low="float32", high="float32")
    >>> Range(0.5, high=2)
    np.void((0.5, 2.0), dtype=[('low', '<f4'), ('high', '<f4')])
    """

    #: The name of the type in C++.
    name: str
    #: NumPy's structured dtype, with C++'s offsets and size.
    dtype: np.dtype[Any]
    #: The alignment in bytes.
    alignment: int
    #: The declaration in C++, in one line: put it before a kernel's text. Its assertions fail to compile where a type
    #: has another size or alignment, and so the fields other offsets.
    source: str

    def __init__(self, name: str, fields: Sequence[_Field], size: int) -> None:
        self.name = name
        self.alignment = max(field.type.alignment for field in fields)
        self.dtype = _structured(fields, size)
        self.source = f"struct {name} {{ {_members(name, fields, size)} }};"

    def __repr__(self) -> str:
        return f"Struct({self.name!r}, {self.dtype})"

    def __call__(self, /, *values: Any, **fields: Any) -> Any:
        """A structured scalar of these values.

        Raises:
            TypeError: there are more values than fields, a field has two, or there is none of a name.
            ValueError: a value does not fit its field.
        """
        names = self.dtype.names or ()
        if len(values) > len(names):
            raise TypeError(f"{self.name}: expected at most {len(names)} values, got {len(values)}")
        result = np.zeros((), self.dtype)
        given = dict(zip(names, values, strict=False))
        for name in fields:
            if name not in names:
                raise TypeError(f"{self.name}: no field {name!r}; its fields are {', '.join(names)}")
            if name in given:
                raise TypeError(f"{self.name}: field {name} is given by position and by name")
        for name, value in (given | fields).items():
            try:
                result[name] = value
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"{self.name}: field {name}: {error}") from None
        return result[()]

    def asarray(self, records: Any) -> Array:
        """An array for a pointer to the struct: the bytes of each record along a last axis, on the current device.

        Args:
            records: an array of :attr:`dtype`, or what ``numpy.asarray`` converts to one, such as a list of tuples.

        Raises:
            TypeError: the records are of another dtype.
        """
        if isinstance(records, (np.ndarray, np.generic)) and records.dtype != self.dtype:
            raise TypeError(
                f"{self.name}: records: expected dtype {self.dtype}, got {records.dtype}; astype converts them"
            )
        result = np.array(records, self.dtype, order="C")
        return asarray(result.reshape(*result.shape, 1).view(np.uint8))

    def numpy(self, array: Array) -> np.ndarray[Any, Any]:
        """The records whose bytes an array of :meth:`asarray` has: a copy, of :attr:`dtype`.

        Raises:
            TypeError: the array is not of bytes, or its last axis is not one record.
        """
        self._require(array)
        return np.array(array.numpy(), order="C").view(self.dtype)[..., 0]

    def field(self, array: Array, name: str) -> Array:
        """A view of one field of the records whose bytes an array has; it shares the array's memory.

        Raises:
            TypeError: the array is as :meth:`numpy` refuses it, or the field is itself a struct.
            ValueError: there is no field of the name.
        """
        self._require(array)
        placed = dict(self.dtype.fields or {})
        if name not in placed:
            raise ValueError(f"{self.name}: no field {name!r}; its fields are {', '.join(placed)}")
        dtype, offset = placed[name][:2]
        base, shape = dtype.subdtype or (dtype, ())
        if base.names:
            raise TypeError(f"{self.name}: field {name} is a struct; an array has numbers")
        part: Array = array[..., offset : offset + dtype.itemsize].view(base)
        seen: Array = part.reshape(*array.shape[:-1], *shape) if shape else part[..., 0]
        return seen

    def _require(self, array: Any) -> None:
        size = self.dtype.itemsize
        if not isinstance(array, Array) or array.dtype != dtypes.uint8 or array.shape[-1:] != (size,):
            got = (
                f"{dtypes.info(array.dtype).name} of shape {array.shape}"
                if isinstance(array, Array)
                else type(array)
            )
            raise TypeError(
                f"{self.name}: expected an Array of uint8 whose last axis is {size} long, got {got}"
            )


def struct(name: str, dtype: Any = None, /, **fields: Any) -> Struct:
    """A struct for kernels, by value or behind a pointer, with C++'s layout.

    Its :attr:`~Struct.source` declares it before a kernel's text; a text that declares it already needs only the
    :attr:`~Struct.dtype`.

    Args:
        name: the name of the type in C++.
        dtype: a NumPy structured dtype, whose offsets and size the struct gets; or else
        fields: the type of each: a dtype, a number type of C++ such as ``"int"``, a vector type of CUDA such as
            ``"float4"``, a :class:`Struct`, whose ``source`` then comes first, or a tuple of one of these and the
            lengths of an array, as in ``("float32", 3)``. In strings the names of C++ hold: ``"float"`` is ``float``.

    Raises:
        TypeError: a field is of a type that kernels do not have; a dtype stands where the name comes.
        ValueError: there is no field; a name is none of C++; offsets of ``dtype`` are not aligned, or overlap.

    Source: CUDA C++ Programming Guide, "Built-in Vector Types", for alignments.

    >>> import cukern as ck
    >>> Particle = ck.struct("Particle", mass="float32", position="float4")
    >>> Particle.dtype.fields["position"][1], Particle.dtype.itemsize
    (16, 32)
    >>> move = ck.Kernel(Particle.source + '''
    ... __global__ void move(Particle* p, const Particle by) { p[threadIdx.x].position.x += by.position.x; }
    ... ''', block=2, plain=True)
    >>> particles = Particle.asarray([(1, (1, 2, 3, 4)), (2, (5, 6, 7, 8))])
    >>> move(particles, Particle(position=(0.5, 0, 0, 0)), grid=1)
    >>> Particle.field(particles, "position")[:, 0].tolist()
    [1.5, 5.5]
    """
    if isinstance(name, np.dtype):
        raise TypeError(f'struct: a name comes first, as in struct("Name", dtype), got {name}')
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"struct: name: expected a name of C++, got {name!r}")
    if dtype is None:
        typed: Iterator[tuple[str, _Type, int | None]]
        typed = ((key, _of_field(kind, f"{name}: field {key}"), None) for key, kind in fields.items())
        size = None
    else:
        if fields:
            raise TypeError(f"{name}: expected a dtype, or fields by name, got both")
        if not isinstance(dtype, np.dtype) or not dtype.names:
            raise TypeError(f"{name}: expected a NumPy structured dtype, got {dtype!r}")
        typed, size = _of_dtype(dtype, name), dtype.itemsize
    placed, size = _placed(name, typed, size)
    return Struct(name, placed, size)


def _of_field(kind: Any, where: str) -> _Type:
    """The type of a field from its description."""
    lengths: tuple[int, ...] = ()
    if isinstance(kind, tuple):
        if len(kind) != 2:
            raise TypeError(f"{where}: expected (type, lengths), got {kind!r}")
        kind, given = kind
        lengths = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if not lengths or not all(isinstance(n, int) and n > 0 for n in lengths):
            raise ValueError(f"{where}: expected lengths of at least 1, got {given!r}")
    if isinstance(kind, Struct):
        return _Type(np.dtype((kind.dtype, lengths)), kind.name, lengths, kind.alignment)
    if isinstance(kind, str) and kind in VECTORS:
        cxx, alignment = VECTORS[kind]
        base = dtypes.from_cxx(cxx)
        assert base is not None
        return _Type(np.dtype((base, (*lengths, int(kind[-1])))), kind, lengths, alignment)
    named = dtypes.from_cxx(canonical(kind, {})) if isinstance(kind, str) else None
    return _of_number(named if named is not None else dtypes.as_dtype(kind, where), lengths, where)


def _of_number(dtype: np.dtype[Any], lengths: tuple[int, ...], where: str) -> _Type:
    if dtype not in dtypes.ALL or dtype in dtypes.COMPLEX:
        have = ", ".join(dtypes.info(one).name for one in dtypes.ALL if one not in dtypes.COMPLEX)
        raise TypeError(f"{where}: expected one of {have}, or a vector type such as float2, got {dtype}")
    row = dtypes.info(dtype)
    return _Type(np.dtype((dtype, lengths)), row.cxx, lengths, row.itemsize)


def _of_dtype(dtype: np.dtype[Any], name: str) -> Iterator[tuple[str, _Type, int]]:
    """The fields of a structured dtype by their offsets; one that has fields itself becomes a struct without a name."""
    for key, (kind, offset, *_) in sorted((dtype.fields or {}).items(), key=lambda item: item[1][1]):
        base, lengths = kind.subdtype or (kind, ())
        where = f"{name}: field {key}"
        if base.names:
            placed, size = _placed(where, _of_dtype(base, where), base.itemsize)
            alignment = max(field.type.alignment for field in placed)
            cxx = f"struct {{ {_members(where, placed, size)} }}"
            yield key, _Type(kind, cxx, lengths, alignment, nameless=True), offset
        else:
            yield key, _of_number(base, lengths, where), offset


def _placed(
    name: str, typed: Iterator[tuple[str, _Type, int | None]], size: int | None
) -> tuple[list[_Field], int]:
    """The fields at the offsets that C++ gives them, or at their own, and the size of the struct."""
    fields: list[_Field] = []
    end = 0
    for key, kind, given in typed:
        if not _NAME.fullmatch(key):
            raise ValueError(f"{name}: expected fields with names of C++, got {key!r}")
        offset = -(-end // kind.alignment) * kind.alignment if given is None else given
        if offset < end or offset % kind.alignment:
            why = (
                f"the field before it ends at {end}" if offset < end else f"C++ aligns it to {kind.alignment}"
            )
            raise ValueError(
                f"{name}: field {key} begins at byte {offset}, and {why}; numpy.dtype(..., align=True) aligns fields"
            )
        fields.append(_Field(key, kind, offset))
        end = offset + kind.dtype.itemsize
    if not fields:
        raise ValueError(f"{name}: expected at least one field")
    alignment = max(field.type.alignment for field in fields)
    whole = -(-end // alignment) * alignment if size is None else size
    if whole % alignment:
        raise ValueError(
            f"{name}: {size} bytes are no multiple of {alignment}, to which C++ aligns it; "
            "numpy.dtype(..., align=True) adds the bytes"
        )
    return fields, whole


def _members(name: str, fields: Sequence[_Field], size: int) -> str:
    """The members of a declaration, with padding bytes where C++ would leave no gap of itself."""
    # C++ and NumPy agree about numbers; an alignment of vectors is CUDA's own.
    types = {
        one.cxx: one
        for one in (field.type for field in fields)
        if not one.nameless and dtypes.from_cxx(one.cxx) is None
    }
    asserted = [
        f"sizeof({cxx}) == {kind.size} && alignof({cxx}) == {kind.alignment}" for cxx, kind in types.items()
    ]
    text = [f'static_assert({" && ".join(asserted)}, "{name}: types of other sizes");'] if asserted else []
    end = gaps = 0
    for field in fields:
        if field.offset - end >= field.type.alignment:
            text.append(f"unsigned char gap{gaps}_[{field.offset - end}];")
            gaps += 1
        text.append(field.type.declared(field.name))
        end = field.offset + field.type.dtype.itemsize
    if size - end >= max(field.type.alignment for field in fields):
        text.append(f"unsigned char gap{gaps}_[{size - end}];")
    return " ".join(text)


def _structured(fields: Sequence[_Field], size: int) -> np.dtype[Any]:
    return np.dtype(
        {
            "names": [field.name for field in fields],
            "formats": [field.type.dtype for field in fields],
            "offsets": [field.offset for field in fields],
            "itemsize": size,
        }
    )
