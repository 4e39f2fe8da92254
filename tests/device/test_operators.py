"""Functions and kernels as operators of PyTorch and functions of JAX: values, derivatives, compilers, errors."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pages
import pytest

import cukern as ck
from cukern.bridge import tensors

kernel = ck.Kernel(
    """
extern "C" __global__ void << name >>(const << elem >>* x, const << elem >>* w, << elem >>* y, << acc >>* scales,
    int n, float eps) {
    __shared__ << acc >> part[<< block >>];
    const int t = threadIdx.x; x += blockIdx.x * n; y += blockIdx.x * n;
    << acc >> sum = 0;
    for (int c = t; c < n; c += << block >>) sum += << acc >>(x[c]) * << acc >>(x[c]);
    part[t] = sum;
    for (int half = << block >> / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) part[t] += part[t + half];
    }
    __syncthreads();
    const << acc >> scale = rsqrt(part[0] / n + eps);
    if (t == 0) scales[blockIdx.x] = scale;
    for (int c = t; c < n; c += << block >>) y[c] = scale * << acc >>(x[c]) * << acc >>(w[c]);
}""",
    name="weighted",
    block=32,
)
add = ck.Kernel(
    """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n, bool minus) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] += minus ? -x[i] : x[i];
}""",
    name="add",
)


class Norm(ck.Function):
    """An RMS norm that saves an array of its own, and keeps an attribute."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, eps: float = 1e-3) -> Any:
        y, scales = ck.empty_like(x), ck.empty(x.shape[0], dtype=ck.promote_types(x.dtype, "float32"))
        kernel(x, w, y, scales, x.shape[1], eps, grid=x.shape[0])
        ctx.save_for_backward(x, w, scales)
        ctx.columns = x.shape[1]
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w, scales = ctx.saved_arrays
        scale, scaled = scales.astype(x.dtype)[:, None], grad * w
        mean = ck.sum(scaled * x, axis=1, keepdims=True) / ctx.columns
        return scale * scaled - x * scale**3 * mean, ck.sum(grad * x * scale, axis=0), None


class Two(ck.Function):
    """Two outputs, one of integers, and a backward that is differentiable."""

    @staticmethod
    def forward(ctx: Any, x: Any, power: int) -> Any:
        ctx.save_for_backward(x)
        ctx.power = power
        return x**power, ck.sign(x).astype("int32")

    @staticmethod
    def backward(ctx: Any, grad: Any, signs: Any) -> Any:
        (x,) = ctx.saved_arrays
        return ctx.power * x ** (ctx.power - 1) * grad, None


class Careless(ck.Function):
    """What an operator must refuse, by the number it is given."""

    @staticmethod
    def forward(ctx: Any, x: Any, kind: int) -> Any:
        if kind == 1:
            x += 1.0
        if kind == 2:
            ctx.largest = float(ck.max(x))
        if kind == 3:
            return x, x + 1.0
        if kind == 4:
            return x
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


class Gather(ck.Function):
    """Rows, by an array of integers."""

    @staticmethod
    def forward(ctx: Any, x: Any, rows: Any) -> Any:
        ctx.save_for_backward(rows)
        ctx.shape = x.shape
        return ck.take(x, rows, axis=0)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (rows,) = ctx.saved_arrays
        return ck.zeros(ctx.shape, dtype=grad.dtype, device=grad.device).at[rows].add(grad), None


def rms(x: Any, w: Any, eps: float) -> Any:
    return x * w / ((x * x).mean(1, keepdims=True) + eps) ** 0.5


def shapes(x: Any, w: Any, eps: float) -> Any:
    return [x, (x.shape[:1], np.promote_types(x.dtype, "f4"))]


def examples() -> tuple[Any, Any, float]:
    return ck.ones((2, 5)), ck.ones(5), 1e-3


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def jax() -> Any:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax


def data(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape) for shape in shapes]


