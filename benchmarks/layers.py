"""Norms, dropout, rotary embeddings and upsampling, forward and backward, as a share of a copy's bandwidth.

Usage: python benchmarks/layers.py [--scale N] [--only WORD] [--out FILE]

Each byte that has to move counts: forward x and y, backward x, dy and dx where the gradient needs x. Shares are of
three bounds: "once", the time in which a large copy moves as many bytes; "twice", the same with inputs read twice,
where their statistics have to be known before the first result, and no multiprocessors hold the inputs until then;
"copy", the time of a copy of just as many bytes, which starts and ends as the layer does. Calls take turns on as much
memory as no cache holds. With PyTorch, whose times stand beside, results and gradients are compared with its own of
float64. `--scale` divides the first size, for a try without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from measure import Benchmark, torch

import cukern as ck
from cukern import nn

if torch is not None:
    from torch.nn import functional as F

#: Bytes of inputs and outputs of the calls that take turns; eight times as many are those of the copy.
_MEMORY = 256 * 2**20


class Case(NamedTuple):
    """A layer: functions of ``x`` and parameters.

    Attributes:
        name: what it does.
        shape: that of ``x``.
        own, torch: the functions.
        parameters: the shapes of further arguments that are trained.
        reads_x: whether the gradient needs ``x``.
        random: whether results are drawn, and so not compared.
        statistics: whether those of inputs are needed before the first result, of more than a row.
    """

    name: str
    shape: tuple[int, ...]
    own: Callable[..., Any]
    torch: Callable[..., Any] | None
    parameters: tuple[tuple[int, ...], ...] = ()
    reads_x: bool = True
    random: bool = False
    statistics: bool = False


def _last(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch's of channels first, for memory with channels last."""
    return lambda x, *own: function(x.movedim(-1, 1), *own).movedim(1, -1)


def _batch(x: Any, *own: Any, function: Any = None, **options: Any) -> Any:
    return (function or nn.batch_norm)(x, None, None, *own, True, **options)


@cache
def _ones(library: Any, *of: Any) -> Any:
    """Statistics, which are there before a layer is called."""
    channels, dtype, device = of
    return library.ones(channels, dtype=dtype, device=device)


def _evaluated(x: Any, w: Any, b: Any, function: Any = None, **options: Any) -> Any:
    ones = _ones(ck if function is None else torch, w.shape[0], w.dtype, w.device)
    return (function or nn.batch_norm)(x, ones, ones, w, b, False, **options)


def _torch_rotary(x: Any) -> Any:
    """The common form, with tables of cosines and sines."""
    length, features = x.shape[-2:]
    powers = torch.arange(0, features, 2, device=x.device, dtype=torch.float64) / features
    angle = torch.outer(torch.arange(length, device=x.device, dtype=torch.float64), 10000.0**-powers)
    cos, sin = (torch.cat([one, one], -1).to(x.dtype) for one in (angle.cos(), angle.sin()))
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def _from_torch(name: str) -> Any:
    return None if torch is None else getattr(F, name)


