"""Textures and surfaces of a GPU, by CuPy's: their elements are a CUDA array, in an opaque layout."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ... import dtypes
from ..interface import TextureForm

#: cudaArrayLayered and cudaArraySurfaceLoadStore.
_LAYERED, _STORES = 1, 2


def _channels(cupy: ModuleType, form: TextureForm) -> Any:
    """The description of an element: the bits of each component, and a number of CUDA's for their kind."""
    row = dtypes.info(form.dtype)
    bits = [8 * row.itemsize] * form.channels + [0] * (4 - form.channels)
    return cupy.cuda.texture.ChannelFormatDescriptor(*bits, "iuf".index(row.kind))


class Texels:
    """See :class:`..interface.Texels`."""

    def __init__(self, cupy: ModuleType, form: TextureForm, data: Any) -> None:
        self._cupy, self.linear = cupy, data if form.linear_memory else None
        #: An element's components lie along the last axis in CuPy's copies.
        *outer, inner = form.extent
        self._shape = (*([form.layers] if form.layers else []), *outer, inner * form.channels)
        if self.linear is not None:
            return
        width, height, depth = (inner, *reversed(outer), 0, 0)[:3]
        self.array = cupy.cuda.texture.CUDAarray(
            _channels(cupy, form),
            width,
            height,
            form.layers or depth,
            _STORES | (_LAYERED if form.layers else 0),
        )
        self.copy_from(data)

    def copy_from(self, data: Any) -> None:
        """See :class:`..interface.Texels`."""
        self.array.copy_from(data.reshape(self._shape))

    def copy_to(self, data: Any) -> None:
        """See :class:`..interface.Texels`."""
        self.array.copy_to(data.reshape(self._shape))


class Object:
    """A texture or a surface: ``handle`` is the kernel's argument."""

    def __init__(self, cupy: ModuleType, texels: Texels, form: TextureForm) -> None:
        kinds, runtime = cupy.cuda.texture, cupy.cuda.runtime
        if texels.linear is None:
            resource = kinds.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=texels.array)
        else:
            resource = kinds.ResourceDescriptor(
                runtime.cudaResourceTypeLinear,
                arr=texels.linear,
                chDesc=_channels(cupy, form),
                sizeInBytes=texels.linear.nbytes,
            )
        if form.surface:
            self._object = kinds.SurfaceObject(resource)
        else:
            described = kinds.TextureDescriptor(
                form.address,
                int(form.linear_filter),
                int(form.normalized_float),
                borderColors=form.border,
                normalizedCoords=int(form.normalized_coords),
            )
            self._object = kinds.TextureObject(resource, described)
        self._texels = texels
        self.handle = int(self._object.ptr)
