"""Users' kernels through NVRTC, for GPUs that need not be here, and what NVRTC says."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asynchronous import CLUSTER, COPIES, EXCHANGE, FACTORS, MULTICAST, PIPELINE, ROLES, TILES, WARPGROUP
from gpu_without_one import Gpu, _Function, gpu_without_one, require_nvrtc

import cukern as ck
from cukern.device import nvrtc
from cukern.device.interface import CompilerFailure
from cukern.text import render
from cukern.text.stand_ins import StandIn

require_nvrtc()


@pytest.mark.parametrize(
    "text",
    [PIPELINE, COPIES, ROLES, WARPGROUP, TILES, CLUSTER, MULTICAST, EXCHANGE],
    ids=["bulk", "copies", "roles", "products", "tiles", "cluster", "multicast", "exchange"],
)
def test_asynchronous_kernels_compile(gpu: Gpu, text: str) -> None:
    more = {"rows": 8, "columns": 16, "swizzle": 64, "adds": True, "elem": "float32"} if text is TILES else {}
    more = {"blocks": 4} if text is EXCHANGE else more
    ck.Kernel(text, name="asynchronous", uses_half=True, **more).bind(ck.zeros(1).device, block=128)


def test_copies_of_tiles_of_every_rank_compile(gpu: Gpu) -> None:
    text = """<% include "prelude/tensor_map.cuh" %>
    template <int RANK>
    __device__ void copies(char* to, const TensorMap& map, MBarrier* here) {
        const int at[RANK] = {};
        copy_tile(to, map, at, here);
        copy_tile(to, map, at, here, evict_last());
        copy_tile_multicast(to, map, at, here, 3);
        copy_tile_multicast(to, map, at, here, 3, evict_normal());
        store_tile(map, at, to);
        add_tile(map, at, (const int*)to);
    }
    extern "C" __global__ void << name >>(const __grid_constant__ TensorMap map) {
        __shared__ __align__(128) char to[1024];
        __shared__ MBarrier here;
        prefetch_map(map);
        copies<1>(to, map, &here), copies<2>(to, map, &here), copies<3>(to, map, &here);
        copies<4>(to, map, &here), copies<5>(to, map, &here);
    }"""
    ck.Kernel(text, name="copies_of_tiles").bind(ck.zeros(1).device, block=32)


@pytest.mark.parametrize("ctype", ["__half", "__nv_bfloat16", "float", "E4M3"])
@pytest.mark.parametrize("in_registers", [False, True])
def test_products_of_every_type_compile(gpu: Gpu, ctype: str, in_registers: bool) -> None:
    depths = ("true",) if ctype in ("float", "E4M3") else ("true", "false")
    for by_depth in depths:
        kernel = ck.Kernel(FACTORS, name="factors", type=ctype, in_registers=in_registers, by_depth=by_depth)
        kernel.bind(ck.zeros(1).device, block=128, uses_half=True, uses_bfloat16=True)


def test_products_of_a_warp_compile_in_e4m3() -> None:
    text = """<% include "prelude/mma.cuh" %>
    extern "C" __global__ void << name >>(const float* x, float* y) {
        unsigned a[4], b[2];
        float d[4] = {};
        for (int i = 0; i < 4; ++i) a[i] = as_e4m3x4(x[i], x[i + 1], x[i + 2], x[i + 3]);
        for (int i = 0; i < 2; ++i) b[i] = as_tf32(x[i]);
        mma<E4M3>(d, a, b);
        y[threadIdx.x] = d[0] + as_float(E4M3{(unsigned char)threadIdx.x});
    }"""
    log = nvrtc.compile(ck.Kernel(text, name="e4m3").source(ck.zeros(1), ck.zeros(1)), "sm_90").log
    assert "warning" not in log


def test_kernels_in_dual_numbers_compile() -> None:
    text = """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, << acc >> eps, int n) {
    __shared__ << acc >> part[32];
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i >= n) return;
    << acc >> v = x[i];
    part[threadIdx.x % 32] = v;
    __syncthreads();
    y[i] = pow(v, 2) + fmax(v, 0.5f) * expf(-v) / (1 + fabs(v)) + __shfl_xor_sync(~0u, v, 1) + part[0] * eps;
    if (v > 1) atomicAdd(&y[0], sqrt(v));
}"""
    kernel = ck.Kernel(text, name="dual", block=32)
    rendered = render.render(kernel.template, kernel._resolve({"elem": ck.float32})[0], StandIn(dual=True))
    assert "complex<double>* x" in rendered.text
    assert "warning" not in nvrtc.compile(rendered.text, "sm_90").log


def test_products_of_the_example_compile(gpu: Gpu) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "09_tensor_cores.py"))
    for step in ("naive", "shared", "warps", "tiles", "roles"):
        example[step].bind(ck.zeros(1).device)


@pytest.mark.parametrize(
    "grid", [4, (4, 1), [4, 1], np.int64(4), (np.int32(4), np.uint8(1)), [np.int64(4)], np.array([4, 1])]
)
def test_every_kind_of_grid_launches_and_launches_again(monkeypatch: pytest.MonkeyPatch, grid: Any) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(_Function, "__call__", lambda self, *launch: ran.append(launch[:2]))
    monkeypatch.setattr(_Function, "prepare", lambda self, *launch: lambda *values: ran.append(launch[:2]))
    kernel = ck.Kernel(
        'extern "C" __global__ void << name >>(<< elem >>* x) { x[0] = 1; }', name="grids", block=[32, 1]
    )
    with gpu_without_one(compiles=False):
        x = ck.zeros(8)
        for block in (32, [32, 1], np.array([32])):
            for _ in range(2):
                kernel(x, grid=grid, block=block)
    assert ran == [((4, 1, 1), (32, 1, 1))] * 6


def test_a_text_that_does_not_compile_is_reported(gpu: Gpu) -> None:
    kernel = ck.Kernel(
        'extern "C" __global__ void << name >>(<< elem >>* x) {\n    x[0] = nowhere;\n}', name="bad"
    )
    with pytest.raises(ck.CompileError, match='identifier "nowhere" is undefined'):
        kernel(ck.zeros(1))


def test_ptx_cubin_and_log() -> None:
    program = nvrtc.compile('extern "C" __global__ void k(float* x) { int unused; x[0] = 1; }', "sm_80")
    assert ".target sm_80" in program.ptx
    assert ".entry k(" in program.ptx
    assert program.cubin.startswith(b"\x7fELF")
    assert '"unused" was declared but never referenced' in program.log


def test_refusals_carry_the_log() -> None:
    with pytest.raises(CompilerFailure) as failure:
        nvrtc.compile('#line 7 "some.cu"\n__global__ void k() { x = 1; }')
    assert "some.cu(7): error" in failure.value.log
    with pytest.raises(CompilerFailure, match="arch"):
        nvrtc.compile("", arch="sm_1")


def test_half_headers_are_found() -> None:
    headers = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    assert nvrtc.compile(headers + "__global__ void k(__half* x) { x[0] = __hadd(x[1], x[2]); }").cubin


def test_without_nvrtc_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_wheels", lambda: iter(()))
    monkeypatch.setattr(nvrtc, "_system", lambda: iter(()))
    with pytest.raises(ck.DeviceError, match="pip install nvidia-cuda-nvrtc-cu12"):
        nvrtc.toolkit.__wrapped__()
