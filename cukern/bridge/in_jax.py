"""Operations as functions of JAX, under ``jit``, ``vmap`` and reverse-mode derivatives.

A call of XLA's enters Python with the addresses of its buffers, and on a GPU with its stream, on which all is launched.
Arguments are not copied; a kernel writes its outputs where XLA wants them, and what a Function returns is copied there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.layout import fresh_layout
from ..device import Device, dlpack
from . import memory
from .operation import Like, Operation, library, plain_key

#: DLPack's number of CPUs.
_CPU = 1
#: What ``vmap`` may do, in the words of ``jax.pure_callback``.
VMAPS = ("sequential", "expand_dims", "broadcast_all", "legacy_vectorized")


@cache
def _jax() -> Any:
    return library("jax", "to_jax")


class JaxOperator:
    """A function of JAX arrays. Arguments that are no arrays are Python values, static under ``jit``."""

    def __init__(self, name: str, operation: Operation, vmap: str, made_by: tuple[Any, ...]) -> None:
        self.__name__ = self.__qualname__ = name
        self._operation, self._vmap, self._made_by = operation, vmap, made_by
        self._functions: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        """The outputs, as arrays of JAX.

        Raises:
            TypeError: the number of arguments or the type of a plain one differs from the examples'.
        """
        operation, asarray = self._operation, _jax().numpy.asarray
        parameters = operation.parameters
        args = (*args, *(one.default for one in parameters[len(args) :] if one.default is not None))
        if len(args) != len(parameters):
            wanted = ", ".join(one.name for one in parameters)
            raise TypeError(
                f"{operation.name}: expected {len(parameters)} arguments ({wanted}), got {len(args)}"
            )
        arrays, plain = [], []
        for one, arg in zip(parameters, args, strict=True):
            if one.type == "Tensor":
                arrays.append(asarray(arg))
            else:
                plain.append(_static(operation, one.name, arg))
        key = tuple(map(plain_key, plain))
        function = self._functions.get(key)
        if function is None:
            function = self._functions[key] = _function(operation, plain, self._vmap)
        return function(*arrays)

    def __repr__(self) -> str:
        wanted = ", ".join(one.name for one in self._operation.parameters)
        return f"<operator {self.__name__}({wanted}) of JAX>"

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_by[0], self._made_by[1:]

    def __deepcopy__(self, memo: dict[int, Any]) -> JaxOperator:
        return self


def operator(operation: Operation, vmap: str, made_by: tuple[Any, ...]) -> JaxOperator:
    """The function of JAX that computes an operation.

    Args:
        operation: what it computes.
        vmap: what ``jax.vmap`` does, one of :data:`VMAPS`.
        made_by: a function and its arguments that make it again, in another process.

    Raises:
        ImportError: JAX is not installed, or is too old.
        ValueError: ``vmap`` is another word.
    """
    if vmap not in VMAPS:
        raise ValueError(f"vmap: expected one of {', '.join(VMAPS)}, got {vmap!r}")
    _buffer_callback()
    return JaxOperator(operation.name, operation, vmap, made_by)


def _buffer_callback() -> Callable[..., Any]:
    _jax()
    try:
        from jax.experimental.buffer_callback import buffer_callback
    except ImportError as error:
        raise ImportError(
            "to_jax needs jax.experimental.buffer_callback: pip install 'jax>=0.7'", name="jax"
        ) from error
    found: Callable[..., Any] = buffer_callback
    return found


def _static(operation: Operation, name: str, arg: Any) -> Any:
    jax = _jax()

    if isinstance(arg, jax.core.Tracer):
        raise TypeError(
            f"{operation.name}: argument {name}: expected a Python value, got a traced one; "
            "jit it with static_argnames"
        )
    return arg.item() if isinstance(arg, (np.generic, np.ndarray, jax.Array)) else arg


def _function(operation: Operation, plain: Sequence[Any], vmap: str) -> Callable[..., Any]:
    """The function of arrays for given plain arguments."""
    jax = _jax()

    call = partial(_called, operation.name, vmap)
    floating, arrays, outputs = operation.floating, operation.arrays, operation.outputs
    of_floats = [arrays.index(i) for i in floating]
    count = len(arrays)

    def args_of(given: Sequence[Any]) -> list[Any]:
        left, values = iter(given), iter(plain)
        return [next(left) if one.type == "Tensor" else next(values) for one in operation.parameters]

    def likes(given: Sequence[Any]) -> list[Like]:
        return operation.results(args_of([_like(one) for one in given]), _probing())

    def run(*given: Any) -> tuple[Any, ...]:
        if operation.into is not None:
            into = operation.into
            return call(lambda out, got: into(args_of(got), out), likes(given), given, True)
        return call(lambda out, got: operation.run(args_of(got)), likes(given), given)

    def returned(made: Sequence[Any]) -> Any:
        return tuple(made[:outputs]) if operation.several else made[0]

    if not operation.differentiable or not floating:
        return lambda *given: returned(run(*given))

    # What the backward is given of arguments and results: what it reads, or all if a batch changes their shapes.
    batched = vmap != "sequential"
    read = [k for k, i in enumerate(arrays) if batched or operation.reads(True, i)]
    kept = [i for i in range(outputs + operation.more) if batched or operation.reads(False, i)]
    again = [i for i in kept if operation.differentiable_again(i)]

    def pulling(
        pull: Callable[..., Any], wanted: Sequence[Like], given: Any, made: Any, *others: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Call ``pull`` with arguments, results and ``others``."""
        passed = [*(given[k] for k in read), *(made[i] for i in kept), *itertools.chain(*others)]

        def compute(out: Any, got: Sequence[Array]) -> Any:
            left, where = iter(got), got[0].device
            own: list[Any] = [fresh_layout(where, like.dtype, like.shape) for like in map(_like, given)]
            results: list[Any] = [fresh_layout(where, like.dtype, like.shape) for like in map(_like, made)]
            for k in read:
                own[k] = next(left)
            for i in kept:
                results[i] = next(left)
            cotangents, *more = [list(itertools.islice(left, len(one))) for one in others]
            alive = iter(cotangents)
            each = [next(alive) if live else None for live in operation.live]
            return [one for one in pull(args_of(own), results, each, *more) if one is not None]

        return call(compute, wanted, passed)

    needs = [True] * len(floating)

    def gradients(given: Any, made: Any, cotangents: Any) -> tuple[Any, ...]:
        wanted = [_like(given[i]) for i in of_floats]

        def pull(args: Any, results: Any, each: Any) -> Any:
            return operation.pull(args, results, each, needs)

        return pulling(pull, wanted, given, made, cotangents)

    pulled = jax.custom_vjp(gradients)

    def pulled_backward(kept_before: Any, seconds: Any) -> Any:
        given, made, cotangents = kept_before
        sources = [k for k in of_floats if operation.reads(True, arrays[k])]
        wanted = [
            _like(one) for one in (*(given[k] for k in sources), *cotangents, *(made[i] for i in again))
        ]

        def pull(args: Any, results: Any, each: Any, seconds: Any) -> Any:
            return operation.pull_again(args, results, each, needs, seconds)

        found = iter(pulling(pull, wanted, given, made, cotangents, seconds))
        of_args, of_made = [None] * count, [None] * len(made)
        for k in sources:
            of_args[k] = next(found)
        of_cotangents = tuple([next(found) for _ in cotangents])
        for i in again:
            of_made[i] = next(found)
        return tuple(of_args), tuple(of_made), of_cotangents

    pulled.defvjp(lambda *all: (pulled(*all), all), pulled_backward)
    whole = jax.custom_vjp(run)

    def forward(*given: Any) -> Any:
        made = whole(*given)
        return made, (given, made)

    def backward(kept: Any, cotangents: Any) -> Any:
        given, made = kept
        each = tuple(one for one, live in zip(cotangents, operation.live, strict=False) if live)
        found: list[Any] = [None] * count
        for i, one in zip(of_floats, pulled(given, made, each), strict=True):
            found[i] = one
        return tuple(found)

    whole.defvjp(forward, backward)
    return lambda *given: returned(whole(*given))


