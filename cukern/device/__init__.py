"""Devices: where arrays live and kernels run. ``host`` is this machine's CPU, ``cuda:0`` its first GPU."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, ClassVar

from ..errors import DeviceError
from . import capture_hooks
from .interface import Backend, Properties, Style


class _Here:
    """What ``nullcontext()`` is, without calls of Python functions."""

    __enter__: Any = "".format
    __exit__: Any = "".format  # takes anything, and returns what is false


HERE: AbstractContextManager[object] = _Here()
_MODULES = {"host": ".host.backend", "cuda": ".cuda.backend"}


_stand_ins: dict[str, Backend] = {}


def stand_in(kind: str, backend: Backend) -> None:
    """Let ``backend`` be that of a kind of device, before anything asks for that kind."""
    _stand_ins[kind] = backend


@cache
def backend(kind: str) -> Backend:
    """The backend of a kind of device, imported on first use."""
    if kind in _stand_ins:
        return _stand_ins[kind]
    module = importlib.import_module(_MODULES[kind], __package__)
    created: Backend = module.backend()
    return created


class Device:
    """A device by its name: ``Device("host")``, ``Device("cuda")`` (the first GPU), ``Device("cuda:1")``.

    Two devices of the same name are the same object.

    Raises:
        DeviceError: there is no such kind of device, or this machine lacks the device.

    >>> Device("host").kind
    'host'
    """

    _instances: ClassVar[dict[tuple[str, int], Device]] = {}
    kind: str
    index: int
    #: How a kernel's work is divided: among few threads with long loops, or many parallel threads.
    style: Style
    #: Whether Python can read an array's memory directly, without waiting for the device.
    addressable: bool
    #: Returns the index of the current device of this kind; None if there is only one.
    which: Callable[[], int] | None
    #: The backend that compiles and launches on this device.
    backend: Backend

    def __new__(cls, name: str | Device = "host") -> Device:
        if isinstance(name, Device):
            return name
        if not isinstance(name, str):
            raise DeviceError(
                f"device: expected a name such as 'host' or 'cuda:0', got {type(name).__name__} {name!r}"
            )
        kind, _, number = name.partition(":")
        if kind not in _MODULES or (number and not (number.isascii() and number.isdigit())):
            raise DeviceError(f"device: expected 'host', 'cuda' or 'cuda:N', got {name!r}")
        key = (kind, int(number or 0))
        device = cls._instances.get(key)
        if device is None:
            count = backend(kind).count()
            if key[1] >= count:
                raise DeviceError(f"device: {name!r} is not here; this machine has {count} of kind {kind}")
            new = super().__new__(cls)
            new.kind, new.index = key
            new.backend = of_kind = backend(kind)
            new.style, new.addressable, new.which = of_kind.style, of_kind.addressable, of_kind.which
            device = cls._instances.setdefault(key, new)
        return device

    def __reduce__(self) -> tuple[type[Device], tuple[str]]:
        return Device, (str(self),)

    def __str__(self) -> str:
        return self.kind if self.kind == "host" else f"{self.kind}:{self.index}"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    @property
    def xp(self) -> ModuleType:
        """The array library of this device's data: numpy or cupy."""
        return self.backend.xp

    @property
    def properties(self) -> Properties:
        """The limits of this device."""
        return _properties(self.kind, self.index)

    def is_current(self) -> bool:
        """Whether this is the current device of :attr:`xp`."""
        return self.which is None or bool(self.which() == self.index)

    def activate(self) -> AbstractContextManager[object]:
        """A with-block in which this is the current device of :attr:`xp`.

        Raises:
            CaptureError: a step of another GPU is being recorded.
        """
        if self.which is None:
            return HERE
        recorder = capture_hooks.recorder()
        if recorder is not None:
            recorder.enter(self)
        elif self.which() == self.index:
            return HERE
        return self._scope()

    def _scope(self) -> AbstractContextManager[object]:
        """:meth:`activate` that also undoes what changes the current device within the block."""
        scope: AbstractContextManager[object] = (
            HERE if self.which is None else self.xp.cuda.Device(self.index)
        )
        return scope

    def synchronize(self) -> None:
        """Wait for all launches on this device."""
        self.backend.synchronize(self.index)


@cache
def _properties(kind: str, index: int) -> Properties:
    return backend(kind).properties(index)


def devices() -> list[Device]:
    """All devices of this machine, GPUs first."""
    gpus = _gpu_count()
    return [*(Device(f"cuda:{i}") for i in range(gpus)), Device("host")]


@lru_cache(maxsize=1)
def _gpu_count() -> int:
    try:
        return backend("cuda").count()
    except DeviceError:
        return 0


class _Current(threading.local):
    device: Device | None = None


_current = _Current()


@cache
def _default() -> Device:
    name = os.environ.get("CUKERN_DEVICE")
    if name:
        try:
            return Device(name)
        except DeviceError as error:
            raise DeviceError(f"CUKERN_DEVICE: {error}") from None
    return Device("cuda:0") if _gpu_count() else Device("host")


def set_default(name: str) -> None:
    """Let ``CUKERN_DEVICE`` be ``name`` in this process and in those that it starts."""
    os.environ["CUKERN_DEVICE"] = name
    _default.cache_clear()


def current() -> Device:
    """The device on which new arrays are created.

    Inside ``with device(d)`` it is ``d``; else ``CUKERN_DEVICE`` names it, which is read once; else it is the first
    GPU, or the host if there is none.

    Raises:
        DeviceError: ``CUKERN_DEVICE`` does not name a device of this machine.
    """
    return _current.device or _default()


@contextmanager
def device(name: str | Device) -> Iterator[Device]:
    """Create new arrays on ``name`` within the block, in this thread.

    >>> import cukern as ck
    >>> with ck.device("host"):
    ...     ck.zeros(2).device
    Device('host')
    """
    before, chosen = _current.device, Device(name)
    _current.device = chosen
    try:
        with chosen.activate(), chosen._scope():
            yield chosen
    finally:
        _current.device = before