def cases() -> list[Case]:
    """All layers."""
    made = []
    for rows, columns in ((65536, 768), (8192, 4096)):
        one = ((columns,),)
        made.append(
            Case(
                "rms norm",
                (rows, columns),
                lambda x, w, n=columns: nn.rms_norm(x, n, w, 1e-5),
                lambda x, w, n=columns: F.rms_norm(x, (n,), w, 1e-5),
                one,
            )
        )
        made.append(
            Case(
                "layer norm",
                (rows, columns),
                lambda x, w, b, n=columns: nn.layer_norm(x, n, w, b),
                lambda x, w, b, n=columns: F.layer_norm(x, (n,), w, b),
                one * 2,
            )
        )
    channels = ((64,), (64,))
    group, batch = _from_torch("group_norm"), _from_torch("batch_norm")
    for words, shape, axis, turned in (
        ("", (32, 64, 56, 56), 1, lambda f: f),
        (", channels last", (32, 56, 56, 64), -1, _last),
    ):
        own_group = lambda x, w, b, a=axis: nn.group_norm(x, 32, w, b, channel_axis=a)  # noqa: E731
        torch_group = turned(lambda x, w, b: group(x, 32, w, b))
        made.append(Case(f"group norm{words}", shape, own_group, torch_group, channels, statistics=True))
        own_group = lambda x, w, b, a=axis: nn.group_norm(x, 32, w, b, channel_axis=a, activation=nn.silu)  # noqa: E731
        torch_group = turned(lambda x, w, b: F.silu(group(x, 32, w, b)))
        made.append(
            Case(f"group norm, SiLU{words}", shape, own_group, torch_group, channels, statistics=True)
        )
        sizes = [shape, *((64, 56 * 4 // n, 56 * 4 // n, 64 * n) for n in (4, 8, 16))]
        if axis == 1:
            sizes = [shape, *((batch, wide, *square) for batch, *square, wide in sizes[1:])]
        kinds = [("training", _batch, size) for size in sizes]
        for name, function, size in (*kinds, ("evaluation", _evaluated, shape)):
            own = partial(function, channel_axis=axis)
            peer = turned(partial(function, function=batch))
            parameters = ((size[axis],),) * 2
            made.append(
                Case(f"batch norm, {name}{words}", size, own, peer, parameters, statistics=name == "training")
            )
    made.append(Case("rotary", (16, 16, 2048, 128), nn.rotary_embedding, _torch_rotary, reads_x=False))
    made.append(
        Case(
            "dropout",
            (65536, 768),
            lambda x: nn.dropout(x, 0.1),
            lambda x: F.dropout(x, 0.1),
            reads_x=False,
            random=True,
        )
    )
    for mode in ("nearest", "bilinear", "bicubic"):
        made.append(
            Case(
                f"upsample by 2, {mode}",
                (32, 64, 56, 56),
                partial(nn.interpolate, scale_factor=2, mode=mode),
                partial(_from_torch("interpolate"), scale_factor=2.0, mode=mode) if torch else None,
                reads_x=False,
            )
        )
    return made


class _Run(NamedTuple):
    """Forward and backward of one library on one piece of memory, and their results as float64 on the device."""

    forward: Callable[[], Any]
    backward: Callable[[], Any]
    results: Callable[[], list[Any]]


def _own(case: Case, arrays: Sequence[ck.Array], given: ck.Array) -> _Run:
    with ck.Tape(persistent=True) as tape:
        tape.watch(*arrays)
        result = case.own(*arrays)

    def backward() -> Any:
        return tape.gradient(result, list(arrays), given)

    return _Run(lambda: case.own(*arrays), backward, lambda: [result, *backward()])


def _peer(case: Case, arrays: Sequence[ck.Array], given: ck.Array) -> _Run:
    assert torch is not None and case.torch is not None
    inputs = [torch.from_dlpack(one).detach().requires_grad_() for one in arrays]
    result, above = case.torch(*inputs), torch.from_dlpack(given)

    def forward() -> Any:
        with torch.no_grad():
            return case.torch(*inputs)  # type: ignore[misc]

    def backward() -> Any:
        return torch.autograd.grad(result, inputs, above, retain_graph=True)

    return _Run(forward, backward, lambda: [result, *backward()])


def check(case: Case, arrays: Sequence[ck.Array], given: ck.Array, run: _Run) -> float:
    """The largest error of result and gradients, over the largest number of each, in units of the dtype's rounding."""
    inputs = [torch.from_dlpack(one).detach().double().requires_grad_() for one in arrays]
    result = case.torch(*inputs)  # type: ignore[misc]
    wanted = [result, *torch.autograd.grad(result, inputs, torch.from_dlpack(given).double())]
    worst = 0.0
    for found, want in zip(run.results(), wanted, strict=True):
        apart = (torch.from_dlpack(found).double() - want.detach()).abs().max() / want.detach().abs().max()
        worst = max(worst, float(apart))
    worst /= float(ck.finfo(arrays[0].dtype).eps)
    assert worst < 32, f"{case.name}: differs by {worst:.1f} units of rounding"
    return worst


def measured(case: Case, dtype: str, bench: Benchmark, copy: float) -> None:
    """Add a line to the table; ``copy`` is the bytes that a large copy moves in a microsecond."""
    rng = ck.random.default_rng(0, device=bench.device)

    def drawn(shape: tuple[int, ...]) -> ck.Array:
        return rng.normal(size=shape, dtype="float32").astype(dtype)

    shapes = (case.shape, *case.parameters)
    x = drawn(case.shape)
    result = case.own(x, *map(drawn, case.parameters))
    # Forward, then backward.
    inputs = x.nbytes, result.nbytes + (x.nbytes if case.reads_x else 0)
    bytes_once = inputs[0] + result.nbytes, inputs[1] + x.nbytes
    turns = 1 if bench.device.addressable else max(1, min(8, _MEMORY // bytes_once[0]))
    sets = [([drawn(shape) for shape in shapes], drawn(result.shape)) for _ in range(turns)]
    own, peers, error = [_own(case, *one) for one in sets], [], None
    if torch is not None:
        error = None if case.random else check(case, *sets[0], own[0])
        peers = [_peer(case, *one) for one in sets]
    several = [
        [getattr(one, way) for one in runs] or None
        for runs in (own, peers)
        for way in ("forward", "backward")
    ]
    copies = [[bench.copy_of(moved) for _ in range(turns)] for moved in bytes_once]
    times = bench.microseconds(*several, *copies)
    cells: list[object] = []
    for i, (once, given) in enumerate(zip(bytes_once, inputs, strict=True)):
        mine, theirs, alike = times[i], times[2 + i], times[4 + i]
        assert mine is not None and alike is not None
        bounds = once / copy, (once + given) / copy if case.statistics else None, alike
        cells += [mine, *(None if bound is None else f"{100 * bound / mine:.0f} %" for bound in bounds)]
        cells.append(None if theirs is None else f"{theirs / mine:.2f}x")
    bench.row(case.name, " x ".join(map(str, case.shape)), dtype, *cells, error)


def main() -> None:
    ways = [[way, "once", "twice", "copy", "PyTorch's"] for way in ("forward", "backward")]
    heads = ["layer", "x", "dtype", *ways[0], *ways[1], "error"]
    bench = Benchmark(__doc__, "device times in us", heads)
    moved = 8 * _MEMORY // bench.scale
    (taken,) = bench.microseconds(bench.copy_of(moved))
    assert taken is not None
    for case in bench.chosen(cases()):
        case = case._replace(shape=(max(1, case.shape[0] // bench.scale), *case.shape[1:]))
        for dtype in ("float32", "bfloat16"):
            measured(case, dtype, bench, moved / taken)
    bench.end(f"A copy moves {1e-3 * moved / taken:.0f} GB/s.")


if __name__ == "__main__":
    main()
