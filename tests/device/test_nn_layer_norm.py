"""Layer normalization against its reference, NumPy and finite differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from nn_support import DTYPE_NAMES, Sized, check_equal, close, gpu_limits, only_like, random, sized

import cukern as ck
from cukern import nn
from cukern.cli.tune import measure
from cukern.kernel.arguments import address
from cukern.launch.family import STAND_IN, Family
from cukern.launch.variant import Variant
from cukern.nn.layer_norm import function
from cukern.nn.layer_norm import reference as references
from cukern.nn.layer_norm.families import GRADIENT, LAYER_NORM, launch_backward, launch_forward
from cukern.nn.layer_norm.problem import Normalization
from cukern.nn.layer_norm.reference import layer_norm_reference as reference
from cukern.nn.layer_norm.variants import GradientPacks, Registers, TwoPasses
from cukern.testing import gradcheck

CONFIGS = [
    pytest.param(TwoPasses(1, 1, 16), id="a thread a row"),
    pytest.param(Registers(8, 16, 1, chunks=16), id="8 threads a row"),
    pytest.param(Registers(32, 4, 4), id="a warp a row"),
    pytest.param(Registers(32, 4, 4, ahead=True), id="a warp a row, weight and bias ahead"),
    pytest.param(Registers(128, 1, 1), id="a block a row"),
    pytest.param(TwoPasses(64, 1, 1), id="a block a row, read again"),
    pytest.param(TwoPasses(1, 1, 4, tile=32), id="a thread a row, several tiles"),
]


def numpy_layer_norm(x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def exact(x: Any, dy: Any, weight: Any = None, bias: Any = None) -> list[Sized]:
    """The result and the gradients by x, weight and bias; the kernels take each row less its first element."""
    scale = np.ones(x.shape[-1]) if weight is None else weight
    shift = np.zeros(x.shape[-1]) if bias is None else bias
    wide = np.asarray(x).astype(np.float64)

    def formula(x: np.ndarray, dy: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> list[np.ndarray]:
        normal, g = numpy_layer_norm(x), dy * scale
        dx = g - g.mean(-1, keepdims=True) - normal * (g * normal).mean(-1, keepdims=True)
        dx /= np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return [normal * scale + shift, dx, (dy * normal).sum(0), dy.sum(0)]

    found: list[Sized] = sized(formula, wide - wide[:, :1], dy, scale, shift)
    return found


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("affine", [(True, True), (False, False)], ids=["affine", "plain"])
def test_equals_the_reference(device: ck.Device, dtype: str, affine: tuple[bool, bool]) -> None:
    shapes = [(5, 3, 37), *((37,) for present in affine if present)]
    arrays = [random(i, shape, dtype) for i, shape in enumerate(shapes)]
    check_equal(
        lambda x, *own: nn.layer_norm(x, 37, *own),
        lambda x, *own: reference(x, 1, *own),
        arrays,
    )


def check_a_launch(
    config: Variant[Normalization], device: ck.Device, rows: int, columns: int, dtype: str = "float32"
) -> None:
    """The result, where the forward pass has the variant, and the gradients."""
    x, dy = random(0, (rows, columns), dtype), random(1, (rows, columns), dtype)
    weight, bias = random(2, (columns,), dtype), random(3, (columns,), dtype)
    limits = gpu_limits(device, clusters=8) if config.needs > (0, 0) else None
    wanted = exact(x, dy, weight, bias)
    forward = LAYER_NORM if config.name in LAYER_NORM.variants else None
    with only_like(forward or GRADIENT, config, limits) as used:
        y, statistics = launch_forward(x, weight, bias, 1e-5, columns)
    assert used == [config] * (forward is not None)
    close(y, wanted[0])
    close(statistics[:, 0], sized(lambda x: (x - x[:, :1]).mean(-1), x))
    of_gradient = config if config.name in GRADIENT.variants else TwoPasses(64, 1, 1)
    with only_like(GRADIENT, of_gradient, limits) as used:
        gradients = launch_backward(x, dy, weight, statistics, columns)
    (own,) = map(GRADIENT.fields, used)
    assert own.items() <= GRADIENT.fields(of_gradient).items()
    for one, want in zip(gradients, wanted[1:], strict=True):
        close(one, want)


@pytest.mark.parametrize("config", CONFIGS)
def test_each_launch_shape(device: ck.Device, config: Variant[Normalization]) -> None:
    check_a_launch(config, device, 19, 100)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("variant", GRADIENT.variants)
def test_every_variant_in_every_dtype(device: ck.Device, variant: str, dtype: str) -> None:
    x, dy, weight, bias = (random(i, (11, 104)[i // 2 :], dtype) for i in range(4))
    by_x, *others = exact(x, dy, weight, bias)
    forward = LAYER_NORM.only(variant if variant in LAYER_NORM.variants else "registers")
    for summed in (True, False):
        with forward if summed else LAYER_NORM.only("two passes"), GRADIENT.only(variant) as used:
            y, statistics = launch_forward(x, weight, bias, 1e-5, 104)
            found = launch_backward(x, dy, weight, statistics, 104, (summed, summed))
        assert [one.name for one in used] == [variant]
        close(y, by_x)
        for one, want in zip(found, others if summed else [others[0], None, None], strict=True):
            assert (one is None) == (want is None)
            if one is not None:
                close(one, want)


@pytest.mark.parametrize("family", [LAYER_NORM, GRADIENT], ids=lambda one: one.name)
def test_results_are_what_the_reference_says(
    device: ck.Device, family: Family[Normalization], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every variant that fits, as ``python -m cukern tune`` compares them."""
    monkeypatch.setattr(references, "_MOST", 2**17)
    monkeypatch.setattr(references, "_MOST_ON_HOST", 2**17)
    entries, refused = measure(family, device, 12, 1, 1, 60)
    assert refused == [] and len(entries) == 12
    assert all(one.variants for one in entries)


