"""The PTX of a kernel, and NVRTC's messages, on a machine without a GPU."""

import pytest

import cukern as ck
from cukern import signature
from cukern.device import driver, nvrtc


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
