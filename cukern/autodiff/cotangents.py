"""What the tape knows about arrays: the parts of an array that a record keeps, and the operations that it calls.

An array is whatever has ``shape``, ``dtype``, ``device``, ``_key`` and ``_storage``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

from .. import dtypes, pytree
from ..cache import Cache
from ..errors import GradientError

if TYPE_CHECKING:
    from ..array import Array
    from ..array.layout import Layout
    from ..device import Device

ArrayFunction: TypeAlias = "Callable[..., Array]"

#: The dtypes of arrays that have gradients.
FLOATING = frozenset(dtypes.INEXACT)


class Algebra(NamedTuple):
    """The operations on arrays that the tape itself needs."""

    add: ArrayFunction
    sum_to_shape: ArrayFunction
    zeros: ArrayFunction
    ones: ArrayFunction
    cast: ArrayFunction
    reshape: ArrayFunction
    broadcast: ArrayFunction
    own: Callable[[Array, Sequence[Array] | None], Array]


class Form(NamedTuple):
    """What the tape remembers of an array that it does not keep alive; a :class:`.layout.Layout` serves as well."""

    shape: tuple[int, ...]
    dtype: dtypes.DType
    device: Device


#: What has shape, dtype and device.
Likeness: TypeAlias = "Form | Layout | Meta | Array"


class Meta(NamedTuple):
    """A stand-in for an array that is not kept alive."""

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
    add: ArrayFunction,
    sum_to_shape: ArrayFunction,
    zeros: ArrayFunction,
    ones: ArrayFunction,
    cast: ArrayFunction,
    reshape: ArrayFunction,
    broadcast: ArrayFunction,
    own: Callable[[Array, Sequence[Array] | None], Array] = lambda array, beside: array,
) -> None:
    """Give the tape its operations on arrays; all but ``zeros``, ``ones`` and ``reshape`` are differentiable.

    Args:
        add: takes two arrays of one shape and dtype.
        sum_to_shape: takes an array, the shape from which it was broadcast, the dtype to which sums of real numbers
            are rounded, and an array to which the sum is added, if any.
        zeros: takes a shape, a dtype and a device; the result is only read.
        ones: likewise.
        cast: takes an array and a dtype.
        reshape: takes an array in C order and a shape; the result shares its memory.
        broadcast: takes an array and a shape to which it broadcasts; the result is only read.
        own: takes an array that is handed to the user. Returns it, or a copy if ``zeros`` or ``ones`` share its memory
            among calls. Given also others of its memory, it returns an array to which the user may write: a copy if one
            of them may overlap it, or if its own elements share memory.
    """
    global _registered
    _registered = Algebra(add, sum_to_shape, zeros, ones, cast, reshape, broadcast, own)


def registered() -> Algebra:
    """The operations given to :func:`register_algebra`."""
    if _registered is None:
        raise GradientError("no algebra is registered: import cukern, not the tape alone")
    return _registered


class Handed:
    """The gradients that a user gets, each with memory of its own: a write to one changes nothing else.

    Args:
        given: the user's own cotangents, whose memory is theirs alone.
    """

    def __init__(self, cotangents: Iterable[Array]) -> None:
        self._by_storage: dict[int, list[Array]] = {}
        for one in cotangents:
            self._beside(one).append(one)

    def _beside(self, array: Array) -> list[Array]:
        return self._by_storage.setdefault(id(array._storage), [])

    def own(self, gradient: Array, pending: Iterable[Array] = ()) -> Array:
        """``gradient``, or a copy if it shares memory with an earlier one, or with a ``pending`` cotangent."""
        storage, layout = gradient._storage, getattr(gradient, "_layout", None)
        beside = self._by_storage.get(id(storage))
        alone = beside is None and not pending and layout is not None and not layout.repeated
        if alone and not storage.constant:  # its memory is its own
            self._by_storage[id(storage)] = [gradient]
            return gradient
        read = [one for one in pending if one._storage is storage]
        result = registered().own(gradient, [*(beside or ()), *read])
        self._beside(result).append(result)
        return result


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


def ones_for(target: Array) -> Array:
    """The cotangent with which the gradient of ``target`` begins.

    Raises:
        TypeError: ``target`` is complex: what descends is a real number.
    """
    dtype = target.dtype
    if dtype in dtypes.COMPLEX:
        raise TypeError(
            f"target: the gradient of {describe(target)} needs output_gradients: only a real number descends, such "
            "as the real part or the absolute value"
        )
    return registered().ones(target.shape, dtype, target.device)


def describe(array: Array | Forgotten) -> str:
    """Words for ``array`` in an error."""
    return f"an array of {dtypes.info(array.dtype).name}, shape {array.shape}"


def written(array: Array) -> GradientError:
    """The error for ``array`` that was written while a tape tracked it."""
    return GradientError(
        f"{describe(array)} was written by {array._storage.writer} after a tape began to track it, and the tape "
        "has no record of that; build a new array instead, or watch it again"
    )


def conform(
    gradient: object, like: Likeness, name: str, argument: str | int, onto: Array | None = None
) -> Array:
    """``gradient`` with the shape and dtype of ``like``: broadcasting undone, then cast, and added to ``onto``.

    Raises:
        GradientError: it is not a floating array, lies on another device, or has a shape that ``like``
            does not broadcast to. The message names ``name`` and ``argument``, or the input of that number.
    """
    summed, converted = _conforming(gradient, like, name, argument)
    found: Any = gradient
    if summed:
        found = registered().sum_to_shape(found, like.shape, like.dtype, onto)
        converted = found.dtype != like.dtype
    found = registered().cast(found, like.dtype) if converted else found
    return found if summed or onto is None else registered().add(onto, found)


def _conforming(gradient: object, like: Likeness, name: str, argument: str | int) -> tuple[bool, bool]:
    """Whether a gradient is to be summed to the shape of ``like``, and cast; raises as :func:`conform`."""
    layout = getattr(gradient, "_layout", None)
    form = getattr(like, "_layout", like)
    steps = None if layout is None or form is None else _steps.get((layout, form))
    if steps is None:
        problem = _mismatch(gradient, like)
        if problem or not is_array(gradient):
            what = f"input {argument}" if isinstance(argument, int) else argument
            raise GradientError(f"{name}: the gradient of {what} {problem}")
        steps = gradient.shape != like.shape, gradient.dtype != like.dtype
        if layout is not None and form is not None:
            _steps.keep((layout, form), steps)
    return steps


#: Whether gradients of a layout are summed to the shape of what they are gradients of, and whether they are cast.
_steps: Cache[tuple[Layout, Likeness], tuple[bool, bool]] = Cache()
_AS_IS = (False, False)


def _mismatch(gradient: object, like: Likeness) -> str:
    """Why ``gradient`` cannot be a gradient of ``like``, or the empty string."""
    if not is_array(gradient):
        return f"must be an array or None, got {type(gradient).__name__}"
    if gradient.shape != like.shape and not broadcasts(like.shape, gradient.shape):
        return f"has shape {gradient.shape}; expected {like.shape}, or a shape that it broadcasts to"
    if gradient.dtype != like.dtype and not is_float(gradient.dtype):
        return f"has dtype {gradient.dtype}; expected {like.dtype}"
    if gradient.device != like.device:
        return f"is on {gradient.device}; expected {like.device}"
    return ""


@lru_cache(maxsize=4096)
def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether arrays of ``shape`` broadcast to the shape ``to``."""
    if len(shape) > len(to):
        return False
    return all(n in (1, m) for n, m in zip(reversed(shape), reversed(to), strict=False))


