"""A program as an operator of PyTorch, with a fake function and a derivative."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from . import runtime


def operator(program: Any) -> Callable[..., Any]:
    """The operator ``PACKAGE::forward`` as a function of tensors.

    It takes tensors of the dtypes of the program on a GPU, and runs on PyTorch's current stream.
    """
    torch: Any = importlib.import_module("torch")
    names = [name for name, _, _ in program.ARGUMENTS]
    results = len(program.KINDS)
    constants: dict[Any, Any] = {}
    package = re.sub(
        r"\W", "_", program.__name__.rpartition(".")[0]
    )  # unlike the name, one of a process has it

    def plan_of(direction: str, tensors: Sequence[Any]) -> runtime.Plan:
        make, ranks, words = getattr(program, direction), program.RANKS[direction], program.WORDS[direction]
        return runtime.planned(program, make, ranks, words, [one.shape for one in tensors])

    def checked(tensors: Sequence[Any]) -> list[Any]:
        for (name, dtype, _), one in zip(program.ARGUMENTS, tensors, strict=True):
            if one.dtype != getattr(torch, dtype):
                raise TypeError(f"{program.NAME}: argument {name}: expected {dtype}, got {one.dtype}")
            if one.device != tensors[0].device or (
                one.device.type != "cuda" and runtime.launch is runtime.on_gpu
            ):
                raise RuntimeError(
                    f"{program.NAME}: argument {name}: expected a tensor on one GPU, got {one.device}"
                )
        return [one.detach().contiguous() for one in tensors]

    def memory(direction: str, index: int, one: Any, beside: Any) -> Any:
        if not isinstance(one, bytes):
            return torch.empty(one, dtype=torch.uint8, device=beside.device)
        key = direction, index, beside.device
        if key not in constants:
            constants[key] = torch.frombuffer(bytearray(one), dtype=torch.uint8).to(beside.device)
        return constants[key]

    def made(plan: runtime.Plan, beside: Any) -> list[Any]:
        return [
            torch.empty(tuple(shape), dtype=getattr(torch, dtype), device=beside.device)
            for shape, dtype in plan.results
        ]

    def launched(direction: str, tensors: Sequence[Any]) -> list[Any]:
        first = tensors[0]
        plan = plan_of(direction, tensors)
        out = made(plan, first)
        further = [memory(direction, i, one, first) for i, one in enumerate(plan.memory)]
        index, stream = 0, 0
        if first.device.type == "cuda":
            index = first.device.index
            stream = torch.cuda.current_stream(first.device).cuda_stream
        runtime.run(program, plan, [one.data_ptr() for one in (*tensors, *out, *further)], index, stream)
        return out

    def packed(out: Sequence[Any]) -> Any:
        return out[0] if len(out) == 1 else tuple(out)

    def returns(count: int) -> str:
        return "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"

    def forward(*tensors: Any) -> Any:
        return packed(launched("forward", checked(tensors)))

    schema = f"({', '.join(f'Tensor {name}' for name in names)}) -> {returns(results)}"
    op = torch.library.custom_op(f"{package}::forward", forward, mutates_args=(), schema=schema)
    op.register_fake(lambda *tensors: packed(made(plan_of("forward", tensors), tensors[0])))
    if program.DIFFERENTIABLE:
        floating = [i for i, (_, _, one) in enumerate(program.ARGUMENTS) if one]
        words = [f"Tensor {one}" for one in program.WORDS["backward"]]

        def backward(*tensors: Any) -> Any:
            return packed(launched("backward", [one.detach().contiguous() for one in tensors]))

        pull = torch.library.custom_op(
            f"{package}::backward",
            backward,
            mutates_args=(),
            schema=f"({', '.join(words)}) -> {returns(len(floating))}",
        )
        pull.register_fake(lambda *tensors: packed(made(plan_of("backward", tensors), tensors[0])))

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            several = output if isinstance(output, tuple) else (output,)
            ctx.save_for_backward(*inputs, *several)
            ctx.mark_non_differentiable(
                *[one for one, live in zip(several, program.KINDS, strict=True) if not live]
            )

        def gradients(ctx: Any, *cotangents: Any) -> Any:
            live = [one for one, kind in zip(cotangents, program.KINDS, strict=True) if kind]
            found = pull(*ctx.saved_tensors, *live)
            several = found if isinstance(found, (tuple, list)) else (found,)
            returned: list[Any] = [None] * len(names)
            for i, one in zip(floating, several, strict=True):
                returned[i] = one
            return tuple(returned)

        op.register_autograd(gradients, setup_context=keep)

    def call(*tensors: Any) -> Any:
        """The outputs."""
        out = op(*tensors)
        if results == 1:
            return out
        return out[: program.OUTPUTS] if program.SEVERAL else out[0]

    return call
