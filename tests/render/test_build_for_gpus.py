"""Kernels built for GPUs that are not here: what is recorded, what it is compiled from, and how a GPU finds it."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_without_one import require_nvrtc

import cukern as ck
from cukern import cli
from cukern.device import nvrtc
from cukern.device.bundle_file import BundleFile, Code, Target, hash_of, write
from cukern.device.cuda import architectures
from cukern.device.cuda.backend import CudaBackend
from cukern.text import signature

require_nvrtc()

#: Computes with every kind of call that a GPU takes, and checks the values against NumPy's.
PROGRAM = """
import warnings
import numpy as np
import cukern as ck
from cukern.linear.families import PRODUCT

rng = np.random.default_rng(0)
x, y = (rng.normal(size=(2, 3, 5, 5)) for _ in range(2))
on_gpu = ck.asarray(x, dtype="float32"), ck.asarray(y, dtype="float32")
assert on_gpu[0].device is ck.Device("cuda") and not on_gpu[0].device.addressable

def agree(made, right, tolerance=1e-5):
    np.testing.assert_allclose(made.numpy().astype("float64"), right, tolerance, tolerance)

a, b = on_gpu
agree(ck.tanh(a) + b.T[0, :, 0, 0, None], np.tanh(x) + y.T[0, :, 0, 0, None])
agree(a @ b, x @ y)  # one stride
agree(a.transpose(1, 0, 2, 3) @ b[:, 0, None][:, :, :, ::2].transpose(1, 0, 2, 3),
      x.transpose(1, 0, 2, 3) @ y[:, 0, None][:, :, :, ::2].transpose(1, 0, 2, 3))  # addresses
half = a.astype("bfloat16")
agree(half @ half, half.numpy().astype("float64") @ half.numpy().astype("float64"), 0.02)
p, q, r = (rng.normal(size=size) for size in ((24, 16), (8, 16), 8))
given = [ck.asarray(one, dtype="float32") for one in (p, q, r)]
with PRODUCT.only("cuBLASLt with epilogue"):
    assert "cuBLASLt" in ck.fuse(lambda x, w, b: ck.relu(x @ w.T + b)).source(*given)
    agree(ck.nn.linear(*given, activation=ck.relu), np.maximum(p @ q.T + r, 0))
if a.device.properties.compute_capability == (8, 0):
    raise SystemExit  # what follows takes long, and has been compiled for another GPU

rows, ones = rng.normal(3, 2, size=(24600, 32)), ck.ones(32)  # all blocks of a GPU keep them, which wait for each other
def normal(one, w):
    return ck.nn.batch_norm(one, None, None, w, None, True, channel_axis=-1)
plain, pull = ck.vjp(normal, ck.asarray(rows, dtype="float32"), ones)
right = (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-5)
agree(plain, right, 1e-4)
agree(pull(ck.asarray(right, dtype="float32"))[1], (right * right).sum(0), 1e-3)

agree(ck.cumulative_sum(a, axis=3), np.cumsum(x, axis=3))
agree(ck.sort(a.reshape(-1)), np.sort(x, axis=None))
agree(ck.linalg.diagonal(a, offset=1), np.diagonal(x, 1, 2, 3))
try:
    ck.Kernel("extern \\"C\\" __global__ void << name >>(float* y) { y[0] = nothing; }")(a)
    raise AssertionError("a kernel of neither compiler was launched")
except ck.CompileError:
    pass
agree(ck.linalg.inv(a[0, 0]), np.linalg.inv(x[0, 0]), 1e-3)
agree(a[a > 0], x[x > 0])
agree(ck.zeros(3).at[ck.asarray([0, 2, 2])].add(1.0), [1, 0, 2])

weight = ck.nn.Parameter(ck.asarray(x[0, 0], dtype="float32"))
optimizer = ck.optim.Adam([weight], lr=0.1)

def plain(v):
    with ck.Tape() as tape:
        loss = ck.sum(ck.softmax(v @ weight) ** 2)
    optimizer.step([tape.gradient(loss, weight)])
    return loss

captured = ck.capture(plain)
losses = [captured(a[0, i % 3]).item() for i in range(5)]
assert captured.graphs == 1, captured
weight[...] = ck.asarray(x[0, 0], dtype="float32")
optimizer = ck.optim.Adam([weight], lr=0.1)
np.testing.assert_allclose(losses, [plain(a[0, i % 3]).item() for i in range(5)], 1e-5)

@ck.capture
def reads(v):
    return v * v.sum().item()

