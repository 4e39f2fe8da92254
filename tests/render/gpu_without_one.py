"""A GPU that compiles and does not run: launches for it take the shapes that they take on a real one."""

from __future__ import annotations

import importlib
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.device import nvrtc
from cukern.device.cuda import architectures, driver
from cukern.device.cuda.architectures import is_for_90a
from cukern.device.interface import Properties, Tiles
from cukern.device.recording.library import Library, Memory
from cukern.text.signature import Unit

INDEX = 99
# The name cukern.device is that of the context manager.
devices, cublas, cublas_lt = map(
    importlib.import_module, ("cukern.device", "cukern.device.cuda.cublas", "cukern.device.cuda.cublas_lt")
)


def require_nvrtc() -> None:
    """Skip a module where there is no NVRTC."""
    try:
        nvrtc.version()
    except ck.DeviceError as error:
        pytest.skip(str(error), allow_module_level=True)


class _Cupy(Library):
    """NumPy by CuPy's names, on a device that no other stand-in has."""

    cuda = types.SimpleNamespace(
        runtime=types.SimpleNamespace(getDevice=lambda: INDEX),
        Device=nullcontext,
        get_current_stream=lambda index=-1: types.SimpleNamespace(ptr=0, synchronize=lambda: None),
    )


class _Function:
    attributes: Mapping[str, int] = types.MappingProxyType({})
    variables: Mapping[str, Any] = types.MappingProxyType({})

    def __call__(self, grid: Any, block: Any, shared: int, values: Sequence[Any]) -> None:
        """Runs nothing."""

    def prepare(
        self, grid: Any, block: Any, shared: int, tail: Sequence[Any], structs: Sequence[int] = ()
    ) -> Any:
        return lambda *values: None


#: Words, and lines of assembly and of shared memory, that have become machine code for an architecture.
_ASSEMBLED: dict[str, set[str]] = {}
#: The length of texts in which optimised machine code takes most of the time.
_LONG = 40_000


def _accepted(text: str, arch: str) -> str:
    """The PTX of a text that compiles for ``arch`` with less optimisation, in a third to a half of the time."""
    haste = (f"--Ofast-compile={'mid' if len(text) < _LONG else 'max'}", "--minimal")
    return nvrtc.compile(text, arch, options=haste if nvrtc.version() >= (12, 9) else ()).ptx


def _without_machine_code(text: str, arch: str) -> str:
    """The PTX of a text as :func:`_accepted` makes it, which is not assembled: in half of its time."""
    return _accepted(text, arch.replace("sm_", "compute_"))


def multiplies_by_warpgroups(text: str) -> bool:
    """Whether a kernel's mistakes may show in its machine code alone."""
    return "wgmma.mma_async" in text


def _optimised(text: str, arch: str) -> str:
    """The PTX of a text that compiles for ``arch``, optimised; the machine code of a long one is not.

    Raises:
        AssertionError: products of warpgroups wait for each other, as they do if there are too few registers.
    """
    if len(text) < _LONG or multiplies_by_warpgroups(text):
        made = nvrtc.compile(text, arch)
        assert "serialized" not in made.log, made.log
        return made.ptx
    _accepted(text, arch)
    return nvrtc.compile(text, arch.replace("sm_", "compute_")).ptx


def _new_words(unit: Unit, arch: str) -> set[str]:
    """The words, and the lines of assembly or of shared memory, that no text assembled for ``arch`` or sm_80 had.

    An instruction, intrinsic, header or type that does not do there is one, and so is each template's name.
    """
    found = {*re.findall(r"[A-Za-z_]\w*", unit.text), *re.findall(r"\basm\b.*|__shared__.*", unit.text)}
    known = _ASSEMBLED.get("sm_80", set()) | _ASSEMBLED.setdefault(arch, set())
    new = found - {unit.signature.name} - known
    _ASSEMBLED[arch] |= new
    return new


