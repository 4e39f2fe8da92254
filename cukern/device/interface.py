"""The interface between kernels and devices, which every backend implements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from ..dtypes import DType
from ..text import Dim3

if TYPE_CHECKING:
    from ..text.signature import Unit
    from ..text.variables import Variable


class Properties(NamedTuple):
    """The limits of a device, in CUDA's terms. Memory sizes are in bytes. The host has compute capability (0, 0)."""

    name: str
    max_threads_per_block: int
    max_block: Dim3
    max_grid: Dim3
    max_shared_memory_per_block: int
    warp_size: int
    multiprocessors: int
    max_blocks_per_cluster: int
    compute_capability: tuple[int, int]


class Tiles(NamedTuple):
    """The descriptor of an array of which the hardware copies tiles: see :class:`cukern.TensorMap`.

    Attributes:
        address, dtype, shape: of the array.
        strides: bytes, of all axes but the last, which is contiguous.
        box: the shape of a tile.
        swizzle: bytes of the pattern in which chunks are permuted, or 0.
        writes: whether kernels may store tiles.
        fetched: bytes that the L2 reads from memory where it lacks a line of a tile (L2 promotion): 128 or 256.
    """

    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    writes: bool
    fetched: int = 256


class TextureForm(NamedTuple):
    """How kernels sample elements: see :class:`cukern.Texture`.

    Attributes:
        dtype, channels: of the components of an element, and their number.
        extent: the elements along each axis, outermost first.
        layers: the number of layers; 0 for none.
        address: a number of CUDA's for the address mode along x, y and z.
        linear_filter, normalized_float, normalized_coords: the other modes.
        border: the components of what is outside, in the address mode of a border.
        linear_memory: whether the elements are an array's own memory.
        surface: whether kernels read and write elements at offsets in bytes.
    """

    dtype: DType
    channels: int
    extent: tuple[int, ...]
    layers: int = 0
    address: tuple[int, int, int] = (1, 1, 1)
    linear_filter: bool = False
    normalized_float: bool = False
    normalized_coords: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    linear_memory: bool = False
    surface: bool = False


class Texels(Protocol):
    """The elements of textures and surfaces, in memory that is theirs or, of linear memory, an array's."""

    def copy_from(self, data: Any) -> None:
        """Set the elements from a C-contiguous ndarray of the device."""

    def copy_to(self, data: Any) -> None:
        """Copy the elements to a C-contiguous ndarray of the device."""


class TextureObject(Protocol):
    """A texture or a surface; ``handle`` is the 64-bit number that kernels take."""

    @property
    def handle(self) -> int: ...


class Table(np.ndarray[Any, np.dtype[np.uint64]]):
    """The addresses of arrays, as ``T**`` points to them on the host.

    Attributes:
        arrays: the arrays, each contiguous; None for a null pointer.
    """

    arrays: tuple[np.ndarray[Any, Any] | None, ...] = ()


#: NVRTC's message of a header that it has not found.
MISSING_HEADER = re.compile(r'(?:cannot|could not) open source file "([^"]+)"')


class CompilerFailure(Exception):
    """A compiler refused a unit; ``log`` is the compiler's output."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


def refuse_beyond_addresses(nbytes: int, shape: tuple[int, ...], dtype: DType) -> None:
    """Check that the bytes of an array can be counted by addresses.

    Raises:
        MemoryError: no memory has so many.
    """
    if nbytes >= 1 << 62:
        raise MemoryError(
            f"Unable to allocate {nbytes} bytes for an array of shape {shape} and dtype {dtype}"
        )


#: A launch on the current device, which must be the kernel's. It takes the leading arguments, integers for pointers
#: (:meth:`Backend.operand`) and numbers for scalars, where one that is too large for a float is infinite; raises
#: OverflowError for an integer out of its parameter's range.
Prepared = Callable[..., None]


class CompiledFunction(Protocol):
    """A kernel that is ready to launch.

    ``attributes`` holds CUDA's function attributes: ``num_regs``, ``shared_size_bytes`` (static),
    ``local_size_bytes``, ``max_threads_per_block``; a device leaves out what it does not know.
    """

    @property
    def attributes(self) -> Mapping[str, int]: ...

    @property
    def variables(self) -> Mapping[str, tuple[Variable, int]]:
        """The variables of a user's text, and the bytes of each; empty for the library's own."""

    def read_variable(self, name: str) -> bytes:
        """The value of one of them, once what was launched has ended."""

    def write_variable(self, name: str, value: bytes) -> None:
        """Set one, from the next launch on."""

    def __call__(self, grid: Dim3, block: Dim3, shared: int, values: Sequence[Any]) -> None:
        """Launch with values in the signature's order, each already checked.

        A pointer or view is a raw ndarray or None, a scalar a Python number, a struct ``bytes``.
        """

    def prepare(
        self, grid: Dim3, block: Dim3, shared: int, tail: Sequence[Any], structs: Sequence[int] = ()
    ) -> Prepared:
        """Prepare a launch that takes only the arguments before ``tail``.

        Args:
            tail: the last arguments, scalars and structs, each already checked.
            structs: the size in bytes of each struct among the leading arguments.
        """


#: How a kernel's work is divided: among few threads with long loops, or many parallel threads (CUDA's SIMT).
Style = Literal["serial", "simt"]


class Backend(Protocol):
    """One kind of device; ``index`` numbers the devices of that kind.

    Attributes:
        style: how a kernel's work is divided.
        addressable: whether Python can read an array's memory directly, without waiting for the device.
        grids_meet: whether kernels may have a barrier of all blocks of a grid.
    """

    style: Style
    addressable: bool
    grids_meet: bool

    @property
    def which(self) -> Callable[[], int] | None:
        """A function that returns the index of the current device; None if there is only one."""

    @property
    def xp(self) -> ModuleType: ...

    def count(self) -> int: ...

    def properties(self, index: int) -> Properties: ...

    def compile(self, index: int, unit: Unit) -> CompiledFunction: ...

    def ahead(self, job: Callable[[], object], plans_alone: bool = False) -> None:
        """Run ``job``, which compiles a kernel ahead of need, in parallel with the calling thread, or never.

        Args:
            plans_alone: whether it launches nothing and makes no array, as no other thread of a GPU is to.
        """

    def synchronize(self, index: int) -> None: ...

    def free_unused(self) -> None:
        """Give memory that no array has back to the current device, if a pool keeps it."""

    def upload(self, data: Any) -> Any:
        """A NumPy array as an array of the current device; on the host the same."""

    def download(self, data: Any) -> Any:
        """A copy of an array of the current device as a NumPy array."""

    def allocator(self, shape: tuple[int, ...], dtype: DType, nbytes: int) -> Callable[[], Any]:
        """A function that allocates a new array on the current device, as an ndarray or a CuPy memory pointer."""

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """An uninitialized ndarray of the current device in C order."""

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """An ndarray of zeros of the current device in C order."""

    def operand(self, data: Any) -> int:
        """The integer that a prepared launch takes for an ndarray, valid as long as the ndarray lives.

        For None it is that of a null pointer.
        """

    def tensor_map(self, tiles: Tiles) -> bytes:
        """The 128 bytes of these tiles' tensor map.

        Raises:
            DeviceError: the device has no such copies.
        """

    def texels(self, form: TextureForm, data: Any) -> Texels:
        """New elements with the values of ``data``, an ndarray of shape ``(layers, *extent, channels)``.

        Of linear memory they are ``data`` itself.
        """

    def texture(self, texels: Texels, form: TextureForm) -> TextureObject:
        """A texture or a surface of these elements."""
