"""Instructions of the prelude's headers that no kernel of the other files calls; each is called by some test."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from asynchronous import FACTORS, MULTICAST
from test_beside import has_hopper
from test_clusters import multicast
from test_wgmma import needs_wgmma, product

import cukern as ck

ROOT = Path(__file__).parent.parent.parent


def kernel(header: str, parameters: str, body: str) -> ck.Kernel:
    text = f'<% include "prelude/{header}.cuh" %>\nextern "C" __global__ void << name >>({parameters}) {{\n{body}\n}}'
    return ck.Kernel(text, name=header)


def table() -> str:
    """That of the page on kernels."""
    page = (ROOT / "docs" / "pages" / "kernels.md").read_text()
    return page.partition("\n## Tensor cores\n")[2].partition("\n\nEach header says")[0]


def instructions() -> dict[str, set[str]]:
    """Those of each header in the page's table, and of those beside it that stand for an instruction."""
    headers = re.findall(r"`prelude/(\w+)\.cuh`", table())
    assert len(headers) > 10
    found = {}
    for header in (*headers, "overlap", "next_kernel"):
        text = (ROOT / "templates" / "prelude" / f"{header}.cuh").read_text()
        own = re.sub(r"^namespace cukern \{.*?^\}  // namespace", "", text, flags=re.MULTILINE | re.DOTALL)
        names = set(re.findall(r"^(?:inline|__device__)[^(=]*?(\w+)\((?!\()", own, re.MULTILINE))
        found[header] = {name for name in names if not name.startswith("cukern_")}
        assert found[header], header
    return found


def test_every_instruction_is_on_the_page() -> None:
    """That a launch calls each is tested beside the GPU's."""
    words = set(re.findall(r"\w+", table()))
    for header, names in instructions().items():
        if f"`prelude/{header}.cuh`" in table():
            assert names - words == set(), f"{header}.cuh: not in the table of kernels.md"