def test_torch_values_and_derivatives(torch: Any) -> None:
    norm = Norm.to_torch(*examples(), name="tests::norm")
    x, w = (torch.tensor(one, requires_grad=True) for one in data((3, 40), (40,)))
    assert torch.allclose(norm(x, w), rms(x, w, 1e-3))
    assert torch.allclose(norm(x, w, 0.5), rms(x, w, 0.5))
    small = x[:2, :7].detach().requires_grad_(), w[:7].detach().requires_grad_()
    assert torch.autograd.gradcheck(norm, (*small, 0.5))
    few = x[:2, :7].detach(), w[:7].detach().requires_grad_()
    assert torch.autograd.gradcheck(norm, few)  # where only one of the gradients is needed
    two = Two.to_torch(ck.ones(3), 2, name="tests::two")
    powers, signs = two(x, 3)
    assert torch.allclose(powers, x**3) and torch.equal(signs, x.sign().int()) and not signs.requires_grad
    assert torch.autograd.gradcheck(lambda x: two(x, 3)[0], small[0])
    assert torch.autograd.gradgradcheck(lambda x: two(x, 3)[0], small[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_torch_layouts_and_types(torch: Any, dtype: str) -> None:
    norm = Norm.to_torch(*examples(), name="tests::norm")
    x, w = (torch.tensor(one, dtype=getattr(torch, dtype)) for one in data((40, 6), (80,)))
    turned, wide = x.t(), w[::2]
    made = norm(turned, wide)
    assert made.dtype == x.dtype and made.is_contiguous() and made.shape == (6, 40)
    exact = rms(turned.double(), wide.double(), 1e-3)
    assert torch.allclose(
        made.double(), exact, rtol={"float32": 1e-5, "float16": 2e-3}.get(dtype, 1e-2), atol=1e-3
    )


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_torch_opcheck_and_fake_functions(torch: Any) -> None:
    norm = Norm.to_torch(*examples(), name="tests::norm")
    x, w = (torch.tensor(one, requires_grad=True) for one in data((3, 40), (40,)))
    torch.library.opcheck(norm.op, (x, w))
    shaped = Norm.to_torch(*examples(), name="tests::shaped", outputs=shapes)
    torch.library.opcheck(shaped.op, (x, w, 0.5))
    x, w = x.detach(), w.detach()
    with torch._subclasses.FakeTensorMode() as mode:
        made = shaped(mode.from_tensor(x), mode.from_tensor(w), 0.1)
    assert made.shape == x.shape and made.dtype == x.dtype
    added = add.to_torch(updates=["y"], name="tests::add")
    torch.library.opcheck(added.op, (x, torch.ones_like(x), x.numel(), True))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.thorough)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_compile(torch: Any, backend: str) -> None:
    norm = Norm.to_torch(*examples(), name="tests::shaped", outputs=shapes)

    def loss(x: Any, w: Any) -> Any:
        return (norm(x * 2, w, 0.5) ** 2).sum()

    for dynamic in (False, True):
        compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend=backend)
        for rows in (3, 5):
            x, w = (torch.tensor(one, requires_grad=True) for one in data((rows, 40), (40,)))
            got = torch.autograd.grad(compiled(x, w), (x, w))
            expected = torch.autograd.grad((rms(x * 2, w, 0.5) ** 2).sum(), (x, w))
            assert all(torch.allclose(a, b) for a, b in zip(got, expected, strict=True))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_torch_compiled_autograd(torch: Any) -> None:
    from torch._dynamo import compiled_autograd

    op = Tanh.to_torch(ck.ones(2), name="tests::tanh")
    x = torch.tensor(data((4,))[0], requires_grad=True)
    made = op(x).sum()
    with compiled_autograd._enable(torch.compile(backend="aot_eager", fullgraph=True)):
        made.backward()
    assert torch.allclose(x.grad, 1 - x.tanh() ** 2)