#: Every length in float32, and of each other size of element part of a warp, a warp or a block.
_USUAL = {(8, "bfloat16"), (104, "float16"), (1000, "float64"), (2560, "bfloat16")}
_PACKED = [
    pytest.param(
        columns,
        dtype,
        marks=() if dtype == "float32" or (columns, dtype) in _USUAL else pytest.mark.thorough,
    )
    for columns in (8, 104, 1000, 1280, 2048, 2560)
    for dtype in DTYPE_NAMES
]


@pytest.mark.parametrize("columns, dtype", _PACKED)
def test_rows_of_packs(device: ck.Device, columns: int, dtype: str) -> None:
    """Rows of part of a warp, of a warp and of a block, taken in turn, with and without weight and bias."""
    rows = 67
    x, dy = random(0, (rows, columns), dtype), random(1, (rows, columns), dtype)
    weight, bias = random(2, (columns,), dtype), random(3, (columns,), dtype)
    _, statistics = launch_forward(x, weight, bias, 1e-5, columns)
    cases = [
        (weight, (True, True)),
        (weight, (False, True)),
        (weight, (False, False)),
        (None, (False, True)),
        (None, (False, False)),
    ]
    for scaled, wanted in cases:
        with GRADIENT.only("packs", limits=gpu_limits(device)):
            found = launch_backward(x, dy, scaled, statistics, columns, wanted)
        for want, made, expected in zip((True, *wanted), found, exact(x, dy, scaled)[1:], strict=True):
            assert (made is not None) == want
            if made is not None:
                close(made, expected)


@pytest.mark.parametrize("columns, turn", [(4, 4), (16, 3), (260, 3), (1280, 3), (1280, 2)])
def test_rows_of_a_turn(device: ck.Device, columns: int, turn: int) -> None:
    """As many as lanes share evenly and others, the last turn short of a row or more."""
    (config,) = GradientPacks.of(columns, 4, gpu_limits(device), True)
    check_a_launch(replace(config, turn=turn, resident=1), device, 2 * turn + 1, columns)


