"""Convolutions whose kernels bring images by tensor maps: once, by strides, of few channels; the order of outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from convolution_support import Definition, check, innermost
from nn_support import close, random, sized

import cukern as ck
from cukern.nn.convolution import geometry, grids, plan, shifted, shifted_weights, strided, tensor

#: Bytes of shared memory of a block.
_MEMORY = 227 * 1024


@pytest.fixture
def mapped(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Has a module's forms, of those that a function keeps, compute convolutions; returns the list of those used."""
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("the instructions of sm_90a")
    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(plan, "takes", lambda elem, of, groups, *n: True)
    monkeypatch.setattr(tensor, "tile_for", lambda *given: tensor.TILES[-1])

    def forms_of(module: Any, name: str, keep: Callable[[Any], bool]) -> list[Any]:
        used: list[Any] = []
        forms, form_of = module._forms, getattr(module, name)

        def form_for(task: Any, elem: Any, of: Any, strides: Any) -> Any:
            used.append(form_of(task, elem, strides, _MEMORY, 5))
            return used[-1]

        monkeypatch.setattr(module, "CHANNELS", 8)
        monkeypatch.setattr(module, "form_for", form_for)
        monkeypatch.setattr(module, "_forms", lambda *given: [one for one in forms(*given) if keep(one)])
        return used

    return forms_of


#: Images whose bands end within them and are odd in number, channels beyond a stage, and windows that reach far.
SHIFTED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((3, 16, 5, 14), (72, 16, 3, 3), {"padding": 1}),
    ((1, 72, 9, 30), (24, 72, 2, 3), {"padding": (0, 2), "dilation": (2, 1)}),
    ((2, 72, 8, 9), (24, 72, 3, 2), {"padding": 1, "stride": 2}),
]


@pytest.mark.parametrize(
    ("number", "halves"),
    [
        (0, 1),
        (2, 1),
        *(pytest.param(*one, marks=pytest.mark.thorough) for one in ((0, 2), (1, 1), (1, 2), (2, 2))),
    ],
)
def test_images_that_are_brought_once(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, number: int, halves: int
) -> None:
    """By the kernels that shift images."""
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("the instructions of sm_90a")
    used = []

    def form_for(task: Any, elem: Any, of: Any, strides: Any) -> Any:
        used.append(shifted._form(task, elem, strides, _MEMORY, 3))
        return used[-1]

    forms = shifted._forms
    monkeypatch.setattr(
        shifted, "_forms", lambda *given: [one for one in forms(*given) if one.halves == halves][-1:]
    )
    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(plan, "takes", lambda elem, of, groups, *n: True)

    def form_of_weights(task: Any, elem: Any, of: Any) -> Any:
        used.append(shifted_weights.form_of(task, elem, _MEMORY))
        return used[-1]

    monkeypatch.setattr(shifted, "CHANNELS", 8)
    monkeypatch.setattr(shifted_weights, "CHANNELS", 8)
    monkeypatch.setattr(shifted, "form_for", form_for)
    monkeypatch.setattr(shifted_weights, "form_for", form_of_weights)
    parts_of = shifted_weights.parts_of
    monkeypatch.setattr(shifted_weights, "parts_of", lambda task, form, _: parts_of(task, form, 12))
    x, w, options = SHIFTED[number]
    check(x, w, "bfloat16", last=True, **options)
    by_several = options.get("stride", 1) > 1  # its forward pass has no such form
    assert len(used) > 2 and all(used[by_several:]) and (used[0] is None) == by_several


@pytest.mark.parametrize("cluster", [2, pytest.param(4, marks=pytest.mark.thorough)])
def test_blocks_of_a_cluster_add_up(device: ck.Device, monkeypatch: pytest.MonkeyPatch, cluster: int) -> None:
    """Sums of four parts of the pixels, of which clusters leave two or one."""
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("the instructions of sm_90a")
    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(plan, "takes", lambda elem, of, groups, *n: True)
    monkeypatch.setattr(shifted_weights, "CHANNELS", 8)
    monkeypatch.setattr(shifted_weights, "_CLUSTERS", (cluster,))
    monkeypatch.setattr(
        shifted_weights, "form_for", lambda task, elem, _: shifted_weights.form_of(task, elem, _MEMORY)
    )
    monkeypatch.setattr(shifted_weights, "parts_of", lambda task, form, _: 4)
    dy, x = (innermost(random(i, (4, n, 5, 6), "bfloat16")) for i, n in enumerate((72, 24)))
    found = plan.weights_gradient(dy, x, geometry.Windows((1, 1), (1, 1), (1, 1)), (3, 3), True)
    close(found, sized(lambda a, b: Definition(2, padding=1).weights(a, b, (3, 3)), dy, x))


