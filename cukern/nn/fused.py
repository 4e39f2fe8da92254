"""Helpers of the fused operations: checks of arguments, activations, and derivatives of higher order."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial, wraps
from numbers import Real
from types import EllipsisType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.batched import Batched
from ..array.layout import Layout
from ..autodiff import recompute, tape
from ..cache import Cache
from ..elementwise.function import astype
from ..elementwise.graph import Expr, input_node, tracing
from ..elementwise.operands import bound, require_arrays
from ..elementwise.print_cxx import compute_type, statements
from ..elementwise.program import Program, program, roots_from
from ..errors import require_int
from ..function import Function
from ..jit import jit
from ..kernel.strides import broadcasts
from ..transforms import jvp, vjp

#: An elementwise function that an operation applies to its result.
Activation = Callable[[Array], Array]


def is_int(value: object) -> bool:
    """Whether ``value`` is a Python or NumPy integer, and not a bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def require_sizes(name: str, **sizes: object) -> None:
    """Raise unless all arguments are sizes of a layer.

    Raises:
        TypeError: one is not an int.
        ValueError: one is negative.
    """
    for argument, size in sizes.items():
        require_int(f"{name}: {argument}", size, 0)


def require_shape(
    name: str, argument: str, x: Array | None, *wanted: int | str | EllipsisType, note: str = ""
) -> None:
    """Raise unless ``x`` is None or has a shape.

    Args:
        name, argument: the called function, and its argument.
        x: the argument.
        wanted: the size of each axis, or a word for any size; an ellipsis first or last stands for any axes.
        note: what else is said of the shape.

    Raises:
        ValueError: it has another shape.
    """
    if x is None or x.shape == wanted:
        return
    part, count, given = _places(wanted)
    shape = x.shape[part]
    if len(shape) != count or [n for i, n in given if shape[i] != n]:
        words = ", ".join("..." if one is ... else str(one) for one in wanted)
        words += "," if len(wanted) == 1 else ""
        raise ValueError(f"{name}: {argument}: expected shape ({words}){note}, got {x.shape}")


@lru_cache(maxsize=4096)
def _places(wanted: tuple[Any, ...]) -> tuple[slice, int, list[tuple[int, int]]]:
    """Of what :func:`require_shape` wants: which axes, how many, and those that have one size, with it."""
    sizes = [one for one in wanted if one is not ...]
    part = slice(None)
    if ... in wanted:
        part = slice(-len(sizes), None) if wanted[0] is ... else slice(len(sizes))
    return part, len(sizes), [(i, n) for i, n in enumerate(sizes) if not isinstance(n, str)]


def require_broadcast(
    name: str, argument: str, x: Array | None, shape: Sequence[int], whose: str = ""
) -> None:
    """Raise unless ``x`` is None or broadcasts to a shape, that of what errors call ``whose``.

    Raises:
        ValueError: it does not.
    """
    if x is not None and not broadcasts(x.shape, shape):
        raise ValueError(
            f"{name}: {argument}: expected a shape that broadcasts to {whose}{tuple(shape)}, got {x.shape}"
        )