@pytest.mark.parametrize("rows, columns", [(7, 8000), (133, 760)])
def test_rows_that_registers_do_not_hold(device: ck.Device, rows: int, columns: int) -> None:
    """Those of a block, and those of a warp, are read again from shared memory."""
    turns: Any = {"stages": 2, "turn": 2 if rows < 8 else 4}
    config = GradientPacks(512, 1, 8, 1, 2, **turns) if rows < 8 else GradientPacks(32, 8, 8, 1, 3, **turns)
    assert not config.keeps_row
    if config.shared > device.properties.max_shared_memory_per_block:
        pytest.skip("needs a GPU with more shared memory")
    check_a_launch(config, device, rows, columns, "bfloat16")


def packs(
    columns: int, itemsize: int, clusters: int = 1, memory: int = 227 * 1024, sums: bool = True
) -> GradientPacks | None:
    limits = STAND_IN._replace(max_blocks_per_cluster=clusters, max_shared_memory_per_block=memory)
    return next(GradientPacks.of(columns, itemsize, limits, sums), None)


def test_rows_of_packs_by_length() -> None:
    for itemsize in (2, 4, 8):
        for columns in (8, 96, 768, 1024, 1280, 2560, 4096, 16384):
            for sums in (True, False):
                one = packs(columns, itemsize, 8, sums=sums)
                assert one is not None and one.cluster <= 8 and one.block <= 512
                assert one.threads * one.chunks * one.width >= columns
                assert one.threads <= 32 or one.threads == one.block * one.cluster
                assert one.turn in (1, 2, 4)  # whose sums lanes share evenly
                assert one.stages != 1 and one.resident * one.shared <= 227 * 1024
    assert packs(7, 4, 8) is None and packs(1 << 20, 4, 8) is None
    assert packs(16384, 4) is None
    # With little memory fewer blocks have rows in it, or blocks fewer rows.
    for memory in (48 * 1024, 64 * 1024, 99 * 1024):
        small = packs(64, 4, memory=memory)
        assert small is not None and 0 < small.shared * small.resident < memory
    for columns, itemsize in ((512, 2), (768, 2), (1024, 2), (768, 4), (4096, 4), (512, 8)):
        small = packs(columns, itemsize, memory=99 * 1024)
        assert small is not None and small.shared * small.resident < 99 * 1024
        assert small.block % 128 == 0
    assert packs(1024, 4, memory=16 * 1024) is None


@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_rows_are_read_once_up_to_the_length_that_is_said(itemsize: int) -> None:
    for clusters, longest in ((1, 32_768), (8, 262_144)):
        for columns in (16, 1024, 8192, 20_000, longest):
            (one,) = Registers.of_packs(columns, itemsize, clusters)
            assert one.chunks * one.threads * one.width >= columns
            assert one.cluster <= clusters and one.block * one.resident <= 2048
        assert not list(Registers.of_packs(longest + 16, itemsize, clusters))


def test_the_gpu_gets_constants_for_every_length() -> None:
    for columns in [1, 2, 31, 64, 65, 1000, 1024, 4096, 5000, 12288, 32768, 100_000]:
        for width in (1, 4, 8):
            width = width if columns % width == 0 else 1
            found = list(Registers.fewest(columns, width, 32, clusters=1))
            assert len(found) == (columns <= 32768)
            for one in found:
                assert one.block % one.threads == 0
                assert one.block % 32 == 0
                assert one.threads <= 32 or one.threads == one.block
                assert one.cluster == 1
                assert one.chunks * one.width * one.threads >= columns
                assert one.chunks * one.width <= 32
    assert list(TwoPasses.configs(None, STAND_IN)) == [TwoPasses(512, 1, 1)]  # type: ignore[arg-type]


