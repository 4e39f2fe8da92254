"""Textures and surfaces: sampled as CUDA's guide says, on both devices; and what they refuse."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import cukern as ck

PROGRAM = ck.Kernel(
    """
template <typename T> __global__ void line(cudaTextureObject_t t, const float* x, T* y) {
    y[threadIdx.x] = tex1D<T>(t, x[threadIdx.x]);
}
template <typename T> __global__ void plane(cudaTextureObject_t t, const float* x, T* y) {
    tex2D(&y[threadIdx.x], t, x[2 * threadIdx.x], x[2 * threadIdx.x + 1]);
}
__global__ void deep(cudaTextureObject_t t, cudaTextureObject_t layers, const float* x, float* y) {
    const int i = 3 * threadIdx.x;
    y[2 * threadIdx.x] = tex3D<float>(t, x[i], x[i + 1], x[i + 2]);
    y[2 * threadIdx.x + 1] = tex2DLayered<float>(layers, x[i], x[i + 1], (int)threadIdx.x - 1);
}
__global__ void fetch(cudaTextureObject_t t, ushort2* y) {
    y[threadIdx.x] = tex1Dfetch<ushort2>(t, (int)threadIdx.x - 1);
}
__global__ void surface(cudaSurfaceObject_t s, float* y, int z, int chosen) {
    const cudaSurfaceBoundaryMode mode = (cudaSurfaceBoundaryMode)chosen;
    const int x = threadIdx.x * 4 - 4;
    y[threadIdx.x] = surf3Dread<float>(s, x, 1, z, mode);
    surf3Dwrite(9.0f, s, x + 16, 0, 0, mode);
}
""",
    block=8,
    plain=True,
)


def _elements(data: np.ndarray[Any, Any], places: Any, modes: Any, border: float) -> Any:
    """The elements at integer places, of which the first is along the last axis."""
    outside, found = np.zeros(places[0].shape, bool), []
    for size, place, mode in zip(data.shape[::-1], places, modes, strict=True):
        if mode == "border":
            outside |= (place < 0) | (place >= size)
        if mode == "wrap":
            place = place % size
        if mode == "mirror":
            place = np.where(place // size % 2 == 0, place % size, size - 1 - place % size)
        found.append(np.clip(place, 0, size - 1).astype(int))
    return np.where(outside, border, data[tuple(found[::-1])])


def sampled(
    data: Any, x: Any, linear: bool, modes: Any, normalized: bool = False, border: float = 0.0
) -> Any:
    """What CUDA's guide defines, in float64. As measured on an H200, weights are rounded to 1/256 after each axis."""
    scale = data.shape[::-1] if normalized else (1,) * data.ndim
    along = [x[..., i].astype(np.float64) * n for i, n in enumerate(scale)]
    if not linear:
        return _elements(data, [np.floor(a) for a in along], modes, border)
    steps = [np.floor((a - 0.5) * 256 + 0.5) for a in along]
    shares = [step % 256 for step in steps]
    weights = {(): np.full(x.shape[:-1], 256.0)}
    # Weights are divided by z, then x, then y: of two, the one is rounded, and the other is what is left.
    for axis in (2, 0, 1)[3 - data.ndim if data.ndim == 3 else 1 :][: data.ndim]:
        divided = {}
        for corner, whole in weights.items():
            near = np.floor(whole * shares[axis] / 256 + 0.5)
            far = np.floor(whole * (256 - shares[axis]) / 256 + 0.5)
            before = axis == 1 and corner[-1] == 0
            divided[(*corner, 1)] = whole - far if before else near
            divided[(*corner, 0)] = far if before else whole - near
        weights = divided
    total = 0.0
    for corner, weight in weights.items():
        if data.ndim == 3:
            corner = corner[1], corner[2], corner[0]
        at = [np.floor(s / 256) + corner[i] for i, s in enumerate(steps)]
        total = total + weight / 256 * _elements(data, at, modes, border)
    return total