def float_leaves(tree: Any, what: str) -> list[Array]:
    """The leaves of ``tree``, each of which must be an array of a floating dtype."""
    leaves = pytree.leaves(tree)
    require_floats(leaves, tree, what)
    return leaves


def require_floats(leaves: Sequence[Any], tree: Any, what: str) -> None:
    """Raise unless the ``leaves`` of ``tree`` are arrays of floating dtypes.

    Raises:
        TypeError: the message has the path to the leaf that is none.
    """
    for value in leaves:
        layout = getattr(value, "_layout", None)
        if not (layout.floating if layout is not None else is_array(value) and value.dtype in FLOATING):
            break
    else:
        return
    for path, value in pytree.leaves_with_path(tree, what):
        if not is_array(value):
            raise TypeError(f"{path}: expected an array, got {type(value).__name__}")
        if not is_float(value.dtype):
            raise TypeError(f"{path}: only floating dtypes have gradients, got {value.dtype}")


class Forgotten:
    """What a record keeps of an array that is computed again when a derivative reads it."""

    __slots__ = ("_key", "_storage", "dtype", "order", "recipe", "shape")

    def __init__(self, array: Array) -> None:
        self._key, self._storage, self.recipe = array._key, array._storage, array._storage.recipe
        self.shape, self.dtype = array.shape, array.dtype
        #: The axes in memory where that is not C order.
        self.order = None if array.is_contiguous else array._planned().order

    def again(self) -> Array:
        """The array, to tapes the same as the original, which has not been written since."""
        result: Array = self.recipe.array(
            self.shape if self.order is None else tuple([self.shape[axis] for axis in self.order])
        )
        result._planned()
        result._storage.version = self._storage.version
        if self.order is not None:
            axes = [self.order.index(axis) for axis in range(len(self.shape))]
            result = type(result)._wrap(result._data.transpose(axes), result.device, result._storage)
            result._planned()
        result._key = self._key
        return result


