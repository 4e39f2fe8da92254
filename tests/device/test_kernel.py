"""Kernels: typed launches, and everything that a launch refuses."""

import re

import numpy as np
import pytest

import cukern as ck
from cukern import dtypes
from cukern.autodiff.tape import record

SCALE = """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, << elem >> a, << index >> n) {
    << index >> i = (<< index >>)blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = cast< << elem >> >(cast< << acc >> >(a) * cast< << acc >> >(x[i]));
}
"""


@pytest.fixture
def scale():
    return ck.Kernel(SCALE, name="scale")


@pytest.mark.parametrize(
    "dtype, block", [*((d, 256) for d in dtypes.NUMERIC), *((ck.float32, b) for b in (1, 33, 1024))], ids=str
)
def test_one_text_every_dtype_and_block(device, scale, dtype, block):
    x = ck.asarray(np.arange(1000) % 50, dtype=dtype)
    y = ck.empty_like(x)
    scale(x, y, 2, x.size, block=block)
    np.testing.assert_array_equal(y.numpy().astype(np.complex128), 2 * (np.arange(1000) % 50))


def test_grid_defaults_to_one_thread_for_each_written_element(device, scale):
    x = ck.ones(1025)
    y = ck.zeros(1025)
    scale(x, y, 3.0, 1025)
    assert y.tolist() == [3.0] * 1025


def test_two_dimensional_blocks_and_grids(device):
    kernel = ck.Kernel(
        """extern "C" __global__ void << name >>(int* y, int rows, int cols) {
            int r = blockIdx.y * << block_y >> + threadIdx.y, c = blockIdx.x * << block_x >> + threadIdx.x;
            if (r < rows && c < cols) y[r * cols + c] = 100 * r + c;
        }""",
        block=(8, 4),
        elem=ck.int32,
    )
    y = ck.zeros((10, 20), dtype=ck.int32)
    kernel(y, 10, 20, grid=(3, 3))
    np.testing.assert_array_equal(y.numpy(), 100 * np.arange(10)[:, None] + np.arange(20))


def test_block_sum_with_shared_memory_barrier_and_shuffles(device):
    kernel = ck.Kernel(
        """extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n) {
            __shared__ << elem >> partial[32];
            << elem >> total = 0;
            for (int i = threadIdx.x; i < n; i += << block >>) total += x[blockIdx.x * n + i];
            for (int step = 16; step; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
            if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = total;
            __syncthreads();
            if (threadIdx.x == 0) {
                for (int w = 1; w < << block // 32 >>; ++w) total += partial[w];
                y[blockIdx.x] = total;
            }
        }""",
        name="block_sum",
    )
    x = np.random.default_rng(0).integers(0, 100, (7, 1000)).astype(np.float32)
    for block in (32, 256, 1024):
        y = ck.zeros(7)
        kernel(ck.asarray(x), y, 1000, grid=7, block=block)
        np.testing.assert_array_equal(y.numpy(), x.sum(1))


def test_dynamic_shared_memory(device):
    kernel = ck.Kernel(
        """extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y) {
            extern __shared__ __align__(16) unsigned char bytes[];
            << elem >>* tile = (<< elem >>*)bytes;
            tile[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            y[threadIdx.x] = tile[<< block >> - 1 - threadIdx.x];
        }"""
    )
    x = ck.arange(256, dtype=ck.float64)
    y = ck.empty_like(x)
    kernel(x, y, grid=1, shared=256 * 8)
    np.testing.assert_array_equal(y.numpy(), np.arange(256)[::-1])


def test_large_dynamic_shared_memory(device):
    kernel = ck.Kernel(
        """extern "C" __global__ void << name >>(float* y, int n) {
            extern __shared__ float tile[];
            for (int i = threadIdx.x; i < n; i += << block >>) tile[i] = i;
            __syncthreads();
            if (threadIdx.x == 0) y[0] = tile[n - 1];
        }""",
        elem=ck.float32,
    )
    y = ck.zeros(1)
    kernel(y, 25000, grid=1, shared=100_000)
    assert y.item() == 24999


