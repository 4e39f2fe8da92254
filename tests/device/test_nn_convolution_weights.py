"""Every variant of the gradients of convolutions' weights against their definition in NumPy, in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from convolution_support import Definition, innermost, several
from nn_support import Sized, close, epsilon, random

import cukern as ck
from cukern import dtypes
from cukern.array.layout import fresh_layout
from cukern.device.interface import Properties
from cukern.launch.family import STAND_IN
from cukern.linear import panels
from cukern.nn.convolution import families, problem
from cukern.nn.convolution.gradients import SimtWeights, TensorCoresWeights
from cukern.nn.convolution.problem import WeightsGradient, Windows, channels_last_layout

FAMILY = families.WEIGHTS_GRADIENT
Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]


def windows_of(axes: int, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Windows:
    return Windows(several(stride, axes), several(padding, axes), several(dilation, axes), groups)


def check(
    x: tuple[int, ...],
    w: tuple[int, ...],
    dtype: str = "float32",
    last: bool = False,
    ulps: float | None = None,
    last_result: bool | None = None,
    wanted: dtypes.DType | None = None,
    **options: Any,
) -> None:
    """The gradient of weights of a shape, for an image of a shape, in the memory order of the image."""
    axes = len(w) - 2
    of = Definition(axes, **options)
    image = random(0, x, dtype)
    output = random(1, (x[0], w[0], *of.output(x[2:], w[2:])), dtype)
    if last:
        image, output = innermost(image), innermost(output)
    compare(output, image, w[2:], last if last_result is None else last_result, ulps, wanted, **options)


def compare(
    output: ck.Array,
    image: ck.Array,
    kernel: tuple[int, ...],
    last: bool,
    ulps: float | None = None,
    wanted: dtypes.DType | None = None,
    **options: Any,
) -> None:
    of, windows = Definition(len(kernel), **options), windows_of(len(kernel), **options)
    found = families.weights_gradient(output, image, windows, kernel, last, wanted)
    d, a = (one.numpy().astype(np.float64) for one in (output, image))
    right = of.weights(d, a, kernel)
    assert found.dtype == (output.dtype if wanted is None else wanted) and found.shape == right.shape
    # The results are sums of products: the squares of the terms show the size of what is rounded.
    close(found, Sized(right, np.sqrt(of.weights(d * d, a * a, kernel))), ulps)
    if not last:
        assert found._planned().contiguous
    elif found.shape[1] > 1 and found.size and max(kernel) > 1:
        assert found.strides[1] == found.itemsize


def problem_of(
    device: ck.Device,
    dtype: Any = "float32",
    batch: int = 64,
    channels: int = 128,
    filters: int | None = None,
    size: int = 28,
    kernel: int = 3,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    last: bool = False,
    precision: str = "highest",
) -> WeightsGradient:
    """The gradient of weights, by default of as many filters as channels; padded by half a window."""
    elem, layout = ck.zeros(0, dtype).dtype, channels_last_layout if last else fresh_layout
    windows = windows_of(2, stride, kernel // 2, dilation, groups)
    out = Definition(2, stride, kernel // 2, dilation).output((size, size), (kernel, kernel))
    image = layout(device, elem, (batch, channels, size, size))
    output = layout(device, elem, (batch, filters or channels, *out))
    return WeightsGradient(output, image, windows, (kernel, kernel), last, elem, precision)


def skip_without(device: ck.Device, major: int) -> None:
    if device.kind == "cuda" and device.properties.compute_capability[0] != major:
        pytest.skip(f"the instructions of compute capability {major}.0")


#: Padding and strides, dilation, groups, one and three axes, and an empty batch.
CASES: list[Case] = [
    ((2, 3, 7, 6), (4, 3, 3, 3), {"padding": 1}),
    ((2, 3, 9, 8), (5, 3, 3, 2), {"padding": (2, 1), "stride": (2, 3), "dilation": (1, 2)}),
    ((2, 6, 9, 8), (4, 3, 3, 2), {"groups": 2, "stride": 2}),
    ((1, 3, 5, 6), (2, 3, 1, 1), {"stride": 3}),
    ((2, 3, 6), (2, 3, 3), {"padding": 5, "dilation": 4}),
    ((2, 2, 5, 6, 4), (3, 2, 2, 3, 2), {"stride": (1, 2, 1), "padding": 1}),
    ((0, 3, 7, 6), (4, 3, 3, 3), {}),
    ((2, 0, 7, 6), (4, 0, 3, 3), {}),
]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_portable(device: ck.Device, number: int, last: bool) -> None:
    x, w, options = CASES[number]
    with FAMILY.only("portable") as used:
        check(x, w, last=last, **options)
    assert len(used) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_portable_dtypes(device: ck.Device, dtype: str) -> None:
    with FAMILY.only("portable"):
        check((2, 3, 7, 6), (4, 3, 3, 3), dtype, padding=1)


@pytest.mark.parametrize("tile", [(128, 64, 8, 4, 16), (64, 160, 8, 4, 20), (64, 64, 4, 4, 16)], ids=str)
def test_portable_tiles_of_many_threads(device: ck.Device, tile: tuple[int, ...]) -> None:
    """Those of a GPU, with parts of the pixels."""
    fields: dict[str, Any] = dict(zip(("tile_m", "tile_n", "items_m", "items_n", "depth"), tile, strict=True))
    for last in (False, True):
        with FAMILY.only("portable", limits=STAND_IN, splits=2, **fields) as used:
            check((2, 5, 9, 8), (20, 5, 3, 2), last=last, padding=(2, 1), stride=(1, 2))
        assert [one.splits for one in used] == [2]


#: Channels that are no multiples of a unit, filters, pixels without a tap, and groups.
SIMT: list[Case] = [
    ((2, 52, 6, 6), (38, 52, 3, 3), {"padding": 1}),
    ((2, 48, 9, 8), (36, 48, 1, 2), {"padding": (2, 1), "stride": (1, 3)}),
    ((2, 128, 5, 4), (72, 64, 2, 3), {"groups": 2, "padding": 1, "dilation": 2}),
    ((1, 49, 3, 4, 5), (40, 49, 2, 1, 2), {"stride": 2, "padding": 3}),
    ((3, 49, 5), (36, 49, 4), {"padding": 6}),
]
SIMT_TILES = [(128, 64, 8, 8, 3), (64, 128, 8, 8, 3), (64, 64, 8, 4, 4), (128, 128, 8, 16, 2)]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("number", "tile"),
    [
        (0, 2),
        *(
            pytest.param(*one, marks=pytest.mark.thorough)
            for one in itertools.product(range(len(SIMT)), range(len(SIMT_TILES)))
            if one != (0, 2)
        ),
    ],
)
def test_simt(device: ck.Device, number: int, tile: int, last: bool) -> None:
    """Every tile, with parts of the pixels."""
    x, w, options = SIMT[number]
    fields: dict[str, Any] = dict(
        zip(("tile_m", "tile_n", "items_m", "items_n", "resident"), SIMT_TILES[tile], strict=True)
    )
    if last and (x[1] % 4 or w[0] % 4):  # they are not copied in packs
        x, w = (x[0], x[1] // 4 * 4, *x[2:]), (w[0] // 4 * 4, w[1] // 4 * 4, *w[2:])
    with FAMILY.only("simt", splits=2, **fields) as used:
        check(x, w, last=last, **options)
    assert len(used) == 1 and isinstance(used[0], SimtWeights)


def test_what_simt_refuses(device: ck.Device) -> None:
    """Negative offsets of the output, arrays in different orders, channels that are not read in packs."""
    dy, x = random(4, (2, 32, 4, 5), "float32"), random(5, (2, 64, 4, 5), "float32")

    def why(output: ck.Array, image: ck.Array) -> str:
        layouts = output._planned(), image._planned()
        own = WeightsGradient(*layouts, windows_of(2), (1, 1), False, output.dtype, "highest")
        return SimtWeights.fits(own, STAND_IN)

    assert not why(dy, x) and not why(innermost(dy), innermost(x))
    assert "offsets" in why(dy[..., ::-1], x)
    assert "innermost" in why(innermost(dy), x) and "innermost" in why(dy, innermost(x))
    assert "innermost" in why(innermost(dy), innermost(random(5, (2, 63, 4, 5), "float32")))
    assert "float32" in why(dy.astype("float64"), x.astype("float64"))
    assert "filters" in why(dy[:, :31], x) and "channels" in why(dy, x[:, :40])


def test_portable_reads_reversed_arrays(device: ck.Device) -> None:
    dy, x = random(4, (2, 6, 4, 5), "float32")[..., ::-1], random(5, (2, 5, 4, 5), "float32")[:, :, ::-1]
    with FAMILY.only("portable"):
        compare(dy, x, (1, 1), False)


#: Channels that fill 16 bytes, that do not and are padded, and groups.
ALIGNED: list[Case] = [
    ((2, 8, 9, 8), (16, 8, 3, 3), {"padding": 1}),
    ((3, 3, 9, 8), (20, 3, 3, 3), {"padding": 1, "stride": 2}),
    ((2, 16, 6, 7), (32, 8, 3, 2), {"groups": 2, "padding": 1, "dilation": 2}),
    ((1, 16, 3, 4, 5), (24, 16, 1, 1, 1), {"stride": 2}),
    ((3, 5, 7), (7, 5, 1), {}),
]
TILES = TensorCoresWeights.tiles_of_halves
TILE_FIELDS = ("tile_m", "tile_n", "warps_m", "warps_n", "stages", "grouped")
#: The tiles of tests that are always run: the smallest of warpgroups, and of warps.
QUICK = (2, 4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "number", [pytest.param(i, marks=() if i in QUICK else pytest.mark.thorough) for i in range(len(TILES))]
)
def test_tensor_cores(device: ck.Device, number: int, dtype: str) -> None:
    """Every tile, with parts of the pixels whose sums are added up."""
    fields: dict[str, Any] = dict(zip(TILE_FIELDS, (*TILES[number], False), strict=False))
    if fields["grouped"]:
        skip_without(device, 9)
    few = ALIGNED if number == QUICK[1] or device.kind == "cuda" else ALIGNED[:1]
    for i, (x, w, options) in enumerate(few):
        with FAMILY.only("tensor cores", splits=1 if i else 2, **fields) as used:
            check(x, w, dtype, last=i % 2 == 0, **options)
        assert len(used) == 1


def test_rounded_to_tf32(device: ck.Device) -> None:
    for tile in ((128, 128, 2, 4, 3), (64, 64, 2, 2, 4)):
        fields: dict[str, Any] = dict(zip(TILE_FIELDS, tile, strict=False))
        with ck.matmul_precision("tf32"), FAMILY.only("tensor cores", **fields) as used:
            check((2, 8, 5, 6), (12, 8, 3, 3), last=True, padding=1, ulps=2**13)
        assert len(used) == 1


def test_tensor_cores_sum_up_no_pixels(device: ck.Device) -> None:
    with FAMILY.only("tensor cores") as used:
        check((0, 64, 5, 6), (64, 64, 3, 3), "bfloat16", last=True, padding=1)
    assert not used[0].grouped


#: Images whose bands end within them and are odd in number, channels beyond a line, and windows that reach far.
BANDS: list[Case] = [
    ((3, 64, 5, 14), (72, 64, 3, 3), {"padding": 1}),
    ((1, 72, 9, 30), (64, 72, 2, 3), {"padding": (0, 2), "dilation": (2, 1)}),
    ((2, 72, 8, 9), (64, 72, 3, 2), {"padding": 1, "stride": 2}),
    ((2, 64, 8, 6), (64, 64, 3, 3), {"padding": 1, "stride": 2}),
]


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (0, "bfloat16"),
        (2, "float16"),
        *(pytest.param(*one, marks=pytest.mark.thorough) for one in ((1, "bfloat16"), (3, "float16"))),
    ],
)
def test_tma(device: ck.Device, number: int, dtype: str) -> None:
    skip_without(device, 9)
    x, w, options = BANDS[number]
    for last, multiprocessors in ((True, 12), (False, 2)):
        with FAMILY.only("tma", limits=STAND_IN._replace(multiprocessors=multiprocessors)) as used:
            check(x, w, dtype, last=last, **options)
        assert len(used) == 1


@pytest.mark.parametrize(
    ("cluster", "splits"),
    [(2, 2), pytest.param(4, 1, marks=pytest.mark.thorough), pytest.param(1, 4, marks=pytest.mark.thorough)],
)
def test_blocks_of_a_cluster_add_up(device: ck.Device, cluster: int, splits: int) -> None:
    """Sums of four parts of the pixels, of which clusters leave two or one."""
    skip_without(device, 9)
    with FAMILY.only("tma", cluster=cluster, splits=splits) as used:
        check((4, 64, 5, 6), (72, 64, 3, 3), "bfloat16", last=True, padding=1)
    assert [(one.cluster, one.splits) for one in used] == [(cluster, splits)]


def test_what_tma_refuses(device: ck.Device) -> None:
    variant = FAMILY.variants["tma"]

    def why(dtype: str = "bfloat16", limits: Properties = STAND_IN, size: int = 9, **given: Any) -> str:
        own = problem_of(device, dtype, size=size, last=True, **given)
        return variant.refusal(own, limits)

    assert not why() and not why(stride=2) and not why(dilation=2) and not why(stride=2, kernel=2)
    for one in (
        why("float32"),
        why("float64"),
        why(stride=3),
        why(stride=2, dilation=2),
        why(kernel=1),
        why(groups=2),
    ):
        assert "16-bit floats, windows of two axes that move by one pixel or two" in one
    for one in (why(filters=56), why(channels=48), why(kernel=4)):
        assert "at most 9 taps and at least 64 channels" in one
    assert "capability 9 alone" in why(limits=STAND_IN._replace(compute_capability=(10, 0)))
    assert "shared memory" in why(size=400) and "nothing" in why(batch=0)
    own = problem_of(device, "bfloat16", batch=2, size=9, last=True)
    repeated = ck.broadcast_to(
        ck.zeros((1, 9, 9, 128), "bfloat16"), (2, 9, 9, 128)
    )  # maps have no strides of 0
    assert "maps" in variant.fits(own._replace(image=ck.moveaxis(repeated, -1, 1)._planned()), STAND_IN)


#: Windows of one element, of which the last is large beside the product of a batch's element.
POINTWISE: list[Case] = [
    ((2, 8, 5, 6), (12, 8, 1, 1), {}),
    ((3, 5, 7), (7, 5, 1), {}),
    ((2, 4, 2, 3, 4), (6, 4, 1, 1, 1), {"dilation": 2}),
    ((5, 3, 16, 20), (4, 3, 1, 1), {}),
]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_matrix_products(device: ck.Device, dtype: str) -> None:
    for x, w, options in POINTWISE:
        first = x == POINTWISE[-1][0] and device.kind == "cuda" and dtype != "float64"
        for last in (True, False) if first else (True,):
            with FAMILY.only("matrix product") as used:
                check(x, w, dtype, last=last, **options)
            assert len(used) == 1


#: The roundings of a result: of sums of transformed tiles, which are larger than it.
TRANSFORMED = 128
#: Planes of whole tiles, and whose rows and columns end within one; padding of one, and larger than a window's.
TRANSFORMS: list[Case] = [
    ((2, 17, 7, 6), (18, 17, 3, 3), {"padding": 1}),
    ((3, 20, 4, 12), (16, 20, 3, 3), {"padding": 1}),
    ((1, 16, 4, 4), (16, 16, 3, 3), {"padding": (3, 0)}),
    ((2, 16, 1, 7, 6), (17, 16, 1, 3, 3), {"padding": (0, 1, 1)}),
]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("number", range(len(TRANSFORMS)))
def test_winograd(device: ck.Device, number: int, last: bool) -> None:
    x, w, options = TRANSFORMS[number]
    with FAMILY.only("winograd") as used:
        check(x, w, last=last, ulps=TRANSFORMED, **options)
    assert len(used) == 1


@pytest.mark.parametrize("last", [False, True])
def test_winograd_by_parts_of_the_batch_and_of_tiles(device: ck.Device, last: bool) -> None:
    """As of large arrays, and for as many multiprocessors as a GPU has."""
    with FAMILY.only("winograd", images=2, parts=3) as used:
        check((3, 20, 9, 12), (16, 20, 3, 3), last=last, padding=1, ulps=TRANSFORMED)
    assert [(one.images, one.parts) for one in used] == [(2, 3)]


def test_arrays_of_different_orders(device: ck.Device) -> None:
    """Of output, image and result, by every variant that takes them."""
    shapes = {"float32": ((2, 64, 5, 6), (2, 64, 7, 8)), "bfloat16": ((2, 64, 5, 6), (2, 72, 7, 8))}
    for dtype, (of_output, of_image) in shapes.items():
        dy, x = random(0, of_output, dtype), random(1, of_image, dtype)
        names = ("winograd", "portable") if dtype == "float32" else ("tma", "tensor cores", "portable")
        for name, (output, image, last) in itertools.product(
            names, ((innermost(dy), x, True), (dy, innermost(x), False), (dy, x[..., ::-1], True))
        ):
            if name in ("tma", "tensor cores"):
                skip_without(device, 9)
            with FAMILY.only(name) as used:
                compare(output, image, (3, 3), last, TRANSFORMED if name == "winograd" else None)
            assert len(used) == 1


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("dtype", "filters", "kernel", "groups"),
    [("bfloat16", 3, 3, 1), ("float16", 2, 3, 2), ("bfloat16", 3, 1, 1)],
)
def test_halves_are_rounded_once(
    device: ck.Device,
    few_pixels: None,
    dtype: str,
    filters: int,
    kernel: int,
    groups: int,
    last: bool,
) -> None:
    padding = kernel // 2
    dy, x = random(0, (40, filters, 4, 4), dtype), random(1, (40, 2, 4, 4), dtype)
    windows = windows_of(2, padding=padding, groups=groups)
    output, image = (innermost(one) if last else one for one in (dy, x))
    found = families.weights_gradient(output, image, windows, (kernel,) * 2, last)
    d, a = (one.numpy().astype(np.float64) for one in (dy, x))
    right = Definition(2, padding=padding, groups=groups).weights(d, a, (kernel,) * 2)
    assert found.dtype == dy.dtype
    error = np.abs(found.numpy().astype(np.float64) - right) / np.abs(right)
    assert error.max() < 0.51 * epsilon(dtype)


@pytest.mark.parametrize("name", ["portable", "tensor cores", "tma"])
@pytest.mark.parametrize("splits", [1, 2])
def test_sums_that_are_not_rounded(device: ck.Device, name: str, splits: int) -> None:
    if name != "portable":
        skip_without(device, 9)
    fields: dict[str, Any] = {"cluster": 1} if name == "tma" else {}
    with FAMILY.only(name, splits=splits, **fields) as used:
        check((4, 64, 6, 6), (64, 64, 3, 3), "bfloat16", True, wanted=dtypes.float32, padding=1)
    assert len(used) == 1


def test_offsets_of_64_bits(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of arrays with more than 2**31 elements."""
    monkeypatch.setattr(problem, "LARGEST_INDEX", 100)
    with FAMILY.only("portable"):
        check((2, 3, 5, 6), (4, 3, 3, 2), padding=1, stride=2)
        with pytest.raises(ValueError, match="at most 100 pixels, got 120"):
            check((4, 3, 5, 6), (4, 3, 1, 3), padding=(0, 1))
    if device.kind == "host" or device.properties.compute_capability >= (8, 0):
        with FAMILY.only("tensor cores"):
            check((2, 8, 5, 6), (8, 8, 3, 2), "bfloat16", padding=1, stride=2)


