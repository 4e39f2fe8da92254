"""The PTX of a kernel, and NVRTC's messages, on a machine without a GPU."""

import re

import pytest
from gpu_without_one import gpu_without_one

import cukern as ck
from cukern.device import nvrtc
from cukern.device.cuda import driver
from cukern.nn.layer_norm.variants import Registers
from cukern.text import signature


@pytest.mark.parametrize(
    "dtype, load", [("float32", "ld.global"), ("float16", "ld.global"), ("bfloat16", "ld.global")]
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_ptx(dtype, load, arch):
    kernel = ck.Kernel(
        """extern "C" __global__ void << name >>(const << elem >>* x, float* y) {
            y[threadIdx.x] = cast<float>(x[threadIdx.x]);
        }""",
        name="widen",
        elem=dtype,
    )
    text = kernel.ptx(arch=arch)
    assert f".visible .entry widen_{dtype}_256(" in text
    assert f".target {arch}" in text and load in text


def test_a_kernel_of_sm_90_waits_before_it_reads():
    text = 'extern "C" __global__ void k(const float* x, float* y) { float z = x[0]; y[0] = z; }'
    ptx = nvrtc.compile(driver.waiting(signature.parse(text)), arch="sm_90").ptx
    assert 0 < ptx.index("griddepcontrol.wait") < ptx.index("ld.global")


def settled_rows(**more):
    """The PTX of products of rows of Q4_K whose weights no kernel before writes."""
    sizes = {"columns": 1, "rows": 2, "warps": 8, "stages": 4, "block": 256, "asked": 1024}
    form = {"kind": "q4_k", "aligned": True, "biased": False, "settled": True}
    return ck.Kernel("quant/rows.cu", name="rows").ptx(elem="float32", **sizes, **form, **more, arch="sm_90")


def test_settled_weights_are_asked_for_before_the_wait():
    """And what the kernel before wrote, the planes of activations, after it."""
    ptx = settled_rows(packs=0)
    wait = ptx.index("griddepcontrol.wait")
    assert 0 < ptx.index("cp.async") < wait < ptx.index("ld.global")
    assert ptx.count("griddepcontrol.wait") == 1


@pytest.mark.parametrize("lead", [1, 2])
def test_activations_are_asked_for_before_most_of_settled_weights(lead):
    """Memory answers in the order of requests."""
    ptx = settled_rows(packs=2, lead=lead, bulk=True)
    copy = "cp.async.bulk.shared"
    before, behind = ptx.split("griddepcontrol.wait")
    read = behind.index("ld.global")
    assert before.count(copy) == lead
    assert behind[read:].count(copy) >= 3 - lead
    assert copy not in behind[:read]


def packs_read(ptx):
    """How many there are before the barrier that keeps loads together, and after it."""
    return [len(re.findall(r"ld\.global\S*\.v4", part)) for part in ptx.split("bar.warp.sync")]


@pytest.mark.parametrize("dtype, itemsize", [("float32", 4), ("bfloat16", 2)])
def test_layer_norm_of_short_rows_reads_weight_and_bias_with_the_row(dtype, itemsize):
    (one,), (longer,) = (Registers.of_packs(n, itemsize, clusters=1) for n in (1024, 4096))
    assert one.ahead and not longer.ahead
    ptx = ck.Kernel("nn/layer_norm/forward_rows.cu", name="layer_norm").ptx(
        **one.constants(),
        block=one.block,
        elem=dtype,
        index="int",
        half=itemsize == 2,
        exact=True,
        weighted=True,
        biased=True,
        centered=True,
        grouped=False,
        activation=None,
        residual=False,
    )
    assert packs_read(ptx) == [3 * one.chunks, 0]


def test_elementwise_kernels_read_several_rows_before_they_compute():
    fused = ck.fuse(lambda m, row: ck.exp(m) * row)
    with gpu_without_one(compiles=False):
        text = fused.source(ck.zeros((64, 1024)), ck.zeros(1024))
    assert packs_read(nvrtc.compile(text).ptx) == [1 + 4, 0]


def test_nvrtcs_errors_name_the_templates_line():
    kernel = ck.Kernel(
        """// first
extern "C" __global__ void << name >>(float* y) {
    <% for k in range(2) %>
    y[<< k >>] = zork;
    <% endfor %>
}""",
        name="broken",
        flavour="sour",
    )
    with pytest.raises(ck.CompileError) as caught:
        kernel.ptx()
    assert "line 4" in str(caught.value) and "flavour='sour'" in str(caught.value)
    assert "zork" in caught.value.log
