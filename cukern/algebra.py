"""What the tape knows of arrays: what a record keeps of one, and the few operations that it needs itself.

An array is whatever has ``shape``, ``dtype``, ``device``, ``_key`` and ``_storage``.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

from . import dtypes
from . import tree as pytree
from .errors import GradientError

if TYPE_CHECKING:
    from .array import Array
    from .device import Device
    from .layout import Layout

Operation: TypeAlias = "Callable[..., Array]"

#: The dtypes of arrays that have gradients.
FLOATING = frozenset(dtypes.FLOATS)


class Algebra(NamedTuple):
    """The operations on arrays that the tape itself needs."""

    add: Operation
    sum_to_shape: Operation
    zeros: Operation
    ones: Operation
    cast: Operation
    own: Operation


class Form(NamedTuple):
    """What the tape asks of an array that it does not keep; a :class:`.layout.Layout` says it as well."""

    shape: tuple[int, ...]
    dtype: dtypes.DType
    device: Device


#: What has shape, dtype and device.
Likeness: TypeAlias = "Form | Layout | Meta | Array"


class Meta(NamedTuple):
    """What stands for an array that is not kept alive."""

    key: int | None
    form: Form | Layout

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return self.form.shape

    @property
    def dtype(self) -> dtypes.DType:
        """The array's dtype."""
        return self.form.dtype

    @property
    def device(self) -> Device:
        """The array's device."""
        return self.form.device


_registered: Algebra | None = None


def register_algebra(
    add: Operation,
    sum_to_shape: Operation,
    zeros: Operation,
    ones: Operation,
    cast: Operation,
    own: Operation = lambda array: array,
) -> None:
    """Give the tape its operations on arrays; ``add``, ``sum_to_shape`` and ``cast`` are differentiable.

    Args:
        add: of two arrays of one shape and dtype.
        sum_to_shape: of an array and the shape to undo the broadcasting of.
        zeros: of a shape, a dtype and a device; only to be read.
        ones: likewise.
        cast: of an array and a dtype.
        own: of an array that is given away: itself, or a copy where it has the memory of what ``zeros`` or
            ``ones`` gave, and they give it again.
    """
    global _registered
    _registered = Algebra(add, sum_to_shape, zeros, ones, cast, own)


def registered() -> Algebra:
    """The operations given to :func:`register_algebra`."""
    if _registered is None:
        raise GradientError("no algebra is registered: import cukern, not cukern.tape alone")
    return _registered


def is_array(value: object) -> TypeGuard[Array]:
    """Whether ``value`` is an array to the tape."""
    return hasattr(value, "_storage")


def is_float(dtype: dtypes.DType) -> bool:
    """Whether arrays of ``dtype`` have gradients."""
    return dtype in FLOATING


def meta(array: Array) -> Meta:
    """What a record keeps of ``array``."""
    return Meta(array._key, form_of(array))


def form_of(array: Array) -> Form | Layout:
    """Shape, dtype and device of ``array``: its layout where that is known."""
    return getattr(array, "_layout", None) or Form(array.shape, array.dtype, array.device)


def zeros_like(like: Likeness) -> Array:
    """Zeros of the shape, dtype and device of ``like``; they may share memory with one another."""
    return registered().zeros(like.shape, like.dtype, like.device)


def describe(array: Array) -> str:
    """``array`` in an error."""
    return f"an array of {dtypes.info(array.dtype).name}, shape {array.shape}"


def written(array: Array) -> GradientError:
    """What is wrong where a tape meets ``array``, which it tracked before somebody wrote to it."""
    return GradientError(
        f"{describe(array)} was written by {array._storage.writer} after a tape began to track it, and the tape "
        "has no record of that; build a new array instead, or watch it again"
    )


def conform(gradient: object, like: Likeness, name: str, argument: str | int) -> Array:
    """``gradient`` with the shape and dtype of ``like``: broadcasting undone, then cast.

    Raises:
        GradientError: it is not a floating array, lies on another device, or has a shape that ``like``
            does not broadcast to. The message names ``name`` and ``argument``, or the input of that number.
    """
    layout = getattr(gradient, "_layout", None)
    if layout is not None and (
        layout is like
        or (layout.shape == like.shape and layout.dtype == like.dtype and layout.device == like.device)
    ):
        return gradient  # type: ignore[return-value]
    problem = _mismatch(gradient, like)
    if problem or not is_array(gradient):
        what = f"input {argument}" if isinstance(argument, int) else argument
        raise GradientError(f"{name}: the gradient of {what} {problem}")
    if gradient.shape != like.shape:
        gradient = registered().sum_to_shape(gradient, like.shape)
    return gradient if gradient.dtype == like.dtype else registered().cast(gradient, like.dtype)


def _mismatch(gradient: object, like: Likeness) -> str:
    """What keeps ``gradient`` from being a gradient of ``like``, or the empty string."""
    if not is_array(gradient):
        return f"must be an array or None, got {type(gradient).__name__}"
    if gradient.shape != like.shape and not _broadcasts(like.shape, gradient.shape):
        return f"has shape {gradient.shape}; expected {like.shape}, or a shape that it broadcasts to"
    if gradient.dtype != like.dtype and not is_float(gradient.dtype):
        return f"has dtype {gradient.dtype}; expected {like.dtype}"
    if gradient.device != like.device:
        return f"is on {gradient.device}; expected {like.device}"
    return ""


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    if len(shape) > len(to):
        return False
    return all(n in (1, m) for n, m in zip(reversed(shape), reversed(to), strict=False))


def float_leaves(tree: Any, what: str) -> list[Array]:
    """The leaves of ``tree``, each of which must be an array of a floating dtype."""
    found = pytree.leaves(tree)
    for value in found:
        if not is_array(value) or value.dtype not in FLOATING:
            _refuse(tree, what)
    return found


def _refuse(tree: Any, what: str) -> None:
    """Name the leaf that is no array of a floating dtype."""
    for path, value in pytree.leaves_with_path(tree, what):
        if not is_array(value):
            raise TypeError(f"{path}: expected an array, got {type(value).__name__}")
        if not is_float(value.dtype):
            raise TypeError(f"{path}: only floating dtypes have gradients, got {value.dtype}")


def walk(
    records: list[Any],
    reached: set[int | None],
    keep: set[int | None],
    cotangents: MutableMapping[int | None, Array],
) -> None:
    """Pull cotangents back through the records of a tape, from the last to the first, dropping each when it is done."""
    while records:
        operation, inputs, outputs, saved, versions = records.pop()
        given: list[Array | None] = []
        missing = 0
        for key in outputs:
            cotangent = cotangents.get(key) if key in keep else cotangents.pop(key, None)
            given.append(cotangent)
            if cotangent is None:
                missing += 1
        if missing == len(given):
            continue
        if missing and operation.materialize:
            given = [
                zeros_like(form) if one is None else one
                for one, form in zip(given, operation.output_forms, strict=True)
            ]
        needs = tuple([key in reached for key in inputs])
        gradients = operation.pull(given, saved, versions, needs)
        for i, gradient in enumerate(gradients):
            if gradient is not None and needs[i]:
                one = conform(gradient, operation.input_forms[i], operation.name, i)
                accumulate(cotangents, inputs[i], one)


def accumulate(cotangents: MutableMapping[int | None, Array], key: int | None, cotangent: Array) -> None:
    before = cotangents.get(key)
    cotangents[key] = cotangent if before is None else registered().add(before, cotangent)