#: What computes a gradient of 64 images of 28 x 28 pixels on an H200, by the dtype, the windows and the channels.
CHOSEN: list[tuple[str, dict[str, Any]]] = [
    ("winograd", {}),
    ("winograd", {"channels": 32}),
    ("simt", {"stride": 2}),
    ("simt", {"kernel": 5}),
    ("simt", {"dilation": 2}),
    ("simt", {"precision": "direct"}),
    ("simt", {"groups": 2}),
    ("simt", {"kernel": 1}),
    ("matrix product", {"kernel": 1, "last": True}),
    ("tensor cores", {"kernel": 1, "last": True, "dtype": "bfloat16"}),
    ("portable", {"channels": 16, "kernel": 5}),
    ("portable", {"dtype": "float64"}),
    ("portable", {"dtype": "float32", "channels": 2}),
    ("tensor cores", {"precision": "tf32"}),
    ("tma", {"dtype": "bfloat16"}),
    ("tma", {"dtype": "float16", "stride": 2, "last": True}),
    ("tensor cores", {"dtype": "bfloat16", "kernel": 5}),
    ("tensor cores", {"dtype": "bfloat16", "channels": 32}),
    ("tensor cores", {"dtype": "bfloat16", "groups": 2}),
    ("portable", {"dtype": "bfloat16", "groups": 32}),
]


