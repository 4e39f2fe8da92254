"""Every kernel of the library through NVRTC, for GPUs that need not be here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_launches import (
    EVERY,
    arrays,
    launch_convolve,
    launch_elementwise,
    launch_histogram,
    launch_reduce,
    launch_scan,
    with_derivatives,
)
from gpu_without_one import Gpu, gpu_without_one, multiplies_by_warpgroups, require_nvrtc
from layer_launches import (
    FLOATING,
    launch_attention,
    launch_attention_of_warpgroups,
    launch_convolution,
    launch_generate,
    launch_norms,
    launch_product,
    launch_products_of_other_forms,
    launch_quantised,
    only,
    saved,
)

import cukern as ck
from cukern import dtypes
from cukern.launch.family import FAMILIES, Family
from cukern.launch.variant import Variant
from cukern.linear.tma import TMA_TILES
from cukern.linear.variants import OneLaunch, TensorCores
from cukern.text import render

require_nvrtc()

#: Dtypes whose kernels are those of another integer but for the type's name.
ALIKE = [np.dtype(name) for name in ("uint8", "int16", "uint16", "uint32", "uint64")]
#: Those whose kernels are another dtype's but for conversions or the type's width: thorough.
SIMILAR = (ck.float16, ck.float64, ck.int8, ck.int64, ck.complex128)
#: Those whose products of warpgroups are optimised in this dtype, as they show mistakes in machine code alone; of the
#: other kernels, and of attention's many instructions, it is thorough.
OPTIMISED = (launch_convolution, launch_product, launch_products_of_other_forms)
OPTIMISED_DTYPE = ck.bfloat16
#: Of these launches alone other dtypes of elements than floats are compiled by default: the type of what is summed or
#: computed depends on them, where the rest moves and compares them.
BY_DTYPE = (launch_elementwise, launch_reduce, launch_scan)
#: Those that ask for kernels of compute capability 9.0 by name.
OF_90 = (launch_attention_of_warpgroups, launch_generate, launch_product, launch_quantised)
#: What computes real numbers alone.
REAL = (launch_convolve, launch_histogram)
CASES = [
    (launch, dtype)
    for launch in EVERY
    for dtype in dtypes.ALL
    if dtype not in ALIKE and not (launch in REAL and dtype in dtypes.COMPLEX)
]
CASES += [
    (launch, dtype)
    for launch in FLOATING
    for dtype in dtypes.FLOATS
    if launch is not launch_attention_of_warpgroups or dtype == ck.bfloat16
]


def _case(launch: Callable[[Any], None], dtype: Any) -> Any:
    """A parameter of a test."""
    similar = dtype in SIMILAR or (
        launch in EVERY and launch not in BY_DTYPE and dtype not in (ck.float32, ck.bfloat16)
    )
    marks = [pytest.mark.thorough] if similar else []
    return pytest.param(launch, dtype, id=f"{launch.__name__.removeprefix('launch_')}-{dtype}", marks=marks)


@pytest.mark.parametrize(("launch", "dtype"), [_case(*case) for case in CASES])
def test_kernels_compile(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, launch: Callable[[Any], None], dtype: Any
) -> None:
    optimised = dtype == OPTIMISED_DTYPE and launch in OPTIMISED
    monkeypatch.setattr(gpu, "optimises", multiplies_by_warpgroups if optimised else lambda text: False)
    launch(dtype)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("launch", "dtype"),
    [pytest.param(*case, id=f"{case[0].__name__.removeprefix('launch_')}-{case[1]}") for case in CASES],
)
def test_kernels_compile_when_optimised(launch: Callable[[Any], None], dtype: Any) -> None:
    with gpu_without_one():
        launch(dtype)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ALIKE, ids=str)
@pytest.mark.parametrize("launch", EVERY)
def test_kernels_of_similar_dtypes_compile(gpu: Gpu, launch: Callable[[Any], None], dtype: Any) -> None:
    launch(dtype)


@pytest.mark.thorough
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("launch", [*EVERY, *(one for one in FLOATING if one not in OF_90)])
def test_kernels_compile_for_other_architectures(launch: Callable[[Any], None], arch: str) -> None:
    """As :func:`test_kernels_compile` does for sm_90 and sm_90a; for those of OF_90 see test_architectures.py."""
    with gpu_without_one(arch=arch):
        for dtype in (ck.float32, ck.bfloat16) if launch in FLOATING else (ck.float32,):
            launch(dtype)


@pytest.mark.thorough
@pytest.mark.parametrize("config", [TensorCores(*TensorCores.tiles[0]), TMA_TILES[2]], ids=["wgmma", "tma"])
def test_products_do_not_wait_for_sums_that_are_stored_apart(config: OneLaunch) -> None:
    """Rows of D begin at any address, and the sums are stored as they are."""
    with gpu_without_one(), only(config):
        x, w, c = (ck.zeros(shape, ck.bfloat16) for shape in ((304, 128), (267, 128), (267,)))
        saved(lambda x: ck.fuse(lambda x, w, c: ck.gelu(x @ w.T + c))(x, w, c), x)


@pytest.mark.thorough
def test_products_compile_in_every_way() -> None:
    with gpu_without_one():
        launch_product(ck.bfloat16, everything=True)


@pytest.mark.thorough
def test_every_reduction_compiles_in_every_way(gpu: Gpu) -> None:
    launch_reduce(ck.float32, everything=True)


@pytest.mark.thorough
def test_derivatives_of_scores_by_warpgroups_compile(gpu: Gpu) -> None:
    launch_attention_of_warpgroups(ck.bfloat16, everything=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64", "int32"])
def test_a_users_own_functions_compile(gpu: Gpu, dtype: str) -> None:
    kind = "integral" if dtype == "int32" else "real floating"
    own = ck.elementwise("own", "x - y * 2", kind=kind, vjp=lambda g, x, y, r: (g, -2 * g))
    most = ck.reduction("most", "x", "a > b ? a : b", "a", identity=-np.inf, kind=kind)
    x, y = arrays(dtype, (3, 40), (40,))
    own(x, y)
    for axis in (0, 1):
        most(x, axis=axis)
    if dtype != "int32":
        length = ck.reduction(
            "length", "x * x", "a + b", "sqrt(a)", identity=0, vjp=lambda g, x, y, n: g * x / y
        )
        with_derivatives(lambda x: length(own(x, y), axis=1), x)
    with pytest.raises(ck.CompileError, match='identifier "nosuch" is undefined'):
        ck.elementwise("bad", "nosuch(x)", kind=kind)(x)


def test_every_template_and_variant_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases above compile; here they show by rendering that they leave out no template and no variant."""
    used: set[tuple[str, str]] = set()
    choose = Family._chosen

    def noted(family: Family[Any], problem: Any) -> Any:
        config, limits = choose(family, problem)
        used.add((family.name, config.name))
        return config, limits

    monkeypatch.setattr(Family, "_chosen", noted)
    with gpu_without_one(compiles=False) as gpu:
        for launched in (*EVERY, *FLOATING):
            launched(ck.float32)
        for launched in (
            launch_product,
            launch_norms,
            launch_convolution,
            launch_attention,
            launch_quantised,
        ):
            launched(ck.bfloat16)
        launch_attention_of_warpgroups(ck.bfloat16, everything=True)
    names = {str(path.relative_to(render.TEMPLATES)) for path in Path(render.TEMPLATES).rglob("*.cu")}
    variants = {
        (family.name, one.name)
        for family in FAMILIES.values()
        for one in family.variants.values()
        if one.__module__.startswith("cukern.")
        and (one.kernel is not None or one.template is not Variant.template)
    }
    missing = [*sorted(names - gpu.templates), *sorted(variants - used)]
    assert not missing, (
        f"launch {missing} in a function of array_launches.py that is named in EVERY, or of layer_launches.py "
        "and named in FLOATING"
    )
