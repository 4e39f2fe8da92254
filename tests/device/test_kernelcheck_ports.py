"""``kernelcheck`` of kernels of float as public programs have them; how inputs are made; what could not be compared."""

from __future__ import annotations

from typing import Any

import pytest
from wrong_ports import PORTS, Port

import cukern as ck
from cukern.testing import KernelcheckError, gradcheck, kernelcheck

#: What runs by default, with the sizes that it needs.
QUICK = {"layer norm four at a time": [8], "gelu": [33]}


@pytest.fixture(autouse=True)
def on_the_host() -> object:
    with ck.device("host"):
        yield


def found(function: Any, args: list[Any], **options: Any) -> KernelcheckError | None:
    try:
        kernelcheck(function, args, order=1, **options)
    except KernelcheckError as error:
        return error
    return None


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("port", [port for port in PORTS if port.name in QUICK], ids=lambda port: port.name)
def test_a_ported_gradient_is_judged(port: Port, wrong: bool) -> None:
    options = {**port.options, "sizes": QUICK[port.name], "dtypes": []}
    error = found(port.function(wrong), port.args(), **options)
    assert (error is not None) == wrong, error
    assert error is None or error.findings[0].kind == "gradient"


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.name)
def test_each_ported_gradient_is_judged(port: Port, wrong: bool) -> None:
    error = found(port.function(wrong), port.args(), **port.options)
    assert (error is not None) == wrong, error
    assert error is None or error.findings[0].kind == "gradient"


def scaled(text: str, factor: float, only: Any = None, plain: bool = True) -> Any:
    """2 x by a kernel, whose backward has another factor; it takes arrays of one dtype alone if ``only`` is given."""
    kernel = ck.Kernel(text, block=32, name="scaled", plain=plain)

    def launch(x: ck.Array, by: float) -> ck.Array:
        if only is not None and x.dtype != only:
            raise TypeError(f"x: expected {only.name}")
        y = ck.empty(x.shape, x.dtype if only is None else only)
        kernel(x, y, by, x.size)
        return y

    class Scaled(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: ck.Array) -> ck.Array:
            return launch(x, 2)

        @staticmethod
        @ck.once_differentiable
        def backward(ctx: Any, g: ck.Array) -> ck.Array:
            return launch(g, factor)

    return Scaled.apply


SCALED = """
__global__ void scaled(const float* x, float* y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = by * x[i];
}"""
#: Its floats are moved as bits, so that nothing can take their place.
OF_BITS = SCALED.replace("by * x[i]", "by * __int_as_float(__float_as_int(x[i]))")


def test_a_function_of_float32_alone_is_compared_in_float32() -> None:
    x = [ck.asarray([0.5, -1.0, 2.0])]
    for text, only in ((OF_BITS, None), (SCALED, ck.float32)):
        right = kernelcheck(scaled(text, 2, only), x, order=1, sizes=[33], dtypes=[])
        assert any("float64 is refused" in note for note in right.notes)
        error = found(scaled(text, 6, only), x, sizes=[], dtypes=[])
        assert error is not None and "differences in float32" in str(error)


def test_a_comparison_in_float32_says_what_it_does_not_see() -> None:
    function = scaled(OF_BITS, 2.05, ck.float32)
    result = kernelcheck(function, [ck.asarray([0.5, -1.0])], sizes=[3], dtypes=[])
    assert any("no gradient that is off by less than 4%" in note for note in result.notes), result


def test_files_that_are_included_keep_their_names() -> None:
    text = '#include <float.h>\nextern "C" ' + SCALED.strip().replace(
        "by * x[i]", "fminf(by * x[i], FLT_MAX)"
    )
    function = scaled(text, 2, plain=False)
    assert kernelcheck(function, [ck.asarray([0.5, -1.0])], order=1, sizes=[3], dtypes=[]).notes == []


def test_it_fails_if_no_derivative_was_compared() -> None:
    text = SCALED.replace("float*", "__half*").replace(
        "by * x[i]", "__float2half(by * __half2float(__habs(x[i])))"
    )
    x = [ck.asarray([0.5, 1.0], dtype="float16")]
    error = found(scaled(text, 2), x, sizes=[], dtypes=["float16"])
    assert error is not None and [one.kind for one in error.findings] == ["unchecked"]
    assert "no value of a derivative was compared" in str(error) and "takes floats apart: __habs" in str(
        error
    )
    error = found(ck.tanh, [ck.zeros(0)], sizes=[], dtypes=[])
    assert error is not None and "no argument has an element" in str(error)


@pytest.mark.parametrize("cast", [False, True])
def test_results_of_ported_kernels_pass_through_other_functions(cast: bool) -> None:
    """What a kernel wrote keeps its derivative through views, casts and the library's functions."""
    twice = ck.Kernel(SCALED, block=32, name="twice", plain=True)

    class Twice(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: ck.Array) -> ck.Array:
            wide = ck.empty((2, x.size), dtype="float32")
            twice(x, wide[1], 2, x.size)
            twice(
                (ck.astype(x, "float32") if cast else x) * x.astype(ck.float32 if cast else x.dtype),
                wide.reshape(-1)[: x.size],
                2,
                x.size,
            )
            return (wide[0] + 3 * wide[1]).reshape(x.shape)

        @staticmethod
        @ck.once_differentiable
        def backward(ctx: Any, g: ck.Array) -> ck.Array:
            (x,) = ctx.saved_arrays
            return g * (4 * x + 6)

    class Saved(Twice):
        @staticmethod
        def forward(ctx: Any, x: ck.Array) -> ck.Array:
            ctx.save_for_backward(x)
            return Twice.forward(ctx, x)

    made = kernelcheck(Saved.apply, [ck.asarray([0.5, -1.0, 2.0])], order=1, sizes=[33], dtypes=[])
    assert "as given, float64" in made.cases
    assert [note.partition(":")[0] for note in made.notes] == ["no dual numbers"] * cast