@pytest.mark.parametrize("linear", [False, True])
def test_one_and_two_axes_in_each_mode(device: ck.Device, linear: bool) -> None:
    rng = np.random.default_rng(3)
    line, plane = rng.random(6).astype(np.float32), rng.random((5, 7)).astype(np.float32)
    # Multiples of 1/64 are exact in steps of 1/256, whichever way the device rounds; none lies on an edge.
    x = (rng.integers(-100, 500, (24, 1)) * 2 + 1).astype(np.float32) / 128
    options: dict[str, Any] = {"filter_mode": "linear" if linear else "point", "border_color": (0.25,)}
    for mode in ("clamp", "border"):
        y = ck.empty(24)
        PROGRAM["line<float>"](
            ck.Texture(ck.asarray(line), address_mode=mode, **options), ck.asarray(x), y, block=24
        )
        np.testing.assert_allclose(y.numpy(), sampled(line, x, linear, [mode], border=0.25), rtol=1e-6)
    x = (rng.integers(-200, 300, (32, 2)) * 2 + 1).astype(np.float32) / 256
    plane = plane[:4, :]
    plane = np.concatenate([plane, plane[:, :1]], 1)  # 4 by 8: powers of two keep normalised places exact
    for modes in (("wrap", "mirror"), ("mirror", "wrap"), ("clamp", "border")):
        texture = ck.Texture(ck.asarray(plane), address_mode=modes, normalized_coords=True, **options)
        y = ck.empty(32)
        PROGRAM["plane<float>"](texture, ck.asarray(x), y, block=32)
        expected = sampled(plane, x, linear, modes, True, 0.25)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


def test_values_measured_on_an_h200(device: ck.Device) -> None:
    # Weights of four elements in 1/256 for shares in 1/256, where both products are ties.
    shares = {(1, 128): [128, 0, 127, 1], (16, 136): [113, 7, 127, 9], (128, 65): [96, 95, 32, 33]}
    units = ck.asarray(np.eye(4, dtype=np.float32).reshape(2, 2, 4))
    weights = ck.empty((3, 4))
    PROGRAM["plane<float4>"](
        ck.Texture(units, channels=4, filter_mode="linear"),
        ck.asarray(np.array(list(shares), np.float32) / 256 + 0.5),
        weights,
        block=3,
    )
    assert (weights.numpy() * 256).tolist() == list(shares.values())
    y = ck.empty(1)
    for dtype, first, second, share, found in (
        ("float32", "-0x1.fe3fb2p+1", "-0x1.1488a4p-6", 254, "-0x1.884fa0p-5"),
        ("float32", "0x1.7877c4p+0", "0x1.1c6d5cp-1", 128, "0x1.03573ap+0"),
        ("float16", "0x1.5fp+2", "-0x1.314p-4", 248, "0x1.968p-4"),
        ("float16", "-0x1.2acp+2", "0x1.2acp-4", 241, "-0x1.a4p-3"),
    ):
        pair = ck.asarray([float.fromhex(first), float.fromhex(second)], dtype=dtype)
        place = ck.asarray([share / 256 + 0.5], dtype="float32")
        PROGRAM["line<float>"](ck.Texture(pair, filter_mode="linear"), place, y, block=1)
        assert y.item() == float.fromhex(found)
    # Coordinates a little beyond an element's edge, which keep 21 bits after the point.
    for mode, linear, x, found_at in (
        ("clamp", "point", "0x1.24924cp-3", 0),
        ("wrap", "point", "-0x1.924924p+0", 2),
        ("mirror", "point", "-0x1.924924p+0", 2),
        ("wrap", "linear", "0x1.d7b6dcp-2", 697 / 256),
    ):
        ramp = ck.arange(7, dtype="float32")
        texture = ck.Texture(ramp, filter_mode=linear, address_mode=mode, normalized_coords=True)
        PROGRAM["line<float>"](texture, ck.asarray([float.fromhex(x)], dtype="float32"), y, block=1)
        assert y.item() == found_at
    # Along axes of more than 8192 elements, which keep 22 bits.
    for size, x, found_at in (
        (8193, "0x1.d9fd7ep-2", 970722),
        (16383, "0x1.1979eap-1", 208432),
        (32768, "0x1.38233cp-2", 459750),
    ):
        ramp = ck.asarray(np.arange(size) % 4096 * 256, dtype="float32")
        texture = ck.Texture(ramp, filter_mode="linear", normalized_coords=True)
        PROGRAM["line<float>"](texture, ck.asarray([float.fromhex(x)], dtype="float32"), y, block=1)
        assert y.item() == found_at
    # Sums of 8 bits with a sign, which are rounded as no quotient by 127 is.
    for value, share, found in ((-1, 48, -48), (-1, 49, -50), (64, 255, 16448), (-65, 50, -3276)):
        pair = ck.asarray(np.array([0, value], np.int8))
        place = ck.asarray([share / 256 + 0.5], dtype="float32")
        texture = ck.Texture(pair, filter_mode="linear", read_mode="normalized_float")
        PROGRAM["line<float>"](texture, place, y, block=1)
        assert y.item() == np.float32(found / 32767)