def test_view_takes_any_strides(device):
    kernel = ck.Kernel(
        """extern "C" __global__ void << name >>(View<const << elem >>, 2> x, View< << elem >>, 2> y) {
            for (int r = threadIdx.x; r < x.shape[0]; r += << block >>)
                for (int c = 0; c < x.shape[1]; ++c) y(r, c) = x(r, c);
        }"""
    )
    base = ck.asarray(np.arange(24, dtype=np.float32).reshape(4, 6))._data
    xp = ck.zeros(0).device.xp
    for raw in (base.T, base[::-1, ::2], xp.broadcast_to(base[:1], (4, 6)), base[1:, 3:]):
        x = ck.Array._wrap(raw, ck.zeros(0).device)
        y = ck.zeros(raw.shape[::-1])
        kernel(x, ck.Array._wrap(y._data.T, y.device), grid=1)
        np.testing.assert_array_equal(y.numpy().T, x.numpy())


def test_read_arguments_are_made_contiguous(device, scale):
    x = ck.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    y = ck.zeros((4, 3))
    scale(ck.Array._wrap(x._data.T, x.device), y, 1, 12)
    np.testing.assert_array_equal(y.numpy(), x.numpy().T)


def test_none_is_a_null_pointer_and_bytes_a_struct(device):
    kernel = ck.Kernel(
        """struct Pair { int first; float second; };
        extern "C" __global__ void << name >>(const float* maybe, float* y, Pair p) {
            if (threadIdx.x == 0) y[0] = maybe ? -1.0f : p.first + p.second;
        }""",
        elem=ck.float32,
    )
    y = ck.zeros(1)
    kernel(None, y, np.array([(3, 0.5)], dtype="i4,f4").tobytes())
    assert y.item() == 3.5


@pytest.mark.parametrize("value", [7, 7.0, np.int8(7), np.float32(7), np.array(7), True])
def test_scalars_are_cast_to_the_declared_type(device, value):
    kernel = ck.Kernel(
        """extern "C" __global__ void << name >>(double* y, float f, double d, long long l, unsigned char c,
                                                 bool b, __half h, __nv_bfloat16 g) {
            if (threadIdx.x) return;
            y[0] = f; y[1] = d; y[2] = l; y[3] = c; y[4] = b; y[5] = cast<double>(h); y[6] = cast<double>(g);
        }""",
        elem=ck.float64,
    )
    y = ck.zeros(7, dtype=ck.float64)
    kernel(y, *[value] * 7)
    number = float(value)
    assert y.tolist() == [number, number, number, number, 1.0, number, number]


def test_an_empty_array_and_a_zero_grid_launch_nothing(device, scale):
    x, y = ck.zeros((0, 3)), ck.zeros((0, 3))
    scale(x, y, 1, 0)
    z = ck.ones(4)
    scale(ck.zeros(4), z, 1, 4, grid=(0, 1))
    assert z.tolist() == [1.0] * 4


def test_what_a_launch_writes_is_counted(device, scale):
    x, y = ck.ones(4), ck.zeros(4)
    scale(x, y, 1, 4)
    assert (x._storage.version, y._storage.version, y._storage.writer[:5]) == (0, 1, "scale")


def refused(message, call, error=ck.LaunchError):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["two\nlines", "a\0", 3])
@pytest.mark.parametrize("plain", [False, True])
def test_a_name_is_on_one_line(name, plain):
    with pytest.raises(ValueError, match="name: expected the name of a kernel, on one line, got"):
        ck.Kernel('extern "C" __global__ void k(float* y) {}', name=name, plain=plain)


