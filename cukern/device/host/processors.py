"""Targets of the host in bundles: processors, levels of x86-64 and C libraries."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Mapping
from functools import cache

from ...errors import DeviceError
from .. import bundles
from ..bundle_file import Code, Target, hash_of
from . import translate
from .compiler import machine, runtime_text

#: The levels of x86-64 by the System V ABI, which compilers take for ``-march``: what each adds to the one before, in
#: the words of ``/proc/cpuinfo``.
_LEVELS = {
    "x86-64": "cmov cx8 fpu fxsr mmx sse sse2",
    "x86-64-v2": "cx16 lahf_lm pni popcnt sse4_1 sse4_2 ssse3",
    "x86-64-v3": "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
    "x86-64-v4": "avx512bw avx512cd avx512dq avx512f avx512vl",
}


def march(name: str) -> str:
    """The ``-march`` of a target, ``host`` or ``host:LEVEL``.

    Raises:
        DeviceError: there is no such level.
    """
    level = name.partition(":")[2]
    if name != "host" and level not in _LEVELS:
        raise DeviceError(f"--arch: expected host or host: and one of {', '.join(_LEVELS)}, got {name!r}")
    return level or "native"


def preference(name: str) -> int:
    """The rank of a target among others of its kind: the fastest comes first."""
    levels = ["host", *(f"host:{level}" for level in reversed(_LEVELS))]
    return levels.index(name) if name in levels else 0


def target(name: str) -> Target:
    """The target ``host``, for processors like this one, or ``host:LEVEL``, for all of a level."""
    facts = {"runtime": _interface(), "c library": " ".join(platform.libc_ver())}
    facts["processor" if march(name) == "native" else "level"] = machine() if name == "host" else march(name)
    return Target(name, facts)


def bundled(text: str, trusted: bool = True) -> Code | None:
    """The kernel, or the runtime, that was compiled from a text for a bundle.

    Args:
        text: a unit's, or the runtime's.
        trusted: the unit's.

    Raises:
        DeviceError: a bundle is damaged, or is for other processors.
    """
    return bundles.find("host", 0, hash_of(text, trusted), why_not)


def features() -> frozenset[str]:
    """What this processor of x86-64 has, in the words of ``/proc/cpuinfo``; nothing of others."""
    return _words(machine())


@cache
def _words(text: str) -> frozenset[str]:
    lines = text.splitlines()
    return frozenset(word for line in lines if line.startswith("flags") for word in line.split())


@cache
def _interface() -> str:
    """The hash of what a kernel's library depends on besides its text: the runtime, its headers and the translation."""
    return hash_of(runtime_text() + inspect.getsource(translate))


def why_not(target: Target) -> str | None:
    """Why what was compiled for a target cannot run here; None if it can."""
    facts = target.facts
    if facts.get("runtime") != _interface():
        return "it is for another runtime of the host, of another version of cukern"
    if reason := _why_not_library(facts):
        return reason
    if "processor" in facts:
        # The features that the compiler detected are not recorded, so another model may lack some.
        same = facts["processor"] == machine()
        return (
            None
            if same
            else "it was built for another processor or C library: build it for a level, such as host:x86-64-v3"
        )
    return _why_not_level(facts.get("level", ""))


def _why_not_library(facts: Mapping[str, str]) -> str | None:
    built, here = facts.get("c library", ""), " ".join(platform.libc_ver())
    (name, numbers), (own, present) = _version(built), _version(here)
    if name != own or numbers > present:
        return f"it needs the C library {built or 'of an unknown name'} or later, and here is {here or 'another'}"
    return None


def _version(library: str) -> tuple[str, list[int]]:
    """A C library's name and version."""
    name, _, number = library.partition(" ")
    return name, [int(part) for part in number.split(".") if part.isdecimal()]


def _why_not_level(level: str) -> str | None:
    if level not in _LEVELS or platform.machine() not in ("x86_64", "AMD64"):
        return f"it was built for {level or 'no processor'}, and this is {platform.machine()}"
    for name, words in _LEVELS.items():
        if missing := sorted(set(words.split()) - features()):
            return f"it was built for {level}, and this processor has no {', '.join(missing)}"
        if name == level:
            break
    return None
