"""What stands for the package ``cupy`` while its tests run: cukern's names, and stubs for what cukern leaves out."""

from __future__ import annotations

import gc
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

#: Names of ``cupy`` that are NumPy's, and functions that take ``order=``.
_NUMPYS = """int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bool_ intp
    uintp byte ubyte short ushort intc uintc int_ uint longlong ulonglong half single double csingle cdouble long ulong
    generic number integer signedinteger unsignedinteger inexact floating complexfloating"""
_CREATING = """array asarray asanyarray zeros ones empty full zeros_like ones_like empty_like full_like copy
    ascontiguousarray eye"""


class LeftOut(pytest.skip.Exception):
    """A test asks for something that cukern leaves out."""


def left_out(reason: str) -> Any:
    """Leave the running test out."""
    Loop.left_out += 1
    raise LeftOut(f"left out: {reason}")


class Loop:
    """What the running test compared, over all rounds of its loops."""

    compared = left_out = by_rule = 0

    @classmethod
    def restart(cls) -> None:
        cls.compared = cls.left_out = cls.by_rule = 0


class _Stub(types.ModuleType):
    """A module of CuPy that cukern leaves out: names can be read at import, calls leave the test out."""

    is_hip = False
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "pytestmark":
            raise AttributeError(name)
        made = _Stub(f"{self.__name__}.{name}")
        setattr(self, name, made)
        return made

    def __call__(self, *args: Any, **options: Any) -> Any:
        left_out(self.__name__)

    def __enter__(self) -> Any:
        left_out(self.__name__)

    def __exit__(self, *error: object) -> None:
        pass


class Finder:
    """Finds stubs for all modules of CuPy that are not in :data:`sys.modules`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] not in ("cupy", "cupyx", "cupy_backends") or name.startswith("cupy.testing"):
            return None
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Plans(_Stub):
    """``cupy.fft.config``, whose only switch of plans is deprecated, and has no effect in cukern."""

    _planned: bool = True

    @property
    def enable_nd_planning(self) -> bool:
        warnings.warn("enable_nd_planning", DeprecationWarning, stacklevel=2)
        return self._planned

    @enable_nd_planning.setter
    def enable_nd_planning(self, value: bool) -> None:
        warnings.warn("enable_nd_planning", DeprecationWarning, stacklevel=2)
        self._planned = value


class _OfArrays(type):
    """The class of ``cupy.ndarray``: cukern's arrays are its instances."""

    def __instancecheck__(cls, instance: object) -> bool:
        import cukern

        return isinstance(instance, cukern.Array)

    def __getattr__(cls, name: str) -> Any:
        import cukern

        return getattr(cukern.Array, name)


class _NDArray(metaclass=_OfArrays):
    """``cupy.ndarray``, which makes arrays whose elements are not set."""

    def __new__(
        cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> Any:
        import cukern

        if memptr is not None or strides is not None or order not in ("C", "c", None):
            left_out("memory objects")
        return cukern.empty(shape, dtype)


class _Namespace(types.ModuleType):
    """``cupy``: the names of :mod:`cukern`, and a few that only CuPy has."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        import cukern

        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(cukern, name)


def _in_c_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with the argument ``order``: C order, or the test is left out."""

    def wrapper(*args: Any, **options: Any) -> Any:
        if len(args) > 2 and isinstance(args[2], str):
            options["order"], args = args[2], args[:2]
        order = options.pop("order", None)
        if order in ("F", "f"):
            left_out("Fortran order")
        if order not in (None, "C", "c", "K", "k", "A", "a"):
            raise ValueError(f"order: expected C, got {order!r}")
        options.pop("blocking", None)
        if isinstance(options.get("dtype"), np.dtype) and options["dtype"].kind == "V":
            left_out("records")
        return function(*args, **options)

    return wrapper


def _asnumpy(x: Any, *args: Any, **options: Any) -> Any:
    import cukern

    return x.numpy() if isinstance(x, cukern.Array) else np.asarray(x)


def namespace() -> types.ModuleType:
    """The module that stands for ``cupy``, with float64 as the default dtype."""
    import cukern

    cukern.set_default_dtype("float64")
    made = _Namespace("cupy")
    made.__dict__.update(
        ndarray=_NDArray,
        asnumpy=_asnumpy,
        dtype=np.dtype,
        get_array_module=lambda *xs: made if any(isinstance(x, cukern.Array) for x in xs) else np,
        asfortranarray=lambda *args, **options: left_out("Fortran order"),
        **{name: getattr(np, name) for name in _NUMPYS.split()},
        **{name: _in_c_order(getattr(cukern, name)) for name in _CREATING.split() if hasattr(cukern, name)},
        ufunc=type(cukern.add).__mro__[1],
    )
    for module in ("random", "linalg", "fft"):
        made.__dict__[module] = _module(f"cupy.{module}", getattr(cukern, module))
    return made


def _module(name: str, ours: Any) -> types.ModuleType:
    """A module whose names are those of cukern's module ``ours``."""
    made = types.ModuleType(name)
    made.__dict__.update(__getattr__=lambda missing: getattr(ours, missing), __path__=[])
    return sys.modules.setdefault(name, made)


def add_random(module: Any) -> None:
    """The names of CuPy's random modules that its tests read."""
    from cukern import Array, random
    from cukern.random import Generator, RandomState, _generator, generator

    class Seeded(Generator):
        def __init__(self, key: tuple[int, int]) -> None:
            super().__init__(key, generator.current())

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "bit_generator":
                self.__init__(value)  # type: ignore[misc]
            else:
                super().__setattr__(name, value)

    def philox(seed: Any = None) -> tuple[int, int]:
        return generator.key_of(seed, "Philox4x3210")

    state = types.SimpleNamespace(_random_states={}, RandomState=RandomState, get_random_state=_generator)

    def reset_states() -> None:
        state._random_states = {}

    def in_integers(name: str) -> Callable[..., Array]:
        """A distribution of floats for tests that ask for integers, which CuPy's documentation does not name."""

        def drawn(*args: Any, dtype: Any = float, **options: Any) -> Array:
            wanted = np.dtype(dtype)
            made = getattr(random, name)(*args, dtype=wanted if wanted.kind == "f" else np.float64, **options)
            return made.astype(wanted, copy=False)

        return drawn

    state.reset_states = reset_states
    for name in ("noncentral_chisquare", "noncentral_f"):
        setattr(module, name, in_integers(name))
    module.__dict__.update(
        Generator=Seeded,
        reset_states=reset_states,
        get_random_state=_generator,
        _bit_generator=types.SimpleNamespace(Philox4x3210=philox),
        _distributions=module,
        _sample=module,
        _generator=state,
    )
    for name in ("random._bit_generator", "random._distributions", "random._generator", "random._sample"):
        sys.modules[f"cupy.{name}"] = getattr(module, name.split(".")[1])


def base_of(x: Any) -> Any:
    """The array that ``x`` views, found among the living ones: the largest with the same memory, in C order first."""
    same = [one for one in gc.get_referrers(x._storage) if isinstance(one, type(x))]
    found = max(same, key=lambda one: (one.nbytes, one.flags.c_contiguous, one is not x))
    return None if found is x else found