@pytest.mark.parametrize("number", range(len(CHOSEN)))
def test_what_is_chosen_on_a_gpu(number: int) -> None:
    """For arrays of the host, laid out for a stand-in."""
    name, given = CHOSEN[number]
    own = problem_of(ck.zeros(0, device="host").device, **given)
    found = [FAMILY._choice(one, own, STAND_IN) for one in FAMILY.variants.values()]
    assert min((one for one in found if not one.why), key=lambda one: one.predicted).variant == name


def test_what_is_chosen_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two threads, of a processor with wide vectors and of another."""
    host = ck.zeros(0, device="host").device
    limits = host.properties._replace(multiprocessors=2)

    def chosen(channels: int = 64, kernel: int = 3, last: bool = False, size: int = 32) -> str:
        own = problem_of(host, batch=2, channels=channels, size=size, kernel=kernel, last=last)
        with FAMILY.only(*FAMILY.variants, limits=limits):
            return next(one.variant for one in FAMILY.choices(own) if one.chosen)

    for features, many in ((frozenset({"avx512f"}), "panels"), (frozenset[str](), "winograd")):
        monkeypatch.setattr(panels, "features", lambda features=features: features)
        assert chosen() == chosen(kernel=5) == chosen(channels=7) == chosen(last=True) == "panels"
        assert chosen(channels=512) == many
