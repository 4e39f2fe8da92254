"""Products fed by tensor maps, on the host and on GPUs of compute capability 9.0, against NumPy in float64."""

from __future__ import annotations

import dataclasses
import itertools
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from nn_support import close, sized
from product_support import make_plan
from test_tensor_cores import bias_and_relu, check, random

import cukern as ck
from cukern.array.layout import fresh_layout
from cukern.elementwise.graph import Expr, input_node
from cukern.elementwise.program import program
from cukern.kernel.sizes import divide_up
from cukern.launch.family import STAND_IN
from cukern.linear.families import PRODUCT
from cukern.linear.problem import Factor, Gemm, Product, gemm_of, is_wide
from cukern.linear.tma import TF32_TMA_TILES, TMA_TILES, Tma, takes
from cukern.testing import assert_close, asynchrony

TALL, SQUARE, DEFERRED, LOADS, SMALL, SMALL_LOADS = (
    replace(one, blocks=2, cluster=1) for one in TMA_TILES[1:]
)


@pytest.fixture(autouse=True)
def hopper(device: ck.Device) -> None:
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("no GPU of compute capability 9.0")


@pytest.mark.parametrize(
    ("tile", "a_swapped", "b_swapped"),
    [
        (TALL, False, False),
        (TALL, True, True),
        (SQUARE, False, True),
        (SQUARE, True, False),
        (DEFERRED, False, False),
        (DEFERRED, True, True),
    ],
)
def test_layouts_of_the_factors(device: ck.Device, tile: Tma, a_swapped: bool, b_swapped: bool) -> None:
    """No tile divides the sizes; each block makes several tiles, so that stages go round more than once."""
    a = random(device, "bfloat16", 264, 152, swapped=a_swapped)
    b = random(device, "bfloat16", 152, 392, swapped=b_swapped)
    check(a, b, random(device, "bfloat16", 392), tile)


@pytest.mark.parametrize(("tile", "b_swapped"), [(TALL, False), (SQUARE, True), (DEFERRED, False)])
def test_blocks_that_multicast(device: ck.Device, tile: Tma, b_swapped: bool) -> None:
    """The last tile of a cluster may lie beyond the product."""
    a = random(device, "bfloat16", 2 * tile.tile_m + 8, 152)
    b = random(device, "bfloat16", 152, 264, swapped=b_swapped)
    check(a, b, random(device, "bfloat16", 264), replace(tile, cluster=2, blocks=5))


def test_the_widest_tile(device: ck.Device) -> None:
    a, b = random(device, "float16", 130, 72), random(device, "float16", 72, 520, swapped=True)
    check(a, b, random(device, "float16", 130, 1), replace(TMA_TILES[0], blocks=2))


