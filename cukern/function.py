"""Function, an operation with a backward of its own, and checkpoint, whose backward computes the forward again."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, ParamSpec, TypeVar

import numpy as np

from . import dtypes, pytree
from .array import Array, Storage, creation
from .array.batched import Level, level_of, levels
from .array.deferred import computed, trace, traced_threads
from .array.layout import Layout
from .array.mapping import called, looped
from .autodiff import tape, writes
from .autodiff.cotangents import (
    Meta,
    Tangent,
    broadcasts,
    conform,
    describe,
    is_array,
    is_float,
    meta,
    refuse_written,
    registered,
    sum_now,
    zeros_like,
)
from .autodiff.state import opened, refuse_in_fused, resume, state
from .autodiff.tape import Tape
from .cache import Cache
from .device import capture_hooks
from .elementwise.function import Elementwise
from .elementwise.graph import Expr, NotFused
from .elementwise.row import ALL
from .errors import GradientError

__all__ = ["Function", "checkpoint", "once_differentiable", "stop_gradient"]

B = TypeVar("B", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")


class Context:
    """What a Function's ``forward`` keeps for its ``backward``; further attributes may be set freely.

    Keep arrays with :meth:`save_for_backward`: writing to them before the backward is then an error. Arrays in plain
    attributes are not checked.

    Attributes:
        needs_input_grad: for each argument of ``apply``, whether the gradient of it, or of an array in it, is needed.
    """

    _saved: tuple[Array | None, ...] = ()
    _non_differentiable: tuple[int, ...] = ()
    _materialize = True
    _inputs: tuple[tape.Keys, Sequence[Any]] = ((), ())

    def __init__(self, name: str, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._name = name

    def save_for_backward(self, *arrays: Array | None) -> None:
        """Keep ``arrays`` for ``backward``: inputs, outputs, or what ``forward`` computed on the way.

        A floating array that is neither input nor output gives no derivatives of higher order:
        asking for one through it raises :class:`GradientError`.
        """
        for i, array in enumerate(arrays):
            if array is not None and not isinstance(array, Array):
                raise TypeError(
                    f"{self._name}: save_for_backward: expected arrays and None, argument {i} is "
                    f"{type(array).__name__}"
                )
        self._saved = arrays

    @property
    def saved_arrays(self) -> tuple[Any, ...]:
        """The arrays given to :meth:`save_for_backward`."""
        return self._saved

    def mark_non_differentiable(self, *outputs: Array) -> None:
        """Declare outputs of ``forward`` that have no gradient, as integer outputs have none anyway."""
        self._non_differentiable = tuple(id(output) for output in outputs)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (the default) or None as the gradient of an unused output."""
        self._materialize = bool(value)


