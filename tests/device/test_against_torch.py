"""Layers against PyTorch in float64: values, and gradients of all inputs, of several layouts in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from convolution_support import innermost
from nn_support import Sized, as_tuple, close, random

import cukern as ck
from cukern import nn

torch = pytest.importorskip("torch")
F = torch.nn.functional

#: How far a number may be from PyTorch's, in units of rounding of the largest one.
ULPS = 64
MODES = ("reflect", "circular", "replicate")


class Case(NamedTuple):
    """A function of this library and PyTorch's of the same arrays, the first of which is the image.

    Attributes:
        name: the public function, then what is special.
        own, other: the functions.
        shapes: of the arrays.
    """

    name: str
    own: Callable[..., Any]
    other: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def spread(x: ck.Array) -> ck.Array:
    """The same numbers, two places apart in memory, from the last row to the first."""
    wide = ck.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype)
    wide[..., ::2] = x if x.ndim < 2 else x[..., ::-1, :]
    return wide[..., ::2] if x.ndim < 2 else wide[..., ::-1, ::2]


LAYOUTS: dict[str, Callable[[ck.Array], ck.Array]] = {
    "first": lambda x: x,
    "last": lambda x: innermost(x) if x.ndim > 2 else x,
    "strided": spread,
}


def paired(name: str, words: str, *shapes: tuple[int, ...], as_torch: str = "", **options: Any) -> Case:
    """A function of the same name and options in both."""
    own, other = getattr(nn, name), getattr(F, as_torch or name)
    return Case(f"{name} {words}", lambda *x: own(*x, **options), lambda *x: other(*x, **options), shapes)


def convolutions() -> list[Case]:
    made = []
    image = (7, 8, 9)
    for axes in (1, 2, 3):
        size, kernel = image[-axes:], (3, 2, 3)[-axes:]
        name, turned = f"conv{axes}d", f"conv_transpose{axes}d"
        x, dense, few = (2, 4, *size), (6, 4, *kernel), (6, 2, *kernel)
        made += [
            paired(name, "plain", x, dense, (6,)),
            paired(name, "stride, padding, dilation", x, dense, (6,), stride=2, padding=2, dilation=2),
            paired(name, "groups", x, few, (6,), groups=2, padding=1),
            paired(name, "depthwise", x, (4, 1, *kernel), (4,), groups=4, padding=1),
            paired(name, "depthwise, stride", x, (8, 1, *kernel), groups=4, stride=2, padding=1),
            paired(name, "same", x, dense, padding="same", dilation=2),
            paired(name, "valid", x, dense, padding="valid", stride=2),
            paired(name, "no batch", x[1:], dense),
            paired(turned, "plain", x, (4, 3, *kernel), (3,)),
            paired(
                turned, "stride, padding", x, (4, 3, *kernel), (3,), stride=2, padding=1, output_padding=1
            ),
            paired(turned, "groups, dilation", x, (4, 3, *kernel), (6,), groups=2, dilation=2),
            paired(turned, "depthwise", x, (4, 1, *kernel), (4,), groups=4, stride=2),
        ]
        for mode in MODES:
            layer = getattr(torch.nn, f"Conv{axes}d")(4, 6, kernel, padding=1, padding_mode=mode)
            own = getattr(nn, name)
            made.append(
                Case(
                    f"{name} {mode}",
                    lambda *x, own=own, mode=mode: own(*x, padding=1, padding_mode=mode),
                    lambda x, w, b, layer=layer: layer._conv_forward(x, w, b),
                    (x, dense, (6,)),
                )
            )
    made.append(paired("conv2d", "3 x 3", (2, 5, 14, 13), (7, 5, 3, 3), (7,), padding=1))
    made.append(paired("conv2d", "1 x 1", (2, 5, 6, 7), (3, 5, 1, 1), (3,)))
    made.append(paired("conv2d", "few channels", (1, 3, 19, 17), (8, 3, 7, 7), stride=2, padding=3))
    return made


def pools() -> list[Case]:
    made, image = [], (9, 8, 10)
    for axes in (1, 2, 3):
        x = (2, 3, *image[-axes:])
        for kind in ("avg", "max"):
            name = f"{kind}_pool{axes}d"
            made += [
                paired(name, "plain", x, kernel_size=2),
                paired(name, "overlapping", x, kernel_size=3, stride=2, padding=1),
                paired(name, "ceil", x, kernel_size=3, stride=2, ceil_mode=True),
            ]
            for size in (1, 3, 5):
                made.append(paired(f"adaptive_{name}", f"to {size}", x, output_size=size))
        made += [
            paired(f"max_pool{axes}d", "dilation", x, kernel_size=2, stride=1, dilation=3),
            paired(f"avg_pool{axes}d", "inside", x, kernel_size=3, padding=1, count_include_pad=False),
        ]
    return made


def rearrangements() -> list[Case]:
    windows = {"kernel_size": (3, 2), "dilation": (1, 2), "padding": (1, 0), "stride": (2, 1)}
    made = [
        paired("unfold", "windows", (2, 3, 7, 8), **windows),
        paired("unfold", "no batch", (3, 7, 8), kernel_size=2),
        paired("fold", "windows", (2, 18, 24), output_size=(7, 8), **windows),
    ]
    made += [
        Case(
            f"{name} by 3",
            lambda x, name=name: getattr(nn, name)(x, 3),
            lambda x, name=name: getattr(F, name)(x, 3),
            (shape,),
        )
        for name, shape in (("pixel_shuffle", (2, 18, 4, 5)), ("pixel_unshuffle", (2, 2, 6, 9)))
    ]
    for mode in ("constant", *MODES):
        made.append(
            Case(
                f"pad {mode}",
                lambda x, mode=mode: nn.pad(x, [(2, 1), (0, 3)], mode),
                lambda x, mode=mode: F.pad(x, (0, 3, 2, 1), mode),
                ((2, 3, 4, 5),),
            )
        )
    return made


def resamplings() -> list[Case]:
    made = []
    for axes, smooth in ((1, ("linear",)), (2, ("bilinear", "bicubic")), (3, ("trilinear",))):
        x = (2, 3, *(5, 4, 6)[-axes:])
        for mode in ("nearest", "nearest-exact", "area", *smooth):
            made.append(paired("interpolate", f"{axes}: {mode} by 2", x, scale_factor=2, mode=mode))
            made.append(paired("interpolate", f"{axes}: {mode} to 7", x, size=(7,) * axes, mode=mode))
            made.append(paired("interpolate", f"{axes}: {mode} to 3", x, size=(3,) * axes, mode=mode))
        for mode in smooth:
            options = {"mode": mode, "align_corners": True}
            made.append(paired("interpolate", f"{axes}: {mode}, corners", x, size=(7,) * axes, **options))
    for padding in ("zeros", "border", "reflection"):
        options = {"padding_mode": padding, "align_corners": padding != "border"}
        for mode in ("bilinear", "nearest"):
            x, grid = (2, 3, 5, 6), (2, 4, 7, 2)
            made.append(paired("grid_sample", f"2: {mode}, {padding}", x, grid, mode=mode, **options))
        x, grid = (2, 3, 4, 5, 6), (2, 3, 4, 5, 3)
        made.append(paired("grid_sample", f"3: {padding}", x, grid, **options))
    return made


def turned(x: Any, interleaved: bool, size: int | None = None, start: int = 0) -> Any:
    """Rotary embedding as its paper defines it."""
    size = size or x.shape[-1]
    angles = torch.outer(
        torch.arange(start, start + x.shape[-2], dtype=x.dtype),
        10000.0 ** (-torch.arange(0, size, 2, dtype=x.dtype) / size),
    )
    taken, rest = x[..., :size], x[..., size:]
    a, b = (taken[..., ::2], taken[..., 1::2]) if interleaved else taken.chunk(2, -1)
    pair = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    return torch.cat([torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1), rest], -1)


def by_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch's for an array whose last axis is that of the channels."""
    return lambda x, *own: function(x.movedim(-1, 1), *own).movedim(1, -1)