def test_borders_measured_on_an_h200(device: ck.Device) -> None:
    outside = ck.asarray(np.full((1, 2), -5, np.float32))
    for entry, dtype, found, options in (
        ("float4", "float16", [3.140625, -2.69921875, 65504.0, 0.333251953125], {}),
        ("float4", "uint8", [1.0, 0.0, 1.0, np.float32(85 / 255)], {"read_mode": "normalized_float"}),
        ("float4", "int16", [1.0, -1.0, 1.0, np.float32(10921 / 32767)], {"read_mode": "normalized_float"}),
        ("uchar4", "uint8", [208, 205, 249, 76], {}),  # the lowest bits of the floats
    ):
        border = {"address_mode": "border", "border_color": (3.14159, -2.7, 1e10, 0.3333)}
        texture = ck.Texture(ck.ones((2, 2, 4), dtype), channels=4, **border, **options)  # type: ignore[arg-type]
        y = ck.empty(4, "uint8" if entry == "uchar4" else "float32")
        PROGRAM[f"plane<{entry}>"](texture, outside, y, block=1)
        assert y.tolist() == found


def test_a_border_of_fewer_numbers_ends_with_zeros(device: ck.Device) -> None:
    outside, y = ck.asarray(np.full((1, 2), -5, np.float32)), ck.empty(4)
    for color in ((), (1.0,), (1.0, 2.0), (1.0, 2.0, 3.0)):
        border = {"border_color": color} if color else {}
        texture = ck.Texture(ck.ones((2, 2, 4)), channels=4, address_mode="border", **border)  # type: ignore[arg-type]
        PROGRAM["plane<float4>"](texture, outside, y, block=1)
        assert y.tolist() == [*color, *[0.0] * (4 - len(color))]


def test_elements_of_several_channels(device: ck.Device) -> None:
    rng = np.random.default_rng(4)
    x = np.array([[0.5, 0.5], [2.5, 1.5], [9.0, -1.0], [1.0, 1.0]], np.float32)
    small = rng.integers(0, 255, (2, 3, 4), np.uint8)
    y = ck.empty((4, 4), "uint8")
    PROGRAM["plane<uchar4>"](ck.Texture(ck.asarray(small), channels=4), ck.asarray(x), y, block=4)
    assert y.tolist() == small[[0, 1, 0, 1], [0, 2, 2, 1]].tolist()
    shares = ck.Texture(ck.asarray(small), channels=4, read_mode="normalized_float", filter_mode="linear")
    z = ck.empty((4, 4))
    PROGRAM["plane<float4>"](shares, ck.asarray(x), z, block=4)
    expected = np.stack([sampled(small[..., i] / 255, x, True, ["clamp"] * 2) for i in range(4)], -1)
    np.testing.assert_allclose(z.numpy(), np.floor(expected * 65535 + 0.5) / 65535, rtol=1e-7)
    halves = rng.standard_normal((2, 3, 4)).astype(np.float16)
    PROGRAM["plane<float4>"](ck.Texture(ck.asarray(halves), channels=4), ck.asarray(x), z, block=4)
    np.testing.assert_array_equal(z.numpy(), halves[[0, 1, 0, 1], [0, 2, 2, 1]])