@pytest.mark.parametrize("tile", [TALL, SQUARE, DEFERRED], ids=["tall", "square", "deferred"])
def test_more_turns_than_a_warp_has_lanes(device: ck.Device, tile: Tma) -> None:
    """Lanes know where the tiles of 32 turns are."""
    columns = 520
    rows = 8 + tile.tile_m * (32 // divide_up(columns, tile.tile_n))  # of 33 tiles or a few more
    a, b = random(device, "bfloat16", rows, 16), random(device, "bfloat16", 16, columns)
    row = random(device, "bfloat16", columns)
    if tile.deferred:
        check_begun(replace(tile, blocks=1), a, b, row)
    else:
        check(a, b, row, replace(tile, blocks=1))


@pytest.mark.parametrize("tile", TF32_TMA_TILES, ids=["wide", "square"])
def test_floats_are_cut_to_tf32(device: ck.Device, tile: Tma) -> None:
    """No tile divides the sizes; the low 13 bits of the factors do not count."""
    a, b = random(device, "float32", 264, 84), random(device, "float32", 84, 268, swapped=True)
    bias = random(device, "float32", 268)
    operands = [x._planned() for x in (a, b, bias)]
    own = replace(tile, blocks=2, cluster=1)
    plan = make_plan(bias_and_relu(a.dtype), *operands[:2], operands[2:], own)
    assert plan is not None
    left, right = ((x.numpy().view(np.uint32) & 0xFFFFE000).view(np.float32).astype(float) for x in (a, b))
    exact = np.maximum(left @ right + bias.numpy(), 0)
    size = np.abs(left) @ np.abs(right) + np.abs(bias.numpy())
    assert_close(plan(a, b, bias), exact, rtol=0, atol=2e-6 * size)


@pytest.mark.parametrize("tile", [TALL, SQUARE], ids=["tall", "ping-pong"])
def test_rows_of_the_result_that_begin_anywhere(device: ck.Device, tile: Tma) -> None:
    """Threads store them; several tiles a block, batches, and a matrix that is added."""
    a, b = random(device, "bfloat16", 3, 136, 72), random(device, "bfloat16", 3, 71, 72).mT
    check(a, b, random(device, "bfloat16", 3, 136, 71), replace(tile, blocks=2))


@pytest.mark.thorough
def test_rows_of_the_result_that_begin_anywhere_are_checked() -> None:
    with ck.testing.checked():
        test_rows_of_the_result_that_begin_anywhere(ck.Device("host"), SQUARE)


def test_which_tiles_store_rows_that_begin_anywhere(device: ck.Device) -> None:
    a = random(device, "bfloat16", 136, 72)
    gemm = gemm_of(a._planned(), random(device, "bfloat16", 391, 72).mT._planned(), [])
    assert gemm is not None and takes(gemm)
    assert {one.deferred for one in Tma.tiles_for(gemm)} == {False}


def test_operands_in_pairs(device: ck.Device) -> None:
    """Two neighbours are read at once where they lie in pairs: not with an odd step or start, or across columns."""
    a, b = random(device, "bfloat16", 136, 72), random(device, "bfloat16", 72, 264)
    bias, whole = random(device, "bfloat16", 265), random(device, "bfloat16", 136, 265)
    turned = random(device, "bfloat16", 136, 264, swapped=True)
    matrices = [whole[:, 1:], whole[:, :264], random(device, "bfloat16", 136, 264), turned, bias[:264]]
    operands = [
        bias[1:] if device.kind == "cuda" else bias[:264],  # on the host every start counts as aligned
        *matrices,
        random(device, "bfloat16", 136, 1),
    ]
    gemm = gemm_of(*(x._planned() for x in (a, b)), [x._planned() for x in operands])
    assert gemm is not None
    assert gemm.paired == (device.kind == "host", False, False, True, False, True, False)
    for one in operands:
        check(a, b, one, TALL)
    for one in (operands[0], turned):
        check(a, b, one, SQUARE)
    for one in (matrices[0], matrices[2], turned):
        check(a, b, one, DEFERRED)


def test_batches(device: ck.Device) -> None:
    """Matrices end within tiles; a factor may be one matrix for all."""
    a, b = random(device, "bfloat16", 3, 136, 24), random(device, "bfloat16", 3, 24, 72)
    check(a, b, random(device, "bfloat16", 3, 136, 72), SQUARE)
    check(a, b, random(device, "bfloat16", 3, 136, 72), DEFERRED)
    check(a[0], b, random(device, "bfloat16", 72), SQUARE)
    check(a[:, :1], b, random(device, "bfloat16", 72), SQUARE)
    # One matrix of all rows.
    check(a, random(device, "bfloat16", 24, 72), random(device, "bfloat16", 3, 1, 72), SQUARE)


def test_a_tile_is_finished_while_the_next_is_multiplied(device: ck.Device) -> None:
    """With more k-blocks than it has slices, in float16; the last slices have no k-block of a next tile."""
    a, b = random(device, "float16", 264, 904), random(device, "float16", 904, 392)
    check(a, b, random(device, "float16", 264, 392), DEFERRED)


@pytest.mark.parametrize(("dtype", "k"), [("bfloat16", 72), ("bfloat16", 808), ("float16", 72)])
def test_a_matrix_is_loaded_to_where_results_will_be(device: ck.Device, dtype: str, k: int) -> None:
    """Several tiles a block, with fewer k-blocks than slices and with more; no tile divides the sizes."""
    a, b = random(device, dtype, 136, k), random(device, dtype, k, 376, swapped=True)
    check(a, b, random(device, dtype, 136, 376), replace(LOADS, blocks=1))
    check(a, b, random(device, dtype, 136, 384)[:, 8:], replace(LOADS, cluster=2))


@pytest.mark.parametrize("blocks", [2, 6, 14])
def test_clusters_that_follow_one_another_are_apart(device: ck.Device, blocks: int) -> None:
    """Every tile of a batch is made once, also where the groups have unequally many clusters, or one has none."""
    a, b = random(device, "bfloat16", 3, 136, 24), random(device, "bfloat16", 3, 24, 264)
    matrix = random(device, "bfloat16", 3, 136, 264)
    check(a, b, matrix[:, 0:1], replace(SMALL, blocks=blocks, cluster=2, cluster_stride=2))
    check(a, b, matrix, replace(SMALL_LOADS, blocks=blocks, cluster=2, cluster_stride=4))


def test_matrices_of_a_batch_are_loaded(device: ck.Device) -> None:
    """One for each product, or one for all."""
    a, b = random(device, "bfloat16", 3, 136, 24), random(device, "bfloat16", 3, 24, 72)
    check(a, b, random(device, "bfloat16", 3, 136, 72), LOADS)
    check(a, b, random(device, "bfloat16", 136, 72), LOADS)


def test_which_matrices_are_loaded(device: ck.Device) -> None:
    """Those of the factors' dtype that tensor maps describe: the first of them."""
    a, b = random(device, "bfloat16", 136, 72), random(device, "bfloat16", 72, 264)
    matrix, whole = random(device, "bfloat16", 136, 264), random(device, "bfloat16", 136, 268)
    others = [random(device, "bfloat16", 264), random(device, "float32", 136, 264), whole[:, :264]]
    others += [random(device, "bfloat16", 136, 264, swapped=True), random(device, "bfloat16", 136, 1)]
    layouts = [x._planned() for x in (a, b)]
    for operands, number in (([*others], 0), ([*others, matrix], 6), ([matrix, *others, matrix], 1)):
        gemm = gemm_of(*layouts, [x._planned() for x in operands])
        assert gemm is not None
        assert gemm.mapped == number


def added(expression: Any, tile: Tma, a: ck.Array, b: ck.Array, *others: ck.Array) -> str:
    """The source of a product in a tile, with its own dtype as that of all; the result is checked."""
    given = [Expr(input_node(k, a.dtype)) for k in range(1 + len(others))]
    made = program("made", (expression(*given).node,), (a.dtype,) * len(given))
    operands = [one._planned() for one in (a, b, *others)]
    plan = make_plan(made, *operands[:2], operands[2:], tile)
    assert plan is not None

    def exact(a: np.ndarray, b: np.ndarray, *others: np.ndarray) -> ck.Array:
        return expression(*(ck.asarray(one, device="host") for one in (a @ b, *others)))

    close(plan(a, b, *others), sized(exact, a, b, *others))
    return str(plan.source)


def check_begun(tile: Tma, a: ck.Array, b: ck.Array, row: ck.Array, matrix: ck.Array | None = None) -> None:
    """A product in a deferred tile whose sums begin with a row; of a tile that brings, with a matrix after the ReLU."""
    if tile.loads_matrix:
        assert matrix is not None
        text = added(lambda y, c, m: ck.relu(y + c) + m, tile, a, b, row, matrix)
    else:
        text = added(lambda y, c: ck.relu(y + c), tile, a, b, row)
    assert "no row is added" not in text


@pytest.mark.parametrize("tile", [DEFERRED, LOADS, SMALL, SMALL_LOADS], ids=["192", "loads", "128", "small"])
def test_sums_begin_with_a_row_in_any_tile_of_a_block(device: ck.Device, tile: Tma) -> None:
    """The last one may be the first, the second or the third; with clusters, and with more k-blocks than slices."""
    a, b = random(device, "bfloat16", 136, 88), random(device, "bfloat16", 88, 392)
    row, matrix = random(device, "bfloat16", 392), random(device, "bfloat16", 136, 392)
    for rows, blocks, cluster in ((136, 8, 1), (136, 3, 1), (120, 1, 1), (136, 2, 2)):
        check_begun(replace(tile, blocks=blocks, cluster=cluster), a[:rows], b, row, matrix[:rows])
    a, b = random(device, "bfloat16", 136, 904), random(device, "bfloat16", 904, 264)
    check_begun(replace(tile, blocks=1), a, b, row[:264], random(device, "bfloat16", 136, 264))


def test_sums_begin_with_a_row_of_floats(device: ck.Device) -> None:
    """Its pairs are of 8 bytes, and the product's expression is of floats."""
    a, b = random(device, "bfloat16", 136, 88), random(device, "bfloat16", 88, 392)
    row = random(device, "float32", 392)
    product, bias = (Expr(input_node(k, row.dtype)) for k in range(2))
    made = program("made", (ck.relu(product + bias).astype(a.dtype).node,), (row.dtype, row.dtype))
    layouts = [one._planned() for one in (a, b, row)]
    plan = make_plan(made, *layouts[:2], layouts[2:], DEFERRED)
    assert plan is not None
    assert "no row is added" not in plan.source
    close(plan(a, b, row), sized(lambda a, b, row: np.maximum(a @ b + row, 0), a, b, row))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_row_is_added_to_the_sums_of_the_next_tile(device: ck.Device, dtype: str) -> None:
    """In batches of its own rows, where tiles end beyond the product, and before a matrix."""
    a, b = random(device, dtype, 2, 264, 72) / 8, random(device, dtype, 2, 72, 392)
    row, matrix = random(device, dtype, 2, 1, 392), random(device, dtype, 2, 264, 392)
    two = replace(DEFERRED, cluster=2, blocks=4)
    assert "no row is added" not in added(lambda y, c: ck.gelu(y + c), two, a, b, row)
    with asynchrony("random", 3) if device.kind == "host" else nullcontext():
        assert "no row is added" not in added(lambda y, c, m: ck.relu(y + c) + m, LOADS, a, b, row, matrix)


def test_sums_begin_with_a_row(device: ck.Device) -> None:
    """If that is added first, and nothing else reads the row."""
    a, b, c, odd = (random(device, "bfloat16", *shape) for shape in ((136, 72), (72, 264), (264,), (528,)))
    a, column = a / 8, random(device, "bfloat16", 136, 1)  # of a product of about 1
    cases: list[tuple[Any, ck.Array, bool]] = [
        (lambda y, c: ck.gelu(y + c), c, True),
        (lambda y, c: ck.gelu(c + y) * 2, c, True),
        (lambda y, c: ck.gelu(y + c) + c, c, False),
        (lambda y, c: ck.gelu(y * 2 + c), c, False),
        (lambda y, c: ck.gelu(y + c) + y, c, False),
        (lambda y, c: y + c, column, False),
        (lambda y, c: y + c, odd[::2], False),
    ]
    for expression, other, wanted in cases:
        assert ("no row is added" not in added(expression, DEFERRED, a, b, other)) == wanted


@pytest.mark.parametrize(
    "tile",
    [TALL, SQUARE, DEFERRED, LOADS, pytest.param(SMALL_LOADS, marks=pytest.mark.thorough)],
    ids=["tall", "square", "deferred", "loads", "small"],
)
def test_copies_and_products_at_any_time(tile: Tma) -> None:
    host = ck.Device("host")
    a, b = random(host, "bfloat16", 264, 216), random(host, "bfloat16", 216, 376, swapped=True)
    for when, seed in (("at_once", 0), ("random", 1), ("random", 2)):
        row, matrix = random(host, "bfloat16", 376), random(host, "bfloat16", 264, 376)
        with asynchrony(when, seed):
            check(a, b, matrix if tile.loads_matrix else row, replace(tile, blocks=1))
            if tile.deferred:
                check_begun(replace(tile, blocks=1), a, b, row, matrix)


class Planted(NamedTuple):
    """A wait that is missing in the kernel of a tile: what stands there, and without it; when the host works then."""

    tile: Tma
    right: str
    wrong: str
    when: Any = "late"


_FENCE = "        fence_to_async();\n        barrier_sync(1 + group, 128);\n        if"
_FIRST_ROW = "from.store(first_sums);\n        barrier_sync(1 + group, 128);"
_LOADED = (
    "if (loads_matrix) mbarrier_wait(&own_loaded[own_part % slots], own_part / slots);\n            else "
)
_STAGE = "place(sizes);\n            mbarrier_wait(&ring.empty[at.stage], at.phase ^ 1);"
_ROW = "if (!loads_matrix || (begins && i == 0)) barrier_sync"
PLANTED = {
    "a stage given back before it is multiplied": Planted(
        SQUARE, "if (!first) free(previous);", "free(current);"
    ),
    "a part written too early": Planted(
        SQUARE, "wait_stores_read<slots - 1>();", "wait_stores_read<slots>();"
    ),
    "a part stored before it is seen": Planted(
        SQUARE, _FENCE, _FENCE.removeprefix("        fence_to_async();\n")
    ),
    "a deferred part written too early": Planted(
        DEFERRED, "else if (threadIdx.x % 128 == 0) wait_stores_read<slots - 1>();", ""
    ),
    "a deferred part stored before it is seen": Planted(DEFERRED, "            fence_to_async();\n", ""),
    "a row read before it is written": Planted(LOADS, _ROW, "if (!loads_matrix) barrier_sync", "at_once"),
    "the first tile's row": Planted(DEFERRED, _FIRST_ROW, "from.store(first_sums);"),
    "a matrix loaded before the part is stored": Planted(
        LOADS, "        wait_stores_read<0>();\n        mbarrier", "        mbarrier"
    ),
    "a matrix read before it has come": Planted(LOADS, _LOADED, ""),
    "that of the last tile": Planted(LOADS, "mbarrier_wait(&own_loaded[x], 0);", ";"),
    "a matrix that comes to a stage that is still multiplied": Planted(LOADS, _STAGE, "place(sizes);"),
}


def plant(monkeypatch: pytest.MonkeyPatch, tile: Tma, right: str, wrong: str) -> None:
    """Put a mistake into the kernel of a tile."""
    from cukern.linear import tma
    from cukern.text.render import TEMPLATES

    shared = (Path(TEMPLATES) / "linear" / "product_tma.cuh").read_text()
    text = (Path(TEMPLATES) / tile.template().template).read_text()
    text = text.replace('<% include "linear/product_tma.cuh" %>', shared)
    assert text.count(right) == 1
    if wrong == "free(current);":
        text = text.replace("        product.free(product.current);\n", "")
    name = "_DEFERRED" if tile.deferred else "_KERNEL"
    monkeypatch.setattr(tma, name, ck.Kernel(text.replace(right, wrong)))


#: Of each kind of wait one; the others are thorough.
_USUAL = {
    "a stage given back before it is multiplied",
    "a part written too early",
    "a deferred part written too early",
    "a row read before it is written",
    "a matrix read before it has come",
}


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(one, id=name, marks=() if name in _USUAL else pytest.mark.thorough)
        for name, one in PLANTED.items()
    ],
)
def test_the_waits_are_needed(monkeypatch: pytest.MonkeyPatch, planted: Planted) -> None:
    """Without one of them the host shows wrong numbers, or a fault. Three that a GPU needs it does not surely show: the
    last tile's for a stage, with a matrix and without, and the second barrier for the first tile's row.
    """
    tile, right, wrong, when = planted
    host = ck.Device("host")
    a, b = random(host, "bfloat16", 264, 472), random(host, "bfloat16", 472, 376)
    row, matrix = random(host, "bfloat16", 376), random(host, "bfloat16", 264, 376)

    def run() -> None:
        with asynchrony(when):
            if tile.deferred:
                check_begun(replace(tile, blocks=1), a, b, row, matrix)
            else:
                check(a, b, row, replace(tile, blocks=1))

    run()
    plant(monkeypatch, tile, right, wrong)
    with pytest.raises((AssertionError, ck.KernelFault)):
        run()


