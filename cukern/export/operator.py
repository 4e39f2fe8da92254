"""What is exported, from a Function, an operator of another library, or a function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..array import Array, creation
from ..bridge.operation import Operation, parameter
from ..device import Device
from ..device.nvrtc import PLAIN
from ..function import Function
from .program import Operator, Program
from .record import ExportGpu, recorded, sizes_of, varied

#: What axes of trials have in the place of sizes of the examples.
_TRIALS = ((7, 12, 34, 5), (40, 3, 19, 64), (1500, 33, 2, 65), (2, 2100, 65, 9))


def operator(gpu: ExportGpu, name: str, found: Any, examples: Sequence[Any] | None) -> Operator:
    """Record what ``found`` launches for examples.

    Args:
        gpu: where it runs.
        name: the operator's.
        found: a Function, an operator that :meth:`.Function.to_torch` or the like has made, or a function.
        examples: its arguments; None for those with which an operator was made.

    Raises:
        Failure: something else than kernels computes.
        TypeError: it is something else, or there are no examples.
    """
    made = getattr(found, "_made_by", None)
    if made is not None and isinstance(made[1], type) and issubclass(made[1], Function):
        found, examples = made[1], examples or made[2]
    if isinstance(found, type) and issubclass(found, Function):
        body: Any = found
    elif callable(found) and made is None and not hasattr(found, "bind"):
        body = _plain(found)
    else:
        raise TypeError(
            f"{name}: expected a Function, an operator of one, or a function of arrays, got {type(found).__name__}; "
            "a kernel is exported by a function that launches it"
        )
    if not examples:
        raise TypeError(f"{name}: expected example arguments: --args 'ck.ones((8, 64)), 0.5'")
    device = Device("cuda")
    given = [
        creation.asarray(one, device=device) if isinstance(one, Array) or hasattr(one, "shape") else one
        for one in examples
    ]
    operation: Operation = body._operation(given, None)
    rng = np.random.default_rng(5)
    where, words = operation.arrays, [operation.parameters[i].name for i in operation.arrays]
    arrays = [varied(rng, given[i]) for i in where]

    def whole(some: Sequence[Array]) -> list[Any]:
        args = list(given)
        for i, one in zip(where, some, strict=False):
            args[i] = one
        return args

    def resized(trial: Sequence[int]) -> list[Array]:
        sizes = list(dict.fromkeys(arrays[i].shape[axis] for i, axis in sizes_of(arrays, words).values()))
        new = {size: trial[k % len(trial)] + 100 * (k // len(trial)) for k, size in enumerate(sizes)}
        return [varied(rng, one, tuple(new.get(size, size) for size in one.shape)) for one in arrays]

    def forward(some: list[Array]) -> list[Array]:
        return operation.run(whole(some))

    trials = [resized(trial) for trial in _TRIALS]
    program = recorded(gpu, forward, words, arrays, trials)
    results = forward(arrays)
    live = [i < operation.outputs and operation.live[i] for i in range(len(results))]
    examples_of = dict(zip(words, (one.numpy() for one in arrays), strict=True))
    expected = {f"result{i}": one.numpy() for i, one in enumerate(results)}
    back: Program | None = None
    if operation.differentiable and operation.floating and any(live):
        back = _backward(gpu, operation, rng, whole, forward, arrays, trials, words, examples_of, expected)
    arguments = [
        (word, arrays[k].dtype.name, back is not None and i in operation.floating)
        for k, (i, word) in enumerate(zip(where, words, strict=True))
    ]
    launches = [*program.launches, *([] if back is None else back.launches)]
    options = ["--std=c++17", *([PLAIN] if any(one.unit.plain for one in launches) else [])]
    return Operator(
        name,
        arguments,
        operation.outputs,
        operation.several,
        live,
        program,
        back,
        examples_of,
        expected,
        options,
    )


def _backward(
    gpu: ExportGpu,
    operation: Operation,
    rng: np.random.Generator,
    whole: Callable[[Sequence[Array]], list[Any]],
    forward: Callable[[list[Array]], list[Array]],
    arrays: list[Array],
    trials: list[list[Array]],
    words: list[str],
    examples: dict[str, Any],
    expected: dict[str, Any],
) -> Program:
    """The program of the backward; adds its examples and what they give."""
    count, results = len(arrays), len(expected)
    alive = [i for i in range(operation.outputs) if operation.live[i]]

    def backward(some: list[Array]) -> list[Array]:
        made, left = some[count : count + results], iter(some[count + results :])
        cotangents = [next(left) if i in alive else None for i in range(operation.outputs)]
        found = operation.pull(whole(some), made, cotangents, [True] * len(operation.floating))
        return [one for one in found if one is not None]

    def complete(some: list[Array]) -> list[Array]:
        made = forward(some)
        return [*some, *made, *(varied(rng, made[i]) for i in alive)]

    names = [*words, *(f"result{i}" for i in range(results)), *(f"cotangent{i}" for i in alive)]
    given = complete(arrays)
    others = []
    try:
        others = [complete(trial) for trial in trials]
    except Exception:  # the forward takes no other sizes
        others = []
    program = recorded(gpu, backward, names, given, others)
    floating = [operation.parameters[i].name for i in operation.floating]
    for i, name in enumerate(floating):
        k = program.arguments + i
        program.buffers[k] = program.buffers[k]._replace(name=f"grad_{name}")
    for i, one in zip(alive, given[count + results :], strict=True):
        examples[f"cotangent{i}"] = one.numpy()
    expected.update(
        (f"grad_{name}", one.numpy()) for name, one in zip(floating, backward(given), strict=True)
    )
    return program


def _plain(function: Callable[..., Any]) -> Any:
    """A function as a Function without a derivative."""

    class Plain(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            return function(*args)

    Plain.__name__ = getattr(function, "__name__", "function")
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()

    class Named:
        @staticmethod
        def _operation(examples: Sequence[Any], rule: Any) -> Operation:
            from ..function import Context

            words = [*names, *(f"argument{i}" for i in range(len(names), len(examples)))]
            parameters = [parameter(word, one) for word, one in zip(words, examples, strict=False)]
            made = Operation(Plain.__name__, Plain, Context, parameters, None, False)
            made.run(examples)
            return made

    return Named
