"""Convolutions whose kernels load images by tensor maps: once, by strides, of few channels; the order of outputs."""

from __future__ import annotations

from typing import Any

import pytest
from convolution_support import check

import cukern as ck
from cukern.launch.family import STAND_IN, Used
from cukern.nn.convolution.families import CONVOLUTION, WEIGHTS_GRADIENT
from cukern.nn.convolution.problem import Convolution, Windows, channels_last_layout
from cukern.nn.convolution.tma import Bands, Strided


@pytest.fixture(autouse=True)
def hopper(device: ck.Device) -> None:
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("the instructions of sm_90a")


def checked(names: tuple[str, ...], case: tuple[Any, ...], last: bool, **fields: Any) -> Used:
    """What has computed a convolution and the gradient of its image."""
    x, w, options = case
    with CONVOLUTION.only(*names, **fields) as used, WEIGHTS_GRADIENT.only("portable"):
        check(x, w, "bfloat16", last=last, **options)
    return used


#: Images whose bands end within them and are odd in number, channels beyond a stage, and windows that reach far.
BANDS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
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
def test_bands_are_loaded_once_for_all_taps(device: ck.Device, number: int, halves: int) -> None:
    used = checked(("tma bands", "portable"), BANDS[number], True, halves=halves)
    kinds = [isinstance(one, Bands) and one.halves == halves for one in used]
    assert kinds == [number != 2, True]  # a convolution by several pixels has no bands


@pytest.mark.parametrize(
    ("width", "halves", "last"),
    [
        (70, 2, True),
        (64, 2, False),
        *(
            pytest.param(*one, marks=pytest.mark.thorough)
            for one in ((64, 1, True), (63, 2, True), (130, 1, True))
        ),
    ],
)
def test_halves_of_rows_of_their_own(device: ck.Device, width: int, halves: int, last: bool) -> None:
    """Rows that are longer than 64 pixels with their halo, of an odd number, and segments of longer ones."""
    case = ((1, 72, 3, width), (24, 72, 3, 3), {"padding": 1})
    used = checked(("tma bands", "portable"), case, last, halves=halves, apart=True)
    assert all(isinstance(one, Bands) and one.apart and one.halves == halves for one in used)
    assert len(used) == 2


def test_rows_that_fill_halves() -> None:
    """Of 64 pixels none is wasted; shorter rows follow each other."""
    chosen = {}
    for width in (64, 32, 256):
        problem = problem_of((32, 128, 64, width))
        best = min(Bands.configs(problem, STAND_IN), key=lambda one: one.cost(problem, STAND_IN))
        chosen[width] = best.apart, best.band
    assert chosen == {64: (True, 2), 32: (False, 3), 256: (True, 2)}


def problem_of(x: tuple[int, ...], strides: tuple[int, ...] | None = None, **windows: Any) -> Convolution:
    """One of bfloat16 with channels last, with 64 filters of 3 x 3."""
    device = ck.Device("host")
    weights = channels_last_layout(device, ck.dtypes.bfloat16, (64, x[1], 3, 3))
    image = channels_last_layout(device, ck.dtypes.bfloat16, x)
    if strides is not None:
        one = ck.zeros(x[1:], "bfloat16", "host")
        one = ck.moveaxis(ck.moveaxis(one, 0, -1).contiguous(), -1, 0)
        image = ck.broadcast_to(one, x)._planned()
    given = Windows((1, 1), (1, 1), (1, 1))._replace(**windows)
    return Convolution(image, weights, given, x[2:], False, True, None, "highest")


def test_images_that_share_memory_are_not_loaded_by_maps() -> None:
    """Maps have no strides of 0."""
    assert not Bands.fits(problem_of((2, 64, 5, 5)), STAND_IN)
    shared = problem_of((2, 64, 5, 5), strides=(0,))
    assert shared.x.strides[0] == 0
    assert "maps do not lead to the arrays" in Bands.fits(shared, STAND_IN)
    assert Bands.fits(problem_of((2, 64, 5, 5), groups=2), STAND_IN)


#: Bands of several images and of parts of one, odd in number; planes and phases of different sizes; taps in any order.
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
    device: ck.Device, number: int, tile_n: int, halves: int
) -> None:
    """Forward, and all phases of a gradient in one launch."""
    used = checked(("tma strided",), STRIDED[number], True, tile_n=tile_n, halves=halves)
    assert [(one.tile_n, one.halves) for one in used] == [(tile_n, halves)] * 2


def test_what_windows_that_move_by_several_pixels_fit() -> None:
    """Not those that move by one, a phase without a tap, planes that the image lacks, nor too many for arguments."""
    device = ck.Device("host")

    def fits(step: int, padding: int, kernel: int = 3, transposed: bool = False) -> bool:
        windows = Windows((step,) * 2, (padding,) * 2, (1, 1))
        image, output = (channels_last_layout(device, ck.dtypes.bfloat16, (2, 64, n, n)) for n in (9, 5))
        weights = channels_last_layout(device, ck.dtypes.bfloat16, (64, 64, kernel, kernel))
        x, size = (output, (9, 9)) if transposed else (image, (5, 5))
        given = Convolution(x, weights, windows, size, transposed, True, None, "highest")
        return not Strided.fits(given, STAND_IN)

    assert fits(2, 1) and fits(2, 1, transposed=True) and fits(2, 0, kernel=1)
    assert not fits(1, 1) and not fits(2, 0, kernel=1, transposed=True) and not fits(10, 1)
    assert fits(4, 1, kernel=4) and not fits(6, 1, kernel=4)


def test_a_band_of_windows_that_move_by_several_pixels_has_a_row_at_least() -> None:
    """Of rows of more than 64 pixels, that is a tile of two halves, of at most 128 filters."""
    wide = problem_of((2, 64, 201, 201), stride=(2, 2), padding=(0, 0))._replace(size=(100, 100))
    assert [(one.tile_n, one.halves) for one in Strided.configs(wide, STAND_IN)] == [(64, 2), (128, 2)]


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
def test_outputs_whose_pixels_lie_innermost(device: ck.Device, number: int, tile_n: int, halves: int) -> None:
    used = checked(("tma bands", "portable"), PLANES[number], False, tile_n=tile_n, halves=halves)
    assert any(isinstance(one, Bands) and one.access for one in used)