def read(name: str, saved: Sequence[Array | Forgotten | None], versions: Sequence[int]) -> list[Array | None]:
    """The arrays that a call of the operation ``name`` has saved.

    Raises:
        GradientError: one was written since.
    """
    arrays: list[Array | None] = []
    for array, version in zip(saved, versions, strict=True):
        if array is not None and array._storage.version != version:
            raise GradientError(
                f"{name}: {describe(array)}, saved for its backward, was written since by "
                f"{array._storage.writer}; compute the gradient first, or write to a copy"
            )
        arrays.append(array.again() if isinstance(array, Forgotten) else array)
    return arrays


class Parts:
    """A cotangent that is put together when it is read: as of an array of which views have cotangents.

    Args:
        together: makes the array of all parts and their keys; the same for all parts of an array.
        key: what the function needs to know of the part.
        part: an array.
    """

    __slots__ = ("_keys", "_parts", "_rest", "_together")

    def __init__(
        self, together: Callable[[Sequence[Array], Sequence[Any]], Array], key: Any, part: Array
    ) -> None:
        self._together, self._keys, self._parts = together, [key], [part]
        self._rest: Array | None = None

    def add(self, cotangent: Array | Parts) -> Parts:
        """Add another cotangent of the same array to this one, and return it."""
        rest: Array | None
        if not isinstance(cotangent, Parts):
            rest = cotangent
        elif cotangent._together == self._together:
            self._keys += cotangent._keys
            self._parts += cotangent._parts
            rest = cotangent._rest
        else:
            rest = cotangent.whole()
        if rest is not None:
            self._rest = rest if self._rest is None else registered().add(self._rest, rest)
        return self

    def newest(self) -> Array:
        """The part that was added last."""
        return self._parts[-1]

    def arrays(self) -> list[Array]:
        """What it will be put together from."""
        return self._parts if self._rest is None else [*self._parts, self._rest]

    def whole(self) -> Array:
        """The cotangent as one array."""
        result = self._together(self._parts, self._keys)
        return result if self._rest is None else registered().add(self._rest, result)


class Term:
    """A cotangent that is computed when it is known whether another one is added to it, in the same kernel then."""

    __slots__ = ()

    def alone(self) -> Array:
        """The cotangent."""
        raise NotImplementedError

    def plus(self, before: Array | Parts) -> Array | None:
        """The sum with ``before``, a cotangent of the same array; None if they are to be added apart."""
        raise NotImplementedError


