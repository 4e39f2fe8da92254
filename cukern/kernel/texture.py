"""Textures and surfaces: arrays that kernels read by coordinates, and that they read and write by bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.deferred import about_to_write
from ..autodiff import tape
from ..device import Device
from ..device.interface import Texels, TextureForm, TextureObject
from ..errors import GradientError, LaunchError

#: CUDA's numbers for the modes.
_ADDRESS = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
_FILTER = {"point": 0, "linear": 1}
_READ = {"element_type": 0, "normalized_float": 1}
_DTYPES = ("float16", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32")


def _require(what: str, array: Any, channels: Any, layered: bool) -> tuple[Any, TextureForm]:
    """The elements in the shape ``(layers, *extent, channels)``, and their form; raises unless they fit."""
    if not isinstance(array, Array):
        raise LaunchError(f"{what}: array: expected an Array, got {type(array).__name__}")
    row = dtypes.info(array.dtype)
    if row.name not in _DTYPES:
        raise LaunchError(f"{what}: array: expected one of {', '.join(_DTYPES)}, got {row.name}")
    if not isinstance(channels, (int, np.integer)) or channels not in (1, 2, 4):
        raise LaunchError(f"{what}: channels: expected 1, 2 or 4, got {channels!r}")
    shape = array.shape if channels == 1 else array.shape[:-1]
    if channels > 1 and array.shape[-1:] != (channels,):
        raise LaunchError(
            f"{what}: array: expected a last axis of the {channels} channels, got shape {array.shape}"
        )
    layers = shape[:1] if layered else ()
    extent = shape[len(layers) :]
    if not array.size or (len(extent) != 2 if layered else not 1 <= len(extent) <= 3):
        axes = "the layers and 2 axes" if layered else "1 to 3 axes"
        raise LaunchError(
            f"{what}: array: expected {axes}, none empty, before channels, got shape {array.shape}"
        )
    if any(array._key in one._tracked for one in tape.state.active):
        raise GradientError(
            f"{what}: a texture has no derivative, and a tape tracks the array: stop_gradient it"
        )
    return array._data, TextureForm(array.dtype, int(channels), extent, layers[0] if layers else 0)


def _one_of(what: str, argument: str, value: Any, known: dict[str, int]) -> int:
    if not isinstance(value, str) or value not in known:
        raise LaunchError(f"{what}: {argument}: expected one of {', '.join(known)}, got {value!r}")
    return known[value]


def _border(what: str, color: Any) -> tuple[float, float, float, float]:
    try:
        given = tuple(map(float, color))
    except TypeError:
        given = ()
    if not 1 <= len(given) <= 4:
        raise LaunchError(f"{what}: border_color: expected 1 to 4 numbers, got {color!r}")
    a, b, c, d = (*given, 0.0, 0.0, 0.0)[:4]
    return a, b, c, d


class _Sampled:
    """What textures and surfaces have in common."""

    device: Device
    _shape: tuple[int, ...]
    _form: TextureForm
    _texels: Texels
    _object: TextureObject

    @property
    def handle(self) -> int:
        """The 64-bit number that kernels take, for a struct with such a member."""
        return self._object.handle

    @property
    def dtype(self) -> dtypes.DType:
        return self._form.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array that was given."""
        return self._shape

    def _finish(self) -> None:
        with self.device.activate():
            self._object = self.device.backend.texture(self._texels, self._form)

    def __repr__(self) -> str:
        form = self._form
        name = dtypes.info(form.dtype).name
        return f"{type(self).__name__}({name}, shape {self._shape}, channels {form.channels})"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} holds an address and cannot be pickled; make one of an array"
        )

    def _fitting(self, array: Any, argument: str) -> Any:
        name = f"{type(self).__name__}: {argument}"
        if not isinstance(array, Array) or array.device is not self.device:
            raise LaunchError(f"{name}: expected an Array on {self.device}, got {type(array).__name__}")
        if array.dtype != self.dtype or array.shape != self._shape:
            raise LaunchError(
                f"{name}: expected {dtypes.info(self.dtype).name} of shape {self._shape}, got "
                f"{dtypes.info(array.dtype).name} of shape {array.shape}"
            )
        return array._data