def test_torch_kernels(torch: Any) -> None:
    op = kernel.to_torch(
        lambda x, w, n, eps: [x, ((x.shape[0],), "float32")],
        name="tests::kernel",
        grid=lambda x, *_: x.shape[0],
    )
    x, w = (torch.tensor(one, dtype=torch.float32) for one in data((3, 40), (40,)))
    y, scales = op(x, w, 40, 0.5)
    assert torch.allclose(y, rms(x, w, 0.5), atol=1e-5) and scales.shape == (3,)
    added = add.to_torch(updates=["y"], name="tests::add")
    start = torch.ones_like(x)
    assert torch.equal(added(x, start, x.numel(), True), 1 - x) and torch.equal(start, torch.ones_like(x))
    cleared = add.to_torch(lambda x, n, minus: x, start=3, name="tests::cleared")
    assert torch.equal(cleared(x, x.numel(), False), 3 + x)
    with pytest.raises(ck.GradientError, match="a kernel has no derivative"):
        cleared(x.requires_grad_(), x.numel(), False).sum().backward()
    program = ck.Kernel(
        """
template <typename T> __global__ void one(const T* x, T* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void other(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }""",
        block=4,
        plain=True,
    )
    ops = [program[entry].to_torch(lambda x: x, grid=1) for entry in ("one<float>", "other")]
    assert [one.name for one in ops] == ["cukern::one_float_", "cukern::other"]
    assert [one(torch.ones(4)).tolist() for one in ops] == [[1] * 4, [2] * 4]
    with pytest.raises(ck.LaunchError, match="argument w: expected dtype float32"):
        op(x.detach(), w.double(), 40, 0.5)


def test_torch_errors(torch: Any) -> None:
    x = torch.ones(4)
    Careless.to_torch(ck.ones(2), 0, name="tests::careless")
    with pytest.raises(
        ValueError,
        match=r"is an operator of .*Careless, made in another way; give that of .*Two another name",
    ):
        Two.to_torch(ck.ones(2), 2, name="tests::careless")
    with pytest.raises(ValueError, match="PyTorch has an operator aten::add"):
        Two.to_torch(ck.ones(2), 2, name="aten::add")
    with pytest.raises(ValueError, match="expected 'namespace::name', got 'norm'"):
        Two.to_torch(ck.ones(2), 2, name="norm")
    with pytest.raises(TypeError, match="expected example arguments of apply, with an array"):
        Two.to_torch()
    with pytest.raises(TypeError, match="power: an operator takes arrays, numbers"):
        Two.to_torch(ck.ones(2), {})
    careless = Careless.to_torch(ck.ones(2), 0, name="tests::careless")
    with pytest.raises(RuntimeError, match="forward wrote to its argument x"):
        careless(x.clone(), 1)
    careless(torch.arange(4.0), 2)
    with pytest.raises(ck.GradientError, match=r"sets largest of its context to 5.0, and to 3.0"):
        careless(x * 5, 2)
    with pytest.raises(ck.GradientError, match="forward returned 2 and saved nothing, in its first call 1"):
        careless(x, 3)
    same = careless(x, 4)
    same += 1
    assert torch.equal(x, torch.ones(4))  # a result has memory of its own
    with pytest.raises(TypeError, match="argument x: cukern has no dtype torch.float8_e4m3fn"):
        careless(x.to(torch.float8_e4m3fn), 0)
    with pytest.raises(RuntimeError, match="power|int"):
        Two.to_torch(ck.ones(3), 2, name="tests::two")(x, "two")


def test_torch_names_copies_and_threads(torch: Any) -> None:
    norm = Norm.to_torch(*examples(), name="tests::norm")
    assert Norm.to_torch(*examples(), name="tests::norm") is norm
    module = torch.nn.Module()
    module.norm = norm
    assert pickle.loads(pickle.dumps(module)).norm is norm and copy.deepcopy(module).norm is norm
    x, w = (torch.tensor(one, requires_grad=True) for one in data((3, 40), (40,)))
    expected = torch.autograd.grad(rms(x, w, 0.5).sum(), x)[0]
    right = []

    def work() -> None:
        right.extend(
            torch.allclose(torch.autograd.grad(norm(x, w, 0.5).sum(), x)[0], expected) for _ in range(20)
        )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert right == [True] * 80


