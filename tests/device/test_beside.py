"""What goes on beside the threads of a block: copies, stores, products; barriers that count; and planted mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from asynchronous import COPIES, PIPELINE, ROLES, TILES, WARPGROUP

import cukern as ck
from cukern.device.host import backend, settings
from cukern.testing import asynchrony

COUNT = 5
#: Of each mistake: what is written in place of what, and what is seen of it; None for a wrong number.
MISTAKES: dict[str, tuple[str, str, str | None]] = {
    "no initialisation": ("0) {\n        for", "99) {\n        for", "before mbarrier_init"),
    "barriers not passed on": (
        "fence_mbarrier_init();",
        "",
        "whose mbarrier_init was not passed on: .* calls fence_mbarrier_init, then comes a barrier, <pipeline.*>:19",
    ),
    "too many arrivals": ("&empty[s], 32", "&empty[s], 31", "before any has waited for its last phase"),
    "too few arrivals": (
        "&empty[s], 32",
        "&empty[s], 33",
        r"mbarrier_wait \(phase 0 lacks 1 arrivals and 0 bytes\)",
    ),
    "too many bytes": (
        "% 2], bytes)",
        "% 2], bytes + 16)",
        r"mbarrier_wait \(phase 0 lacks 0 arrivals and 16 bytes\)",
    ),
    "too few bytes": (
        "% 2], bytes)",
        "% 2], bytes - 16)",
        r"mbarrier_wait \(phase 0 lacks 0 arrivals and -16 bytes\)",
    ),
    "a parity for each tile": (
        "full[i % 2], i / 2 % 2",
        "full[i % 2], i % 2",
        r"mbarrier_wait \(phase 0 lacks 32 ",
    ),
    "no wait for a copy": ("mbarrier_wait(&full[i % 2], i / 2 % 2);", "", "before any has waited"),
    "no wait for the reader": ("mbarrier_wait(&empty[i % 2], i / 2 % 2 ^ 1);", "", "more threads arrive"),
    "release before the read": (
        "const float4 own = ((const float4*)stages[i % 2])[lane];\n        mbarrier_arrive(&empty[i % 2]);",
        "mbarrier_arrive(&empty[i % 2]);\n__syncwarp();\nconst float4 own = ((const float4*)stages[i % 2])[lane];",
        None,
    ),
    "no wait for a store": ("wait_stores_read<0>();", "", None),
    "no commit": ("commit_stores();", "", "before its stores had read their shared memory"),
    "a producer that ends early": (
        "0 && i < tiles",
        "0 && i < tiles - 1",
        r"mbarrier_wait \(phase 2 lacks 1 arrivals",
    ),
    "a consumer that ends early": (
        "int i = 0; i < tiles",
        "int i = 0; i < tiles - 1",
        "its shared memory were in flight",
    ),
    "beyond shared memory": (
        "copy_bulk(stages[i % 2]",
        "copy_bulk((float*)0",
        "beyond the block's shared memory, <pipeline.*>:19",
    ),
    "misaligned": ("x + i * 128, ", "x + i * 128 + 1, ", r"no multiple of 16 bytes, <pipeline.*>:19"),
}
MISTAKE = "checked launches report what leads to the wrong numbers and faults that are looked for"
#: Those of which the order in which warps run decides whether anything is seen.
RACES = ["release before the read"]


@pytest.fixture(params=["at_once", "late", "random"])
def when(request: pytest.FixtureRequest) -> Iterator[str]:
    with asynchrony(request.param, seed=3):
        yield request.param


def has_hopper(device: ck.Device) -> bool:
    return device.kind == "host" or device.properties.compute_capability >= (9, 0)


def pipeline(device: Any, text: str = PIPELINE, start: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """What is made, and what was stored twice of."""
    x = np.random.default_rng(0).standard_normal(COUNT * 128).astype(np.float32)
    y = ck.full(x.shape, start, "float32", device=device)
    ck.Kernel(text, name="pipeline")(ck.asarray(x, device=device), y, COUNT, grid=1, block=64)
    return y.numpy(), x


def test_a_pipeline(device: ck.Device, when: str) -> None:
    if not has_hopper(device):
        pytest.skip("needs a GPU of compute capability 9.0")
    made, x = pipeline(device)
    np.testing.assert_array_equal(made, 2 * x)
    added, x = pipeline(device, PIPELINE.replace("store_bulk", "add_bulk"), start=1)
    np.testing.assert_array_equal(added, 2 * x + 1)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.unchecked_only(MISTAKE)
def test_a_mistake_in_a_pipeline_shows(mistake: str) -> None:
    right, wrong, symptom = MISTAKES[mistake]
    assert PIPELINE.count(right) == 1
    text = PIPELINE.replace(right, wrong)
    if symptom is not None:
        with pytest.raises(ck.KernelFault, match=symptom):
            pipeline("host", text)
        return
    seen = False
    for seed in range(20 if mistake in RACES else 1):
        with asynchrony("random" if mistake in RACES else "late", seed):
            made, x = pipeline("host", text)
        seen |= not np.array_equal(made, 2 * x)
    assert seen


def copies(device: Any, text: str) -> bool:
    """Whether all words that are copied arrive."""
    x = np.random.default_rng(0).standard_normal((3, 64, 4)).astype(np.float32)
    y = ck.zeros(x.shape, device=device)
    ck.Kernel(text, name="copies")(ck.asarray(x, device=device), y, grid=1, block=64)
    x[:, ::2, 2:] = 0
    return np.array_equal(y.numpy(), x[:, ::-1])


def test_copies_of_threads(device: ck.Device, when: str) -> None:
    assert copies(device, COPIES)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("wait_copies<1>();\n    __syncthreads", "wait_copies<2>();\n    __syncthreads"),
        ("wait_copies<0>();\n    __syncthreads", "__syncthreads"),
        ("    __syncthreads();\n    y[threadIdx.x] =", "    y[threadIdx.x] ="),
        ("commit_copies();\n    }", "}\n    commit_copies();"),
    ],
    ids=["a group too many left", "no wait", "no barrier", "one group"],
)
@pytest.mark.unchecked_only(MISTAKE)
def test_a_mistake_with_copies_of_threads_shows(right: str, wrong: str) -> None:
    assert COPIES.count(right) == 1
    assert not copies("host", COPIES.replace(right, wrong))


def roles(device: Any, text: str = ROLES) -> bool:
    """Whether all turns are added, and one lane of a warp is elected."""
    y = ck.zeros(128, "int32", device)
    ck.Kernel(text, name="roles")(y, grid=1, block=128)
    elected, sums = y.numpy()[:64].reshape(2, 32).sum(1), y.numpy()[64:]
    return bool((elected == 1).all() and (sums == 15 * np.arange(63, -1, -1)).all())


def test_roles_of_warps(device: ck.Device, when: str) -> None:
    if not has_hopper(device):
        pytest.skip("needs a GPU of compute capability 9.0")
    # On a GPU registers move between whole warpgroups, of which this block has one.
    moves = ("give_registers<24>();", "take_registers<240>();")
    text = ROLES if device.kind == "host" else ROLES.replace(moves[0], "").replace(moves[1], "")
    assert roles(device, text)


@pytest.mark.parametrize(
    ("right", "wrong", "symptom"),
    [
        ("if (i) barrier_sync(2, 128);", "", "63 more at barrier_sync, "),
        ("barrier_arrive(1, 128)", "barrier_arrive(3, 128)", "63 more at barrier_sync, "),
        ("barrier_arrive(1, 128)", "barrier_arrive(1, 96)", "different numbers of threads"),
        ("barrier_arrive(1, 128)", "barrier_arrive(1, 160)", "no whole warps of the block"),
        ("barrier_arrive(1, 128)", "barrier_arrive(16, 128)", "not in 1 to 15"),
        (
            "barrier_arrive(1, 128)",
            "if (threadIdx.x % 2) barrier_arrive(1, 128)",
            "the lanes of a warp come to different barriers",
        ),
    ],
    ids=[
        "no wait",
        "another barrier",
        "other threads",
        "threads that are not there",
        "no such",
        "half a warp",
    ],
)
def test_a_mistake_between_warps_shows(right: str, wrong: str, symptom: str) -> None:
    assert ROLES.count(right) == 1
    with pytest.raises(ck.KernelFault, match=symptom):
        roles("host", ROLES.replace(right, wrong))


def warpgroup(device: Any, text: str = WARPGROUP, whole: bool = False) -> bool:
    """Whether the product is right, of random factors or of ``whole`` numbers."""
    rng, shape = np.random.default_rng(0), (2, 96, 64)
    a, b = (rng.integers(-4, 5, shape) if whole else rng.standard_normal(shape)).astype(np.float16)
    d = ck.zeros((64, 64), device=device)
    given = [ck.asarray(x, device=device) for x in (a, b)]
    ck.Kernel(text, name="warpgroup", uses_half=True)(*given, d, grid=1, block=128)
    return np.allclose(d.numpy(), a.T.astype(float) @ b, rtol=1e-4, atol=1e-4)


def test_products_of_a_warpgroup(device: ck.Device, when: str) -> None:
    if device.kind != "host" and device.properties.compute_capability[0] != 9:
        pytest.skip("needs a GPU of compute capability 9.0")
    assert warpgroup(device)


@pytest.mark.parametrize(
    ("right", "wrong", "in_flight"),
    [
        ("wgmma_wait<0>(sums)", "wgmma_wait<1>(sums)", True),
        ("wgmma_wait<1>(sums)", "wgmma_wait<2>(sums)", False),
        ("wgmma_commit();", "", True),
        ("        __syncthreads();\n    };\n    float", "    };\n    float", False),
    ],
    ids=["the last group left", "a slab that is written too early", "no commit", "no barrier"],
)
@pytest.mark.unchecked_only(MISTAKE)
def test_a_mistake_with_products_of_a_warpgroup_shows(right: str, wrong: str, in_flight: bool) -> None:
    assert WARPGROUP.count(right) == 1
    fault = pytest.raises(ck.KernelFault, match="ended while products of a warp were in flight")
    with fault if in_flight else nullcontext():
        assert not warpgroup("host", WARPGROUP.replace(right, wrong))


def tiles(device: Any, dtype: str, width: int, swizzle: int, adds: bool = False, text: str = TILES) -> None:
    rows, columns = 8, width // ck.empty(0, dtype).dtype.itemsize
    rng, shape = np.random.default_rng(0), (2 * rows + 1, 4 * columns)
    x = rng.integers(0, 100, shape).astype(dtype)
    y = ck.ones((shape[1], 32), dtype, device)[:, : shape[0]]
    given = ck.asarray(x, device=device)
    before = 16 // x.itemsize
    seen = ck.ones((3, 5, rows, columns), dtype, device)
    source = ck.TensorMap(given, (rows, columns), swizzle)
    target = ck.TensorMap(y, (columns, rows if rows * x.itemsize % 16 == 0 else 16), writes=True)
    kernel = ck.Kernel(text, name="tiles", rows=rows, columns=columns, swizzle=swizzle, adds=adds)
    kernel(source, target, seen, grid=(5, 3), block=32, elem=dtype)
    padded = np.pad(x, ((before, 3 * rows), (before, 2 * columns)))[: 3 * rows, : 5 * columns]
    wanted = padded.reshape(3, rows, 5, columns).swapaxes(1, 2)
    np.testing.assert_array_equal(seen.numpy(), wanted)
    np.testing.assert_array_equal(y.numpy(), padded[: shape[0], : shape[1]].T + adds)


#: The dtype, the bytes of a tile's row, the swizzle, whether tiles are added.
TILED = [
    ("float32", 128, 128, False),
    ("float32", 64, 64, True),
    ("uint16", 32, 32, False),
    ("int32", 64, 0, True),
    ("float64", 128, 128, False),
]


@pytest.mark.parametrize(("dtype", "width", "swizzle", "adds"), TILED)
def test_tiles(device: ck.Device, when: str, dtype: str, width: int, swizzle: int, adds: bool) -> None:
    if not has_hopper(device):
        pytest.skip("needs a GPU of compute capability 9.0")
    tiles(device, dtype, width, swizzle, adds)


def test_a_tile_begins_at_multiples_of_16_bytes_along_the_innermost_axis() -> None:
    """Elsewhere, and where a store begins at a negative place, GPUs meet an illegal instruction."""
    for right, wrong, message in (
        ("column - before}", "column - 3}", "begins no multiple of 16 bytes.*innermost axis"),
        ("(to, {column,", "(to, {column - 4,", "a tile is stored at a negative place"),
    ):
        assert right in TILES
        with pytest.raises(ck.KernelFault, match=message):
            tiles(ck.Device("host"), "float32", 128, 128, text=TILES.replace(right, wrong))


def test_asynchrony_refuses_what_it_does_not_know() -> None:
    for arguments, kind, message in (
        (("soon",), ValueError, r"when: expected one of 'at_once', 'late', 'random', got 'soon'"),
        (("random", 0.5), TypeError, "seed: expected an int, got 0.5"),
        (("random", -1), ValueError, "seed: expected at least 0, got -1"),
    ):
        with pytest.raises(kind, match=message), asynchrony(*arguments):  # type: ignore[arg-type]
            pass


def run(body: str, block: Any, *arrays: ck.Array, before: str = "", **options: Any) -> None:
    """Launch a kernel of float arrays x, y, ... with all headers."""
    names = ", ".join(
        f"{'int' if a.dtype == ck.int32 else 'float'}* {n}" for n, a in zip("xyz", arrays, strict=False)
    )
    headers = "bulk_copy", "warp_roles", "copy_async", "wgmma"
    text = "".join(f'<% include "prelude/{name}.cuh" %>\n' for name in headers)
    bounds = f"__launch_bounds__({np.prod(block)}, 1)"  # by which a GPU lets registers move
    text += f'{before}extern "C" __global__ void {bounds} << name >>({names}) {{\n{body}\n}}'
    ck.Kernel(text, name="own", uses_half=True)(*arrays, block=block, **{"grid": 1, **options})


def test_a_kernel_that_only_stores() -> None:
    y = ck.zeros(4, device="host")
    body = """__shared__ __align__(16) float made[4];
    for (int i = 0; i < 4; ++i) made[i] = i;
    fence_to_async();
    store_bulk(x, made, 16);
    commit_stores();
    {}"""
    run(body.replace("{}", "wait_stores<0>();"), 1, y)
    assert y.tolist() == [0, 1, 2, 3]
    run(body.replace("made[i] = i", "made[i] = 7").replace("{}", "wait_stores_read<0>();"), 1, y)
    assert y.tolist() == [7, 7, 7, 7]
    with pytest.raises(ck.KernelFault, match="access of memory"):
        run(body.replace("(x,", "(x + 4398046511104ll,").replace("{}", "wait_stores_read<0>();"), 1, y)


def test_a_kernel_that_waits_for_nothing() -> None:
    """Its only mistake, where no other function makes its threads take turns."""
    body = """__shared__ __align__(16) float tile[4];
    __shared__ MBarrier full;
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expecting(&full, 16);
    copy_bulk(tile, x, 16, &full);
    y[0] = tile[0];"""
    with pytest.raises(ck.KernelFault, match="ended while copies to its shared memory were in flight"):
        run(body, 1, ck.ones(4, device="host"), ck.zeros(4, device="host"))


def test_products_that_a_warp_leaves_behind() -> None:
    text = WARPGROUP.replace("wgmma_wait<0>(sums);", "return;")
    for when in ("late", "random"):
        with (
            asynchrony(when, 5),
            pytest.raises(ck.KernelFault, match="while products of a warp were in flight"),
        ):
            warpgroup("host", text)


@pytest.mark.parametrize("block", [(64, 1), (16, 4), (8, 8), (4, 4, 4)])
def test_one_lane_of_a_warp_is_elected(block: tuple[int, ...]) -> None:
    y = ck.zeros(2, "int32", "host")
    run(
        "atomicAdd(&x[(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32], (int)elect_lane());",
        block,
        y,
    )
    assert y.tolist() == [1, 1]


def test_those_that_take_turns_let_others_go_on() -> None:
    y = ck.zeros(1, "int32", "host")
    body = """__shared__ MBarrier here;
    __shared__ volatile int flag;
    if (threadIdx.x == 0) mbarrier_init(&here, 32), flag = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        mbarrier_arrive(&here);
        while (!flag) __nanosleep(20);
    } else {
        mbarrier_wait(&here, 0);
        flag = 1;
    }
    x[0] = 1;"""
    run(body, 64, y)
    assert y.tolist() == [1]


MOVES = """const int group = threadIdx.x / 128;
    if (group) take_registers<240>();
    else give_registers<24>();
    if (threadIdx.x % 128 == 0) x[group] = 1 + group;"""


def moves(device: Any, body: str = MOVES) -> None:
    y = ck.zeros(3, device=device)
    run(body, 384, y)
    assert y.tolist() == [1, 2, 3]


def test_registers_move_between_warps(device: ck.Device) -> None:
    """Those that take wait for those that give; 168 of 384 threads are what a block may have."""
    if device.kind != "host" and device.properties.compute_capability[0] != 9:
        pytest.skip("needs a GPU of compute capability 9.0")
    moves(device)


def test_mistakes_with_registers_are_named() -> None:
    for right, wrong, message in (
        ("<24>", "<32>", r"31 more at take_registers \(other warps have the registers\), <own.*>:"),
        ("<24>", "<176>", "give_registers: the warp has fewer, <own"),
        ("give_registers<24>();", "", "255 more at take_registers"),
        ("give_registers<24>();", "{ give_registers<24>(); give_registers<32>(); }", "the warp has fewer"),
        ("take_registers<240>();", "{ take_registers<240>(); take_registers<232>(); }", "the warp has more"),
    ):
        with pytest.raises(ck.KernelFault, match=message):
            moves("host", MOVES.replace(right, wrong))


@pytest.mark.unchecked_only("the time limit of unchecked launches")
def test_what_waits_is_named_when_a_kernel_is_stopped() -> None:
    """Also where the function that is stopped is one of the runtime's, as it is most of the time here."""
    runtime = backend._runtime()
    runtime.cukern_set_limit(int(0.1e9))
    try:
        for _ in range(3):
            with pytest.raises(ck.KernelFault, match="ran longer than 0.1 s") as caught:
                run("for (;;) barrier_sync(1, 64);", 64, ck.zeros(1, device="host"))
            assert " at barrier_sync" in str(caught.value)
            assert " at ," not in str(caught.value)
    finally:
        runtime.cukern_set_limit(settings.time_limit())


