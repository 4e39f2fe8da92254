"""Parameters: trained arrays."""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np

from .. import dtypes
from ..array.array import Array, Storage, _restore
from ..array.creation import array
from ..device import Device, capture_hooks


class Parameter(Array):
    """A trained array, which every active tape watches.

    Args:
        data: anything that :func:`cukern.asarray` takes; it is copied.
        dtype: a floating dtype; that of ``data`` when None.
        device: where it lives; the current device, or that of ``data``, when None.

    Raises:
        TypeError: the dtype is not floating, so there is no gradient.

    >>> import cukern as ck
    >>> weight = ck.nn.Parameter([1.0, 2.0])
    >>> with ck.Tape() as tape:
    ...     loss = (weight * weight).sum()
    >>> tape.gradient(loss, weight).tolist()
    [2.0, 4.0]
    """

    __slots__ = ("_trainable",)
    _trainable: bool
    _is_parameter = True

    def __new__(cls, data: Any, dtype: Any = None, device: Device | str | None = None) -> Self:
        values = array(data, dtype=dtype, device=device)
        if dtypes.info(values.dtype).kind != "f":
            raise TypeError(f"data: a parameter needs a floating dtype, got {values.dtype}")
        return cls._wrap(values._data, values.device)

    def __init__(self, data: Any, dtype: Any = None, device: Device | str | None = None) -> None:
        """Do nothing: ``__new__`` has used the arguments."""

    @classmethod
    def _wrap(cls, data: Any, device: Device, storage: Storage | None = None) -> Self:
        result = cast(Self, super()._wrap(data, device, storage))
        result._trainable = True
        return result

    @property
    def trainable(self) -> bool:
        """Whether tapes watch the parameter and optimizers update it; can be set.

        >>> import cukern as ck
        >>> weight = ck.nn.Parameter([1.0, 2.0])
        >>> weight.trainable = False
        >>> with ck.Tape() as tape:
        ...     loss = (weight * weight).sum()
        >>> tape.gradient(loss, weight) is None
        True
        """
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"trainable: expected True or False, got {value!r}")
        if self._trainable != bool(value):
            self._trainable = bool(value)
            capture_hooks.replaced += 1  # steps captured before must be captured anew

    def __repr__(self) -> str:
        shown = super().__repr__()
        return shown if self._trainable else f"{shown[:-1]}, trainable=False)"

    def __copy__(self) -> Self:
        result = cast(Self, super().__copy__())
        result._trainable = self._trainable
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_parameter, (self._trainable, *super().__reduce__()[1])


def _restore_parameter(trainable: bool, *arguments: Any) -> Parameter:
    result = cast(Parameter, _restore(*arguments))
    result._trainable = trainable
    return result