def test_refused_arguments(device, scale):
    x, y = ck.ones(8), ck.zeros(8)
    bound = {"elem": ck.float32}
    refused("scale.*: expected 4 arguments .*got 3", lambda: scale(x, y, 1))
    refused(
        "argument y: expected dtype float32 for float\\*, got an array of float64, shape \\(8,\\)",
        lambda: scale(x, ck.zeros(8, dtype=ck.float64), 1, 8),
    )
    refused("argument x: expected an array for const float\\*, got int", lambda: scale(5, y, 1, 8, **bound))
    refused(
        "argument x: expected an array.*numpy.ndarray of float32; wrap it with cukern.asarray",
        lambda: scale(np.ones(8, np.float32), y, 1, 8, **bound),
    )
    refused("argument a: expected a number, got str", lambda: scale(x, y, "one", 8))
    refused("argument a: expected a number, got an array of", lambda: scale(x, y, x, 8))
    refused("argument n: expected an integer for int, got 7.5", lambda: scale(x, y, 1, 7.5))
    refused("argument n: 3000000000 is out of range for int", lambda: scale(x, y, 1, 3_000_000_000))
    refused("argument n: expected an integer", lambda: scale(x, y, 1, float("nan")))
    strided = ck.Array._wrap(ck.zeros(16)._data[::2], y.device)
    refused(
        "argument y: float\\* is written and must be contiguous; got strides", lambda: scale(x, strided, 1, 8)
    )


def test_refused_overlap(device, scale):
    x = ck.ones(16)
    refused("argument y is written, and its memory overlaps that of argument x", lambda: scale(x, x, 1, 16))
    low = ck.Array._wrap(x._data[:8], x.device, x._storage)
    high = ck.Array._wrap(x._data[8:], x.device, x._storage)
    middle = ck.Array._wrap(x._data[4:12], x.device, x._storage)
    refused("overlaps", lambda: scale(low, middle, 1, 8))
    scale(low, high, 2, 8)
    assert x.tolist() == [1.0] * 8 + [2.0] * 8
    new = ck.empty(16)  # to which nothing has been written, in a launch like one before
    low, middle = (ck.Array._wrap(new._data[i : i + 8], new.device, new._storage) for i in (0, 4))
    refused("overlaps", lambda: scale(low, middle, 1, 8))


def test_refused_launch_shapes(device, scale):
    x, y = ck.ones(8), ck.zeros(8)
    refused(
        "block is \\(2048, 1, 1\\), 2048 threads; .* takes 1024 at most",
        lambda: scale(x, y, 1, 8, block=2048),
    )
    refused("block: expected one to three integers", lambda: scale(x, y, 1, 8, block=(1, 1, 1, 1)))
    refused("block is \\(0, 1, 1\\); expected at least one thread", lambda: scale(x, y, 1, 8, block=0))
    refused("grid: expected one to three integers", lambda: scale(x, y, 1, 8, grid=-1))
    refused("grid: expected one to three integers", lambda: scale(x, y, 1, 8, grid=1.5))
    refused("grid.y is 100000, and .* takes 65535 at most", lambda: scale(x, y, 1, 8, grid=(1, 100_000)))
    refused("shared is 1000000 bytes", lambda: scale(x, y, 1, 8, shared=1_000_000))
    refused(
        "grid: expected a grid, as no argument is an array", lambda: scale(None, None, 1, 8, elem=ck.float32)
    )


def test_misaligned_vector_pointer_is_refused(device):
    kernel = ck.Kernel(
        """extern "C" __global__ void << name >>(const float4* x, float* y) {
            if (threadIdx.x == 0) y[0] = x[0].x + x[0].w;
        }""",
        elem=ck.float32,
    )
    x, y = ck.arange(9, dtype=ck.float32), ck.zeros(1)
    kernel(x, y)
    assert y.item() == 3.0
    refused(
        "argument x: .* needs data aligned to 16", lambda: kernel(ck.Array._wrap(x._data[1:], x.device), y)
    )


def test_an_array_of_another_device_is_refused(device, scale):
    other = object.__new__(ck.Device)
    other.kind, other.index, other.addressable = "cuda", 7, False
    other.backend = device.backend
    x, there = ck.ones(8), ck.ones(8)
    there.device = other
    message = f"argument {{}}: expected an array on {device}, got an array of float32, shape .* on cuda:7"
    refused(message.format("y"), lambda: scale(x, there, 1, 8))
    refused(message.format("x"), lambda: scale.bind(device, elem=ck.float32)((there, x, 1, 8), 1))


def test_source_shows_what_is_compiled(scale):
    x = ck.zeros(4, dtype=ck.float16)
    text = scale.source(x, x, 1, 4)
    assert "void scale_float16_256(" in text and "__half* y" in text
    assert "struct View" in text