agree(reads(a), x * x.sum(), 1e-4)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    agree(reads(a), x * x.sum(), 1e-4)
assert "reads values of an array on the host; it is not recorded" in str(caught[0].message), caught

alone = ck.Kernel('''
extern "C" __global__ void << name >>(float* y) {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    y[threadIdx.x] = lane;
}''', name="alone", block=32)
twice = ck.Kernel('''
extern "C" __global__ void << name >>(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
''', name="twice", block=32, checked=True)
doubled = ck.empty(32)
with ck.testing.checked():  # which does not apply to GPUs
    for _ in range(2):
        twice(ck.ones(32), doubled, grid=1)
        agree(doubled + 1, np.full(32, 3))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    alone(ck.empty(32))
assert "alone_float32_32 does not compile for the host, so it does not run" in str(caught[0].message), caught
print(a.device.properties.name, a.device.properties.multiprocessors)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(PROGRAM)
    arguments = [
        "build",
        str(folder / "program.py"),
        "--arch",
        "sm_90a,sm_80",
        "--out",
        str(folder / "bundle"),
    ]
    assert cli.main(arguments) == 0
    return folder / "bundle"


def test_a_program_s_kernels_are_compiled_for_each_gpu(built: Path) -> None:
    found = BundleFile(built)
    assert [(one.name, one.kind) for one in found.targets[:2]] == [("sm_90", "cuda"), ("sm_80", "cuda")]
    assert found.targets[0].facts == {
        "compute capability": "9.0",
        "nvrtc": "{}.{}".format(*nvrtc.version()),
    }
    for target in range(2):
        codes = found.codes(target)
        names = {code.name for code in codes}
        assert "pointers_128" in names, names
        assert ("alone_float32_32" in names) is (target == 0)
        grids = {"channel_norm", "channel_norm_gradients"} & {name.rsplit("_float32", 1)[0] for name in names}
        assert len(grids) == 2 * (target == 0), names
        assert all(code.payload.startswith(b"\x7fELF") for code in codes)
    newer, older = ({code.key: code.payload for code in found.codes(target)} for target in range(2))
    shared = newer.keys() & older.keys()
    assert shared
    assert all(newer[key] != older[key] for key in shared)
    assert found.codes(2), "the templates' code"


WAITS = 'extern "C" __global__ void k(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }'
READS_EARLY = WAITS.replace("const float* x", "const float* __restrict__ x")


@pytest.mark.parametrize(
    ("text", "name", "waits"),
    [(WAITS, "sm_90", True), (READS_EARLY, "sm_90", False), (WAITS, "sm_80", False)],
)
def test_kernels_wait_for_the_one_before_where_gpus_start_them_early(
    monkeypatch: pytest.MonkeyPatch, text: str, name: str, waits: bool
) -> None:
    made: list[nvrtc.Program] = []
    real = nvrtc.compile
    monkeypatch.setattr(nvrtc, "compile", lambda *args, **more: made.append(real(*args, **more)) or made[-1])
    assert architectures.compiled(signature.parse(text), name) == made[0].cubin
    assert ("griddepcontrol.wait" in made[0].ptx) is waits
    assert made[0].arch == name
    assert ".ftz" in real(text.replace("x[threadIdx.x]", "x[0] * 2"), options=("-ftz=true",)).ptx