def test_torch_modes_see_calls_without_gradients(torch: Any) -> None:
    """Such calls pass by PyTorch's dispatcher, but not where it has something to do."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    op = Tanh.to_torch(ck.ones(2), name="tests::tanh_seen")
    seen: list[str] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append("function")
            return func(*args, **(kwargs or {}))

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.tensor(data((2, 3))[0])
    w = torch.nn.Parameter(x)
    direct = op._operators.is_direct
    assert not direct((x,), {})
    with torch.no_grad():
        assert direct((x,), {}) and direct((w,), {})
        assert torch.allclose(op(w), x.tanh()) and not op(w).requires_grad
        with Functions():
            op(x)
        assert "function" in seen
        with Dispatch():
            op(x)
        assert "tests.tanh_seen.default" in seen
        assert torch.allclose(torch.vmap(op)(x), x.tanh())
        with torch.profiler.profile(acc_events=True) as profile:
            op(x)
        assert any("tanh_seen" in event.name for event in profile.events())
        for other in (x.to_sparse(), x.to("meta"), x.to(torch.complex64).conj(), [1.0], None):
            assert not direct((other,), {})
        assert not direct((x, 1), {}) and not direct((), {"x": x})


def test_torch_an_operator_is_made_once(torch: Any) -> None:
    def made(factor: float) -> type[ck.Function]:
        class Again(ck.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * factor

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return factor * grad

        return Again

    two = made(2.0)
    first = two.to_torch(ck.ones(2), name="tests::again", outputs=lambda x: x)
    assert first(torch.ones(2)).tolist() == [2, 2]
    assert made(3.0).to_torch(ck.ones(2), name="tests::again")(torch.ones(2)).tolist() == [
        3,
        3,
    ]  # as in a notebook
    ops = [add.to_torch(lambda x, n, minus: x, name="tests::once") for _ in range(2)]
    assert ops[0] is ops[1]
    with pytest.raises(ValueError, match="is an operator of the kernel add, made in another way"):
        add.to_torch(lambda x, n, minus: x, name="tests::once", start=1)


def function(forward: Any, gradients: int = 1) -> type[ck.Function]:
    """A Function of a forward, whose gradient is that of the identity."""
    backward = staticmethod(lambda ctx, grad, *_: (grad, *[None] * (gradients - 1)))
    made: Any = type("Made", (ck.Function,), {"forward": staticmethod(forward), "backward": backward})
    return made


def test_torch_plain_arguments(torch: Any) -> None:
    def signed(ctx: Any, x: Any, by: float = 0.0, word: str = 'a"b') -> Any:
        return ck.copysign(x, ck.full_like(x, by))

    op = function(signed, 3).to_torch(ck.ones(2), 0.0, 'a"b', name="tests::signed")
    x = torch.ones(2)
    for given, expected in (((), 1), ((-0.0,), -1), ((0.0, "c"), 1), ((float("-inf"),), -1)):
        assert op(x, *given).tolist() == [expected] * 2
    assert op(x, by=-0.0, word="c").tolist() == [-1, -1]

    def kept(ctx: Any, x: Any, by: float = float("nan")) -> Any:
        ctx.values = by, 1.0 / by if by else by
        ctx.sign, ctx.table, ctx.none = float(np.copysign(1, by)), np.arange(3), float("nan")
        return x + ctx.sign

    op = function(kept, 2).to_torch(ck.ones(2), 1.0, name="tests::kept")
    assert [op(x, *by).tolist()[0] for by in ((), (), (0.0,), (-0.0,), (-0.0,))] == [2, 2, 2, 0, 0]

    def hidden(ctx: Any, x: Any) -> Any:
        ctx.arrays = {"x": [x]}
        return x + 1

    with pytest.raises(ck.GradientError, match="forward keeps an array as the attribute arrays"):
        function(hidden).to_torch(ck.ones(2), name="tests::hidden")


def test_torch_results(torch: Any) -> None:
    x, w = torch.ones(2, requires_grad=True), torch.ones(3)
    single = function(lambda ctx, x: (x + 1,)).to_torch(ck.ones(2), name="tests::single")
    (made,) = single(x)
    assert made.tolist() == [2, 2]
    rules: list[Any] = [
        lambda x, w: (x, w),
        lambda x, w: ((x.shape, "f4"), ([w.shape[0]], np.float32)),
        lambda x, w: [x, (w.shape, w.dtype)],
    ]
    for i, rule in enumerate(rules):
        both = function(lambda ctx, x, w: (x + 1, w * 2), 2)
        op = both.to_torch(ck.ones(2), ck.ones(3), name=f"tests::both{i}", outputs=rule)
        assert [tuple(one.shape) for one in op(x.to("meta"), w.to("meta"))] == [(2,), (3,)]
    with pytest.raises(
        ValueError, match="argument argument1 is on meta, x on cpu|argument w is on meta, x on cpu"
    ):
        op(x, w.to("meta"))
    with pytest.raises(TypeError, match="argument w: expected a tensor, got None"):
        op(x, None)


def test_torch_sizes_without_a_rule(torch: Any) -> None:
    op = function(lambda ctx, x, n: ck.copy(x[:n]), 2).to_torch(ck.ones(3), 2, name="tests::head")
    compiled = torch.compile(lambda x, n: op(x, n) * 2, fullgraph=True, dynamic=True, backend="eager")
    assert [compiled(torch.ones(5), n).shape[0] for n in (2, 3, 4)] == [2, 3, 4]


class Pair(ck.Function):
    """The product and the quotient of two arrays; a third gets no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, z: Any, materialize: bool) -> Any:
        ctx.save_for_backward(x, y)
        ctx.set_materialize_grads(materialize)
        ctx.materialize = materialize
        return x * y, x / y

    @staticmethod
    def backward(ctx: Any, product: Any, quotient: Any) -> Any:
        x, y = ctx.saved_arrays
        assert (quotient is None) is not ctx.materialize
        if quotient is None:
            return product * y, product * x, None, None
        return product * y + quotient / y, product * x - quotient * x / (y * y), None, None