def norms() -> list[Case]:
    x, last, of_channels = (3, 6, 4, 5), (3, 4, 5, 6), ((6,), (6,))
    mean, variance = np.linspace(-1, 1, 6), np.linspace(0.5, 2, 6)

    def own_batch(x: Any, *own: Any, training: bool = True, axis: int = 1) -> Any:
        running = [ck.asarray(one, device=x.device) for one in (mean, variance)]
        return nn.batch_norm(x, *running, *own, training=training, channel_axis=axis)

    def batch(x: Any, *own: Any, training: bool = True) -> Any:
        return F.batch_norm(x, torch.tensor(mean), torch.tensor(variance), *own, training=training)

    made = [
        Case(
            "rms_norm one axis",
            lambda x, w: nn.rms_norm(x, 30, w, 1e-5),
            lambda x, w: F.rms_norm(x, (30,), w, 1e-5),
            ((7, 30), (30,)),
        ),
        Case(
            "add_rms_norm",
            lambda x, r, w: ck.multiply(*nn.add_rms_norm(x, r, 30, w, 1e-5)),
            lambda x, r, w: F.rms_norm(x + r, (30,), w, 1e-5) * (x + r),
            ((7, 30), (7, 30), (30,)),
        ),
        Case(
            "add_layer_norm",
            lambda x, r, w, b: ck.multiply(*nn.add_layer_norm(x, r, 30, w, b)),
            lambda x, r, w, b: F.layer_norm(x + r, (30,), w, b) * (x + r),
            ((7, 30), (7, 30), (30,), (30,)),
        ),
        Case("rms_norm two axes", lambda x: nn.rms_norm(x, (4, 5)), lambda x: F.rms_norm(x, (4, 5)), (x,)),
        Case(
            "layer_norm",
            lambda x, *own: nn.layer_norm(x, 30, *own),
            lambda x, *own: F.layer_norm(x, (30,), *own),
            ((7, 30), (30,), (30,)),
        ),
    ]
    for training in (True, False):
        words = "batch_norm training" if training else "batch_norm evaluation"
        by_torch = partial(batch, training=training)
        made += [
            Case(words, partial(own_batch, training=training), by_torch, (x, *of_channels)),
            Case(f"{words}, plain", partial(own_batch, training=training), by_torch, ((9, 6),)),
            Case(
                f"{words}, axis",
                partial(own_batch, training=training, axis=-1),
                by_last(by_torch),
                (last, *of_channels),
            ),
        ]
    for groups in (1, 3, 6):
        own, other = partial(own_group, groups=groups), partial(group, groups=groups)
        made += [
            Case(f"group_norm of {groups}", own, other, (x, *of_channels)),
            Case(
                f"group_norm of {groups}, axis", partial(own, axis=-1), by_last(other), (last, *of_channels)
            ),
        ]
    made.append(Case("group_norm plain", partial(own_group, groups=2), partial(group, groups=2), ((5, 6),)))
    return made