def require_kind(name: str, argument: str, x: object, kinds: str, wanted: str) -> None:
    """Raise unless ``x`` is an array of a dtype of one of these kinds, as errors say in words.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(x, Array) or dtypes.info(x.dtype).kind not in kinds:
        got = x.dtype if isinstance(x, Array) else type(x).__name__
        raise TypeError(f"{name}: {argument}: expected {wanted}, got {got}")


def require_beside(name: str, argument: str, x: Array, other: Array, named: str) -> None:
    """Raise unless ``x`` is on the device of another array, which errors call ``named``.

    Raises:
        ValueError: it is on another one.
    """
    if x.device is not other.device:
        raise ValueError(f"{name}: {argument} is on {x.device}, {named} on {other.device}; move one of them")


def several(value: Any, count: int, name: str, argument: str, least: int) -> tuple[int, ...]:
    """An int, or one for each of ``count`` axes, as a tuple.

    Raises:
        TypeError: it is neither.
        ValueError: one is less than ``least``.
    """
    sizes = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(sizes) != count or not all(map(is_int, sizes)):
        each = {1: "one in a tuple", 2: "a pair of ints", 3: "three ints"}[count]
        raise TypeError(f"{name}: {argument}: expected an int or {each}, got {value!r}")
    if min(sizes) < least:
        raise ValueError(f"{name}: {argument}: expected at least {least}, got {value!r}")
    return tuple(map(int, sizes))


def require_eps(name: str, eps: float) -> float:
    """``eps`` as a float.

    Raises:
        ValueError: it is not a number of at least 0.
    """
    if type(eps) is float and eps >= 0:
        return eps
    if not isinstance(eps, Real) or isinstance(eps, bool) or not eps >= 0:
        raise ValueError(f"{name}: eps: expected a number of at least 0, got {eps!r}")
    return float(eps)


def require_activation(name: str, activation: object) -> None:
    """Raise unless it can be called, or is None.

    Raises:
        TypeError: it is something else.
    """
    if activation is not None and not callable(activation):
        raise TypeError(
            f"{name}: activation: expected an elementwise function such as cukern.relu, got {activation!r}"
        )


@lru_cache(maxsize=1024)
def traced(activation: Activation, dtype: dtypes.DType, shape: tuple[int, ...]) -> Program | None:
    """The program of an activation of an array; None unless it is elementwise, has a derivative and keeps the dtype."""
    with tracing("activation") as refused:
        try:
            y = activation(Expr(input_node(0, dtype), shape))  # type: ignore[arg-type]
        except Exception:  # a symbol is not all that an array is
            return None
    if refused or not isinstance(y, Expr) or (y.dtype, y.shape) != (dtype, shape):
        return None
    made = program("activation", (y.node,), (dtype,))
    return made if made.backward((True,), (True,)).results[0] else None


@lru_cache(maxsize=1024)
def derivative_of(activation: Program) -> Program:
    """The program of an activation's argument and of the cotangent of its result: the cotangent of the argument."""
    types = activation.inputs[0], activation.outputs[0].dtype
    roots, _ = roots_from(activation, [input_node(1, types[1])], (True,), (True,))
    return program("activation_vjp", roots or [input_node(1, types[1])], types)


def activation_variables(program: Program | None) -> dict[str, Any]:
    """The template variables of `lib/activation.cuh`."""
    if program is None:
        return {"activation": None}
    body, (value,) = statements(program.outputs)
    own = compute_type(program.inputs[0])
    return {"activation": own, "arguments": len(program.inputs), "body": body, "value": value}


def require_ids(name: str, argument: str, ids: Any, size: int | None = None) -> None:
    """Raise unless ``ids`` are indices of an axis of ``size``.

    Raises:
        TypeError: ``ids`` is not an integer array.
        IndexError: one is out of range; checked only on the host, because a check would wait for a GPU.
    """
    require_kind(name, argument, ids, "iu", "an integer array")
    if size is None or not ids.device.addressable or not ids.size:
        return
    while type(ids) is Batched:  # those of all examples
        ids = ids._value
    low, high = int(ids._data.min()), int(ids._data.max())
    if low < 0 or high >= size:
        raise IndexError(f"{name}: {argument}: expected each in [0, {size}), got {low if low < 0 else high}")


def common_dtype(
    name: str, arrays: Mapping[str, Array], optional: Mapping[str, Array | None] | None = None
) -> dtypes.DType:
    """The promoted floating dtype of the arrays of a call, which must be on one device.

    Args:
        name: the name of the called function.
        arrays: its arguments by name.
        optional: the arguments that may be None.

    Raises:
        TypeError: an argument is not an array, or none has a floating dtype.
        ValueError: they are on different devices.
    """
    given = dict(arrays)
    for argument, array in (optional or {}).items():
        if array is not None:
            given[argument] = array
    first: Array | None = None
    same = True
    for argument, array in given.items():
        if not isinstance(array, Array):
            raise TypeError(f"{name}: {argument}: expected a cukern array, got {type(array).__name__}")
        dtype = array.dtype
        if first is None:
            first, named = array, argument
        elif dtype is not first.dtype:
            same = False
        if dtype not in dtypes.FLOATS:
            raise TypeError(f"{name}: {argument}: expected a floating dtype, got {dtype}")
        if array.device is not first.device:
            require_beside(name, argument, array, first, named)
    assert first is not None
    return first.dtype if same else dtypes.result_type(*given.values())


