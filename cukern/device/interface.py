"""What a device must offer: the one interface between kernels and the machines that run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, Protocol

from ..dtypes import DType
from ..text.signature import Unit


@dataclass(frozen=True)
class Properties:
    """The limits of a device, in CUDA's terms. Sizes of memory are in bytes. The host has no compute capability: (0, 0)."""

    name: str
    max_threads_per_block: int
    max_block: tuple[int, int, int]
    max_grid: tuple[int, int, int]
    max_shared_memory_per_block: int
    warp_size: int
    multiprocessors: int
    max_blocks_per_cluster: int
    compute_capability: tuple[int, int]


class CompilerFailure(Exception):
    """A compiler refused a unit; ``log`` is what it printed."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


#: A launch on the current device, which must be the kernel's, of the leading arguments: integers for pointers
#: (:meth:`Backend.operand`), numbers for scalars. Raises OverflowError where a number is beyond its parameter's range.
Prepared = Callable[..., None]


class CompiledFunction(Protocol):
    """A kernel that is ready to launch.

    ``attributes`` holds CUDA's function attributes: ``num_regs``, ``shared_size_bytes`` (static),
    ``local_size_bytes``, ``max_threads_per_block``; a device leaves out what it does not know.
    """

    @property
    def attributes(self) -> Mapping[str, int]: ...

    def __call__(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, values: Sequence[Any]
    ) -> None:
        """Launch with values in the signature's order, each already checked.

        A pointer or view is a raw ndarray or None, a scalar a Python number, a struct ``bytes``.
        """

    def prepare(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        tail: Sequence[Any],
        structs: Sequence[int] = (),
    ) -> Prepared:
        """The launch as a call of the arguments before ``tail``, with all else worked out once.

        Args:
            tail: the last arguments, scalars and structs, each already checked.
            structs: the bytes of each struct among the arguments before.
        """


#: How a kernel's work is dealt out: a few threads with long loops, or many threads side by side (CUDA's SIMT).
Style = Literal["serial", "simt"]


class Backend(Protocol):
    """One kind of device; ``index`` numbers the devices of that kind.

    Attributes:
        style: how a kernel's work is dealt out.
        addressable: whether Python reads an array's memory in place, as NumPy's, without waiting for the device.
    """

    style: Style
    addressable: bool

    @property
    def which(self) -> Callable[[], int] | None:
        """What tells the index of the current device; None where there is only one."""

    @property
    def xp(self) -> ModuleType: ...

    def count(self) -> int: ...

    def properties(self, index: int) -> Properties: ...

    def compile(self, index: int, unit: Unit) -> CompiledFunction: ...

    def ahead(self, job: Callable[[], object]) -> None:
        """Run ``job``, which compiles what may soon be launched, beside the calling thread; or never."""

    def synchronize(self, index: int) -> None: ...

    def allocator(self, shape: tuple[int, ...], dtype: DType, nbytes: int) -> Callable[[], Any]:
        """What makes memory on the current device for a new array: an ndarray, or CuPy's pointer to it."""

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """An ndarray of the current device in C order, its elements not set."""

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """An ndarray of zeros of the current device in C order."""

    def operand(self, data: Any) -> int:
        """What a prepared launch takes for an ndarray: a number that is good as long as the ndarray is there.

        For None it is that of a null pointer.
        """