def test_flushes_subnormal_numbers_as_cupy_does(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    real = nvrtc.compile
    monkeypatch.setattr(nvrtc, "compile", lambda *args, **more: given.append(more) or real(*args, **more))
    architectures.compiled(signature.parse(WAITS), "sm_90")
    assert given == [{"options": ("-ftz=true",)}]


def test_the_limits_of_a_gpu_can_be_given() -> None:
    assert architectures.properties("sm_90").multiprocessors == 132
    made = architectures.properties("sm_86", 46, 50000)
    assert (made.multiprocessors, made.max_shared_memory_per_block) == (46, 50000)
    assert (made.compute_capability, made.max_blocks_per_cluster) == ((8, 6), 1)
    assert architectures.capability("sm_90a") == (9, 0)
    assert architectures.capability("sm_120") == (12, 0)
    for name in ("sm_9", "sm_91", "sm_900", "90", "sm_90b", "compute_90", ""):
        with pytest.raises(ck.DeviceError, match="--arch: expected host"):
            architectures.capability(name)


def test_a_kernel_that_the_compiler_refuses_is_named(capfd: Any, tmp_path: Path) -> None:
    """The host compiles it, and NVRTC does not."""
    (tmp_path / "p.py").write_text(
        "import cukern as ck\n"
        "ck.Kernel('extern \"C\" __global__ void << name >>(float* x) { __builtin_ia32_pause(); }', name='odd')"
        ".bind(elem='float32')\n"
    )
    out = tmp_path / "b"
    assert cli.main(["build", str(tmp_path / "p.py"), "--arch", "sm_80", "--out", str(out)]) == 1
    assert "CukernError: kernel odd_float32_256 does not compile for sm_80\n" in capfd.readouterr().err
    assert not out.exists()


# ---------------------------------------------------------------- a GPU that finds kernels


class _NoNvrtc(types.ModuleType):
    """CuPy on a machine without NVRTC, of which only the loading of modules is there."""

    def __init__(self, capability: tuple[int, int], driver: int) -> None:
        super().__init__("cupy")
        self.loaded: list[bytes] = []
        found = {
            "maxThreadsDim": (1024, 1024, 64), "maxGridSize": (2**31 - 1, 65535, 65535), "name": b"a GPU",
            "maxThreadsPerBlock": 1024, "sharedMemPerBlock": 49152, "warpSize": 32, "multiProcessorCount": 9,
            "major": capability[0], "minor": capability[1],
        }  # fmt: skip

        class Device(contextlib.nullcontext):  # type: ignore[type-arg]
            attributes: dict[str, int] = {}  # noqa: RUF012

        self.cuda = types.SimpleNamespace(
            runtime=types.SimpleNamespace(
                getDevice=lambda: 0,
                getDeviceProperties=lambda index: found,
                driverGetVersion=lambda: driver,
                runtimeGetVersion=lambda: 12040,
            ),
            compiler=types.SimpleNamespace(CompileException=type("CompileException", (Exception,), {})),
            Device=Device,
        )

    def RawModule(self, *, code: str = "", path: str = "", options: tuple[str, ...] = ()) -> Any:
        if code:
            raise RuntimeError("CuPy failed to load libnvrtc.so.12")
        self.loaded.append(Path(path).read_bytes())
        kernel = types.SimpleNamespace(ptr=1)
        made = types.SimpleNamespace(attributes={"shared_size_bytes": 16}, kernel=kernel)
        return types.SimpleNamespace(get_function=lambda name: made)


@pytest.fixture
def on_gpu(tmp_path: Path) -> Iterator[Callable[..., tuple[Any, CudaBackend]]]:
    """Loads a bundle of one kernel for sm_90, and makes a backend of a GPU without NVRTC."""
    unit = signature.parse(WAITS)
    target = Target("sm_90", {"compute capability": "9.0", "nvrtc": "12.9"})
    write(tmp_path / "b", ck.__version__, [(target, [Code("k", hash_of(WAITS, unit.trusted), b"cubin")])])
    bundle = ck.load_bundle(tmp_path / "b")

    def make(capability: tuple[int, int] = (9, 0), driver: int = 12040) -> tuple[Any, CudaBackend]:
        cupy = _NoNvrtc(capability, driver)
        return cupy, CudaBackend(cupy)

    yield make
    bundle.close()


def test_a_gpu_loads_a_bundle_s_kernel_without_nvrtc(on_gpu: Any) -> None:
    cupy, backend = on_gpu()
    function = backend.compile(0, signature.parse(WAITS))
    assert cupy.loaded == [b"cubin"]
    assert function.attributes == {"shared_size_bytes": 16}


def test_a_gpu_names_a_kernel_that_is_missing(on_gpu: Any) -> None:
    _, backend = on_gpu()
    with pytest.raises(
        ck.DeviceError,
        match="kernel k is not in the bundle .*b, and cannot be compiled: NVIDIA's library nvrtc",
    ):
        backend.compile(0, signature.parse(READS_EARLY))


@pytest.mark.parametrize(
    ("capability", "driver", "reason"),
    [
        ((8, 6), 12040, "sm_90: this GPU, a GPU, is of sm_86"),
        ((9, 0), 11080, "sm_90: it was compiled by NVRTC 12.9, and the driver is of CUDA 11.8"),
    ],
)
def test_a_gpu_refuses_what_it_cannot_run(
    on_gpu: Any, capability: tuple[int, int], driver: int, reason: str
) -> None:
    cupy, backend = on_gpu(capability, driver)
    for _ in range(2):
        with pytest.raises(ck.DeviceError, match=f"b has no kernels that run here: {reason}"):
            backend.compile(0, signature.parse(WAITS))
    assert not cupy.loaded