#: What the rule of an operation gives for an input: None where there is nothing, or nothing is needed.
Gradient: TypeAlias = "Array | Parts | Term | None"
#: ``vjp(cotangents, saved, needs, *values)``: one gradient per input; ``values`` are what a call keeps besides arrays.
Vjp: TypeAlias = "Callable[..., Sequence[Gradient]]"
#: What an output's derivative along the inputs' tangents is: None for zeros, an error where there is none to read.
Tangent: TypeAlias = "Array | GradientError | None"
#: ``jvp(tangents, saved, *values)``: one tangent per output, from one per input, None for zeros.
Jvp: TypeAlias = "Callable[..., Sequence[Tangent]]"


@dataclass(slots=True, eq=False)
class Operation:
    """What calls of one operation have in common that take and make arrays of the same forms.

    Attributes:
        input_forms, output_forms: shape, dtype and device of each.
        materialize: whether ``vjp`` gets zeros for an output that has no cotangent.
        adds: whether ``vjp`` takes ``before=``, by the number of an input the cotangent that its own is added to. It
            takes out those whose sums it returns.
        jvp: computes the outputs' tangents; where it is None, they are derived from ``vjp``.
    """

    name: str
    input_forms: Sequence[Likeness]
    output_forms: Sequence[Likeness]
    vjp: Vjp
    materialize: bool = True
    adds: bool = False
    jvp: Jvp | None = None


@dataclass(slots=True, eq=False)
class Opaque:
    """A storage that kernels wrote when they were launched with tracked arrays.

    Attributes:
        name: the last kernel.
        message: why there is no gradient through it.
        inputs: the tracked arrays, by key.
    """

    name: str = ""
    message: str = ""
    inputs: dict[int, Form | Layout] = field(default_factory=dict)

    def add(self, kernel: str, tracked: Sequence[tuple[str, int, Form | Layout]]) -> None:
        """Note a launch with tracked arrays: the name of each parameter, with the array's key and form."""
        self.name = kernel
        self.message = (
            f"{kernel}: its argument {tracked[0][0]} is an array that a tape tracks, and a kernel has no derivative of "
            "its own; call it in a ck.Function, which has a backward, or pass it ck.stop_gradient of the array"
        )
        self.inputs.update({key: form for _, key, form in tracked})

    def operation(self, array: Array) -> Operation:
        """An operation whose output is ``array`` and whose rule raises."""
        message = self.message

        def vjp(cotangents: object, saved: object, needs: object) -> Sequence[Array | None]:
            raise GradientError(message)

        return Operation(self.name, list(self.inputs.values()), [form_of(array)], vjp, False)


#: None for an array that no tape has met, or that has no gradient.
Keys: TypeAlias = Sequence[int | None]
#: A recorded call: the operation, the keys of inputs and outputs, the saved arrays and their versions, and what else
#: the rule takes. A plain tuple, because every operation on tracked arrays makes one.
Record: TypeAlias = (
    "tuple[Operation, Keys, Keys, Sequence[Array | Forgotten | None], Sequence[int], tuple[Any, ...]]"
)


class _Pending(threading.local):
    """The cotangents of the walks of a thread, the innermost last, and those that are summed later."""

    def __init__(self) -> None:
        self.walks: list[tuple[MutableMapping[int | None, Array | Parts], list[_Late]]] = []


_pending = _Pending()


def refuse_written(name: str, cotangent: Array) -> None:
    """Raise if a cotangent that the backward of ``name`` wrote to is read once more.

    Raises:
        GradientError: it is: an addition hands one array to both operands, and a caller may ask for it.
    """
    for one in _pending.walks[-1][0].values():
        for part in one.arrays() if isinstance(one, Parts) else (one,):
            if part._storage is cotangent._storage:
                raise GradientError(
                    f"{name}: backward wrote to the gradient that it got, which is another array's too, or is asked "
                    "for; write to a copy"
                )