class Function:
    """An operation with a backward of its own.

    A subclass defines two static methods. ``forward(ctx, *args)`` returns an array or a tuple; its operations are not
    recorded. ``backward(ctx, *grads)`` takes one gradient per output and returns one per argument of ``apply``, None
    for an argument that is not an array or has no gradient. The gradient of an argument that is a pytree of arrays is
    a pytree of the same structure, with None where there is none. A gradient may have the shape to which its argument
    was broadcast. The gradients that ``backward`` takes may have strides of 0. ``backward`` can itself be
    differentiated if it consists of differentiable operations on saved arrays.

    It may define a third one for :func:`cukern.jvp`: ``jvp(ctx, *tangents)`` takes one tangent per argument of
    ``apply``, None for an argument that has none, and returns one per output, None for zeros. The tangent of an
    argument that is a pytree is a pytree of the same structure, with None where there is none. By default tangents are
    the derivative of ``backward``, a linear function, with respect to the gradients.

    >>> import cukern as ck
    >>> class Cube(ck.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_arrays
    ...         return 3 * x * x * grad
    >>> ck.grad(Cube.apply)(ck.asarray(2.0)).item()
    12.0
    """

    # Whether backward never writes to its gradients, which may then be shared constants.
    _only_reads = False
    # Whether forward returns new arrays, which may wait in a trace; the trace repeats others as they are.
    _waits = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse to make an object, which a call like a function's would."""
        raise TypeError(f"{cls.__name__}: write {cls.__name__}.apply(...)")

    def __init_subclass__(cls) -> None:
        """Refuse methods of objects."""
        for name in ("forward", "backward", "jvp", "vmap"):
            if inspect.isfunction(vars(cls).get(name)):
                raise TypeError(
                    f"{cls.__name__}.{name}: expected a static method: write @staticmethod above it"
                )

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError("a Function defines forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Compute the gradients of the arguments from those of the outputs."""
        raise NotImplementedError("a Function defines backward(ctx, *grads)")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Compute the tangents of the outputs from those of the arguments."""
        raise NotImplementedError("a Function without jvp(ctx, *tangents) has that of its backward")

    #: How :func:`cukern.vmap` calls it: ``vmap(size, batched, *args)`` takes the number of examples, for each argument
    #: of ``apply`` whether it is an array of all of them, with the batch in front, and the arguments; it returns the
    #: outputs with the batch in front. Its derivative is that of what it does. Without it ``apply`` runs for each.
    vmap: ClassVar[Callable[..., Any] | None] = None

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call ``forward``, and put the operation on the active tapes that track an argument.

        Raises:
            TypeError: ``forward`` returned neither an array nor a tuple.
            GradientError: ``forward`` wrote to an argument, or saved a tracked array that is not an argument; or a
                tracked array is an attribute of an argument.
        """
        if levels and (level := level_of(pytree.leaves(args))) is not None:
            return called(level, _vmapped, cls.apply, args, {})
        if traced_threads and not cls._waits and state.fusing is None and (traced := trace()) is not None:
            return traced.call(cls.apply, args, {})
        active = state.active if opened else ()
        if not active and state.fusing is None:
            for arg in args:
                if isinstance(arg, Expr):
                    raise _symbol(cls)
            result = cls.forward(Context(cls.__name__, (False,) * len(args)), *args)
            if isinstance(result, list):
                raise _listed(cls)
            return result
        key: list[Any] | None = [cls]
        held: list[_Held] = []
        arrays: list[Array] = []
        for i, arg in enumerate(args):
            if isinstance(arg, Array):
                arrays.append(arg)
                held.append(_SINGLE)
                if key is not None:
                    key.append(arg._layout or arg._planned())
            elif type(arg) in _PLAIN or (type(arg) is tuple and _PLAIN.issuperset(map(type, arg))):
                held.append(_NOTHING)
                if key is not None:
                    key.append(None)
            elif isinstance(arg, Expr):
                raise _symbol(cls)
            else:
                own = _held(cls, i, arg, arrays)
                held.append(own)
                if own is not _NOTHING:
                    key = None
                elif key is not None:
                    key.append(None)
        tracking = tape.tracked(arrays)
        if tracking is None:
            needs = (False,) * len(args)
        else:
            needs = tracking[0] if len(arrays) == len(args) and key is not None else _needs(held, tracking[0])
        ctx = Context(cls.__name__, needs)
        versions = []
        for array in arrays:
            versions.append(array._storage.version)
        if state.fusing is not None:
            refuse_in_fused()
        state.active = ()
        try:
            result = cls.forward(ctx, *args)
        finally:
            resume(active)
        if isinstance(result, list):
            raise _listed(cls)
        if tracking is None:
            return result
        for i, array in enumerate(arrays):
            if array._storage.version != versions[i]:
                where = next(k for k in range(len(held)) if sum(one.arrays for one in held[: k + 1]) > i)
                raise GradientError(
                    f"{cls.__name__}: forward wrote to its argument {_argument(cls, where)}; write to a copy"
                )
        several = isinstance(result, tuple)
        outputs = _record(cls, ctx, key, held, arrays, tracking, result if several else (result,))
        return tuple(outputs) if several else outputs[0]

    @classmethod
    def to_torch(
        cls, *examples: Any, name: str | None = None, outputs: Callable[..., Any] | None = None
    ) -> Any:
        """An operator of PyTorch that computes this, with its derivatives of first and second order.

        It takes tensors on the CPU or on GPUs, whose memory ``forward`` and ``backward`` get as arrays; launches are on
        PyTorch's current stream. ``torch.compile`` takes it, as it has a fake function and a derivative in
        ``torch.library``. It can be pickled if the class can.

        Args:
            examples: arguments of :meth:`apply`, with which ``forward`` runs once: arrays, numbers, bools and strings.
                They say what are tensors, how many outputs there are, and what is saved.
            name: ``"namespace::name"``, in ``torch.ops``; by default that of the class in ``cukern::``.
            outputs: takes arguments of :meth:`apply`, of which arrays have only ``shape`` and ``dtype``; returns for
                each output, and then for each array that ``forward`` saves and that is neither argument nor output, an
                argument of the same shape and dtype, or ``(shape, dtype)``. Without it ``forward`` runs on zeros once
                for each new combination of shapes that ``torch.compile`` meets, which are no symbols then.

        Raises:
            ImportError: PyTorch is not installed.
            TypeError: an example is of another type.
            ValueError: ``name`` belongs to another operator.

        >>> import cukern as ck
        >>> class Square(ck.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 2 * ctx.saved_arrays[0] * grad
        >>> square = Square.to_torch(ck.ones(2))  # doctest: +SKIP
        >>> square(torch.tensor([3.0], requires_grad=True))  # doctest: +SKIP
        tensor([9.], grad_fn=<SquareBackward>)
        """
        from .bridge import in_torch

        given = [_example(one) for one in examples]
        return in_torch.operator(
            name or f"cukern::{cls.__name__}",
            in_torch.Key(
                f"{cls.__module__}.{cls.__qualname__}", cls, (in_torch.code(outputs), *map(_form, given))
            ),
            (_to_torch, cls, tuple(given), name, outputs),
            lambda: cls._operation(given, outputs),
        )

    @classmethod
    def to_jax(
        cls, *examples: Any, outputs: Callable[..., Any] | None = None, vmap: str = "sequential"
    ) -> Any:
        """A function of JAX arrays that computes this, with its derivatives of first and second order.

        It runs eagerly and under ``jax.jit``, ``jax.vmap`` and ``jax.grad``, on CPUs, and on GPUs on XLA's stream.
        ``forward`` gets XLA's memory as arrays, and what it returns is copied there. Arguments that are no arrays are
        static.

        Args:
            examples: as of :meth:`to_torch`.
            outputs: as of :meth:`to_torch`; without it ``forward`` runs on zeros once for each combination of shapes.
            vmap: ``"sequential"`` calls ``forward`` for each element of a batch. With ``"broadcast_all"`` and
                ``"expand_dims"`` it is called once, with the batch as a first axis, which it must take: the words are
                those of ``jax.pure_callback``.

        Raises:
            ImportError: JAX is not installed.
            TypeError: an example is of another type.
            ValueError: ``vmap`` is another word.
        """
        from .bridge import in_jax

        given = [_example(one) for one in examples]
        made_by = _to_jax, cls, tuple(given), outputs, vmap
        return in_jax.operator(cls._operation(given, outputs), vmap, made_by)

    @classmethod
    def _operation(cls, examples: Sequence[Any], rule: Callable[..., Any] | None) -> Any:
        """What operators of other libraries are made of; ``forward`` has run once with the examples."""
        from .bridge.operation import Operation, parameter

        names = _parameters(cls.forward)
        defaults = {one.name: one.default for one in inspect.signature(cls.forward).parameters.values()}
        named = [*names, *(f"argument{i}" for i in range(len(names), len(examples)))]
        parameters = []
        for word, example in zip(named, examples, strict=False):
            default = defaults.get(word, inspect.Parameter.empty)
            parameters.append(
                parameter(word, example, None if default is inspect.Parameter.empty else default)
            )
        if not any(isinstance(one, Array) for one in examples):
            raise TypeError(f"{cls.__name__}: expected example arguments of apply, with an array among them")
        operation = Operation(
            cls.__name__, cls, Context, parameters, rule, cls.backward is not Function.backward
        )
        operation.run(examples)
        return operation


def _vmapped(level: Level, apply: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of a Function for the examples of a batch."""
    rule = apply.__self__.vmap
    if rule is None:
        return looped(level, apply, args, kwargs)
    return rule(level.size, tuple(map(level.holds, args)), *map(level.value, args))


def _to_torch(cls: type[Function], examples: Sequence[Any], name: str | None, outputs: Any) -> Any:
    return cls.to_torch(*examples, name=name, outputs=outputs)


def _to_jax(cls: type[Function], examples: Sequence[Any], outputs: Any, vmap: str) -> Any:
    return cls.to_jax(*examples, outputs=outputs, vmap=vmap)


def _example(one: Any) -> Any:
    """An example as an object of its own, as one array may be given for several arguments."""
    if isinstance(one, Array):
        return one._alias()
    return creation.asarray(one) if hasattr(one, "shape") else one


def _form(example: Any) -> Any:
    return ("array", example.dtype in dtypes.INEXACT) if isinstance(example, Array) else type(example)


def _symbol(cls: type[Function]) -> TypeError:
    return NotFused(f"{cls.__name__}, a Function (cukern.elementwise(..., vjp=...) makes a part of a kernel)")


def _listed(cls: type[Function]) -> TypeError:
    return TypeError(f"{cls.__name__}: forward returned a list; return an array or a tuple")


def _tracked(value: object) -> bool:
    return is_array(value) and is_float(value.dtype) and tape.recording((value,))


class _Held(NamedTuple):
    """The arrays of an argument.

    Attributes:
        arrays: how many: the argument itself, or those in it.
        structure: of an argument that is a container; None of others.
        which: for each leaf of the container, whether it is an array.
    """

    arrays: int
    structure: pytree.Structure | None = None
    which: Sequence[bool] = ()


_NOTHING, _SINGLE = _Held(0), _Held(1)
#: Types whose instances hold no array, and tuples of such values that were met before.
_PLAIN_BASES = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype)
_PLAIN: set[type] = {type(None), bool, int, float, complex, str, bytes}
_plain_tuples: Cache[tuple[Any, ...], None] = Cache()


def _held(cls: type[Function], position: int, arg: Any, arrays: list[Array]) -> _Held:
    """What an argument that is no array holds; adds its arrays to ``arrays``.

    Raises:
        GradientError: a tracked array is where it cannot get a gradient.
    """
    if isinstance(arg, tuple) and _is_known(arg):
        return _NOTHING
    if isinstance(arg, _PLAIN_BASES):
        _PLAIN.add(type(arg))
        return _NOTHING
    if pytree.is_leaf_type(type(arg)) and not pytree.is_declared_leaf(type(arg)):
        _refuse_hidden(cls, position, "", arg)
        return _NOTHING
    leaves = list(pytree.leaves_with_path(arg))
    _PLAIN.update(filter(pytree.is_declared_leaf, [type(value) for _, value in leaves]))
    which = [is_array(value) for _, value in leaves]
    if isinstance(arg, tuple) and all(isinstance(value, _PLAIN_BASES) for _, value in leaves):
        with contextlib.suppress(TypeError):  # of a list within
            _plain_tuples.keep(arg, None)
        return _NOTHING
    for (path, value), array in zip(leaves, which, strict=True):
        if not array:
            _refuse_hidden(cls, position, path, value)
    if True not in which:
        return _NOTHING
    arrays += [value for _, value in leaves if is_array(value)]
    return _Held(sum(which), pytree.structure(arg), which)


def _needs(held: Sequence[_Held], tracked: Sequence[bool]) -> tuple[bool, ...]:
    """Of each argument, whether an array in it is tracked, from whether each array is."""
    needs, at = [], 0
    for count, _, _ in held:
        needs.append(count > 0 and (tracked[at] if count == 1 else True in tracked[at : at + count]))
        at += count
    return tuple(needs)


def _is_known(arg: tuple[Any, ...]) -> bool:
    try:
        return arg in _plain_tuples
    except TypeError:  # it holds something that is not hashable, such as an array
        return False


def _refuse_hidden(cls: type[Function], position: int, path: str, value: Any) -> None:
    """Refuse tracked arrays in an object that is not a pytree: they would get no gradient."""
    attributes = {} if callable(value) else getattr(value, "__dict__", {})
    inside = [name for name, one in attributes.items() if _tracked(one)]
    if inside:
        raise GradientError(
            f"{cls.__name__}: argument {_argument(cls, position)} holds a tracked array at {path}.{inside[0]}, in an "
            f"object of {type(value).__name__}, which would get no gradient; pass it as an argument of its own, or "
            "in a list, tuple or dict"
        )


def _argument(cls: type[Function], position: int) -> str:
    """The name of an argument of ``forward``."""
    names = _parameters(cls.forward)
    return f"{position} ({names[position]})" if position < len(names) else str(position)


@functools.lru_cache(maxsize=1024)
def _parameters(forward: Callable[..., Any]) -> list[str]:
    """The names of the parameters of a ``forward`` after the context, without that of ``*args``."""
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    return [one.name for one in parameters if one.kind is not inspect.Parameter.VAR_POSITIONAL]


def _record(
    cls: type[Function],
    ctx: Context,
    key: list[Any] | None,
    held: Sequence[_Held],
    arrays: Sequence[Array],
    tracking: tape.Tracking,
    result: tuple[Any, ...],
) -> list[Any]:
    """Record the call, and return its outputs as arrays of their own.

    An output may be an argument itself, or an array that outlives the call; what is returned and
    saved are new arrays on the same memory, so that only they are known as results of this call.

    Args:
        key: the class, the layouts of arguments, and None of those that hold no array; None if one is a container of
            arrays.
    """
    own = {}
    for array in arrays:
        own[id(array)] = array
    outputs: list[Any] = []
    forms: list[Any] = []
    live: list[int] = []
    recorded: list[Array] = []
    for i, old in enumerate(result):
        if not isinstance(old, Array):
            outputs.append(old)
            forms.append(None)
            continue
        new = old if cls._waits else old._alias()
        form = new._layout or new._planned()
        outputs.append(new)
        forms.append(form)
        own.setdefault(id(old), new)
        if form.floating and id(old) not in ctx._non_differentiable:
            live.append(i)
            recorded.append(new)
    saved: list[Array | None] = []
    for given in ctx._saved:
        kept = None if given is None else own.get(id(given))
        if given is not None and kept is None:
            if tape.recording((given,)):
                raise GradientError(
                    f"{cls.__name__}: forward saved a tracked array that is not among its arguments, which would "
                    "get no gradient; pass it to apply, or save stop_gradient of it"
                )
            kept = own[id(given)] = given._alias()
            kept._planned()
            recorded.append(kept)
        saved.append(kept)
    if not recorded:
        return outputs
    _, keys, tapes = tracking
    known = None
    if key is not None and not ctx._non_differentiable:
        more = [one._layout for one in recorded[len(live) :]] if len(recorded) > len(live) else ()
        known = len(key), len(forms), *key, *forms, *more
    rule = None if known is None else _rules.get(known)
    if rule is None:
        inputs = tuple([array._layout or array._planned() for array in arrays])
        rule = _Rule(cls, held, inputs, forms, live, [one._planned() for one in recorded])
        if known is not None:
            _rules.keep(known, rule)
    tape.record_tracked(rule.operation, keys, recorded, tuple(saved), tapes, (ctx,))
    ctx._inputs = keys, rule.inputs
    ctx._saved = ()  # the tape holds them
    return outputs


class _Rule:
    """The derivative of the calls of a Function with arguments and results of the same forms."""

    __slots__ = ("cls", "held", "inputs", "operation", "outputs", "positions", "single")

    def __init__(
        self,
        cls: type[Function],
        held: Sequence[_Held],
        inputs: Sequence[Layout],
        outputs: Sequence[Layout | None],
        live: Sequence[int],
        recorded: Sequence[Layout],
    ) -> None:
        self.cls, self.held, self.inputs, self.outputs = cls, tuple(held), tuple(inputs), tuple(outputs)
        self.single = all(one is _SINGLE for one in held)
        #: Those of the outputs that have cotangents; None if these are all, and nothing else is recorded.
        self.positions = None if len(live) == len(outputs) == len(recorded) else tuple(live)
        self.operation = tape.Operation(
            cls.__name__, self.inputs, tuple(recorded), self.pull, False, jvp=self.push
        )

    def pull(
        self,
        cotangents: tuple[Any, ...],
        saved: tuple[Any, ...],
        needs: tuple[bool, ...],
        ctx: Context,
    ) -> Sequence[Array | None]:
        """What ``backward`` returns for a call, checked."""
        cls = self.cls
        given = list(cotangents) if self.positions is None else self._given(cotangents)
        for i, one in enumerate(given):
            if one is None:
                form = self.outputs[i]
                if ctx._materialize and form is not None:
                    one = zeros_like(form)
                else:
                    continue
            if not cls._only_reads:
                if one._storage.constant:
                    one = registered().own(one, None)
                computed(one)  # views of what is not computed yet would have memory of their own
            given[i] = one
        ctx.needs_input_grad = needs if self.single else _needs(self.held, needs)
        ctx._saved = saved
        before: tuple[int | None, ...] = ()
        if not cls._only_reads:
            sum_now()
            before = tuple([one if one is None else one._storage.version for one in given])
        gradients = self._checked(cls.backward(ctx, *given))
        for one, version in zip(given, before, strict=False):
            if one is not None and one._storage.version != version:
                refuse_written(cls.__name__, one)
        for i, gradient in enumerate(gradients):
            if gradient is not None:
                storage = gradient._storage
                for kept in saved:
                    if kept is not None and kept._storage is storage:
                        gradients[i] = gradient.astype(gradient.dtype)
                        break
        return gradients

    def push(
        self, tangents: Sequence[Array | None], saved: Sequence[Array | None], ctx: Context
    ) -> Sequence[Tangent]:
        """The tangents of a call's outputs, by ``jvp``, or by ``backward`` where there is none."""
        from .autodiff.forward import transposed  # many programs have no forward mode

        cls = self.cls
        live = range(len(self.outputs)) if self.positions is None else self.positions
        made: list[Tangent]
        if cls.jvp is Function.jvp:
            made = transposed(self.operation, tangents, saved, (ctx,), len(live))
        else:
            ctx.needs_input_grad = _needs(self.held, [one is not None for one in tangents])
            ctx._saved = tuple(saved)
            returned = cls.jvp(ctx, *self._together(tangents))
            given = returned if isinstance(returned, tuple) else (returned,)
            if len(given) != len(self.outputs):
                raise GradientError(
                    f"{cls.__name__}: jvp must return a tangent or None for each of the {len(self.outputs)} outputs, "
                    f"returned {len(given)}"
                )
            made = [self._tangent(given[i], i) for i in live]
        unknown = GradientError(_UNKNOWN.format(cls.__name__))
        return [*made, *(unknown for _ in self.operation.output_forms[len(live) :])]

    def _together(self, tangents: Sequence[Array | None]) -> list[Any]:
        """The tangent of each argument, from those of the arrays."""
        rest = iter(tangents)
        together: list[Any] = []
        for count, structure, which in self.held:
            if structure is not None:
                together.append(structure.unflatten([next(rest) if array else None for array in which]))
            else:
                together.append(next(rest) if count else None)
        return together

    def _tangent(self, tangent: Any, output: int) -> Array | None:
        """The tangent of an output, checked."""
        like = self.outputs[output]
        if tangent is None or like is None:
            return None
        fits = isinstance(tangent, Array) and is_float(tangent.dtype) and tangent.device is like.device
        if not fits or not broadcasts(tangent.shape, like.shape):
            what = f"{describe(tangent)} on {tangent.device}" if is_array(tangent) else type(tangent).__name__
            raise GradientError(
                f"{self.cls.__name__}: jvp: the tangent of output {output}: expected a floating array that "
                f"broadcasts to {like.shape} on {like.device}, or None, got {what}"
            )
        found: Array = tangent
        return found

    def _given(self, cotangents: Sequence[Any]) -> list[Any]:
        """The cotangent of each output, from those of the recorded arrays."""
        assert self.positions is not None
        for cotangent in cotangents[len(self.positions) :]:
            if cotangent is not None:
                raise GradientError(_UNKNOWN.format(self.cls.__name__))
        given: list[Any] = [None] * len(self.outputs)
        for i, cotangent in zip(self.positions, cotangents, strict=False):
            given[i] = cotangent
        return given

    def _checked(self, returned: Any) -> list[Array | None]:
        """The gradients of the arguments that are arrays, checked."""
        gradients = returned if isinstance(returned, tuple) else (returned,)
        cls, expected = self.cls, len(self.held)
        if len(gradients) != expected:
            raise GradientError(
                f"{cls.__name__}: backward must return a gradient or None for each of the {expected} "
                f"arguments, returned {len(gradients)}"
            )
        checked: list[Array | None] = []
        if self.single:
            for i, like in enumerate(self.inputs):
                gradient = gradients[i]
                if isinstance(gradient, Array) and like.floating:
                    own = gradient._layout or gradient._planned()
                    if own is like or (own.shape == like.shape and own.dtype is like.dtype):
                        checked.append(gradient)
                        continue
                checked.append(self._one(gradient, like, i))
            return checked
        inputs = iter(self.inputs)
        for i, (gradient, (count, structure, which)) in enumerate(zip(gradients, self.held, strict=True)):
            if structure is not None:
                each = self._apart(gradient, i, structure, which)
                checked += [self._one(one, next(inputs), i) for one in each]
            elif count:
                like = next(inputs)
                same = type(gradient) is Array and gradient._layout is like and like.floating
                checked.append(gradient if same else self._one(gradient, like, i))
            elif gradient is not None:
                raise GradientError(
                    f"{cls.__name__}: backward returned a gradient for argument {_argument(cls, i)}, "
                    "which is not an array"
                )
        return checked

    def _one(self, gradient: Any, like: Layout, position: int) -> Array | None:
        """The gradient of one array, checked."""
        if gradient is None or not like.floating:
            return None
        if isinstance(gradient, Array) and (gradient.shape, gradient.dtype) == (like.shape, like.dtype):
            return gradient
        return conform(gradient, like, self.cls.__name__, f"argument {_argument(self.cls, position)}")

    def _apart(
        self, gradient: Any, position: int, structure: pytree.Structure, which: Sequence[bool]
    ) -> list[Any]:
        """The gradients of the arrays in a container, from what ``backward`` returned for it."""
        where = f"{self.cls.__name__}: backward: the gradient of argument {_argument(self.cls, position)}"
        try:
            found = structure.aligned(gradient, where)
        except ValueError as error:
            raise GradientError(str(error)) from None
        if any(one is not None and not array for one, array in zip(found, which, strict=True)):
            raise GradientError(f"{where}: expected None for what is not an array")
        return list(itertools.compress(found, which))


_UNKNOWN = (
    "{}: backward reads a saved array that is neither an argument nor an output, so it cannot be differentiated again; "
    "save those, or return that array as an output too"
)
#: By the class of a Function and the forms of a call.
_rules: Cache[tuple[Any, ...], _Rule] = Cache()


def once_differentiable(backward: B) -> B:
    """Mark a Function's ``backward`` as not differentiable itself: it runs without being recorded.

    Used between ``@staticmethod`` and ``def backward``. A derivative of second order through it raises
    :class:`GradientError`.
    """

    @functools.wraps(backward)
    def wrapper(ctx: Context, *grads: Any) -> Any:
        if not (opened and state.active):
            return backward(ctx, *grads)
        with tape.stop_recording():
            returned = backward(ctx, *grads)
        gradients = returned if isinstance(returned, tuple) else (returned,)
        own = pytree.map(lambda one: one._alias() if is_array(one) else one, gradients)
        tape.poison(
            f"{ctx._name} backward",
            [*map(Meta, *ctx._inputs), *(meta(grad) for grad in grads if is_array(grad))],
            [one for one in pytree.leaves(own) if is_array(one)],
            f"{ctx._name}: its backward is marked once_differentiable, so it has no second derivative",
        )
        return own if isinstance(returned, tuple) else own[0]

    return wrapper  # type: ignore[return-value]


class _Capture(Tape):
    """In place of the active tapes while a checkpointed function runs: keeps what they track and it reads, no records.

    A write to what they track is refused as one to a watched array is: the backward would write it again.
    """

    _keeps = False

    def __init__(self) -> None:
        super().__init__()
        self.read: dict[int, Array] = {}
        self._outside = [outer._tracked for outer in tape.active()]
        self._tracked = ChainMap({}, *self._outside)
        self._opaque = ChainMap({}, *(outer._opaque for outer in tape.active()))

    def _needs(self, inputs: Sequence[Array]) -> tuple[tuple[bool, ...], tape.Keys]:
        for array in inputs:
            if array._key is not None or array._trainable or self._opaque:
                break
        else:
            return (), ()  # most arrays are made by the function itself
        needs, keys = super()._needs(inputs)
        for array in itertools.compress(inputs, needs):
            self.read.setdefault(id(array), array)
        return (), keys

    def _knows(self, inputs: Sequence[Meta]) -> bool:
        return False

    def _known(self, array: Array) -> int | None:
        key = super()._known(array)
        if key is not None:
            self.read.setdefault(id(array), array)
        return key

    def _watches(self, key: int | None) -> bool:
        return any(key in one for one in self._outside)


def _arrays(tree: Any) -> list[Array]:
    """The arrays of a pytree, each once."""
    found = {id(value): value for _, value in pytree.leaves_with_path(tree) if is_array(value)}
    return list(found.values())


def reads(f: Callable[[], object]) -> list[Array]:
    """The arrays that ``f`` reads and that active tapes track, as parameters; what it does is not recorded."""
    capture = _Capture()
    with tape.stop_recording(), capture:
        f()
    return list(capture.read.values())


def recording_gradients() -> bool:
    """Whether a tape keeps records in this thread."""
    return any(one._keeps for one in tape.active())


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """``f``, with its intermediate results computed again for the backward pass instead of kept.

    Whatever ``f`` reads gets its gradient, passed as an argument or not. Derivatives of any order work.

    Args:
        f: returns an array or a pytree of arrays; it must give the same when it is called again. What it draws
            from generators of :mod:`cukern.random`, as dropout does, is the same again.

    Raises:
        GradientError: in the backward, when an argument or another array that ``f`` read was written since.

    >>> import cukern as ck
    >>> ck.grad(lambda x: checkpoint(lambda y: ck.exp(y * y))(x))(ck.asarray(0.0)).item()
    0.0
    """

    @functools.wraps(f)
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        if not recording_gradients():
            return f(*args, **kwargs)
        capture, draws, floating = _Capture(), capture_hooks.Draws(), dtypes.get_default_dtype()
        with tape.stop_recording(), capture, draws.noted():
            result = f(*args, **kwargs)
        results = _arrays(result)
        capture._needs(results)
        read = list(capture.read.values())
        own = {id(array): array._alias() for array in results}

        def backward(
            cotangents: tuple[Any, ...], saved: tuple[Any, ...], needs: tuple[bool, ...]
        ) -> list[Array | None]:
            wanted = list(itertools.compress(read, needs))
            used = [i for i, cotangent in enumerate(cotangents) if cotangent is not None]

            def pull(wanted: Sequence[Array], given: Sequence[Array]) -> list[Array | None]:
                with Tape() as inner, draws.again(), dtypes.default_dtype(floating):
                    inner.watch(wanted)
                    again = _arrays(f(*args, **kwargs))
                found: list[Array | None] = inner.gradient([again[i] for i in used], wanted, given)
                return found

            # A tape that records the gradient keeps as little of it.
            found = checkpoint(pull)(wanted, [cotangents[i] for i in used])
            gradients = iter(found)
            return [next(gradients) if needed else None for needed in needs]

        others = [array for array in _arrays((args, kwargs)) if id(array) not in capture.read]
        outputs = [own[id(array)] for array in results]
        tape.record("checkpoint", read, outputs, backward, [*read, *others], materialize=False)
        made: R = pytree.map(lambda leaf: own.get(id(leaf), leaf), result)
        return made

    return checkpointed


class _Constant(Storage):
    """The memory of another storage, as arrays have it that are constants to tapes that remember writes to that."""

    def __init__(self, of: Storage) -> None:
        self.__dict__ = of.__dict__  # one count of writes, whichever of the two an array has


def stop_gradient(tree: Any) -> Any:
    """``tree`` with every array in it a constant to every tape; it shares the memory.

    >>> import cukern as ck
    >>> ck.grad(lambda x: x * stop_gradient(x))(ck.asarray(3.0)).item()
    3.0
    """
    return pytree.map(_stopped, tree)


def _stopped(leaf: Any) -> Any:
    if isinstance(leaf, Expr):
        return _STOPPED.apply((leaf,))
    return _constant(leaf) if is_array(leaf) else leaf


#: The identity without a derivative, for symbols.
_STOPPED = Elementwise("stop_gradient", "x", ALL, "x->x", None, public=False)


def _constant(array: Array) -> Array:
    made = array._alias()
    if writes.remembered(array):
        made._storage = _Constant(array._storage)
    return made
