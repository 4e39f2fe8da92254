"""An operator of PyTorch that `to_torch` makes beside two that are written by hand, and one of JAX by `to_jax`.

Usage: python benchmarks/operators.py [--scale N] [--only WORD] [--quick] [--out FILE]

All launch the same two kernels, of a gated activation and its derivative, over so few elements that the host's time is
what is measured. By hand are `torch.library.custom_op` with its `register_fake` and `register_autograd`, and what
`torch.library.Library` defines, both with CuPy's `RawKernel` on PyTorch's current stream. Without a GPU they call the
kernel that cukern has compiled for the host, without its checks. Sides take turns; results are checked against those of
PyTorch's own functions. `--quick` leaves out `torch.compile`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from measure import Benchmark, Call, milliseconds, torch

import cukern as ck

#: Elements, threads of a block, and calls whose time is taken together.
SIZE, BLOCK, CALLS = 256, 256, 100
TEXT = """
extern "C" __global__ void swiglu(const float* x, const float* gate, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.0f + expf(-x[i])) * gate[i];
}
extern "C" __global__ void swiglu_backward(
    const float* x, const float* gate, const float* grad, float* dx, float* dgate, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 1.0f / (1.0f + expf(-x[i]));
    dgate[i] = grad[i] * x[i] * s;
    dx[i] = grad[i] * gate[i] * s * (1.0f + x[i] * (1.0f - s));
}
"""
program = ck.Kernel(TEXT, block=BLOCK, name="operators", plain=True)
Tensor = torch.Tensor if torch else Any


class SwiGLU(ck.Function):
    """silu(x) * gate."""

    @staticmethod
    def forward(ctx: Any, x: Any, gate: Any) -> Any:
        y = ck.empty_like(x)
        program["swiglu"](x, gate, y, x.size)
        ctx.save_for_backward(x, gate)
        return y

    @staticmethod
    @ck.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        x, gate = ctx.saved_arrays
        dx, dgate = ck.empty_like(x), ck.empty_like(gate)
        program["swiglu_backward"](x, gate, grad, dx, dgate, x.size)
        return dx, dgate


@cache
def raw(entry: str) -> Any:
    """CuPy's kernel."""
    import cupy

    return cupy.RawKernel(TEXT, entry)