@pytest.mark.parametrize("materialize", [True, False])
def test_torch_unused_outputs_and_gradients(torch: Any, materialize: bool) -> None:
    ones = [ck.ones(2)] * 3
    pair = Pair.to_torch(*ones, materialize, name=f"tests::pair{materialize}")
    x, y, z = (torch.tensor(one + 2, requires_grad=True) for one in data((3,), (3,), (3,)))
    found = torch.autograd.grad(pair(x, y, z, materialize)[0].sum(), (x, y, z))
    assert [torch.equal(a, b) for a, b in zip(found, (y, x, 0 * z), strict=True)] == [True] * 3
    if materialize:
        assert torch.autograd.gradgradcheck(lambda x, y: pair(x, y, z, True), (x, y))
        assert torch.autograd.gradgradcheck(lambda y: pair(x.detach(), y, z.detach(), True), y)


def test_torch_numbers_of_bfloat16(torch: Any) -> None:
    text = """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, << elem >> a) {
    y[threadIdx.x] = x[threadIdx.x] * a;
}"""
    kernel = ck.Kernel(text, name="scaled", block=4, elem="bfloat16")
    op = kernel.to_torch(lambda x, a: x, name="tests::scaled", grid=1)
    assert op(torch.ones(4, dtype=torch.bfloat16), 2.5).tolist() == [2.5] * 4