def test_an_empty_batch_has_no_bands(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(plan, "takes", lambda *_: True)
    monkeypatch.setattr(tensor, "tile_for", lambda *_: tensor.TILES[-1])
    monkeypatch.setattr(
        shifted_weights, "form_for", lambda task, elem, _: shifted_weights.form_of(task, elem, _MEMORY)
    )
    dy, x = (innermost(ck.zeros((0, 64, 5, 6), "bfloat16")) for _ in range(2))
    found = plan.weights_gradient(dy, x, geometry.Windows((1, 1), (1, 1), (1, 1)), (3, 3), True)
    assert found.shape == (64, 64, 3, 3) and not found.numpy().any()


def test_images_that_share_memory_are_not_brought_once() -> None:
    """Maps have no strides of 0."""
    image = geometry.Place(2, 64, (1, 5, 5), (1600, 1, 0, 320, 64))
    axes = geometry.forward_axes(geometry.Windows((1, 1), (1, 1), (1, 1)), (1, 3, 3), (1, 5, 5))
    task = geometry.Task(image, image, (576, 1, 0, 192, 64), 64, 64, 1, axes, False, 0)
    repeated = task._replace(image=image._replace(steps=(0, *image.steps[1:])))
    assert shifted.fits(task, ck.bfloat16) and not shifted.fits(repeated, ck.bfloat16)
    assert shifted._form(task, ck.bfloat16, task.weights, _MEMORY, 132)
    assert not shifted._form(task, ck.bfloat16, (0, *task.weights[1:]), _MEMORY, 132)


#: Bands of several images and of parts of one, odd in number; planes and grids of different sizes; taps in any order.
STRIDED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((3, 16, 9, 14), (24, 16, 3, 4), {"padding": (1, 2), "stride": (2, 3)}),
    ((2, 72, 8, 9), (24, 72, 3, 2), {"padding": 1, "stride": 2}),
    ((5, 24, 7, 7), (16, 24, 3, 3), {"padding": 2, "stride": 2, "dilation": (3, 1)}),
    ((1, 24, 3, 40), (136, 24, 2, 2), {"stride": 2}),
]


@pytest.mark.parametrize(
    "number, tile_n, halves",
    [
        (0, 64, 1),
        *(pytest.param(n, 64, 1, marks=pytest.mark.thorough) for n in range(1, len(STRIDED))),
        *(pytest.param(n, 128, 2, marks=pytest.mark.thorough) for n in range(len(STRIDED))),
        pytest.param(3, 256, 1, marks=pytest.mark.thorough),
    ],
)
def test_windows_that_move_by_several_pixels(
    mapped: Callable[..., list[Any]],
    number: int,
    tile_n: int,
    halves: int,
) -> None:
    """Forward, and all grids of a gradient in one launch."""
    used = mapped(strided, "form_of", lambda one: (one.tile_n, one.halves) == (tile_n, halves))
    x, w, options = STRIDED[number]
    check(x, w, "bfloat16", last=True, **options)
    assert len(used) == 2 and all(used)
    launches = [one for made in plan._plans.values() for one in getattr(made, "mapped", ())]
    assert [type(one) for one in launches] == [strided.Launch] * 2


def test_what_windows_that_move_by_several_pixels_fit() -> None:
    """Not those that move by one, a grid without a tap, planes that the image lacks, nor too many for arguments."""
    image, output = ((2, 64, (1, n, n), (64 * n * n, 1, 0, 64 * n, 64)) for n in (9, 5))
    places, strides = (geometry.Place(*image), geometry.Place(*output)), (576, 1, 0, 192, 64)

    def form(*windows: int, kernel: int = 3, turned: bool = False) -> Any:
        step, padding = windows
        given = geometry.Windows((step,) * 2, (padding,) * 2, (1, 1)), (1, kernel, kernel)
        axes = (
            geometry.turned_axes(*given, (1, 9, 9)) if turned else [geometry.forward_axes(*given, (1, 5, 5))]
        )
        tasks = [geometry.Task(*places, strides, 64, 64, 1, one, False, 0) for one in axes]
        return strided.form_of(tasks, ck.bfloat16, strides, _MEMORY, 132)

    assert form(2, 1) and form(2, 1, turned=True) and form(2, 0, kernel=1)
    assert not form(1, 1) and not form(2, 0, kernel=1, turned=True) and not form(10, 1)
    assert form(4, 1, kernel=4) and not form(6, 1, kernel=4)