def own_group(x: Any, *own: Any, groups: int, axis: int = 1) -> Any:
    return nn.group_norm(x, groups, *own, channel_axis=axis)


def group(x: Any, *own: Any, groups: int) -> Any:
    return F.group_norm(x, groups, *own)


def others() -> list[Case]:
    x = (2, 3, 5, 8)
    made = [
        Case(
            f"rotary_embedding {options}",
            lambda x, options=options: nn.rotary_embedding(
                x, options.get("start", 0), size=options.get("size"), interleaved=options["interleaved"]
            ),
            lambda x, options=options: turned(x, **options),
            (x,),
        )
        for options in (
            {"interleaved": False},
            {"interleaved": True, "start": 3},
            {"interleaved": False, "size": 6},
        )
    ]
    for largest in (True, False):
        made.append(
            Case(
                f"topk largest={largest}",
                lambda x, largest=largest: ck.topk(x, 3, largest=largest)[0],
                lambda x, largest=largest: torch.topk(x, 3, largest=largest)[0],
                (x,),
            )
        )
    return made


CASES = [*convolutions(), *pools(), *rearrangements(), *resamplings(), *norms(), *others()]
#: Functions whose results are drawn: see below and test_nn_sampling.py.
DRAWN = {"dropout", "sample_tokens"}