def in_common_dtype(
    name: str, arrays: Mapping[str, Any], optional: Mapping[str, Any] | None = None
) -> list[Any]:
    """The arguments of a call as arrays of one device in their common floating dtype; None for what is None.

    Args:
        name: the name of the called function.
        arrays: its arguments by name; those that are no cukern arrays are converted.
        optional: the arguments that may be None.

    Raises:
        TypeError, ValueError: as :func:`common_dtype`.
    """
    given = {**arrays, **{argument: one for argument, one in (optional or {}).items() if one is not None}}
    given = dict(zip(given, require_arrays(given.values(), name, list(given)), strict=True))
    dtype = common_dtype(name, given)
    names = (*arrays, *(optional or ()))
    return [astype(given[argument], dtype, copy=False) if argument in given else None for argument in names]


def layouts_of(*arrays: object) -> tuple[Layout | None, ...] | None:
    """The layouts of arrays, on which checks of them depend, and None for None; None if one is neither."""
    layouts: list[Layout | None] = []
    for one in arrays:
        if isinstance(one, Array):
            layouts.append(one._layout or one._planned())
        elif one is None:
            layouts.append(None)
        else:
            return None
    return tuple(layouts)


#: The trailing axes of an array by their number, as error messages show them.
AXES = {1: "L", 2: "H, W", 3: "D, H, W"}
P = ParamSpec("P")
R = TypeVar("R")


def of_axes(
    function: Callable[Concatenate[int, P], Array], name: str, given: str, result: str
) -> Callable[P, Array]:
    """A function over so many axes of arrays.

    Args:
        function: takes the number of axes, and then what the new function takes. Its docstring is put in their words,
            which stand there in braces.
        name: the public name, which ends with the number of axes, as in ``"conv2d"``.
        given, result: the arguments and the result of a doctest, which follows the docstring.
    """
    count = int(name[-2])
    words = {
        "count": str(count),
        "axes": AXES[count],
        "whole": ("line", "plane", "volume")[count - 1],
        "result": ("length", "rows, columns", "depth, rows, columns")[count - 1],
        "kernel": "the window's length" if count == 1 else "the window's sizes; an int for all",
        "number": f"the number of windows{' along each axis; an int for all' if count > 1 else ''}",
    }

    text = inspect.cleandoc(function.__doc__ or "").format(**words)
    example = f">>> import cukern as ck\n>>> ck.nn.{name}({given}).tolist()\n{result}"
    return bound(function, count, name, f"{text}\n\n{example}")


#: The order in memory, channels last, of the axes of images (batch, channels, rows, columns).
CHANNELS_LAST = (0, 2, 3, 1)


def lies_channels_last(x: Array) -> bool:
    """Whether ``x`` is of images (batch, channels, rows, columns) whose channels lie innermost in memory."""
    return _lies_channels_last(x._layout or x._planned())


@lru_cache(maxsize=4096)
def _lies_channels_last(own: Layout) -> bool:
    return own.ndim == 4 and own.shape[1] > 1 and own.order == CHANNELS_LAST


