"""The public dtypes, such as ``ck.float32``: calling one makes an array of that dtype."""

from __future__ import annotations

import sys
from typing import Any

from .. import dtypes
from ..dtypes import DType
from .creation import asarray


class ScalarType:
    """A public dtype: a NumPy dtype that can be called to make an array.

    It equals NumPy's dtype, has its hash and attributes, and can be used wherever a dtype can. ``a <= b`` is whether
    NumPy casts ``a`` to ``b`` safely, as between dtypes of NumPy.

    >>> import cukern as ck, numpy as np
    >>> ck.float32(3).dtype == ck.float32 == np.dtype("float32"), ck.float32.itemsize
    (True, 4)

    Attributes:
        dtype: NumPy's dtype.
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def __call__(self, x: Any = 0, /) -> Any:
        """``cukern.asarray(x)`` with this dtype."""
        return asarray(x, self.dtype)

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(ck.float32, np.dtype) is true
        return type(self.dtype)

    def __eq__(self, other: object) -> bool:
        return bool(self.dtype == _of(other))

    def __lt__(self, other: object) -> bool:
        return bool(self.dtype < _of(other))

    def __le__(self, other: object) -> bool:
        return bool(self.dtype <= _of(other))

    def __gt__(self, other: object) -> bool:
        return bool(self.dtype > _of(other))

    def __ge__(self, other: object) -> bool:
        return bool(self.dtype >= _of(other))

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dtype, name)

    def __repr__(self) -> str:
        return repr(self.dtype)

    def __str__(self) -> str:
        return str(self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return _public, (dtypes.info(self.dtype).name,)


dtypes.TYPES.add(ScalarType)


def _of(other: Any) -> Any:
    """NumPy's dtype of a public one; anything else as it is."""
    return other.dtype if type(other) is ScalarType else other


def _public(name: str) -> Any:
    """The public dtype called ``name``."""
    return getattr(sys.modules["cukern"], name)
