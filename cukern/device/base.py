"""What a device must offer: the one interface between kernels and the machines that run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from ..signature import DynamicShared, Signature


@dataclass(frozen=True)
class Properties:
    """The limits of a device, in CUDA's terms. Sizes of memory are in bytes."""

    name: str
    max_threads_per_block: int
    max_block: tuple[int, int, int]
    max_grid: tuple[int, int, int]
    max_shared_memory_per_block: int
    warp_size: int
    multiprocessors: int
    max_blocks_per_cluster: int


@dataclass(frozen=True)
class Unit:
    """One translation unit: a rendered text and what was parsed from it.

    Attributes:
        text: CUDA C++ with the prelude included and ``#line`` directives in it.
        signature: the kernel's name and parameters.
        calls: the name of every function reachable from the kernel.
        dynamic_shared: the declarations ``extern __shared__ T name[];``.
    """

    text: str
    signature: Signature
    calls: frozenset[str]
    dynamic_shared: tuple[DynamicShared, ...] = ()


class CompilerFailure(Exception):
    """A compiler refused a unit; ``log`` is what it printed."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


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


class Backend(Protocol):
    """One kind of device; ``index`` numbers the devices of that kind."""

    @property
    def xp(self) -> ModuleType: ...

    def count(self) -> int: ...

    def properties(self, index: int) -> Properties: ...

    def compile(self, index: int, unit: Unit) -> CompiledFunction: ...

    def synchronize(self, index: int) -> None: ...