def test_64_bit_index_for_large_arrays(scale):
    class Large(ck.Array):
        size = 2**31

    x = Large._wrap(ck.zeros(1)._data, ck.zeros(1).device)
    assert "long long n" in scale.source(x, x, 1, 1)
    assert "int n" in scale.source(ck.zeros(1), ck.zeros(1), 1, 1)


def test_attributes(device, scale):
    found = scale.attributes(ck.zeros(1))
    assert found["max_threads_per_block"] >= 256


def test_numpy_integers_are_sizes(device, scale):
    y = ck.zeros(8)
    scale(ck.ones(8), y, 1, np.int64(8), grid=(np.int64(1), np.int32(1)), block=np.int64(32), shared=0)
    assert y.tolist() == [1.0] * 8
    refused("shared: expected bytes", lambda: scale(ck.ones(8), y, 1, 8, shared=1.5))
    refused("shared: expected bytes", lambda: scale(ck.ones(8), y, 1, 8, shared=-1))


@pytest.mark.parametrize(
    "value",
    [np.complex64(1), np.datetime64(5, "ns"), np.ma.masked, None, [1], 1j],
    ids=lambda v: type(v).__name__,
)
def test_what_is_no_number(device, scale, value):
    refused("argument a: expected a number, got", lambda: scale(ck.ones(8), ck.zeros(8), value, 8))


def test_numbers_out_of_range(device, scale):
    refused(
        "argument a: 1000.* is out of range for float", lambda: scale(ck.ones(8), ck.zeros(8), 10**400, 8)
    )
    y = ck.zeros(8)
    scale(ck.ones(8), y, 1e300, 8)
    assert y.tolist() == [float("inf")] * 8


def test_launch_bounds_are_the_blocks_limit(device):
    kernel = ck.Kernel('extern "C" __global__ void __launch_bounds__(64) << name >>(float* y) { y[0] = 1; }')
    refused("block is .* 256 threads; this kernel, by its __launch_bounds__", lambda: kernel(ck.zeros(1)))
    kernel(ck.zeros(1), block=64)


def test_a_written_view_that_overlaps_itself_is_refused(device):
    kernel = ck.Kernel(
        'extern "C" __global__ void << name >>(View<float, 2> y) { if (threadIdx.x == 0) y(0, 0) = 1; }'
    )
    x = ck.zeros(8)
    windows = x.device.xp.lib.stride_tricks.as_strided(x._data, (4, 4), (4, 4))
    refused("elements share memory", lambda: kernel(ck.Array._wrap(windows, x.device), grid=1))
    for shape, strides in (
        ((2, 3), (8, 4)),
        ((3, 2), (4, 8)),
        ((2, 2), (-4, 4)),
        ((2, 4), (0, 4)),
        ((2, 2), (2, 8)),
    ):
        view = x.device.xp.lib.stride_tricks.as_strided(x._data[4:], shape, strides)
        refused("elements share memory", lambda view=view: kernel(ck.Array._wrap(view, x.device), grid=1))
    data = x._data
    for view in (
        *(
            data.reshape(2, 4)[:, ::2],
            data.reshape(2, 4),
            data.reshape(2, 4).T,
            data.reshape(4, 2)[::-1, ::-1],
        ),
        *(data[:1].reshape(1, 1), data[::3].reshape(1, 3), x.device.xp.broadcast_to(data[:4], (1, 4))),
        x.device.xp.lib.stride_tricks.as_strided(data, (2, 3), (12, 4)),
    ):
        kernel(ck.Array._wrap(view, x.device), grid=1)


def test_a_constant_that_others_share_is_not_written(device):
    """A cotangent of ones is one element for all, which a rule of the tape gets as it is."""
    kernel = ck.Kernel('extern "C" __global__ void << name >>(float* x) { x[0] = 2; }', name="two")

    def vjp(cotangents, saved, needs):
        refused("argument x: float\\* is written, and .* a constant", lambda: kernel(*cotangents, grid=1))
        return cotangents

    x = ck.asarray(1.0, dtype="float32")
    with ck.Tape() as tape:
        tape.watch(x)
        y = ck.asarray(3.0, dtype="float32")
        record("identity", (x,), (y,), vjp)
    assert tape.gradient(y, x).item() == 1.0 and ck.ones(()).item() == 1.0