def test_a_partial_warp_has_no_numbered_barrier() -> None:
    with pytest.raises(ck.KernelFault, match="no whole warps of the block"):
        run("barrier_sync(1, 64);", 48, ck.zeros(1, device="host"))
    with pytest.raises(ck.KernelFault, match="all 32 lanes of a warp is called where some have ended"):
        run("if (threadIdx.x == 40) return; barrier_sync(1, 64);", 64, ck.zeros(1, device="host"))


def test_many_copies_are_done_in_time() -> None:
    """Each thread waits for its own, whatever the others have in flight."""
    x = ck.asarray(np.arange(512 * 16 * 4, dtype=np.float32), device="host")
    y = ck.zeros(x.shape, device="host")
    body = """extern __shared__ __align__(16) float4 words[];
    for (int i = 0; i < 16; ++i) copy_async(&words[512 * i + threadIdx.x], (const float4*)x + 512 * i + threadIdx.x);
    commit_copies();
    __syncthreads();
    wait_copies<0>();
    for (int i = 0; i < 16; ++i) ((float4*)y)[512 * i + threadIdx.x] = words[512 * i + threadIdx.x];"""
    run(body, 512, x, y, shared=512 * 16 * 16)
    np.testing.assert_array_equal(y.numpy(), x.numpy())