#: Records that are pulled back before a gradient is summed though nothing has computed it.
_PATIENCE = 4


class _Late:
    """A gradient to be summed, as that of a bias, that is another input's too and not computed yet.

    Summing it now would compute it for the sum alone. The rule of what made the other input, as a product, mostly needs
    it in memory: the sum waits for that, and reads it there, if the kernel that computes it has not made the sum too.

    Args:
        key: of the input for which it is summed.
        sum: of a list with the gradient, and another list.
    """

    __slots__ = ("gradient", "key", "left", "parts")

    def __init__(self, key: int | None, gradient: Any, sum: Callable[..., Array]) -> None:
        self.key, self.gradient, self.left = key, gradient, _PATIENCE
        self.parts = Parts(sum, None, gradient)


def _sum(cotangents: MutableMapping[int | None, Array | Parts], late: list[_Late], now: bool = False) -> None:
    """Sum the gradients that are in memory or have waited long enough, or all ``now``; the others stay in ``late``."""
    left = []
    for one in late:
        if cotangents.get(one.key) is one.parts:
            one.left -= 1
            if one.left and not now and getattr(one.gradient, "arriving", False):
                left.append(one)
            else:
                whole(cotangents, one.key)
    late[:] = left


def sum_now() -> None:
    """Sum the gradients that wait in the walk of this thread, before what they are sums of may be written."""
    for cotangents, late in _pending.walks[-1:]:
        _sum(cotangents, late, now=True)


def _summed(like: Likeness, name: str, i: int, beside: Any, parts: Sequence[Array], _: object) -> Array:
    if beside is not None and beside.made is not None:
        made: Array = beside.made
        return made
    return conform(parts[0], like, name, i)


def _is_read_again(gradients: Sequence[Gradient], needs: Sequence[bool], i: int) -> bool:
    """Whether a gradient is not in memory yet, and is another input's, too."""
    return getattr(gradients[i], "arriving", False) and any(
        one is gradients[i] and needs[k] for k, one in enumerate(gradients) if k != i
    )


def walk(
    records: list[Record],
    reached: set[int | None],
    keep: set[int | None],
    cotangents: MutableMapping[int | None, Array | Parts],
    due: Mapping[int, Sequence[int]] | None = None,
    give: Callable[[int], None] | None = None,
    recipes: Mapping[int | None, Any] = MappingProxyType({}),
) -> None:
    """Pull cotangents back through a tape's records, from the last to the first, and drop each record after use.

    Args:
        recipes: by the key of a result, how it is computed again; what was computed is dropped after its record.
        due: what to call ``give`` with once the record of an index has been pulled back.
    """
    late: list[_Late] = []
    _pending.walks.append((cotangents, late))
    try:
        while records:
            recorded = records.pop()
            _pull(recorded, reached, keep, cotangents, late)
            if late:
                _sum(cotangents, late)
            if recipes:
                for key in recorded[2]:
                    if key in recipes:
                        recipes[key].cached = None
            if due is not None and give is not None:
                for i in due.get(len(records), ()):
                    give(i)
    finally:
        _pending.walks.pop()
    for recipe in recipes.values():  # those of records before the sources
        recipe.cached = None