def test_a_failing_kernel_still_counts_as_a_write_and_an_empty_grid_does_not():
    with ck.device("host"):
        kernel = ck.Kernel('extern "C" __global__ void << name >>(float* y) { y[0] = 1; assert(y[0] != 1); }')
        y = ck.zeros(1)
        kernel(y, grid=0)
        assert y._storage.version == 0
        with pytest.raises(ck.KernelFault):
            kernel(y)
        assert (y.item(), y._storage.version) == (1.0, 1)


def test_pointers_to_a_users_own_type_take_bytes(device):
    kernel = ck.Kernel(
        """struct Pair { int first; float second; };
        extern "C" __global__ void << name >>(const Pair* p, float* y) {
            if (threadIdx.x == 0) y[0] = p[1].first + p[1].second;
        }"""
    )
    raw = np.array([(1, 2), (3, 0.5)], "i4,f4").view(np.uint8)
    y = ck.zeros(1)
    kernel(ck.asarray(raw), y)
    assert y.item() == 3.5
    refused("argument p: expected dtype uint8 for const Pair\\*", lambda: kernel(ck.zeros(4), y))


def test_launches_in_the_order_of_other_libraries(device: ck.Device) -> None:
    x, y = ck.ones(3), ck.zeros(3)
    copy = ck.Kernel("""
    extern "C" __global__ void copy(const << elem >>* x, << elem >>* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i];
    }""")
    for grid, block in (((1,), (256,)), (1, 256)):
        with pytest.raises(
            ck.LaunchError, match=r"kernel\(grid, block, \(x, y, n\)\) is kernel\(x, y, n, grid=grid, "
        ):
            copy(grid, block, (x, y, 3))
    with pytest.raises(ck.LaunchError, match=r"arguments come one by one: kernel\(x, y, n\)"):
        copy((x, y, 3))
    with pytest.raises(TypeError, match="x: a kernel's arguments are given by position"):
        copy(x=x, y=y, n=3)
    with pytest.raises(ck.LaunchError, match="expected 3 arguments .*, got 2; .* by position, .* not n="):
        copy(x, y, n=3)
    for result in ("int", "float*"):
        with pytest.raises(
            ck.TemplateError,
            match=f"count: a kernel returns void, and this one {re.escape(result)}: write void",
        ):
            ck.Kernel(f'extern "C" __global__ {result} count(int* n) {{ return 0; }}')(
                ck.asarray([1], dtype="int32")
            )
    copy(x, y, 3)
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_a_replayed_launch_takes_numpys_numbers(device: ck.Device) -> None:
    text = 'extern "C" __global__ void << name >>(long long* y, long long n) { y[0] = n; }'
    y = ck.zeros(1, "int64", device)
    number = ck.Kernel(text, name="number", block=1)
    for n in (np.int64(7), 8, np.uint8(9)):
        number(y, n, grid=1)
        assert y.tolist() == [n]


def test_bound_kernels_are_told_apart_by_the_types_of_variables(device: ck.Device) -> None:
    """1, True and 1.0 render differently, and so do 0.0 and -0.0; the order of keywords says nothing."""
    text = (
        """extern "C" __global__ void write_values(double* y) { y[0] = << a >>; y[1] = << b | lower >>; }"""
    )
    kernel = ck.Kernel(text, block=1, name="write_values")
    assert kernel.bind(a=1, b=2) is kernel.bind(b=2, a=1) is kernel.bind(a=1, b=2)
    bound = [kernel.bind(a=0.0, b=one) for one in (1, True, 1.0)] + [kernel.bind(a=-0.0, b=1)]
    assert len(set(map(id, bound))) == 4
    y = ck.zeros(2, "float64")
    bound[3]((y,), 1)
    assert np.signbit(y.numpy()[0]) and bound[1].rendered.text.count("true")