def _filled(what: str, device: Device, data: Any, form: TextureForm) -> Texels:
    with device.activate():
        if not form.linear_memory:
            data = device.xp.ascontiguousarray(data)
        return device.backend.texels(form, data)


class Surface(_Sampled):
    """Elements that kernels read and write at coordinates: an argument for ``cudaSurfaceObject_t``.

    Kernels call ``surf1Dread``, ``surf2Dread``, ``surf3Dread``, ``surf2DLayeredread``, and the same with ``write``.
    Their ``x`` counts bytes. A surface is a copy of the array's elements; :meth:`copy_to` gives what kernels have
    written.
    A :class:`Texture` of a surface samples the same elements.

    Args:
        array: of floats of 16 or 32 bits, or integers of 8 to 32, with 1 to 3 axes and that of ``channels``.
        channels: 1, or 2 or 4, the length of the last axis: the components of an element such as a ``float4``.
        layered: whether the first of three axes counts layers, as for ``surf2DLayeredread``.

    Raises:
        LaunchError: the array, or another argument, is not of this kind.
        GradientError: a tape tracks the array; a surface has no derivative.

    >>> import cukern as ck
    >>> twice = ck.Kernel('''
    ... extern "C" __global__ void twice(cudaSurfaceObject_t s) {
    ...     const int x = threadIdx.x * sizeof(float);
    ...     surf2Dwrite(2 * surf2Dread<float>(s, x, blockIdx.x), s, x, blockIdx.x);
    ... }''', block=3, plain=True)
    >>> x = ck.reshape(ck.arange(6.0), (2, 3))
    >>> surface = Surface(x)
    >>> twice(surface, grid=2)
    >>> surface.copy_to(x).tolist()
    [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]
    """

    def __init__(self, array: Array, *, channels: int = 1, layered: bool = False) -> None:
        data, form = _require("Surface", array, channels, bool(layered))
        self.device, self._shape = array.device, array.shape
        self._form = form._replace(surface=True)
        self._texels = _filled("Surface", self.device, data, self._form)
        self._finish()

    def copy_from(self, array: Array) -> None:
        """Set the elements.

        Args:
            array: of the dtype and shape of the surface, on its device.

        Raises:
            LaunchError: the array is of another kind.
        """
        data = self._fitting(array, "array")
        with self.device.activate():
            self._texels.copy_from(self.device.xp.ascontiguousarray(data))

    def copy_to(self, array: Array) -> Array:
        """Copy the elements to an array of the surface's dtype and shape, on its device, and return it.

        Raises:
            LaunchError: the array is of another kind, or is not contiguous.
        """
        about_to_write(array)
        data = self._fitting(array, "array")
        if not data.flags.c_contiguous or array._storage.constant:
            raise LaunchError("Surface: array: expected one in C order that may be written")
        with self.device.activate():
            self._texels.copy_to(data)
        array._bump("Surface.copy_to")
        return array