def test_torch_start_of_results(torch: Any) -> None:
    op = add.to_torch(lambda x, n, minus: x, start=0, name="tests::zeroed")
    x = torch.arange(4096.0)
    for _ in range(8):
        dirty = [torch.full_like(x, 7) for _ in range(4)]
        del dirty
        assert torch.equal(op(x, x.numel(), False), x)


class Tanh(ck.Function):
    """Its backward reads the result alone, and is differentiable."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = ck.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_arrays
        return grad * (1 - y * y)


def test_torch_and_jax_keep_what_the_backward_reads(torch: Any, jax: Any) -> None:
    op = Tanh.to_torch(ck.ones(2), name="tests::tanh")
    x = torch.tensor(data((40,))[0], requires_grad=True)
    y = op(x)
    others = [one for one in y.grad_fn.saved_tensors if one.data_ptr() != y.data_ptr()]
    assert sum(one.untyped_storage().nbytes() for one in others) <= x.itemsize
    assert torch.autograd.gradcheck(op, x) and torch.autograd.gradgradcheck(op, x)
    ours, small = Tanh.to_jax(ck.ones(2)), x.detach().numpy()[:3]
    found, expected = (jax.jacrev(jax.grad(lambda x, f=f: f(x).sum()))(small) for f in (ours, jax.numpy.tanh))
    assert np.allclose(found, expected)


def test_torch_second_derivatives_that_a_backward_lacks(torch: Any) -> None:
    x, w = (torch.tensor(one, requires_grad=True) for one in data((2, 5), (5,)))
    norm = Norm.to_torch(*examples(), name="tests::norm")
    (first,) = torch.autograd.grad(norm(x, w).sum(), x, create_graph=True)
    with pytest.raises(ck.GradientError, match="saved array that is neither an argument nor an output"):
        first.sum().backward()


def test_torch_repeated_launches_of_a_kernel(torch: Any) -> None:
    text = """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, float a) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    y[i] = << acc >>(x[i]) * a;
}"""
    blocks = [1]
    kernel = ck.Kernel(text, name="repeated", block=4)
    op = kernel.to_torch(lambda x, a: x, name="tests::repeated", grid=lambda x, a: blocks[0])
    x = torch.arange(8.0)
    for a in (2.0, 2.0, 3.0, 2.0):
        assert op(x[:4], a).tolist() == [a * i for i in range(4)]
        assert op(x[::2], a).tolist() == [2 * a * i for i in range(4)]
        assert op(x[:4].bfloat16(), a).tolist() == [a * i for i in range(4)]
    for blocks[0] in (1, 2):
        found = op(x, 2.0)
        assert found[: 4 * blocks[0]].tolist() == [2.0 * i for i in range(4 * blocks[0])]
    blocks[0] = 3
    with ck.testing.checked(), pytest.raises(ck.KernelFault, match="reads element 8 of argument x"):
        op(x, 2.0)


def test_repeated_launches_on_a_gpu_take_aligned_addresses() -> None:
    where: Any = SimpleNamespace(addressable=False)
    for address in (4096, 4100):
        tensor = Mock(data_ptr=lambda address=address: address, is_conj=lambda: False, is_neg=lambda: False)
        assert tensors.operand_of(tensor, where) == (None if address % 16 else address)


#: The tests of PyTorch with tensors of the CPU that pass for those of a GPU, whose kernels the host runs.
ON_A_GPU = """
import sys
sys.path[:0] = sys.argv[1:]
from cukern.device import stand_in
from cukern.device.recording import Recording, gpu, library
from cukern.launch.family import STAND_IN
stand_in("cuda", gpu.RecordedGpu(STAND_IN, Recording(), lambda unit: None))
import torch
import cukern as ck
import test_operators as tests
from cukern.bridge import tensors
device = ck.Device("cuda")
tensors.device_of = lambda where: device
tensors._streams = lambda: (lambda: False, lambda index: 0)
with ck.device("cuda"):
    tests.test_torch_values_and_derivatives(torch)
    tests.test_torch_opcheck_and_fake_functions(torch)
    tests.test_torch_kernels(torch)
    tests.test_torch_names_copies_and_threads(torch)
    tests.test_torch_results(torch)
    for dtype in ("float16", "bfloat16"):
        tests.test_torch_layouts_and_types(torch, dtype)
    for materialize in (True, False):
        tests.test_torch_unused_outputs_and_gradients(torch, materialize)
    z = torch.full((3,), 1 + 2j, requires_grad=True)
    same = tests.function(lambda ctx, z: z * 1).to_torch(ck.ones(2, "complex64"), name="tests::same")
    same(z).backward(z.detach().conj())
    assert torch.equal(z.grad, z.detach().conj()) and torch.equal(same(z.conj()), z.conj())
    norm = tests.Norm.to_torch(*tests.examples(), name="tests::norm")
    library.Data.__dlpack__ = None  # results are in memory of PyTorch
    assert norm(torch.ones(2, 5), torch.ones(5)).shape == (2, 5)