@pytest.mark.parametrize("registers", [16, 32])
def test_clusters_hold_rows_that_blocks_do_not(registers: int) -> None:
    for columns in (1024 * registers + 4, 50_000, 4096 * registers, 8192 * registers):
        (one,) = Registers.fewest(columns, 4, registers, clusters=8)
        assert one.block == 1024 and one.threads == 1024 * one.cluster and 2 <= one.cluster <= 8
        assert columns <= one.chunks * one.width * one.threads and one.chunks * one.width <= registers
    assert not list(Registers.fewest(8192 * registers + 4, 4, registers, clusters=8))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("columns", [104, 4096])
def test_rows_of_packs_in_registers(device: ck.Device, columns: int, dtype: str) -> None:
    x, weight, bias = (
        random(0, (11, columns), dtype),
        random(1, (columns,), dtype),
        random(2, (columns,), dtype),
    )
    with LAYER_NORM.only("registers", limits=gpu_limits(device)) as used:
        for scale, shift in ((weight, bias), (weight, None), (None, bias), (None, None)):
            y, statistics = launch_forward(x, scale, shift, 1e-5, columns)
            close(y, exact(x, x, scale, shift)[0])
            close(statistics[:, 0], sized(lambda x: (x - x[:, :1]).mean(-1), x))
    assert used == [*Registers.of_packs(columns, x.itemsize, 1)] * 4


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_rows_of_one_number(device: ck.Device, dtype: str) -> None:
    """Nothing is left of a mean, however large: neither in the result nor in the gradient of the weight."""
    values = np.repeat(np.array([[0.0], [100.0], [-1e4], [6e4]]), 96, axis=1)
    x, weight, bias = ck.asarray(values).astype(dtype), ck.ones(96, dtype), ck.full(96, 0.5, dtype=dtype)
    with ck.Tape() as tape:
        tape.watch(weight)
        y = nn.layer_norm(x, 96, weight, bias)
    assert (y.numpy() == 0.5).all()
    assert not tape.gradient(y, weight).numpy().any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "config",
    [Registers(128, 1, 1, cluster=2), Registers(256, 1, 1, cluster=8)],
    ids=["2 blocks", "8 blocks"],
)
def test_clusters_take_rows_in_turn(device: ck.Device, config: Registers, dtype: str) -> None:
    """More rows than clusters, and in a cluster of eight blocks some without a column."""
    if device.properties.max_blocks_per_cluster < config.cluster:
        pytest.skip("needs a GPU of compute capability 9 or later: no blocks share a row here")
    check_a_launch(config, device, 4 * device.properties.multiprocessors + 7, 100, dtype)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_clusters_take_rows_of_a_turn(device: ck.Device, dtype: str) -> None:
    """More turns of a cluster than stages, the last one short of a row."""
    if device.properties.max_blocks_per_cluster < 2:
        pytest.skip("needs a GPU of compute capability 9 or later: no blocks share a row here")
    width = 16 // ck.dtypes.as_dtype(dtype).itemsize
    config = GradientPacks(128, 1, width, 2, 2, stages=3, turn=2)
    check_a_launch(config, device, 4 * device.properties.multiprocessors + 7, 150 * width, dtype)