class _Pullback(Function):
    """The vjp of a fused operation, computed by its kernels and differentiated like the vjp of its reference."""

    _only_reads = True

    @staticmethod
    def forward(
        ctx: Any,
        kernels: Callable[[], Sequence[Array | None]],
        reference: Callable[..., Any],
        wanted: tuple[bool, ...],
        *arrays: Array,
    ) -> tuple[Array, ...]:
        ctx.save_for_backward(*arrays)
        ctx.reference, ctx.wanted = reference, wanted
        return _chosen(kernels(), wanted)

    @staticmethod
    def backward(ctx: Any, *seconds: Array) -> tuple[Array | None, ...]:
        _, pullback = vjp(partial(_pulled, ctx.reference, ctx.wanted), *ctx.saved_arrays)
        return (None, None, None, *pullback(seconds))

    @staticmethod
    def jvp(ctx: Any, *tangents: Array | None) -> tuple[Array, ...]:
        own = ctx.reference, ctx.wanted, ctx.saved_arrays, list(tangents[3:])
        shared = isinstance(ctx.reference, _Shared)
        return (ctx.reference.pushed_pull if shared else _pushed_pull)(*own)


def _pulled(reference: Callable[..., Any], wanted: tuple[bool, ...], *arrays: Array) -> tuple[Array, ...]:
    """The gradients of a reference that are wanted, of its primals and then cotangents."""
    count = len(wanted)
    result, pullback = vjp(reference, *arrays[:count])
    cotangents = arrays[count:]
    return _chosen(pullback(cotangents if isinstance(result, tuple) else cotangents[0]), wanted)


def _pushed_pull(
    reference: Callable[..., Any],
    wanted: tuple[bool, ...],
    arrays: Sequence[Array],
    tangents: Sequence[Array | None],
) -> Any:
    """The tangents of these gradients."""
    return along(partial(_pulled, reference, wanted), arrays, tangents)


def _chosen(gradients: Sequence[Array | None], wanted: Sequence[bool]) -> tuple[Array, ...]:
    chosen = tuple(one for one, is_wanted in zip(gradients, wanted, strict=True) if is_wanted)
    assert all(one is not None for one in chosen)
    return chosen  # type: ignore[return-value]


#: Gradients of primals from what was saved, the primals first; from cotangents; and from which are wanted.
Kernels = Callable[[Sequence[Any], Sequence[Array], Sequence[bool]], Sequence[Array | None]]


def tracked(primals: Sequence[Array | None]) -> tape.Tracking | None:
    """What :func:`record_fused` needs to know; None where no active tape tracks one of ``primals``."""
    return tape.tracked([one for one in primals if one is not None])


def record_fused(
    name: str,
    primals: Sequence[Array | None],
    outputs: Sequence[Array],
    saved: Sequence[Array | None],
    kernels: Kernels,
    reference: Callable[..., Any],
    tracking: tape.Tracking,
    again: Callable[..., Array] | None = None,
    known: tuple[Any, ...] | None = None,
) -> None:
    """Put a fused operation on the tapes that track one of its primals, with the derivative of :func:`fused_vjp`.

    Args:
        name, primals: the operation, and its arguments or None.
        outputs: its results.
        saved: what ``kernels`` read besides the primals.
        tracking: what :func:`tracked` has said of the primals.
        again: makes the only result from the primals, for tapes that compute it again; None if that takes long.
        known: options by which, with the layouts of primals, calls have the same ``kernels`` and ``reference``.
    """
    _, keys, tapes = tracking
    key = (name, layouts_of(*primals), known)
    operation = None if known is None else _operations.get(key)
    if operation is None:
        operation = _operation(name, primals, outputs, kernels, reference, known is not None)
        if known is not None:
            _operations.keep(key, operation)
    tape.record_tracked(operation, keys, outputs, (*primals, *saved), tapes)
    if again is not None and tapes[0].recompute:
        recompute.note(name, again, primals, outputs[0], tapes)


#: By the name of a fused operation, the layouts of its primals, and its options.
_operations: Cache[tuple[Any, ...], tape.Operation] = Cache()


