"""The parameters of a kernel, declared once: the C++ struct that its template includes, and the bytes of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..kernel.structs import Struct


class Declared:
    """A struct that a template declares by its own text or by :attr:`source`, in fields of :class:`Params`.

    It is made at its first use: the module that makes it is not imported with cukern.
    """

    def __init__(self, name: str, **fields: Any) -> None:
        self._name, self._fields = name, fields

    @cached_property
    def struct(self) -> Struct:
        """What :func:`cukern.struct` makes of the fields."""
        return _struct(self._name, self._fields)

    @property
    def source(self) -> str:
        """The declaration in C++."""
        return self.struct.source


def _struct(name: str, fields: Mapping[str, Any]) -> Struct:
    from ..kernel.structs import struct

    return struct(name, **fields)


#: The struct Divisor of lib/divisor.cuh: what :func:`.sizes.divisor_of` returns.
DIVISOR = Declared("Divisor", multiplier="unsigned int", shift="int", by="int")


class Params:
    """A struct that a kernel takes by value, whose fields have a type of C++ or that of a template variable.

    A template that says ``<< Sizes >>`` has the declaration of ``Params("Sizes", ...)`` there; a launch gives a value
    for each field.

    Args:
        name: that of the struct, and of the template variable.
        fields: a type for each, as :func:`cukern.struct` takes it, the name of one of :data:`VARIABLES`, or other
            parameters, whose declaration then comes first; each alone or with the lengths of an array. A value for a
            struct is a tuple, that for other parameters what they return.

    >>> sizes = Params("Sizes", rows="int", stride="index")
    >>> given = sizes(rows=3, stride=8)
    >>> given.source({"index": "long long"})
    'struct Sizes { int rows; long long stride; };'
    >>> given.packed({"index": "int"})
    b'\\x03\\x00\\x00\\x00\\x08\\x00\\x00\\x00'
    """

    #: Template variables that name a C++ type.
    VARIABLES = ("index", "acc", "elem", "out")

    def __init__(self, name: str, **fields: Any) -> None:
        self.name = name
        self._fields = fields
        used = {one for kind in fields.values() for one in _variables(kind)}
        self._variables = tuple(one for one in self.VARIABLES if one in used)
        self._struct = lru_cache(maxsize=None)(self._resolved)

    def __call__(self, **values: Any) -> Given:
        """Values of all fields.

        Raises:
            TypeError: a field has no value, or a value no field.
        """
        if values.keys() != self._fields.keys():
            missing = [key for key in self._fields if key not in values]
            unknown = [key for key in values if key not in self._fields]
            raise TypeError(f"{self.name}: no value for {missing}, no field {unknown}")
        return Given(self, values)

    def struct(self, variables: Mapping[str, Any]) -> Struct:
        """The struct, where template variables have these values."""
        return self._struct(tuple(str(variables[one]) for one in self._variables))

    def source(self, variables: Mapping[str, Any]) -> str:
        """The declaration in C++, with those of the structs within it first."""
        within = dict.fromkeys(_base(kind) for kind in self._fields.values())
        before = [one.source(variables) for one in within if isinstance(one, Params)]
        return " ".join([*before, self.struct(variables).source])

    def _resolved(self, types: tuple[str, ...]) -> Struct:
        known = dict(zip(self._variables, types, strict=True))

        def of(kind: Any) -> Any:
            if isinstance(kind, tuple):
                return (of(kind[0]), *kind[1:])
            if isinstance(kind, Params):
                return kind.struct(known)
            if isinstance(kind, Declared):
                return kind.struct
            return known.get(kind, kind) if isinstance(kind, str) else kind

        return _struct(self.name, {key: of(kind) for key, kind in self._fields.items()})


def _base(kind: Any) -> Any:
    return kind[0] if isinstance(kind, tuple) else kind


def _variables(kind: Any) -> tuple[str, ...]:
    kind = _base(kind)
    return kind._variables if isinstance(kind, Params) else (kind,) if isinstance(kind, str) else ()


@cache
def _layout(**kinds: Any) -> Params:
    return Params("Layout", **kinds)


def layout_params(structs: Mapping[str, Declared] | None = None, /, **values: Any) -> Given:
    """The struct Layout by which kernels walk arrays of any strides: each field an array as long as what is given.

    Args:
        structs: the type of the fields that hold no numbers of type ``index``.
        **values: fields; those without a number are left out.
    """
    structs = structs or {}
    filled = {name: one for name, one in values.items() if np.size(one)}
    kinds = {
        name: (structs[name], len(one)) if name in structs else ("index", np.shape(one))
        for name, one in filled.items()
    }
    return _layout(**kinds)(**filled)


class Given:
    """Values for the fields of :class:`Params`: the argument of one launch."""

    def __init__(self, params: Params, values: dict[str, Any]) -> None:
        self.params, self.values = params, values

    def source(self, variables: Mapping[str, Any]) -> str:
        """The declaration in C++."""
        return self.params.source(variables)

    def packed(self, variables: Mapping[str, Any]) -> bytes:
        """The bytes of the struct.

        Raises:
            ValueError: a value does not fit its field.
        """
        return self._record(variables).tobytes()

    def _record(self, variables: Mapping[str, Any]) -> np.void:
        made = self.params.struct(variables)
        filled: np.void = made(**{key: _value(one, variables) for key, one in self.values.items()})
        return filled


def _value(value: Any, variables: Mapping[str, Any]) -> Any:
    """A value as NumPy's structured dtypes take it: a tuple for a struct within the struct."""
    if isinstance(value, Given):
        return value._record(variables)
    if isinstance(value, (list, tuple)) and any(isinstance(one, Given) for one in value):
        return [tuple(one._record(variables)) for one in value]
    return value