def test_a_band_of_windows_that_move_by_several_pixels_has_a_row_at_least() -> None:
    """Of rows of more than 64 pixels, that is a tile of two halves, of at most 128 filters."""
    image, output = ((2, 64, (1, n, n), (64 * n * n, 1, 0, 64 * n, 64)) for n in (201, 100))
    axes = geometry.forward_axes(geometry.Windows((2, 2), (0, 0), (1, 1)), (1, 3, 3), (1, 100, 100))
    places = geometry.Place(*image), geometry.Place(*output)
    task = geometry.Task(*places, (576, 1, 0, 192, 64), 64, 64, 1, axes, False, 0)
    assert [one[:2] for one in strided._forms([task], _MEMORY)] == [(64, 2), (128, 2)]


#: Grids with as many taps and with other numbers, an image that they exceed, and channels that are not padded.
GRIDS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 13, 10), (64, 3, 7, 5), {"padding": (3, 0), "stride": 2}),
    ((1, 2, 9, 8), (72, 2, 3, 3), {"padding": 1, "stride": (3, 2)}),
    ((1, 4, 9, 8), (64, 4, 1, 2), {"stride": (2, 1)}),
]


@pytest.mark.parametrize(
    "number, last, halves",
    [
        (0, True, 1),
        *(
            pytest.param(n, last, halves, marks=pytest.mark.thorough)
            for n, last, halves in ((0, False, 1), (0, True, 2), (1, True, 1), (1, False, 1), (2, True, 1))
        ),
    ],
)
def test_grids_of_images_of_few_channels(
    mapped: Callable[..., list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    last: bool,
    halves: int,
) -> None:
    """By one convolution of few filters, of which one band is in shared memory at a time."""
    monkeypatch.setattr(grids, "has_maps", lambda of: True)
    used = mapped(shifted, "_form", lambda one: (one.tile_n, one.halves, one.image_stages) == (16, halves, 1))
    x, w, options = GRIDS[number]
    check(x, w, "bfloat16", last=last, **options)
    assert any(used) == (number == 0)


def test_which_gradients_are_of_grids() -> None:
    dy, w = ck.zeros((1, 64, 4, 4), "bfloat16"), ck.zeros((64, 3, 7, 7), "bfloat16")
    two = geometry.Windows((2, 2), (3, 3), (1, 1))
    assert grids.fits(dy, w, two)
    assert not grids.fits(dy.astype("float32"), w, two) and not grids.fits(dy[:0], w, two)
    assert not grids.fits(dy, w, two._replace(stride=(1, 1))) and not grids.fits(dy, w[:32], two)
    assert not grids.fits(dy, ck.zeros((64, 9, 3, 3), "bfloat16"), two)


#: Planes of which 1, 2, 4 and 8 elements are stored at a time, and bands that end within them.
PLANES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 16, 14, 14), (72, 16, 3, 3), {"padding": 1}),
    ((3, 24, 7, 7), (16, 24, 3, 3), {"padding": 1}),
    ((1, 72, 9, 30), (24, 72, 2, 3), {"padding": (0, 2), "dilation": (2, 1)}),
]


@pytest.mark.parametrize(
    "number, tile_n, halves",
    [
        (0, 64, 1),
        *(pytest.param(n, 64, 2, marks=pytest.mark.thorough) for n in range(len(PLANES))),
        *(pytest.param(n, 128, 2, marks=pytest.mark.thorough) for n in range(len(PLANES))),
        pytest.param(1, 16, 1, marks=pytest.mark.thorough),
    ],
)
def test_outputs_whose_pixels_lie_innermost(
    mapped: Callable[..., list[Any]], number: int, tile_n: int, halves: int
) -> None:
    used = mapped(shifted, "_form", lambda one: (one.tile_n, one.halves) == (tile_n, halves))
    x, w, options = PLANES[number]
    check(x, w, "bfloat16", **options)
    assert any(one and one.access for one in used)