def _pull(
    recorded: Record,
    reached: set[int | None],
    keep: set[int | None],
    cotangents: MutableMapping[int | None, Array | Parts],
    late: list[_Late],
) -> None:
    """Pull the cotangents of one record's outputs back to its inputs; ``late`` gets those that are summed later."""
    operation, inputs, outputs, saved, versions, values = recorded
    if len(outputs) == 1:
        (key,) = outputs
        found: Any = cotangents.get(key) if key in keep else cotangents.pop(key, None)
        if found is None:
            return
        if type(found) is Parts:
            found = found.whole()
            if key in keep:
                cotangents[key] = found
        of_outputs: tuple[Array | None, ...] = (found,)
    else:
        of_outputs = tuple(
            [whole(cotangents, key) if key in keep else taken(cotangents, key) for key in outputs]
        )
        missing = sum([one is None for one in of_outputs])
        if missing == len(of_outputs):
            return
        if missing and operation.materialize:
            each = zip(of_outputs, operation.output_forms, strict=True)
            of_outputs = tuple([zeros_like(form) if one is None else one for one, form in each])
    needs = tuple(map(reached.__contains__, inputs))
    arrays: Sequence[Any] = saved
    for i, array in enumerate(saved):
        if array is not None and (array._storage.version != versions[i] or isinstance(array, Forgotten)):
            arrays = read(operation.name, saved, versions)
            break
    others: dict[int, Any] = {}
    if operation.adds:
        for i, key in enumerate(inputs):
            if (
                needs[i]
                and key in cotangents
                and key not in inputs[:i]
                and type(cotangents[key]) is not Parts
            ):
                others[i] = cotangents[key]
    try:
        if others:
            added = set(others)
            gradients = operation.vjp(of_outputs, arrays, needs, *values, before=others)
            for i in added.difference(others):
                del cotangents[inputs[i]]
        else:
            gradients = operation.vjp(of_outputs, arrays, needs, *values)
    except Exception as error:
        error.add_note(f"while computing the gradient of {operation.name}")
        raise
    forms = operation.input_forms
    if len(gradients) != len(forms):
        raise GradientError(f"{operation.name}: expected {len(forms)} gradients, got {len(gradients)}")
    for i, gradient in enumerate(gradients):
        if gradient is not None and needs[i]:
            like, key = forms[i], inputs[i]
            if isinstance(gradient, Term):
                before = cotangents.get(key)
                both = None if before is None else gradient.plus(before)
                if both is None:
                    gradient = gradient.alone()
                else:
                    cotangents[key] = both
                    continue
            layout, onto = getattr(gradient, "_layout", None), None
            if layout is not like and type(gradient) is not Parts and _steps.get((layout, like)) != _AS_IS:  # type: ignore[arg-type]
                onto = cotangents.get(key)
                again = onto is None and _is_read_again(gradients, needs, i)
                if again and _conforming(gradient, like, operation.name, i)[0]:
                    ask = getattr(gradient, "summed_beside", None)
                    beside = None if ask is None else ask(like)  # by what computes the gradient, where it can
                    late.append(_Late(key, gradient, partial(_summed, like, operation.name, i, beside)))
                    cotangents[key] = late[-1].parts
                    continue
                onto = None if isinstance(onto, Parts) else onto
                gradient = conform(gradient, like, operation.name, i, onto)
            if onto is not None or cotangents.get(key) is None:
                cotangents[key] = gradient
            else:
                accumulate(cotangents, key, gradient)
            if key in keep:
                # What the caller gets is computed now, before what it is computed from may be written.
                held: Any = cotangents[key]
                held = held.newest() if type(held) is Parts else held
                if not getattr(held, "arriving", False):
                    getattr(held, "_operand", None)


def accumulate(
    cotangents: MutableMapping[int | None, Array | Parts], key: int | None, cotangent: Array | Parts
) -> None:
    """Add a cotangent to that of ``key``."""
    before = cotangents.get(key)
    if before is None:
        cotangents[key] = cotangent
    elif type(before) is Parts:
        before.add(cotangent)
    elif type(cotangent) is Parts:
        cotangents[key] = cotangent.add(before)
    else:
        cotangents[key] = registered().add(before, cotangent)


def whole(cotangents: MutableMapping[int | None, Array | Parts], key: int | None) -> Array | None:
    """The cotangent of ``key`` as one array, which stays in its place."""
    found = cotangents.get(key)
    if isinstance(found, Parts):
        cotangents[key] = found = found.whole()
    return found


def taken(cotangents: MutableMapping[int | None, Array | Parts], key: int | None) -> Array | None:
    """The cotangent of ``key`` as one array, which is no longer kept."""
    found = cotangents.pop(key, None)
    return found.whole() if isinstance(found, Parts) else found