"""


@pytest.mark.thorough
def test_torch_on_a_gpu_that_is_not_here(torch: Any) -> None:
    folder = Path(__file__).parent
    folders = [str(folder), str(folder.parent)]
    done = subprocess.run([sys.executable, "-c", ON_A_GPU, *folders], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_torch_words_of_python_and_replaced_operators(torch: Any) -> None:
    text = """
extern "C" __global__ void << name >>(const float* in, float* y, int lambda) {
    if (threadIdx.x < lambda) y[threadIdx.x] = FACTOR * in[threadIdx.x];
}"""
    ops = []
    for factor in "23":
        kernel = ck.Kernel(text.replace("FACTOR", factor), name="words", block=4)
        ops.append(kernel.to_torch(lambda x, n: x, name="tests::words"))
    assert ops[1](torch.ones(4), 4).tolist() == [3] * 4
    for mode in (torch.enable_grad, torch.no_grad):
        with mode(), pytest.raises(RuntimeError, match="tests::words was defined again since"):
            ops[0](torch.ones(4), 4)

    def nested(ctx: Any, x: Any) -> Any:
        function(lambda ctx, x: x + 1).to_torch(ck.ones(2), name="tests::inner")
        return x + 1

    assert function(nested).to_torch(ck.ones(2), name="tests::outer")(torch.ones(2)).tolist() == [2, 2]


def test_torch_and_jax_integer_arrays(torch: Any, jax: Any) -> None:
    rows = np.array([2, 0, 2])
    x = data((3, 4))[0]
    weights = data((3, 4))[0] + 1
    expected = np.zeros((3, 4))
    np.add.at(expected, rows, weights)
    gather = Gather.to_torch(ck.ones((2, 2)), ck.zeros(2, dtype="int64"), name="tests::gather")
    t = torch.tensor(x, requires_grad=True)
    (gather(t, torch.tensor(rows)) * torch.tensor(weights)).sum().backward()
    assert np.allclose(t.grad, expected)
    torch.library.opcheck(gather.op, (t, torch.tensor(rows)))
    ours = Gather.to_jax(ck.ones((2, 2)), ck.zeros(2, dtype="int64"))
    assert np.allclose(jax.jit(jax.grad(lambda x: (ours(x, rows) * weights).sum()))(x), expected)


def test_torch_checked_launches(torch: Any) -> None:
    wrong = ck.Kernel(
        """
extern "C" __global__ void << name >>(const float* x, float* y, int n) {
    y[threadIdx.x] = x[threadIdx.x + 1];
}""",
        name="wrong",
        block=4,
    )
    op = wrong.to_torch(lambda x, n: x, name="tests::wrong", grid=1)
    with ck.testing.checked(), pytest.raises(ck.KernelFault, match="reads element 4 of argument x"):
        op(torch.ones(4), 4)


def test_without_the_libraries() -> None:
    code = """