@pytest.mark.parametrize("wrong", [True, pytest.param(False, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "tile", [TALL, pytest.param(SMALL_LOADS, marks=pytest.mark.thorough)], ids=["tall", "loads"]
)
def test_a_block_ends_when_the_others_have_arrived(
    monkeypatch: pytest.MonkeyPatch, tile: Tma, wrong: bool
) -> None:
    """Blocks of a cluster arrive at each other's barriers, up to the last k-block."""
    host = ck.Device("host")
    a, b = random(host, "bfloat16", 136, 344), random(host, "bfloat16", 344, 136)

    def run() -> None:
        with ck.testing.checked():
            check(a, b, random(host, "bfloat16", 136, 136), replace(tile, blocks=2, cluster=2))

    if not wrong:
        run()
        return
    count = "loads_matrix ? stages - 1 : stages" if tile.deferred else "stages"
    plant(monkeypatch, tile, f"ring.await_empty(at, {count});", f"ring.await_empty(at, ({count}) - 1);")
    with pytest.raises(ck.KernelFault, match="that block of the cluster has ended"):
        run()


def test_a_fused_function_and_one_map_for_each_address(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Any] = []
    encode = device.backend.tensor_map
    monkeypatch.setattr(device.backend, "tensor_map", lambda tiles: (encoded.append(tiles), encode(tiles))[1])
    ended = ck.fuse(lambda x, w, r, scale: ck.tanh(x @ w.T * scale) + r)
    x, w, r = (random(device, "bfloat16", *shape) for shape in ((40, 64), (72, 64), (40, 72)))
    exact = np.tanh(x.numpy().astype(float) @ w.numpy().astype(float).T * 0.125) + r.numpy().astype(float)
    with PRODUCT.only("tma", **dataclasses.asdict(SQUARE)):
        for _ in range(3):
            made = ended(x, w, r, 0.125)
            np.testing.assert_allclose(made.numpy().astype(float), exact, rtol=2**-7, atol=2**-7)
        assert "copy_tile" in ended.source(x, w, r, 0.125)
    factors = [tiles for tiles in encoded if not tiles.writes]
    assert len(factors) == 2


def best(gemm: Gemm) -> Tma:
    """The tile of the least time."""
    return min(Tma.tiles_for(gemm), key=lambda one: one.seconds(gemm, STAND_IN))


def test_what_tensor_maps_take() -> None:
    """Others go to the tiles that warps copy."""
    factor = Factor(0, 4096, True)
    gemm = Gemm(1, 4096, 4096, 4096, factor, factor, ())
    assert takes(gemm)
    assert takes(gemm._replace(itemsize=4))
    assert not takes(gemm._replace(itemsize=4, b=Factor(0, 4096, False)))
    assert not takes(gemm._replace(itemsize=8))
    assert takes(gemm._replace(n=4095))
    assert not takes(gemm._replace(a=Factor(0, 0, True)))
    assert takes(gemm._replace(a=Factor(0, 0, True), m=1))
    assert not takes(gemm._replace(batches=2, b=Factor(-4096, 4096, True)))
    assert not takes(gemm._replace(b=Factor(0, 2**39, True)))
    room = STAND_IN.max_shared_memory_per_block - 256  # for the barriers
    assert all(tile.shared <= room for tile in TMA_TILES)


def test_the_tile_of_the_least_time() -> None:
    factor = Factor(0, 4096, True)
    gemm = Gemm(1, 4096, 4096, 4096, factor, factor, ())
    assert best(gemm) == TMA_TILES[0]
    # Of a short depth what follows a tile counts; sums are not saved while the next tile is multiplied.
    short = gemm._replace(m=16384, n=3072, k=768)
    assert best(short) == TMA_TILES[3]
    assert best(short._replace(saves=True)) == TMA_TILES[0]
    assert best(short._replace(mapped=1)) == TMA_TILES[4]
    # The smallest waste in the last wave; a product that is saved is not deferred.
    small = gemm._replace(m=1024, n=1024)
    assert best(small) == TMA_TILES[5]
    assert best(small._replace(saves=True)) == TMA_TILES[2]
    assert best(small._replace(alone=True)) == TMA_TILES[5]  # no turns where nothing follows
    # Products of a batch, which share nothing; small ones are made by one group of multiprocessors each.
    one = Factor(2**20, 1024, True)
    batch = Gemm(8, 1024, 1024, 1024, one, one, ())
    assert best(batch) == TMA_TILES[5]
    assert best(batch._replace(mapped=1)) == TMA_TILES[6]
    many = batch._replace(batches=32, m=512, n=512, k=512)
    assert best(many) == replace(TMA_TILES[5], cluster_stride=8)


def test_a_function_of_the_product_alone_is_that_of_its_dtype(device: ck.Device) -> None:
    """As short as with a bias; and a tile may be made by turns, which the rounded product alone is not."""
    x, w = random(device, "bfloat16", 40, 64) / 8, random(device, "bfloat16", 64, 72)
    ended = ck.fuse(lambda x, w: ck.gelu(x @ w))
    with PRODUCT.only("tma", **dataclasses.asdict(SQUARE)) as used:
        close(ended(x, w), sized(lambda x, w: ck.gelu(ck.asarray(x @ w, device="host")), x, w), 2)
        assert "gelu_of_bfloat16(a0)" in ended.source(x, w)
    (problem,) = used.problems
    alone = Product(x._planned(), w._planned())
    assert [one.gemm.alone for one in (problem, alone) if one.gemm] == [False, True]
    assert any(one.ping_pong for one in Tma.configs(problem, STAND_IN))
    assert not any(one.ping_pong for one in Tma.configs(alone, STAND_IN))


@pytest.mark.parametrize(
    ("m", "k", "n", "wide"),
    [
        (8192, 50304, 768, False),
        (768, 50304, 8192, False),
        (50304, 768, 8192, False),
        (50304, 768, 50304, True),
        (50304, 50304, 64, True),
        (64, 50304, 50304, True),
    ],
)
def test_offsets_have_64_bits_where_a_matrix_needs_them(m: int, k: int, n: int, wide: bool) -> None:
    """Of either order of each factor."""
    host = ck.Device("host")
    for order_a, order_b in itertools.product([(0, 1), (1, 0)], repeat=2):
        a = fresh_layout(host, ck.bfloat16, (m, k), order_a)
        gemm = gemm_of(a, fresh_layout(host, ck.bfloat16, (k, n), order_b), ())
        assert gemm is not None and is_wide(gemm) == wide