def on_gpu(entry: str, tensors: Sequence[Any]) -> None:
    """Launch a kernel by hand on PyTorch's current stream."""
    n = tensors[0].numel()
    grid, args = (-(-n // BLOCK),), (*[one.data_ptr() for one in tensors], n)
    stream = torch.cuda.current_stream()
    if stream.cuda_stream == 0:  # CuPy's default as well
        raw(entry)(grid, (BLOCK,), args)
        return
    import cupy

    with cupy.cuda.Stream.from_external(stream):
        raw(entry)(grid, (BLOCK,), args)


@cache
def prepared(entry: str, n: int) -> Any:
    """The launch of a kernel for the host, over so many elements."""
    return program[entry].bind("host").function.prepare((-(-n // BLOCK), 1, 1), (BLOCK, 1, 1), 0, ())


def on_host(entry: str, tensors: Sequence[Any]) -> None:
    """Launch a kernel by hand."""
    n, arrays = tensors[0].numel(), [one.detach().numpy() for one in tensors]
    prepared(entry, n)(*map(id, arrays), n)


def by_hand(launch: Callable[[str, Sequence[Any]], None]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward of an operator."""

    def forward(x: Tensor, gate: Tensor) -> Tensor:
        y = torch.empty_like(x)
        launch("swiglu", (x, gate, y))
        return y

    def backward(x: Tensor, gate: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        dx, dgate = torch.empty_like(x), torch.empty_like(gate)
        launch("swiglu_backward", (x, gate, grad, dx, dgate))
        return dx, dgate

    # PyTorch reads types, not their names.
    forward.__annotations__ = {"x": Tensor, "gate": Tensor, "return": Tensor}
    backward.__annotations__ = {"x": Tensor, "gate": Tensor, "grad": Tensor, "return": tuple[Tensor, Tensor]}
    return forward, backward


def keep(ctx: Any, inputs: Any, output: Any) -> None:
    """Save what the backward reads."""
    ctx.save_for_backward(*inputs)


def gradients(backward: Callable[..., Any], ctx: Any, grad: Any) -> Any:
    """The gradients of both arguments."""
    return backward(*ctx.saved_tensors, grad.contiguous())


def fake_backward(x: Any, gate: Any, grad: Any) -> Any:
    """What the backward returns, without elements."""
    return torch.empty_like(x), torch.empty_like(gate)


def custom_op(launch: Callable[[str, Sequence[Any]], None], word: str) -> Any:
    """The operator as PyTorch's documentation writes it."""
    forward, backward = by_hand(launch)
    back = torch.library.custom_op(f"by_hand::{word}_backward", backward, mutates_args=())
    back.register_fake(fake_backward)
    op = torch.library.custom_op(f"by_hand::{word}", forward, mutates_args=())
    op.register_fake(lambda x, gate: torch.empty_like(x))
    op.register_autograd(partial(gradients, back), setup_context=keep)
    return op


def defined(launch: Callable[[str, Sequence[Any]], None], word: str) -> Any:
    """The operator by the lower level of PyTorch's library."""
    forward, backward = by_hand(launch)
    library = torch.library.Library("by_library", "FRAGMENT")
    LIBRARIES.append(library)  # the operators go with it
    library.define(f"{word}_backward(Tensor x, Tensor gate, Tensor grad) -> (Tensor, Tensor)")
    library.define(f"{word}(Tensor x, Tensor gate) -> Tensor")
    for key in ("CPU", "CUDA"):
        library.impl(f"{word}_backward", backward, key)
        library.impl(word, forward, key)
    torch.library.register_fake(f"by_library::{word}_backward", fake_backward, lib=library)
    torch.library.register_fake(f"by_library::{word}", lambda x, gate: torch.empty_like(x), lib=library)
    back = getattr(torch.ops.by_library, f"{word}_backward").default
    whole = partial(gradients, back)
    torch.library.register_autograd(f"by_library::{word}", whole, setup_context=keep, lib=library)
    return getattr(torch.ops.by_library, word).default


LIBRARIES: list[Any] = []
COLUMNS = ["call", "custom_op", "Library", "to_torch", "over custom_op", "over Library"]


def microseconds(sides: Sequence[Call], bench: Benchmark) -> list[float]:
    """The median time of a call of each side, by turns."""

    def repeated(side: Call) -> Call:
        return lambda: [side() for _ in range(CALLS)]

    for side in sides:
        for _ in range(CALLS):  # what is compiled or looked up at first
            side()
    return [1e3 * one / CALLS for one in milliseconds(list(map(repeated, sides)), bench.device.synchronize)]


def seconds_to_make(make: Callable[[str], Any], words: Sequence[str]) -> list[float]:
    """The seconds in which an operator of each name is made."""
    taken = []
    for word in words:
        start = time.perf_counter()
        make(word)
        taken.append(time.perf_counter() - start)
    return taken


def shares(times: Sequence[float]) -> list[str]:
    """The last side's time over that of the others."""
    return [f"{times[-1] / one:.2f}" for one in times[:-1]]


def calls(op: Any, where: str, quick: bool, gradients: bool = True) -> dict[str, Call]:
    """What is done with an operator, checked."""
    rng = torch.Generator().manual_seed(0)
    x, gate, grad = (torch.randn(SIZE, generator=rng).to(where) for _ in range(3))
    pair = [one.clone().requires_grad_() for one in (x, gate)]

    def without_gradients(function: Any) -> Any:
        with torch.no_grad():
            return function(x, gate)

    def both(function: Any) -> Any:
        return torch.autograd.grad(function(*pair), pair, grad)

    exact = torch.nn.functional.silu(pair[0]) * pair[1]
    expected = torch.autograd.grad(exact, pair, grad)
    found: dict[str, Call] = {"forward, no_grad": partial(without_gradients, op)}
    if gradients:
        found["forward, recorded"] = lambda: op(*pair)
        found["forward and backward"] = partial(both, op)
    if not quick:
        compiled = torch.compile(lambda x, gate: op(x, gate), fullgraph=True)
        found["forward, no_grad, torch.compile"] = partial(without_gradients, compiled)
        found["forward and backward, torch.compile"] = partial(both, compiled)
    for name, call in found.items():
        made = call()
        for got, want in zip(*((made, expected) if "backward" in name else ((made,), (exact,))), strict=True):
            torch.testing.assert_close(
                got, want, rtol=1e-5, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}"
            )
    return found


def in_jax(bench: Benchmark) -> list[str]:
    """Sentences on jitted calls of `to_jax`'s function, and of the same by JAX itself."""
    try:
        import jax
    except ImportError:
        return []

    def theirs(x: Any, gate: Any) -> Any:
        return jax.nn.silu(x) * gate

    def slopes(function: Any) -> Any:
        return jax.grad(lambda x, gate: function(x, gate).sum(), (0, 1))

    ours = SwiGLU.to_jax(ck.ones(2), ck.ones(2), outputs=lambda x, gate: x)
    x, gate = jax.random.normal(jax.random.key(0), (2, SIZE))
    lines = []
    for name, change in (("a call", lambda function: function), ("a call with its gradients", slopes)):
        compiled = [jax.jit(change(one)) for one in (ours, theirs)]
        found, exact = (jax.tree.leaves(one(x, gate)) for one in compiled)
        for got, want in zip(found, exact, strict=True):
            if not float(abs(got - want).max()) <= 1e-5:
                raise AssertionError(f"to_jax: {name}: the results differ")
        sides = [lambda one=one: jax.block_until_ready(one(x, gate)) for one in compiled]
        own, other = microseconds(sides, bench)
        lines.append(
            f"jax.jit, {name}, with its end: {own:.1f} us of to_jax, {other:.1f} us of what XLA compiles."
        )
    return lines


def main() -> None:
    bench = Benchmark(__doc__, f"host times in us of a call with {SIZE} elements", COLUMNS)
    where = "cuda" if bench.device.kind == "cuda" else "cpu"
    launch = on_gpu if where == "cuda" else on_host
    examples = ck.ones(2), ck.ones(2)
    ck.grad(lambda x, gate: SwiGLU.apply(x, gate).sum())(*examples)  # compiles the kernels
    makes = [
        partial(custom_op, launch),
        partial(defined, launch),
        lambda word: SwiGLU.to_torch(*examples, name=f"by_cukern::{word}", outputs=lambda x, gate: x),
    ]
    taken = [seconds_to_make(make, ["first", "second"]) for make in makes]
    for name, times in zip(
        ("making the first operator", "making another"), zip(*taken, strict=True), strict=True
    ):
        bench.row(name, *(1e6 * one for one in times), *shares(times))
    sides = [make("measured") for make in makes]
    rows = [calls(op, where, bench.quick) for op in sides]
    alone = program["swiglu"].to_torch(lambda x, gate, n: x, name="by_cukern::alone")
    kernel = calls(lambda x, gate: alone(x, gate, SIZE), where, True, gradients=False)
    for name in bench.chosen(list(rows[0])):
        times = microseconds([row[name] for row in rows], bench)
        bench.row(name, *times, *shares(times))
    for name in bench.chosen(list(kernel)):
        times = microseconds([row[name] for row in (*rows[:2], kernel)], bench)
        bench.row(f"{name}, of the kernel alone", *times, *shares(times))
    bench.end(*in_jax(bench))


if __name__ == "__main__":
    main()