def _called(
    name: str,
    vmap: str,
    compute: Callable[[Any, Sequence[Array]], Any],
    likes: Sequence[Like],
    given: Sequence[Any],
    into: bool = False,
) -> tuple[Any, ...]:
    """Put a call of ``compute``, with outputs and arguments, into what JAX traces."""
    jax = _jax()

    for like in likes:
        if jax.dtypes.canonicalize_dtype(like.dtype) != like.dtype:
            raise TypeError(
                f"{name}: it returns {like.dtype}, which JAX has only with jax.config.update('jax_enable_x64', True)"
            )

    def callback(context: Any, out: Any, *got: Any) -> None:
        kind, index = got[0].__dlpack_device__()
        if int(kind) == _CPU:
            host = Device("host")
            arrays = [Array._wrap(np.asarray(one), host) for one in got]
            targets = [np.asarray(one) for one in out]
            if into:
                compute([Array._wrap(one, host) for one in targets], arrays)
                return
            for target, one in zip(targets, compute(None, arrays), strict=True):
                target[...] = one._data
            return
        where = Device(f"cuda:{int(index)}")
        with where.activate(), memory.on_stream(where, context.stream):
            arrays, buffers = [_lent(one, where) for one in got], [_lent(one, where) for one in out]
            if into:
                compute(buffers, arrays)
                return
            for buffer, one in zip(buffers, compute(None, arrays), strict=True):
                buffer._data[...] = one._data

    shapes = [jax.ShapeDtypeStruct(like.shape, like.dtype) for like in likes]
    made = _buffer_callback()(callback, shapes, vmap_method=vmap)(*given)
    return tuple(made)


def _lent(buffer: Any, where: Device) -> Array:
    dtype = dtypes.as_dtype(buffer.dtype, "buffer")
    if dtype == dtypes.bfloat16:  # which the other protocol lacks
        address = dlpack.address(buffer.__dlpack__())
    else:
        address = buffer.__cuda_array_interface__["data"][0]
    return memory.lent(fresh_layout(where, dtype, tuple(buffer.shape)), address, None, buffer)


def _like(array: Any) -> Like:
    return Like(tuple(array.shape), dtypes.as_dtype(array.dtype, "argument"))


def _probing() -> Device:
    """Where a forward runs to see what it returns."""
    jax = _jax()

    return Device("cuda" if jax.default_backend() == "gpu" else "host")
