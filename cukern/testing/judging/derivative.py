"""A candidate's forward and backward as one differentiable function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ... import dtypes
from ...array.creation import empty
from ...function import Function, once_differentiable
from .task import Signature

if TYPE_CHECKING:
    from .worker import Worker


def function_of(worker: Worker, header: Mapping[str, Any]) -> Callable[..., Any]:
    """A function of the arrays that the forward reads, whose derivative is the candidate's backward."""
    forward, backward = worker.forward, worker.backward
    assert backward is not None
    back = backward
    part, back_part = worker.parts
    assert back_part is not None

    def launch(signature: Signature, of: Any, arrays: dict[str, Any], like: Any) -> list[Any]:
        plain = (
            dtypes.from_cxx(header["cxx"]) if like.dtype.kind == "c" else like.dtype
        )  # dual numbers stand for floats
        cxx = dtypes.info(plain if plain is not None else like.dtype).cxx
        for one in signature.of("out"):
            arrays[one.name] = empty(
                one.sized(header["sizes"]),
                like.dtype if one.cxx == "T" else one.dtype(like.dtype),
                like.device,
            )
        worker.launch(signature, of, cxx, header, arrays)
        return [arrays[one.name] for one in signature.of("out", "inout")]

    class Candidate(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            arrays = dict(zip([one.name for one in forward.of("in", "inout")], args, strict=True))
            like = next(one for one in args if one.dtype.kind not in "iub")
            results = launch(forward, part, arrays, like)
            ctx.names = [one.name for one in forward.of("in", "inout", "out") if one.name in arrays]
            ctx.save_for_backward(*(arrays[name] for name in ctx.names))
            return tuple(results) if len(results) > 1 else results[0]

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *grads: Any) -> Any:
            arrays = dict(zip(ctx.names, ctx.saved_arrays, strict=True))
            for one, grad in zip(forward.of("out", "inout"), grads, strict=True):
                arrays[f"g_{one.name}"] = grad
            launch(back, back_part, arrays, grads[0])
            found = tuple(arrays.get(f"d_{one.name}") for one in forward.of("in", "inout"))
            return found if len(found) > 1 else found[0]

    return Candidate.apply