import sys
sys.modules["torch"] = sys.modules["jax"] = None
import cukern as ck
class Same(ck.Function):
    forward = staticmethod(lambda ctx, x: x + 0.0)
    backward = staticmethod(lambda ctx, g: g)
for make in (Same.to_torch, Same.to_jax):
    try:
        make(ck.ones(2))
    except ImportError as error:
        print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert (
        said
        == "to_torch needs the package torch: pip install torch\nto_jax needs the package jax: pip install jax\n"
    )


def test_jax_values_and_derivatives(jax: Any) -> None:
    norm = Norm.to_jax(*examples())
    x, w = map(jax.numpy.asarray, data((3, 40), (40,)))
    assert np.allclose(norm(x, w, 0.5), rms(x, w, 0.5)) and np.allclose(
        jax.jit(norm, static_argnums=2)(x, w, 0.5), rms(x, w, 0.5)
    )
    import jax.test_util

    jax.test_util.check_grads(lambda x, w: norm(x, w, 0.5), (x[:2, :7], w[:7]), order=1, modes=["rev"])
    two = Two.to_jax(ck.ones(3), 2)
    powers, signs = jax.jit(lambda x: two(x, 3))(x)
    assert np.allclose(powers, x**3) and np.array_equal(signs, np.sign(x)) and signs.dtype == np.int32
    jax.test_util.check_grads(lambda x: two(x, 3)[0], (x[:2, :7],), order=2, modes=["rev"])
    assert (
        repr(two) == "<operator Two(x, power) of JAX>"
        and pickle.loads(pickle.dumps(two))(x, 2)[0].shape == x.shape
    )


def test_jax_vmap_types_and_kernels(jax: Any) -> None:
    x, w = data((4, 3, 40), (40,))
    norm = Norm.to_jax(*examples())
    each = jax.vmap(lambda x: norm(x, w, 0.5))(x)
    assert np.allclose(each, np.stack([rms(one, w, 0.5) for one in x]))
    two = Two.to_jax(ck.ones(3), 2, vmap="broadcast_all")
    slopes = jax.jit(jax.vmap(jax.grad(lambda x: two(x, 3)[0].sum())))(x)
    assert np.allclose(slopes, 3 * x**2)
    assert norm(jax.numpy.ones((2, 5), "bfloat16"), jax.numpy.ones(5, "bfloat16"), 0.1).dtype == "bfloat16"
    added = add.to_jax(updates=["y"])
    start = jax.numpy.ones((3, 40))
    assert (
        np.allclose(jax.jit(lambda x, y: added(x, y, 120, True))(x[0], start), 1 - x[0])
        and (start == 1).all()
    )


def test_jax_plain_arguments_differ_by_sign(jax: Any) -> None:
    signed = function(lambda ctx, x, by: ck.copysign(x, ck.full_like(x, by)), 2).to_jax(ck.ones(2), 0.0)
    assert [signed(np.ones(1), by).item() for by in (0.0, -0.0, 0.0)] == [1, -1, 1]


def test_jax_errors(jax: Any) -> None:
    two = Two.to_jax(ck.ones(3), 2)
    with pytest.raises(TypeError, match=r"Two: expected 2 arguments \(x, power\), got 1"):
        two(np.ones(3))
    with pytest.raises(TypeError, match="argument power: expected a Python value, got a traced one"):
        jax.jit(two)(np.ones(3), 2)
    with pytest.raises(ValueError, match="vmap: expected one of sequential"):
        Two.to_jax(ck.ones(3), 2, vmap="some")
    with pytest.raises(Exception, match="forward wrote to its argument x"):
        Careless.to_jax(ck.ones(2), 0)(np.ones(3), 1)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_page_runs_with_both_libraries(
    torch: Any, jax: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "pages" / "operators.md"
    (tmp_path / "operators.md").write_text(page.read_text().replace("```py\n", "```python\n"))
    monkeypatch.chdir(tmp_path)
    with ck.device("host"):
        pages.run(tmp_path / "operators.md")