@pytest.mark.parametrize("config", CONFIGS)
def test_a_mean_that_is_large_beside_the_spread(device: ck.Device, config: Variant[Normalization]) -> None:
    values = (np.random.default_rng(0).normal(size=(4, 100)) + 1e4).astype(np.float32)
    values[1, 0] = 0.0  # the first element, which the kernel subtracts, far from the others
    with only_like(LAYER_NORM, config):
        y, _ = launch_forward(ck.asarray(values), None, None, 1e-5, 100)
    close(y, exact(values, values)[0])


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        pytest.param(
            columns, dtype, marks=() if dtype == "float32" or columns == 262_144 else pytest.mark.thorough
        )
        for columns in (40_000, 100_000, 262_144, 300_001)
        for dtype in ("float16", "bfloat16", "float32")
    ],
)
def test_long_rows(device: ck.Device, columns: int, dtype: str) -> None:
    """On a GPU the first three fit the registers of a cluster; the last is no multiple of any access."""
    values = np.random.default_rng(0).normal(size=(3, columns))
    values = values * [[1.0], [1e-2], [30.0]] + [[0.0], [1.0], [5.0]]
    x, dy = ck.asarray(values).astype(dtype), random(1, (3, columns), dtype)
    weight, bias = random(2, (columns,), dtype), random(3, (columns,), dtype)
    y, statistics = launch_forward(x, weight, bias, 1e-5, columns)
    found = y, *launch_backward(x, dy, weight, statistics, columns)
    for one, want in zip(found, exact(x, dy, weight, bias), strict=True):
        close(one, want)


@pytest.mark.parametrize("columns", [30_000, 200_000, 1_000_000])
def test_long_rows_of_a_large_mean(device: ck.Device, columns: int) -> None:
    values = (np.random.default_rng(0).normal(size=(2, columns)) + 1e4).astype(np.float32)
    values[1, 0] = 0.0
    y, _ = launch_forward(ck.asarray(values), None, None, 1e-5, columns)
    close(y, exact(values, values)[0])


@pytest.mark.parametrize("columns, first", [(96, 1e4), (1000, 0.0), (4096, 0.0), (40_000, 1e4)])
def test_gradient_of_rows_of_a_large_mean(device: ck.Device, columns: int, first: float) -> None:
    """Also where the first element, which the others are taken less, is far from them."""
    values = (np.random.default_rng(0).normal(size=(3, columns)) + 1e4).astype(np.float32)
    values[:, 0] = first
    above = random(1, (3, columns), "float32")
    x, weight = ck.asarray(values), random(2, (columns,), "float32")
    _, statistics = launch_forward(x, weight, None, 1e-5, columns)
    dx, dweight, _ = launch_backward(x, above, weight, statistics, columns)
    _, by_x, by_weight, _ = exact(values, above, weight)
    close(dx, by_x)
    close(dweight, by_weight)


@pytest.mark.parametrize("columns", [1000, 40_000])
def test_the_first_element_sets_the_rounding_of_the_gradient(device: ck.Device, columns: int) -> None:
    """k standard deviations from the mean, it costs three roundings of numbers of that size."""
    values = (np.random.default_rng(0).normal(size=(1, columns)) + 1e4).astype(np.float32)
    values[:, 0] = 0.0
    normal = numpy_layer_norm(values)[0]
    x, weight, ones = ck.asarray(values), ck.ones(columns, "float32"), ck.ones((1, columns), "float32")
    _, statistics = launch_forward(x, weight, None, 1e-5, columns)
    _, dweight, _ = launch_backward(x, ones, weight, statistics, columns)
    assert dweight is not None
    assert np.abs(dweight.numpy() - normal).max() <= (1.5 * abs(normal[0]) + 4) * 2.0**-23


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_long_rows_of_misaligned_memory(device: ck.Device, dtype: str) -> None:
    x = random(0, (2 * 50_000 + 1,), dtype)[1:].reshape(2, 50_000)
    assert address(x._data) % 16
    # The mean of so many is rounded after numbers that are larger than some of the result.
    ulps = 1 if x.itemsize == 2 else 32
    check_equal(lambda x: nn.layer_norm(x, 50_000), lambda x: reference(x, 1), [x], ulps)


def test_trailing_axes_and_optional_arguments(device: ck.Device) -> None:
    x, weight, bias = random(0, (2, 3, 4, 5)), random(1, (4, 5)), random(2, (4, 5))
    cases: list[tuple[Any, ...]] = [(x, weight, bias), (x, weight), (x,)]
    for arrays in cases:
        check_equal(
            lambda x, *own: nn.layer_norm(x, (4, 5), *own),
            lambda x, *own: reference(x, 2, *own),
            arrays,
        )
    check_equal(
        lambda x, bias: nn.layer_norm(x, (4, 5), bias=bias),
        lambda x, bias: reference(x, 2, None, bias),
        (x, bias),
    )


