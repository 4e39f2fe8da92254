"""A GPU that is not here: kernels are planned and recorded for it, and run on the host, so that values are right.

The host compiles the same texts, and runs them at their real block sizes.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...dtypes import DType
from ...text import Dim3
from ...text.signature import Unit
from ...text.variables import Variable
from ..host.backend import Host, HostFunction
from ..host.checked import mode
from ..interface import (
    CompilerFailure,
    Prepared,
    Properties,
    Style,
)
from . import Recording
from .library import Data, Library, Memory, address, do, keep


class _Function:
    """A kernel for the GPU, run on the host; one that only the GPU's compiler takes does nothing.

    The host's checks of users' kernels are for arrays of its own.

    Args:
        host: compiles and runs it.
        unit: its text.
        check: compiles it for the GPU.

    Raises:
        CompilerFailure: neither compiler takes it.
    """

    def __init__(self, host: Host, unit: Unit, check: Callable[[Unit], object]) -> None:
        self.attributes: Mapping[str, int] = {}
        self.variables: Mapping[str, tuple[Variable, int]] = {}
        self._run: HostFunction | None = None
        self._kinds = [param.kind for param in unit.signature.params]
        try:
            self._run = host.compile(0, replace(unit, trusted=True, checked=False))
            self.attributes = self._run.attributes
        except CompilerFailure:
            check(unit)
            warnings.warn(
                f"kernel {unit.signature.name} does not compile for the host, so it does not run in this recording: "
                "what it should write is not written",
                RuntimeWarning,
                stacklevel=2,
            )

    def read_variable(self, name: str) -> bytes:
        """See :class:`..interface.CompiledFunction`: there is none."""
        raise KeyError(name)

    def write_variable(self, name: str, value: bytes) -> None:
        """See :class:`..interface.CompiledFunction`: there is none."""
        raise KeyError(name)

    def __call__(self, grid: Dim3, block: Dim3, shared: int, values: Sequence[Any]) -> None:
        run = self._run
        if run is not None:
            given = [one.view(np.ndarray) if isinstance(one, np.ndarray) else one for one in values]
            do(lambda: run(grid, block, shared, given))

    def prepare(
        self, grid: Dim3, block: Dim3, shared: int, tail: Sequence[Any], structs: Sequence[int] = ()
    ) -> Prepared:
        """See :class:`..interface.CompiledFunction`: takes addresses, as a GPU does."""
        if self._run is None:
            return lambda *values: None
        run = self._run.prepare(grid, block, shared, tail, structs)
        pointers = [kind == "pointer" for kind in self._kinds[: len(self._kinds) - len(tail)]]

        def launch(*values: Any) -> None:
            given = [
                _at(value) if pointer else value for value, pointer in zip(values, pointers, strict=True)
            ]
            operands = [id(one) if pointer else one for one, pointer in zip(given, pointers, strict=True)]
            do(partial(_run, run, operands, given))

        return launch


def _run(run: Prepared, operands: Sequence[Any], given: Sequence[Any]) -> None:
    """Run with operands that are addresses of objects in ``given``, which must be alive meanwhile."""
    run(*operands)


def _at(address: int) -> Any:
    """An ndarray that begins at an address; None for a null pointer."""
    return (
        np.ndarray((1,), np.uint8, memoryview((ctypes.c_uint8 * 1).from_address(address)))
        if address
        else None
    )


class RecordedGpu:
    """A backend of one GPU of given limits; ``recording`` has the units that it has compiled.

    Args:
        limits: the GPU's.
        recording: notes the units.
        check: compiles a unit for the GPU; raises CompilerFailure.
    """

    xp = Library("cupy")
    style: Style = "simt"
    addressable = False
    grids_meet = False  # the host runs one block after another

    def __init__(self, limits: Properties, recording: Recording, check: Callable[[Unit], object]) -> None:
        self.recording = recording
        self._limits = limits
        self._check = check
        self._host = host = Host()
        #: Of the host: what is described, and sampled, is its memory.
        self.tensor_map, self.texels, self.texture = host.tensor_map, host.texels, host.texture
        mode.forbid()

    @staticmethod
    def which() -> int:
        return 0

    def count(self) -> int:
        return 1

    def properties(self, index: int) -> Properties:
        return self._limits

    def compile(self, index: int, unit: Unit) -> _Function:
        function = _Function(self._host, unit, self._check)
        self.recording.note(unit)
        return function

    def ahead(self, job: Callable[[], object], plans_alone: bool = False) -> None:
        """Never runs ``job``: see :class:`..interface.Backend`."""

    def upload(self, data: Any) -> Any:
        """See :class:`..interface.Backend`."""
        return self.xp.array(data)

    def download(self, data: Any) -> Any:
        """See :class:`..interface.Backend`."""
        return data.get()

    def allocator(self, shape: tuple[int, ...], dtype: DType, nbytes: int) -> Callable[[], Any]:
        """See :class:`..interface.Backend`."""
        return lambda: keep(_aligned(nbytes).view(Memory))

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """See :class:`..interface.Backend`."""
        return self.zeros(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """See :class:`..interface.Backend`."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        data = keep(np.ndarray(shape, dtype, _aligned(size)).view(Data))
        do(lambda: data.view(np.ndarray).fill(0))
        return data

    def operand(self, data: Any) -> int:
        """The address: see :class:`..interface.Backend`."""
        return 0 if data is None else address(data)

    def synchronize(self, index: int) -> None:
        """Return at once."""

    def free_unused(self) -> None:
        """There is no pool."""


def _aligned(nbytes: int) -> Any:
    """Zeroed bytes at a multiple of 256, as CUDA allocates them."""
    memory = np.zeros(nbytes + 256, np.uint8)
    start = -address(memory) % 256
    return memory[start : start + max(1, nbytes)]
