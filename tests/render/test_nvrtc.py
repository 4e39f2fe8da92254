"""Every kernel of the library through NVRTC, for GPUs that need not be here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gpu_without_one import Gpu, gpu_without_one

import cukern as ck
from cukern import dtypes, render
from cukern.device import nvrtc
from cukern.device.base import CompilerFailure

try:
    nvrtc.version()
except ck.DeviceError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    with gpu_without_one() as made:
        yield made


def _zeros(dtype: Any, *shapes: tuple[int, ...]) -> list[ck.Array]:
    return [ck.zeros(shape, dtype) for shape in shapes]


def _derivatives(f: Callable[..., Any], *args: ck.Array) -> None:
    """Launch ``f`` and its first derivatives."""
    result, pullback = ck.vjp(f, *args)
    pullback(tuple(map(ck.zeros_like, result)) if isinstance(result, tuple) else ck.zeros_like(result))


def _sgd(dtype: Any) -> None:
    for options in ({}, {"momentum": 0.5}, {"momentum": 0.5, "nesterov": True}):
        x, g = _zeros(dtype, (3,), (3,))
        ck.optim.SGD([x], lr=1.0, **options).step([g])


def _adam(dtype: Any) -> None:
    for optimizer in (ck.optim.Adam, ck.optim.AdamW):
        x, g = _zeros(dtype, (3,), (3,))
        optimizer([x]).step([g])


#: What launches each template's kernels, in their variants, for a dtype.
FLOATING: dict[str, Callable[[Any], None]] = {
    "sgd": _sgd,
    "adam": _adam,
}


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOATING)
def test_kernels_compile(gpu: Gpu, name: str, dtype: Any) -> None:
    FLOATING[name](dtype)


def test_every_template_has_an_example(gpu: Gpu) -> None:
    for example in FLOATING.values():
        example(ck.float32)
    names = {str(path.relative_to(render.TEMPLATES)) for path in render.TEMPLATES.rglob("*.cu")}
    assert names - gpu.templates == set()


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