def test_arrays_are_what_they_were_afterwards() -> None:
    buffer = ck.zeros(3)
    twice = ck.Kernel(SCALED, block=32, name="twice", plain=True)

    class Kept(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: ck.Array) -> ck.Array:
            twice(x, buffer, 2, x.size)
            return buffer.copy()

        @staticmethod
        @ck.once_differentiable
        def backward(ctx: Any, g: ck.Array) -> ck.Array:
            return 2 * g

    kernelcheck(Kept.apply, [ck.asarray([0.5, -1.0, 2.0])], order=1, sizes=[], dtypes=["float32"])
    assert buffer.dtype == ck.float32 and buffer.strides == (4,)
    assert buffer.tolist() != [0, 0, 0]


def test_the_caller_says_how_inputs_are_made() -> None:
    sums = ck.Kernel(
        """
__global__ void sums(const float* x, const int* ends, float* y, int segments) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= segments) return;
    float sum = 0.f;
    for (int i = s ? ends[s - 1] : 0; i < ends[s]; ++i) sum += x[i] * x[i];
    y[s] = sum;
}""",
        block=32,
        name="sums",
        plain=True,
    )

    class Sums(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: ck.Array, ends: ck.Array) -> ck.Array:
            ctx.save_for_backward(x, ends)
            y = ck.empty(ends.shape)
            sums(x, ends, y, ends.size)
            return y

        @staticmethod
        @ck.once_differentiable
        def backward(ctx: Any, g: ck.Array) -> Any:
            x, ends = ctx.saved_arrays
            return 2 * x * g[ck.searchsorted(ends, ck.arange(x.size), side="right")], None

    def ascending(x: ck.Array, ends: ck.Array) -> list[ck.Array]:
        return [x, ck.linspace(0, x.size, ends.size + 1)[1:].astype("int32")]

    args = [ck.asarray([0.5, -1.0, 2.0, 1.5, -0.3]), ck.asarray([1, 3, 5], dtype="int32")]
    error = found(Sums.apply, args, sizes=[7], dtypes=[])
    assert error is not None
    made = kernelcheck(Sums.apply, args, order=1, sizes=[7], dtypes=[], prepare=ascending)
    assert "size 5 is 7, float64" in made.cases and "size 3 is 7, float64" in made.cases


def test_the_caller_says_which_sizes_are_fixed() -> None:
    tokens = ck.asarray([2, 0, 2, 1], dtype="int32")
    add = ck.Kernel(
        """
__global__ void add(const float* x, const int* to, float* y, int rows, int width) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < width) for (int r = 0; r < rows; ++r) y[to[r] * width + c] += x[r * width + c];
}""",
        block=32,
        name="add",
        plain=True,
    )

    class Scatter(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: ck.Array) -> ck.Array:
            y = ck.zeros((3, x.shape[1]))
            add(x, tokens, y, *x.shape, grid=-(-x.shape[1] // 32))
            return y

        @staticmethod
        @ck.once_differentiable
        def backward(ctx: Any, g: ck.Array) -> ck.Array:
            return g[tokens]

    x = [ck.ones((4, 5))]
    error = found(Scatter.apply, x, sizes=[7], dtypes=[])
    assert error is not None and "say fixed=[4]" in str(error)
    made = kernelcheck(Scatter.apply, x, order=1, sizes=[7], dtypes=[], fixed=[4])
    assert "size 5 is 7, float64" in made.cases and not any("size 4" in case for case in made.cases)
    with pytest.raises(ValueError, match=r"fixed: expected sizes of axes, which are \[4, 5\], got 6"):
        kernelcheck(Scatter.apply, x, fixed=[6])


def test_gradcheck_names_the_check_of_other_floats() -> None:
    with pytest.raises(TypeError, match=r"gradcheck needs float64, got float32; cukern.testing.kernelcheck"):
        gradcheck(ck.tanh, [ck.asarray([0.5])])


def test_the_librarys_kernels_are_those_of_their_arrays() -> None:
    """What a function knows in float32 keeps it, and so do the library's kernels that read it."""
    weight = ck.asarray([1.5, -0.5, 2.0])
    twice = ck.Kernel(SCALED, block=32, name="twice", plain=True)

    class Weighted(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: ck.Array) -> ck.Array:
            y = ck.empty(x.shape)
            twice(x, y, 2, x.size)
            return y * ck.nn.softmax(weight) + weight.sum()

        @staticmethod
        @ck.once_differentiable
        def backward(ctx: Any, g: ck.Array) -> ck.Array:
            return 2 * g * ck.nn.softmax(weight)

    made = kernelcheck(Weighted.apply, [ck.asarray([0.5, -1.0, 2.0])], order=1, sizes=[], dtypes=[])
    assert made.cases[0] == "as given, float64"
    assert weight.dtype == ck.float32
    ck.testing.assert_close(weight.sum(), 3.0)
    ck.testing.assert_close(ck.nn.softmax(weight).sum(), 1.0)