def found_of(case: Case, layout: str) -> tuple[list[ck.Array], list[Any]]:
    """Results and gradients of this library, and PyTorch's."""
    arrays = [random(i, shape) for i, shape in enumerate(case.shapes)]
    laid = [LAYOUTS[layout](arrays[0]), *arrays[1:]]
    if layout == "last" and arrays[1:]:
        laid[1] = LAYOUTS[layout](arrays[1])
    y, pull = ck.vjp(case.own, *laid)
    given = random(9, y.shape)
    inputs = [torch.tensor(one.numpy(), requires_grad=True) for one in arrays]
    expected = case.other(*inputs)
    assert y.shape == tuple(expected.shape) and y.dtype == ck.float64
    gradients = torch.autograd.grad(expected, inputs, torch.tensor(given.numpy()))
    return [y, *as_tuple(pull(LAYOUTS[layout](given)))], [expected.detach(), *gradients]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", [pytest.param(one, id=one.name) for one in CASES])
def test_values_and_gradients(device: ck.Device, case: Case, layout: str) -> None:
    for one, other in zip(*found_of(case, layout), strict=True):
        assert one.device == device and one.shape == tuple(other.shape)
        right = other.numpy()
        # PyTorch rounds too, sums of terms of about the result's size.
        terms = np.full(right.shape, np.sqrt(np.mean(right**2)) if right.size else 0.0)
        close(one, Sized(right, terms), ULPS)


def test_dropout_gives_the_gradient_of_what_it_kept(device: ck.Device) -> None:
    x = random(0, (40, 50)) + 10
    y, pull = ck.vjp(lambda x: nn.dropout(x, 0.25), x)
    kept = torch.tensor(y.numpy() != 0)
    assert 0.6 < float(kept.double().mean()) < 0.9
    own = torch.tensor(x.numpy(), requires_grad=True)
    expected = torch.where(kept, own / 0.75, 0)
    given = random(1, x.shape)
    (gradient,) = torch.autograd.grad(expected, own, torch.tensor(given.numpy()))
    close(y, expected.detach().numpy(), 2)
    close(pull(given)[0], gradient.numpy(), 2)


def test_places_of_the_largest(device: ck.Device) -> None:
    x = random(0, (6, 40))
    values, places = ck.topk(x, 5)
    expected = torch.topk(torch.tensor(x.numpy()), 5)
    assert values.tolist() == expected[0].tolist() and places.tolist() == expected[1].tolist()


def test_running_statistics(device: ck.Device) -> None:
    x = random(0, (4, 3, 5, 6)) * 3 + 2
    layer, other = nn.BatchNorm(3, dtype="float64"), torch.nn.BatchNorm2d(3, dtype=torch.float64)
    for _ in range(3):
        layer(x), other(torch.tensor(x.numpy()))
    close(layer.running_mean, other.running_mean.numpy(), 8)
    close(layer.running_var, other.running_var.numpy(), 8)


def test_every_function_of_images_has_a_case() -> None:
    words = ("conv", "pool", "fold", "shuffle", "interpolate", "pad", "rotary", "dropout", "sample", "_norm")
    wanted = {name for name in nn.functional.__all__ if any(word in name for word in words)}
    assert len(wanted) > 25
    assert wanted - {case.name.split()[0] for case in CASES} == DRAWN | {"upsample"}  # which is interpolate