def test_three_axes_layers_and_linear_memory(device: ck.Device) -> None:
    rng = np.random.default_rng(5)
    cube = rng.random((3, 4, 5)).astype(np.float32)
    # Products of three shares in quarters are exact in steps of 1/256.
    x = rng.integers(-4, 24, (6, 3)).astype(np.float32) / 4
    texture = ck.Texture(ck.asarray(cube), filter_mode="linear")
    y = ck.empty((6, 2))
    PROGRAM["deep"](texture, ck.Texture(ck.asarray(cube), layered=True), ck.asarray(x), y, grid=1, block=6)
    np.testing.assert_allclose(y.numpy()[:, 0], sampled(cube, x, True, ["clamp"] * 3), rtol=1e-5)
    layers = [
        sampled(cube[min((i - 1) % 2**32, 2)], x[i : i + 1, :2], False, ["clamp"] * 2)[0] for i in range(6)
    ]
    assert y.numpy()[:, 1].tolist() == layers
    # Measured on an H200: each plane along z loses its own last bits.
    words = (
        ("0x1.d44ad8p-4", "0x1.91f56ap-4", "-0x1.682750p-3", "0x1.31d23cp-5"),
        ("-0x1.749fc6p-1", "-0x1.2eb614p-1", "-0x1.2d9756p+1", "0x1.42e94ap+1"),
    )
    corners = np.array([[float.fromhex(word) for word in plane] for plane in words], np.float32)
    texture = ck.Texture(ck.asarray(corners.reshape(2, 2, 2)), filter_mode="linear")
    place = ck.asarray(np.array([[142, 96, 152]], np.float32) / 256 + 0.5)
    PROGRAM["deep"](texture, ck.Texture(ck.asarray(cube), layered=True), place, y, grid=1, block=1)
    assert y[0, 0].item() == float.fromhex("-0x1.1c4844p-3")
    pairs = ck.asarray(np.arange(6, dtype=np.uint16).reshape(3, 2))
    fetched = ck.empty((5, 2), "uint16")
    texture = ck.Texture(pairs, channels=2, linear=True)
    pairs[0] = 7  # its own memory
    PROGRAM["fetch"](texture, fetched, grid=1, block=5)
    assert fetched.tolist() == [[0, 0], [7, 7], [2, 3], [4, 5], [0, 0]]