def test_other_layouts(device: ck.Device) -> None:
    x, weight, bias = random(0, (6, 10)), random(1, (20,))[::2], random(2, (10,))
    views = {
        "transposed": ck.permute_dims(random(3, (10, 6)), (1, 0)),
        "strided": random(4, (12, 20))[::2, ::-2],
    }
    for view in (*views.values(), ck.broadcast_to(x[:1], (6, 10))):
        check_equal(
            lambda x, *own: nn.layer_norm(x, 10, *own),
            lambda x, *own: reference(x, 1, *own),
            (view, weight, bias),
            cotangents=[ck.broadcast_to(ck.asarray(np.float64(0.7)), (6, 10))],
        )


def test_sizes_of_one_and_none(device: ck.Device) -> None:
    x = random(0, (3, 1))
    assert nn.layer_norm(x, 1).tolist() == [[0.0]] * 3
    assert nn.layer_norm(ck.zeros((0, 4)), 4).shape == (0, 4)
    assert nn.layer_norm(ck.zeros((4, 0)), 0).shape == (4, 0)
    weight = ck.ones(4)
    with ck.Tape() as tape:
        tape.watch(weight)
        y = ck.sum(nn.layer_norm(ck.zeros((0, 4)), 4, weight))
    assert tape.gradient(y, weight).tolist() == [0.0] * 4


def test_nan_and_infinity_stay_in_their_row(device: ck.Device) -> None:
    values = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    values[0, 3], values[1, 5] = np.nan, np.inf
    y = nn.layer_norm(ck.asarray(values), 8).numpy()
    assert np.isnan(y[:2]).all()
    close(ck.asarray(y[2]), numpy_layer_norm(values[2:])[0])


def test_derivatives_to_second_order(device: ck.Device) -> None:
    arrays = (random(0, (3, 7)), random(1, (7,)), random(2, (7,)))
    assert gradcheck(lambda x, weight, bias: nn.layer_norm(x, 7, weight, bias), arrays, order=2)
    assert gradcheck(lambda x: nn.layer_norm(x, (3, 7)), arrays[:1], order=2)


def test_gradients_of_one_argument_alone(device: ck.Device) -> None:
    arrays = [random(0, (3, 7)), random(1, (7,)), random(2, (7,))]
    for i in range(3):

        def chosen(one: ck.Array, i: int = i) -> list[ck.Array]:
            return [one if i == j else own for j, own in enumerate(arrays)]

        def fused(one: ck.Array) -> ck.Array:
            x, weight, bias = chosen(one)
            return nn.layer_norm(x, 7, weight, bias)

        def composed(one: ck.Array) -> ck.Array:
            x, weight, bias = chosen(one)
            return reference(x, 1, weight, bias)

        check_equal(fused, composed, [arrays[i]])


@pytest.mark.parametrize("variant", LAYER_NORM.variants)
def test_64_bit_indices(device: ck.Device, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Normalization, "offsets", "long long")
    with LAYER_NORM.only(variant), GRADIENT.only("two passes"):
        check_equal(
            lambda x, w: nn.layer_norm(x, 7, w),
            lambda x, w: reference(x, 1, w),
            [random(0, (3, 7)), random(1, (7,))],
        )