class Gpu:
    """Compiles units by NVRTC, if it ``compiles`` at all, and ``optimises`` those of which this says so.

    ``templates`` names those that they came from; ``arch`` is the architecture for which they are planned.
    """

    xp = _Cupy("cupy")
    style, addressable, grids_meet = "simt", False, True

    @staticmethod
    def which() -> int:
        return INDEX

    def __init__(self, compiles: bool, arch: str = "sm_90") -> None:
        self.templates: set[str] = set()
        self.arch = arch
        self.optimises: Callable[[str], bool] = lambda text: True
        self._compiles = compiles

    def ahead(self, job: object, plans_alone: bool = False) -> None:
        pass

    def count(self) -> int:
        return INDEX + 1

    def properties(self, index: int) -> Properties:
        return architectures.properties(self.arch)._replace(name="no GPU")

    def compile(self, index: int, unit: Unit) -> _Function:
        self.templates.update(re.findall(r'^#line \d+ "([^"]+\.cu)"', unit.text, re.MULTILINE))
        if self.arch != "sm_90":
            assert not is_for_90a(unit), f"{unit.signature.name} has instructions of sm_90a"
        if self._compiles and self.arch != "sm_90":
            waits = driver.may_overlap(unit) and architectures.capability(self.arch) >= (9, 0)
            _accepted(driver.waiting(unit) if waits else unit.text, self.arch)
        elif self._compiles:
            overlap = driver.may_overlap(unit)
            own = "sm_90a" if is_for_90a(unit) else "sm_90"
            # Clusters of blocks and mbarriers came with sm_90, and no older device is given a kernel of them.
            later = own == "sm_90a" or "__cluster_dims__" in unit.text or "mbarrier." in unit.text
            new = _new_words(unit, own if later else "sm_80")
            made = _accepted if new and later else _without_machine_code
            if self.optimises(unit.text):
                made = _optimised
            ptx = made(driver.waiting(unit) if overlap else unit.text, own)
            # Loads of what is said to be constant may come before the wait; CUDA's own tables are.
            assert not overlap or "ld.global.nc" not in ptx or "__cudart_" in ptx
            if new and not later:  # what an older device executes, these do
                _accepted(unit.text, "sm_80")
        return _Function()

    def upload(self, data: Any) -> Any:
        return self.xp.array(data)

    def download(self, data: Any) -> Any:
        return data.get()

    def allocator(self, shape: Any, dtype: Any, nbytes: int) -> Any:
        return lambda: np.zeros(max(1, nbytes), np.uint8).view(Memory)

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self.xp.empty(shape, dtype)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return self.xp.zeros(shape, dtype)

    def operand(self, data: Any) -> int:
        return 0 if data is None else int(data.ctypes.data)

    def tensor_map(self, tiles: Tiles) -> bytes:
        """Bytes of no meaning."""
        return bytes(128)

    def synchronize(self, index: int) -> None:
        """There is nothing to wait for."""

    def free_unused(self) -> None:
        """There is no pool."""


@contextmanager
def gpu_without_one(compiles: bool = True, arch: str = "sm_90") -> Iterator[Gpu]:
    """Within the block the current device is a GPU of which only the compiler is there, or not even that.

    One within another is a device of its own, for which nothing has been compiled.
    """
    gpu, real = Gpu(compiles, arch), devices.backend
    outer = devices.Device._instances.pop(("cuda", INDEX), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "backend", lambda kind: gpu if kind == "cuda" else real(kind))
        patch.setattr(devices, "_properties", lambda kind, index: devices.backend(kind).properties(index))
        for name in ("prepare", "prepare_pointers"):
            patch.setattr(cublas, name, lambda *args, **options: lambda *addresses: None)
        patch.setattr(cublas_lt, "prepare", lambda *args, **options: lambda *addresses: None)
        with ck.device(f"cuda:{INDEX}"):
            yield gpu
    del devices.Device._instances["cuda", INDEX]
    if outer is not None:
        devices.Device._instances["cuda", INDEX] = outer