def _operation(
    name: str,
    primals: Sequence[Array | None],
    outputs: Sequence[Array],
    kernels: Kernels,
    reference: Callable[..., Any],
    shared: bool,
) -> tape.Operation:
    """What calls of a fused operation have in common; ``shared``, if others will be the same."""
    given = [one is not None for one in primals]
    composed: Any = (_Shared if shared else _OfGiven)(reference, given)

    def pull(
        cotangents: Sequence[Array], kept: Sequence[Any], needs: Sequence[bool]
    ) -> Sequence[Array | None]:
        still = iter(needs)
        wanted = [is_given and next(still) for is_given in given]
        present = list(itertools.compress(kept, given))

        def of_given() -> list[Array | None]:
            return list(itertools.compress(kernels(kept, cotangents, wanted), given))

        return fused_vjp(of_given, composed, present, cotangents, needs)

    def push(tangents: Sequence[Array | None], kept: Sequence[Any]) -> Sequence[Array]:
        present = list(itertools.compress(kept, given))
        pushed = composed.pushed if shared else along
        tangent = pushed(composed, present, list(tangents))
        return tangent if isinstance(tangent, tuple) else (tangent,)

    forms = [one._planned() for one in primals if one is not None]
    return tape.Operation(name, forms, [one._planned() for one in outputs], pull, jvp=push)


def few_kernels(function: Callable[P, R]) -> Callable[P, R]:
    """A composition by few kernels, see :func:`cukern.jit`; as it is where a tape records each of its operations."""
    jitted = jit(function)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return (function if tape.active() else jitted)(*args, **kwargs)

    return run


class _OfGiven:
    """A function of those of its arguments that are given, the others None."""

    def __init__(self, reference: Callable[..., Any], given: Sequence[bool]) -> None:
        self._reference, self._given = reference, tuple(given)

    def __call__(self, *arrays: Array) -> Any:
        own = iter(arrays)
        return self._reference(*[next(own) if is_given else None for is_given in self._given])


class _Shared(_OfGiven):
    """One that all calls of an operation have, whose tangents few kernels compute, without Python from call to call."""

    @cached_property
    def pushed(self) -> Callable[..., Any]:
        """:func:`along`."""
        return few_kernels(along)

    @cached_property
    def pushed_pull(self) -> Callable[..., Any]:
        """:func:`_pushed_pull`."""
        return few_kernels(_pushed_pull)


def along(f: Callable[..., Any], arrays: Sequence[Array], tangents: Sequence[Array | None]) -> Any:
    """The derivative of ``f`` along tangents, None for arrays that are constant."""
    moving = [i for i, tangent in enumerate(tangents) if tangent is not None]

    def of_moving(*own: Array) -> Any:
        given = list(arrays)
        for i, array in zip(moving, own, strict=True):
            given[i] = array
        return f(*given)

    return jvp(of_moving, [arrays[i] for i in moving], [tangents[i] for i in moving])[1]


def fused_vjp(
    kernels: Callable[[], Sequence[Array | None]],
    reference: Callable[..., Any],
    primals: Sequence[Array | None],
    cotangents: Sequence[Array],
    wanted: Sequence[bool],
) -> tuple[Array | None, ...]:
    """The gradients of a fused operation, differentiable any number of times.

    Args:
        kernels: computes a gradient per primal; gradients that are not needed may be None.
        reference: the operation as a composition of basic ones, a function of the primals.
        primals: the operation's arguments; None for an optional argument that was not given.
        cotangents: one per output of ``reference``.
        wanted: for each primal, whether its gradient is needed.
    """
    if not any(wanted):
        return (None,) * len(primals)
    if not tape.opened or not tape.state.active:
        made = list(kernels())
        for i, is_wanted in enumerate(wanted):
            if not is_wanted:
                made[i] = None
        return tuple(made)
    given = [primal is not None for primal in primals]
    present = [primal for primal in primals if primal is not None]
    wanted_present = tuple(itertools.compress(wanted, given))
    if not all(given):
        reference = _OfGiven(reference, given)
    gradients = iter(
        _Pullback.apply(
            lambda: list(itertools.compress(kernels(), given)),
            reference,
            wanted_present,
            *present,
            *cotangents,
        )
    )
    return tuple(next(gradients) if is_wanted else None for is_wanted in wanted)
