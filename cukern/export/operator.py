"""What is exported, from a Function, an operator of another library, or a function of arrays."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..array import Array, creation
from ..bridge.operation import Operation
from ..device import Device
from ..device.nvrtc import PLAIN
from ..function import Function
from ..kernel import Kernel
from ..kernel.operator import operation as operation_of
from .program import Operator, Program
from .record import ExportGpu, recorded, sizes_of, varied

#: What axes of trials have in the place of sizes of the examples.
#: Products of odd sizes and of powers of two are among them, for kernels that are chosen by divisibility.
_TRIALS = (
    (7, 12, 34, 5),
    (40, 3, 19, 64),
    (1500, 33, 2, 65),
    (2, 2100, 65, 9),
    (9, 11, 13, 7),
    (64, 128, 16, 32),
)
_RESERVED = re.compile(
    r"(result|cotangent|at|v)\d+|grad_\w+|\w+_\d+|stream|workspace|status|grid|block|values|divided|rounded|pack|Plan|"
    r"auto|bool|case|catch|char|const|default|delete|do|double|enum|extern|float|friend|goto|inline|int|long|mutable|"
    r"namespace|new|operator|private|protected|public|register|short|signed|sizeof|static|struct|switch|template|this|"
    r"throw|typedef|typename|union|unsigned|using|virtual|void|volatile|memory|expected|results|cleared|launches"
)


def operator(gpu: ExportGpu, name: str, found: Any, examples: Sequence[Any] | None) -> Operator:
    """Record what ``found`` launches for examples.

    Args:
        gpu: where it runs.
        name: the operator's.
        found: a Function, an operator that ``to_torch`` or ``to_jax`` has made, or a function of arrays.
        examples: its arguments; None for those with which an operator was made.

    Raises:
        Failure: something else than kernels computes.
        TypeError: it is something else, or there are no examples.
    """
    made = getattr(found, "_made_by", None)
    if made is not None and isinstance(made[1], type) and issubclass(made[1], Function):
        found, examples = made[1], examples or made[2]
    if isinstance(found, type) and issubclass(found, Function):
        make: Callable[[list[Any]], Operation] = partial(found._operation, rule=None)
    elif made is not None and isinstance(made[1], Kernel):
        make = partial(_of_kernel, made[1], made[2])
    elif callable(found) and not isinstance(found, Kernel):
        make = partial(_of_function, found)
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
    operation = make(given)
    rng = np.random.default_rng(5)
    where, words = operation.arrays, [_word(operation.parameters[i].name) for i in operation.arrays]
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
        args = whole(some)
        if operation.into is None:
            return operation.run(args)
        likes = operation.results(args, device)
        out = [creation.empty(one.shape, dtype=one.dtype, device=device) for one in likes]
        operation.into(args, out)
        return out

    constants = {one.name: given[i] for i, one in enumerate(operation.parameters) if one.type != "Tensor"}
    sized = any(type(one) is int for one in constants.values())  # it may be the size of an axis
    trials = [] if sized else [resized(trial) for trial in _TRIALS]
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
    options = ["--std=c++17", "-ftz=true", *([PLAIN] if any(one.unit.plain for one in launches) else [])]
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
        constants,
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
    floating = [_word(operation.parameters[i].name) for i in operation.floating]
    for i, name in enumerate(floating):
        k = program.arguments + i
        program.buffers[k] = program.buffers[k]._replace(name=f"grad_{name}")
    for i, one in zip(alive, given[count + results :], strict=True):
        examples[f"cotangent{i}"] = one.numpy()
    expected.update(
        (f"grad_{name}", one.numpy()) for name, one in zip(floating, backward(given), strict=True)
    )
    return program


def _word(name: str) -> str:
    """The name of an argument, with a mark where Python, C++ or what is written has a word or a name of its own."""
    return f"{name}_" if keyword.iskeyword(name) or _RESERVED.fullmatch(name) else name


def _of_kernel(kernel: Kernel, options: Any, examples: list[Any]) -> Operation:
    """The operation of an operator that a kernel's ``to_torch`` or ``to_jax`` has made."""
    made = operation_of(kernel, options)
    if len(examples) != len(made.parameters):
        wanted = ", ".join(one.name for one in made.parameters)
        raise TypeError(
            f"{kernel.name}: expected {len(made.parameters)} example arguments ({wanted}): --args"
        )
    return made


def _of_function(function: Callable[..., Any], examples: list[Any]) -> Operation:
    """A function of arrays as an operation without a derivative."""

    def forward(ctx: Any, *args: Any) -> Any:
        return function(*args)

    code = getattr(function, "__code__", None)
    if code is not None:
        names = "_context", *code.co_varnames[: code.co_argcount]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(one, kind) for one in names])
        forward.__signature__ = signature  # type: ignore[attr-defined]
    name = getattr(function, "__name__", "function")
    made: type[Function] = type(name, (Function,), {"forward": staticmethod(forward)})
    operation: Operation = made._operation(examples, None)
    return operation