def test_warps_know_the_number_of_their_warpgroup(device: ck.Device) -> None:
    text = """<% include "prelude/warp_roles.cuh" %>
    extern "C" __global__ void << name >>(int* y) { y[in_register((int)threadIdx.x)] = own_group(); }"""
    y = ck.zeros(416, "int32", device)
    ck.Kernel(text, name="numbers")(y, grid=1, block=416)
    np.testing.assert_array_equal(y.numpy(), np.arange(416) // 128)


def test_transposed_matrices_are_stored_and_loaded(device: ck.Device) -> None:
    """Lane 4 * g + q has rows 2 * q and 2 * q + 1 of column g."""
    if not has_hopper(device):
        pytest.skip("needs a GPU of compute capability 9.0")
    words = np.arange(128, dtype=np.uint16).reshape(2, 32, 2)
    made, again = ck.zeros((2, 8, 8), "uint16", device), ck.zeros((2, 32), "uint32", device)
    body = """__shared__ __align__(16) unsigned short matrices[2][8][8];
    const int row = threadIdx.x % 8, matrix = threadIdx.x / 8 % 2;
    unsigned own[2] = {words[threadIdx.x], words[32 + threadIdx.x]};
    store_matrices_transposed(matrices[matrix][row], own);
    __syncwarp();
    for (int i = threadIdx.x; i < 128; i += 32) made[i] = matrices[i / 64][i / 8 % 8][i % 8];
    load_matrices_transposed(own, matrices[matrix][row]);
    for (int i = 0; i < 2; ++i) again[32 * i + threadIdx.x] = own[i];"""
    given = ck.asarray(words.view(np.uint32), device=device)
    move = kernel("mma", "const unsigned* words, unsigned short* made, unsigned* again", body)
    move(given, made, again, grid=1, block=32)
    np.testing.assert_array_equal(made.numpy(), words.reshape(2, 8, 8).swapaxes(1, 2))
    np.testing.assert_array_equal(again.numpy(), given.numpy().reshape(2, 32))


def test_a_warps_copies_arrive(device: ck.Device) -> None:
    """The other lanes see them, with zeros where nothing is read: there are no such floats."""
    x = np.arange(1, 97, dtype=np.float32)
    y = ck.zeros(128, device=device)
    body = """__shared__ float here[128];
    const int own = threadIdx.x, warp = own / 32 * 32;
    copy_float_or_zero(&here[own], x + own, own < n && own % 3 > 0);
    copies_arrive();
    y[own] = here[warp + 31 - own % 32];"""
    kernel("copy_async", "const float* x, float* y, int n", body)(
        ck.asarray(x, device=device), y, len(x), grid=1, block=128
    )
    there = np.pad(x, (0, 32)) * (np.arange(128) % 3 > 0)
    np.testing.assert_array_equal(y.numpy(), there.reshape(4, 32)[:, ::-1].ravel())


def test_a_ring_between_two_warps(device: ck.Device) -> None:
    """One fills the stages, the other empties them."""
    if not has_hopper(device):
        pytest.skip("needs a GPU of compute capability 9.0")
    x = np.arange(1, 7 * 32 + 1, dtype=np.float32)
    y = ck.zeros(x.shape, device=device)
    body = """__shared__ float ring[2][32];
    __shared__ MBarrier full[2], empty[2];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        mbarrier_init_ring(full, empty, 2, 1, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    for (int i = 0; i < n; ++i) {
        if (threadIdx.x < 32) {
            mbarrier_wait(&empty[i % 2], i / 2 % 2 ^ 1);
            ring[i % 2][lane] = x[32 * i + lane];
            mbarrier_arrive_warp(&full[i % 2]);
        } else {
            mbarrier_wait(&full[i % 2], i / 2 % 2);
            y[32 * i + lane] = ring[i % 2][31 - lane];
            mbarrier_arrive_warp(&empty[i % 2]);
        }
    }"""
    kernel("mbarrier", "const float* x, float* y, int n", body)(
        ck.asarray(x, device=device), y, len(x) // 32, grid=1, block=64
    )
    np.testing.assert_array_equal(y.numpy(), x.reshape(-1, 32)[:, ::-1].ravel())


def test_stages_of_another_block_are_freed(device: ck.Device) -> None:
    """What has been read is overwritten by copies alone: so the wait need not see what other blocks did."""
    if device.properties.max_blocks_per_cluster < 2:
        pytest.skip("needs a GPU of compute capability 9.0")
    text = MULTICAST
    for right, other in (("mbarrier_arrive_at", "mbarrier_free_at"), ("wait_cluster(&empty", "wait(&empty")):
        assert text.count(right) == 1
        text = text.replace(right, other)
    multicast(device, text)


def test_tiles_are_brought_with_a_cache_policy(device: ck.Device) -> None:
    """Which lines the L2 keeps longer changes no result, nor does a map that is prefetched."""
    if device.properties.max_blocks_per_cluster < 2:
        pytest.skip("needs a GPU of compute capability 9.0")
    begins = "prefetch_map(x);\n    cluster_arrive_relaxed();\n    cluster_wait();"
    policy = ", i % 2 ? evict_normal() : evict_last())"
    for_both = [
        ("    cluster_barrier();\n    if", f"    {begins}\n    if"),
        ("&full[i % 2], 3)", f"&full[i % 2], 3{policy}"),
    ]
    each_alone = [
        for_both[0],
        (
            "copy_tile_multicast(stages[i % 2][8 * rank]",
            "for (int r = 0; r < 2; ++r) copy_tile(stages[i % 2][8 * r]",
        ),
        ("{16 * i + 8 * rank, 0}, &full[i % 2], 3)", f"{{16 * i + 8 * r, 0}}, &full[i % 2]{policy}"),
        ("int r = 0; r < 2; ++r) mbarrier", "int r = rank; r <= rank; ++r) mbarrier"),
        ("&empty[s], 64", "&empty[s], 32"),
    ]
    for steps in (for_both, each_alone):
        text = MULTICAST
        for right, other in steps:
            assert text.count(right) == 1
            text = text.replace(right, other)
        multicast(device, text)


@pytest.mark.parametrize("use", ["prefetch_map(none)", "copy_tile(to, none, {0}, &here)"])
def test_a_map_that_python_has_not_made(use: str) -> None:
    body = f"""__shared__ __align__(128) char to[128];
    __shared__ MBarrier here;
    TensorMap none = {{}};
    if (threadIdx.x == 0) mbarrier_init(&here, 1), {use};"""
    with ck.device("host"), pytest.raises(ck.KernelFault, match="not made by cukern.TensorMap"):
        kernel("tensor_map", "float* y", body)(ck.zeros(1), grid=1, block=32)


def test_sums_of_an_earlier_group_are_read_while_another_is_made(device: ck.Device) -> None:
    needs_wgmma(device)
    call = "wgmma< << type >>, 64, true, << by_depth >> >(sums, of_a, of_b, k > 0);"
    own = call.replace("k > 0", "k % 2 > 0")
    steps = (
        ("float sums[32];", "float sums[32], later[32];"),
        ("for (int k = 0; k < 4; ++k) {", "#pragma unroll\n    for (int k = 0; k < 4; ++k) {"),
        (call, f"if (k < 2) {own} else {own.replace('sums', 'later')} if (k == 1) wgmma_commit();"),
        (
            "wgmma_wait<0>(sums);",
            """wgmma_wait<1>(sums);
    wgmma_made(sums);
    for (int i = 0; i < 32; ++i) sums[i] *= 2;
    wgmma_wait<0>(later);
    for (int i = 0; i < 32; ++i) sums[i] += later[i];""",
        ),
    )
    text = FACTORS
    for right, other in steps:
        assert text.count(right) == 1
        text = text.replace(right, other)
    made, whole = product(device, "__half", False, text=text)
    first = product(
        device, "__half", False, text=FACTORS.replace(steps[1][0], "for (int k = 0; k < 2; ++k) {")
    )[0]
    np.testing.assert_array_equal(made, whole + first)


@pytest.mark.parametrize(
    ("header", "first"),
    [
        ("next_kernel", "allow_next_kernel();"),
        (
            "overlap",
            "ask_ahead(from + 4 * threadIdx.x, threadIdx.x); wait_for_earlier_kernels(); allow_next_kernel();",
        ),
    ],
)
def test_kernels_that_allow_the_next_one_come_in_order(device: ck.Device, header: str, first: str) -> None:
    """Each reads what the one before it has written after it allowed this one."""
    x, y = (ck.asarray(np.arange(4096, dtype=np.float32), device=device) for _ in range(2))
    body = f"""{first}
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[n - 1 - i] = 2 * from[i] + 1;"""
    step, wanted = kernel(header, "const float* from, float* to, int n", body), x.numpy()
    for _ in range(6):
        step(x, y, x.size, grid=16, block=256)
        x, y, wanted = y, x, (2 * wanted + 1)[::-1]
    np.testing.assert_array_equal(x.numpy(), wanted)