class Texture(_Sampled):
    """Elements that kernels sample at coordinates: an argument for ``cudaTextureObject_t``.

    Kernels call ``tex1D<T>``, ``tex2D<T>``, ``tex3D<T>`` and ``tex2DLayered<T>``, where ``T`` is the type of an
    element, such as ``float`` or ``uchar4``; a half is fetched as ``float``. The element of index i lies at coordinates
    from i up to i + 1. A texture is a copy of the array's elements.

    Args:
        array: as of :class:`Surface`; or a surface, whose elements are shared.
        channels, layered: as of :class:`Surface`; of a surface those that it has.
        address_mode: what coordinates outside the array fetch: ``"clamp"``, the nearest element; ``"border"``, the
            border; with ``normalized_coords`` also ``"wrap"`` and ``"mirror"``. One for all axes, or a tuple for
            x, y and z, which are the last axis, the one before, and so on.
        filter_mode: ``"point"``, the element at the coordinate; or ``"linear"``, the elements around it, weighted by
            its distance from their centres in steps of 1/256. That needs floats, or ``"normalized_float"``.
        read_mode: ``"element_type"``; or ``"normalized_float"`` for integers of 8 or 16 bits, which are fetched as
            floats: the largest as 1.
        normalized_coords: whether coordinates from 0 to 1 span each axis.
        border_color: the components of the border.
        linear: whether to sample the array's own memory, which then has one axis and that of ``channels``, and is in C
            order: by ``tex1Dfetch<T>`` alone, with an integer; what is outside is 0.

    Raises:
        LaunchError: the array, or another argument, is not of this kind.
        GradientError: a tape tracks the array; a texture has no derivative.

    Source: CUDA C++ Programming Guide, "Texture Fetching".

    >>> import cukern as ck
    >>> sample = ck.Kernel('''
    ... extern "C" __global__ void sample(cudaTextureObject_t t, const float* x, float* y) {
    ...     y[threadIdx.x] = tex1D<float>(t, x[threadIdx.x]);
    ... }''', block=4, plain=True)
    >>> texture = Texture(ck.asarray([0.0, 10.0, 30.0]), filter_mode="linear")
    >>> y = ck.empty(4)
    >>> sample(texture, ck.asarray([0.5, 1.0, 1.75, 9.0]), y)
    >>> y.tolist()
    [0.0, 5.0, 15.0, 30.0]
    """

    def __init__(
        self,
        array: Array | Surface,
        *,
        channels: int = 1,
        layered: bool = False,
        address_mode: str | Sequence[str] = "clamp",
        filter_mode: str = "point",
        read_mode: str = "element_type",
        normalized_coords: bool = False,
        border_color: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
        linear: bool = False,
    ) -> None:
        data: Any = None
        if isinstance(array, Surface):
            if channels != 1 or layered or linear:
                raise LaunchError(
                    "Texture: channels, layered and linear are those of the surface; leave them out"
                )
            form = array._form._replace(surface=False)
        else:
            data, form = _require("Texture", array, channels, bool(layered))
        form = form._replace(
            linear_filter=bool(_one_of("Texture", "filter_mode", filter_mode, _FILTER)),
            normalized_float=bool(_one_of("Texture", "read_mode", read_mode, _READ)),
            normalized_coords=bool(normalized_coords),
            border=_border("Texture", border_color),
            linear_memory=bool(linear),
        )
        self._form = form._replace(address=_addresses(form, address_mode))
        _check_modes(self._form, data, layered)
        self.device, self._shape = array.device, array.shape
        #: Linear memory is the array's.
        self.array = array if linear else None
        self._texels = (
            array._texels if isinstance(array, Surface) else _filled("Texture", self.device, data, self._form)
        )
        self._finish()


def _addresses(form: TextureForm, mode: Any) -> tuple[int, int, int]:
    modes = [mode] * len(form.extent) if isinstance(mode, str) else list(mode)
    if len(modes) != len(form.extent):
        raise LaunchError(f"Texture: address_mode: expected one, or {len(form.extent)} of them, got {mode!r}")
    x, y, z = (*(_one_of("Texture", "address_mode", one, _ADDRESS) for one in modes), 1, 1)[:3]
    if not form.normalized_coords and {0, 2} & {x, y, z}:
        raise LaunchError(f"Texture: address_mode: {mode!r} needs normalized_coords=True")
    return x, y, z


def _check_modes(form: TextureForm, data: Any, layered: bool) -> None:
    """Raise unless the modes fit each other and the elements."""
    row = dtypes.info(form.dtype)
    if form.normalized_float and (row.kind == "f" or row.itemsize > 2):
        raise LaunchError(
            f"Texture: read_mode: normalized_float is of integers of 8 or 16 bits, got {row.name}"
        )
    if form.linear_filter and row.kind != "f" and not form.normalized_float:
        raise LaunchError(
            f"Texture: filter_mode: linear needs floats, or read_mode='normalized_float', got {row.name}"
        )
    if not form.linear_memory:
        return
    if len(form.extent) != 1 or layered or not data.flags.c_contiguous:
        raise LaunchError(
            f"Texture: linear: expected an array in C order of one axis before channels, got {data.shape}"
        )
    if form.linear_filter or form.normalized_coords or form.address != (1, 1, 1):
        raise LaunchError("Texture: linear: tex1Dfetch takes integers, and no filter_mode or address_mode")
    if form.extent[0] > 2**27:
        raise LaunchError(f"Texture: linear: expected at most 2**27 elements, got {form.extent[0]}")
