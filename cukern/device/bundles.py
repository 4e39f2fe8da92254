"""Bundles of precompiled kernels that this process has loaded, and look-ups in them."""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..errors import DeviceError
from ..text import render, signature
from ..text.signature import Unit, restored, stored
from . import texts
from .bundle_file import TEMPLATES, BundleFile, Code, Target, hash_of


def version() -> str:
    """The version of cukern."""
    return str(sys.modules[__name__.partition(".")[0]].__version__)


class Bundle:
    """Kernels compiled ahead of time, in one file; :func:`load_bundle` returns it.

    Attributes:
        path: the file.
        targets: the names of what its kernels are compiled for, as in ``--arch``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = BundleFile(path)
        self.path = self._file.path
        self._templates: int | None = None
        self._numbers: dict[int, str] = {}
        for number, target in enumerate(self._file.targets):
            if target.kind == TEMPLATES:
                self._templates = number
            else:
                self._numbers[number] = target.name
        self.targets = tuple(self._numbers.values())
        if self._file.version != version():
            raise DeviceError(
                f"bundle {self.path} is of cukern {self._file.version}, and this is {version()}: build it again, "
                "by python -m cukern build"
            )
        self._chosen: dict[tuple[str, int], int | None] = {}
        self._missing: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<bundle {str(self.path)!r}: {len(self)} kernels for {', '.join(self.targets) or 'nothing'}>"

    def __len__(self) -> int:
        return sum(self._file.count(number) for number in self._numbers)

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of kernels that the bundle lacks, which were compiled or taken from the cache."""
        return tuple(self._missing)

    def close(self) -> None:
        """Look for no more kernels in the bundle; those that run stay as they are."""
        global _loaded
        with _loading:
            _loaded = tuple(bundle for bundle in _loaded if bundle is not self)

    def _choose(self, kind: str, index: int, why_not: Callable[[Target], str | None]) -> int | None:
        """The target for a device; None if the bundle has none of this kind.

        Raises:
            DeviceError: it has some, and none of them can run on the device.
        """
        if (kind, index) not in self._chosen:
            reasons = {}
            for number, target in enumerate(self._file.targets):
                if target.kind == kind:
                    reason = why_not(target)
                    if reason is None:
                        self._chosen[kind, index] = number
                        return number
                    reasons[target.name] = reason
            if reasons:
                told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
                raise DeviceError(f"bundle {self.path} has no kernels that run here: {told}")
            self._chosen[kind, index] = None
        return self._chosen[kind, index]


_loaded: tuple[Bundle, ...] = ()
#: The value of ``CUKERN_BUNDLE`` whose bundles are loaded.
_named = ""
_loading = threading.Lock()


def _forked() -> None:
    global _loading
    _loading = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def load_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Load a bundle, in which kernels are found from then on instead of being compiled.

    ``python -m cukern build`` writes bundles. The environment variable ``CUKERN_BUNDLE`` names bundles that are loaded
    before the first kernel. A kernel that is in no bundle is compiled, with a ``RuntimeWarning`` that names it. Kernels
    that were compiled before the call stay as they are.

    A bundle is machine code, which can do whatever the process can: load only what you or someone you trust has built.

    Args:
        path: the file.

    Returns:
        The bundle, with its ``path``, its ``targets``, and the names of ``missing`` kernels, which had to be compiled;
        ``close()`` lets kernels be compiled again.

    Raises:
        DeviceError: the file is damaged, another user may have written it, or it is of another version of cukern. If it
            has kernels for other GPUs or processors only, the first kernel raises the error.
        OSError: the file cannot be read.

    >>> import cukern as ck, tempfile
    >>> with tempfile.NamedTemporaryFile() as empty:
    ...     ck.load_bundle(empty.name)
    Traceback (most recent call last):
        ...
    cukern.errors.DeviceError: bundle ...: magic: expected b'ckbundle', got b''
    """
    global _loaded
    bundle = Bundle(path)
    with _loading:
        _loaded = (bundle, *_loaded)
    return bundle


def loaded() -> tuple[Bundle, ...]:
    """The bundles in which kernels are looked for, the latest first; loads those of ``CUKERN_BUNDLE``.

    Raises:
        DeviceError: as :func:`load_bundle`.
    """
    global _loaded, _named
    chosen = os.environ.get("CUKERN_BUNDLE", "")
    if chosen != _named:
        with _loading:
            if chosen != _named:
                try:
                    _loaded += tuple([Bundle(path) for path in chosen.split(os.pathsep) if path])
                except (DeviceError, OSError) as error:
                    raise DeviceError(f"CUKERN_BUNDLE: {error}") from error
                _named = chosen
    return _loaded


def _template(key: str) -> bytes | None:
    """Python's code of a template, from a loaded bundle or the disk."""
    try:
        searched = loaded()
    except DeviceError:  # `unit` raises it again, where it is not taken for an error of the template
        return None
    for bundle in searched:
        if bundle._templates is not None and (code := bundle._file.find(bundle._templates, key)):
            return code.payload
    return texts.find(key)


render.bytecode.find, render.bytecode.keep = _template, texts.keep


def unit(text: str, trusted: bool) -> Unit:
    """The unit of a text, parsed when a loaded bundle was built; the library's own by an earlier process; else now.

    Raises:
        DeviceError: a bundle is damaged.
        TemplateError: as :func:`.text.signature.parse`.
    """
    for bundle in loaded():
        row = bundle._file.parsed.get(hash_of(text, trusted))
        if row:
            try:
                return restored(row, text)
            except (KeyError, TypeError, ValueError) as error:
                raise DeviceError(
                    f"bundle {bundle.path}: parsed: expected the result of parsing a text, got {error!r}"
                ) from error
    if not trusted:
        return signature.parse(text, trusted)
    key = hash_of(text, trusted)
    if (kept := texts.find(key)) is not None:
        return restored(json.loads(kept), text)
    made = signature.parse(text, trusted)
    texts.keep(key, json.dumps(stored(made)).encode())
    return made


def find(kind: str, index: int, key: str, why_not: Callable[[Target], str | None]) -> Code | None:
    """The kernel with this key for a device, from the first loaded bundle that has it.

    Args:
        kind: the kind of device.
        index: its index.
        key: the hash of its text.
        why_not: why a target cannot run on the device; None if it can.

    Raises:
        DeviceError: a bundle is damaged, or has kernels of this kind, none of which run on the device.
    """
    for bundle in loaded():
        target = bundle._choose(kind, index, why_not)
        if target is not None and (code := bundle._file.find(target, key)):
            return code
    return None


@contextmanager
def compiling(kind: str, index: int, name: str) -> Iterator[None]:
    """A with-block that compiles a kernel that :func:`find` did not find; names it if a bundle should have had it.

    Raises:
        DeviceError: there is no compiler; the error names the kernel and the bundles.
    """
    without = [bundle for bundle in _loaded if bundle._chosen.get((kind, index)) is not None]
    told = f"kernel {name} is not in the bundle {', '.join(str(bundle.path) for bundle in without)}"
    try:
        yield
    except DeviceError as error:
        if without:
            raise DeviceError(f"{told}, and cannot be compiled: {error}") from error
        raise
    for bundle in without:
        bundle._missing[name] = None
    if without:
        warnings.warn(f"{told}: it is compiled, or taken from the cache", RuntimeWarning, stacklevel=2)
