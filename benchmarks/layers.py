"""Norms, dropout, rotary embeddings and upsampling, forward and backward, as a share of a copy's bandwidth.

Usage: python benchmarks/layers.py [--scale N] [--only WORD] [--out FILE]

Each byte of input and output counts once: forward x and y, backward x, dy and dx where the gradient needs x. Calls take
turns on as much memory as no cache holds. With PyTorch, whose times stand beside, results and gradients are compared
with its own of float64. `--scale` divides the first size, for a try without a GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cukern as ck
from cukern import nn
from cukern.bench.timing import DeviceClock, HostClock, median_seconds

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    torch = None  # type: ignore[assignment]

#: Bytes of inputs and outputs of the calls that take turns.
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
    """

    name: str
    shape: tuple[int, ...]
    own: Callable[..., Any]
    torch: Callable[..., Any] | None
    parameters: tuple[tuple[int, ...], ...] = ()
    reads_x: bool = True
    random: bool = False


def _last(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch's of channels first, for memory with channels last."""
    return lambda x, *own: function(x.movedim(-1, 1), *own).movedim(1, -1)


def _batch(x: Any, *own: Any, function: Any = None, **options: Any) -> Any:
    return (function or nn.batch_norm)(x, None, None, *own, True, **options)


def _evaluated(x: Any, w: Any, b: Any, function: Any = None, **options: Any) -> Any:
    ones = ck.ones_like(w) if function is None else torch.ones_like(w)
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
        made.append(Case(f"group norm{words}", shape, own_group, torch_group, channels))
        for name, function in (("training", _batch), ("evaluation", _evaluated)):
            own = partial(function, channel_axis=axis)
            made.append(
                Case(
                    f"batch norm, {name}{words}",
                    shape,
                    own,
                    turned(partial(function, function=batch)),
                    channels,
                )
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


def measured(case: Case, dtype: str, clock: Any, device: ck.Device, copy: float) -> str:
    """A line of the table."""
    rng = ck.random.default_rng(0, device=device)

    def drawn(shape: tuple[int, ...]) -> ck.Array:
        return rng.normal(size=shape, dtype="float32").astype(dtype)

    result = case.own(*(drawn(shape) for shape in (case.shape, *case.parameters)))
    x_bytes = result.nbytes if not case.shape else drawn(case.shape).nbytes
    moved = x_bytes + result.nbytes
    sets = []
    for _ in range(max(1, min(8, _MEMORY // moved)) if not device.addressable else 1):
        sets.append(([drawn(shape) for shape in (case.shape, *case.parameters)], drawn(result.shape)))
    own = [_own(case, *one) for one in sets]
    sides = [[one.forward for one in own], [one.backward for one in own]]
    error = ""
    if torch is not None:
        if not case.random:
            error = f"{check(case, *sets[0], own[0]):.1f}"
        peers = [_peer(case, *one) for one in sets]
        sides += [[one.forward for one in peers], [one.backward for one in peers]]
    seconds = median_seconds(clock, sides)
    backward = moved + (x_bytes if case.reads_x else 0)
    columns = [case.name, " x ".join(map(str, case.shape)), dtype]
    for i, one in enumerate((moved, backward)):
        columns += [f"{1e6 * seconds[i]:.1f}", f"{100 * one / seconds[i] / copy:.0f} %"]
        columns.append(f"{seconds[2 + i] / seconds[i]:.2f}x" if torch is not None else "")
    return f"| {' | '.join([*columns, error])} |"


def copy_rate(clock: Any, device: ck.Device) -> float:
    """Bytes per second of a large copy within the device, counting those read and those written."""
    xp = device.xp
    source = xp.zeros(2**28 if not device.addressable else 2**22, xp.float32)
    target = xp.zeros_like(source)
    (seconds,) = median_seconds(clock, [[partial(xp.copyto, target, source)]])
    return 2 * float(source.nbytes) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = ck.zeros(1).device
    clock: Any = HostClock() if device.addressable else DeviceClock(device)
    copy = copy_rate(clock, device)
    lines = [
        f"{device.properties.name}, a copy moves {1e-9 * copy:.0f} GB/s; times in us",
        "",
        "| layer | x | dtype | forward | of a copy | PyTorch's | backward | of a copy | PyTorch's | error |",
        "| --- " * 10 + "|",
    ]
    print(*lines, sep="\n")
    for case in cases():
        if arguments.only not in case.name:
            continue
        case = case._replace(shape=(max(1, case.shape[0] // arguments.scale), *case.shape[1:]))
        for dtype in ("float32", "bfloat16"):
            lines.append(measured(case, dtype, clock, device, copy))
            print(lines[-1], flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