def test_a_surface_is_read_and_written_and_sampled(device: ck.Device) -> None:
    cube = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    surface, y = ck.Surface(ck.asarray(cube)), ck.empty(4)
    PROGRAM["surface"](surface, y, 1, 0, grid=1, block=4)  # zeros beyond the bounds
    assert y.tolist() == [0.0, 9.0, 10.0, 11.0]
    PROGRAM["surface"](surface, y, 5, 1, grid=1, block=4)  # the nearest element
    assert y.tolist() == [9.0, 9.0, 10.0, 11.0]
    cube[0, 0, 2] = 9
    assert surface.copy_to(ck.empty((2, 2, 3))).tolist() == cube.tolist()
    place = ck.asarray(np.array([[2.5, 0.5, 0.5]], np.float32))
    PROGRAM["deep"](
        ck.Texture(surface), ck.Texture(ck.zeros((1, 2, 2)), layered=True), place, y, grid=1, block=1
    )
    assert y.tolist()[:2] == [9.0, 0.0]
    surface.copy_from(ck.zeros((2, 2, 3)))
    assert surface.copy_to(ck.ones((2, 2, 3))).tolist() == np.zeros((2, 2, 3)).tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: ck.Texture(np.ones(3)), "array: expected an Array, got ndarray"),
        (lambda x: ck.Texture(ck.ones(3, "float64")), "expected one of float16, .*, got float64"),
        (lambda x: ck.Texture(x, channels=3), "channels: expected 1, 2 or 4, got 3"),
        (lambda x: ck.Texture(x, channels=2), r"a last axis of the 2 channels, got shape \(4, 3\)"),
        (lambda x: ck.Texture(x, layered=True), "expected the layers and 2 axes"),
        (lambda x: ck.Texture(x[:0]), "none empty"),
        (lambda x: ck.Texture(ck.ones(())), "expected 1 to 3 axes"),
        (lambda x: ck.Texture(x, address_mode="wrap"), "'wrap' needs normalized_coords=True"),
        (lambda x: ck.Texture(x, address_mode=("clamp",)), "address_mode: expected one, or 2 of them"),
        (
            lambda x: ck.Texture(x, filter_mode="cubic"),
            "filter_mode: expected one of point, linear, got 'cubic'",
        ),
        (lambda x: ck.Texture(x, read_mode="normalized_float"), "integers of 8 or 16 bits, got float32"),
        (lambda x: ck.Texture(ck.ones(3, "int32"), filter_mode="linear"), "linear needs floats"),
        (lambda x: ck.Texture(x, border_color=3), "border_color: expected 1 to 4 numbers, got 3"),
        (lambda x: ck.Texture(x, linear=True), "expected an array in C order of one axis"),
        (lambda x: ck.Texture(x[0], linear=True, filter_mode="linear"), "tex1Dfetch takes integers"),
        (lambda x: ck.Texture(ck.Surface(x), channels=4), "those of the surface"),
        (lambda x: ck.Surface(x).copy_to(ck.ones((3, 4))), r"expected float32 of shape \(4, 3\), got"),
        (lambda x: ck.Surface(x).copy_to(ck.ones((3, 4)).T), "in C order that may be written"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ck.LaunchError, match=message):
        make(ck.ones((4, 3)))


def test_arguments_of_launches() -> None:
    x, y = ck.ones((2, 2)), ck.empty(2)
    texture, surface = ck.Texture(x), ck.Surface(x)
    kernel = PROGRAM["line<float>"]
    for wrong in (surface, x, 3, None, bytes(8)):
        with pytest.raises(ck.LaunchError, match="argument t: expected a cukern.Texture, got"):
            kernel(wrong, y, y)
    assert repr(texture) == "Texture(float32, shape (2, 2), channels 1)" and texture.handle != surface.handle
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(texture)
    with ck.Tape() as tape:
        tape.watch(x)
        with pytest.raises(ck.GradientError, match="a texture has no derivative"):
            ck.Texture(x)


def test_mistakes_in_kernels_are_named_on_the_host() -> None:
    with ck.device("host"):
        x, y = ck.ones((2, 2)), ck.zeros(2)
        with pytest.raises(ck.KernelFault, match="tex1D: the object has other axes"):
            PROGRAM["line<float>"](ck.Texture(x), x[0], y, block=2)
        with pytest.raises(
            ck.KernelFault, match="tex1D: a texture of linear memory is read by tex1Dfetch alone"
        ):
            PROGRAM["line<float>"](ck.Texture(x[0], linear=True), x[0], y, block=2)
        with pytest.raises(ck.KernelFault, match="tex1D: the texture's elements are of another type"):
            PROGRAM["line<float>"](ck.Texture(ck.ones(3, "int32")), x[0], y, block=2)
        with pytest.raises(ck.KernelFault, match="surf3Dread: x, which counts bytes, is outside the surface"):
            PROGRAM["surface"](ck.Surface(ck.ones((2, 2, 3))), y, 0, 2, grid=1, block=4)