def test_64_bit_indices_of_packs(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x, dy, weight = (
        random(0, (3, 104), "float32"),
        random(1, (3, 104), "float32"),
        random(2, (104,), "float32"),
    )
    limits = gpu_limits(device)

    def results() -> list[ck.Array]:
        with LAYER_NORM.only("registers", limits=limits), GRADIENT.only("packs", limits=limits):
            y, statistics = launch_forward(x, weight, None, 1e-5, 104)
            found = [y, statistics]
            for sums in (True, False):
                found += launch_backward(x, dy, weight, statistics, 104, (sums, sums))
        return [one for one in found if one is not None]

    expected = [one.numpy() for one in results()]
    monkeypatch.setattr(Normalization, "offsets", "long long")
    for made, want in zip(results(), expected, strict=True):
        close(made, want, 8)


def test_the_same_bits_in_every_run(device: ck.Device) -> None:
    x, weight = random(0, (257, 33), "float32"), random(1, (33,), "float32")
    runs = set()
    for _ in range(3):
        with ck.Tape() as tape:
            tape.watch(x, weight)
            y = ck.sum(nn.layer_norm(x, 33, weight))
        runs.add(b"".join(one.numpy().tobytes() for one in tape.gradient(y, (x, weight))))
    assert len(runs) == 1


def test_the_module(device: ck.Device) -> None:
    layer = nn.LayerNorm((2, 3))
    x = random(0, (4, 2, 3), "float32")
    close(layer(x), numpy_layer_norm(x.numpy().reshape(4, 6)).reshape(4, 2, 3))
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert not nn.LayerNorm(3, affine=False).parameters()
    assert [p.dtype for p in nn.LayerNorm(3, bias=False, dtype="float64").parameters()] == [ck.float64]


def test_what_does_not_fit_is_refused(device: ck.Device) -> None:
    x = ck.zeros((2, 3))
    with pytest.raises(ValueError, match=r"x: expected trailing axes of sizes \(4,\), got shape \(2, 3\)"):
        nn.layer_norm(x, 4)
    with pytest.raises(ValueError, match=r"trailing axes of sizes \(1, 2, 3\)"):
        nn.layer_norm(x, (1, 2, 3))
    with pytest.raises(ValueError, match=r"weight: expected shape \(3,\), got \(1, 3\)"):
        nn.layer_norm(x, 3, ck.ones((1, 3)))
    with pytest.raises(ValueError, match="eps: expected a number of at least 0, got -1"):
        nn.layer_norm(x, 3, eps=-1.0)
    with pytest.raises(ValueError, match="normalized_shape"):
        nn.layer_norm(x, ())
    with pytest.raises(TypeError, match="x: expected a floating dtype, got int64"):
        nn.layer_norm(ck.asarray([[1, 2]]), 2)


def test_the_normalized_shape_may_be_integers_of_numpy(device: ck.Device) -> None:
    x = random(0, (3, 4))
    expected = nn.layer_norm(x, 4).numpy()
    for given in (np.int64(4), [np.int32(4)]):
        np.testing.assert_array_equal(nn.layer_norm(x, given).numpy(), expected)
    with pytest.raises(ValueError, match="normalized_shape: expected one size or more, got 4.0"):
        nn.layer_norm(x, 4.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="eps: expected a number of at least 0, got 'small'"):
        nn.layer_norm(x, 4, eps="small")  # type: ignore[arg-type]


@pytest.mark.parametrize("eps", [2, 2.0, np.float32(2), np.float64(2)], ids=["int", "float", "f32", "f64"])
def test_eps_of_any_number_is_checked_once(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, eps: float
) -> None:
    x = random(0, (3, 4))
    expected = nn.layer_norm(x, 4, eps=eps)
    np.testing.assert_allclose(expected.numpy(), numpy_layer_norm(x.numpy(), 2.0), rtol=1e-4, atol=1e-5)
    with monkeypatch.context() as patch:
        patch.delattr(function, "require_eps")
        assert nn.layer_norm(x, 4, eps=eps).tolist() == expected.tolist()
    nn.layer_norm(x, 4, eps=1)
    with pytest.raises(ValueError, match="eps: expected a number of at least 0, got True"):
        nn.layer_norm(x, 4, eps=True)
