"""The reports of a checked launch: findings of its runtime, with the template's lines and the names of arrays."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import KernelReport, TemplateError
from ....text import COMMENT, Dim3, render
from ....text.edits import blank
from ....text.line_directives import lines_from, placed
from ....text.signature import Unit
from ....text.std_names import own_at
from ..compiler import frames
from ..lines import template_line, templates_of
from ..settings import TIME_LIMIT
from . import fills

_Array = np.ndarray[Any, Any]

_KINDS = (
    *("out of bounds", "race", "unset", "const", "misaligned", "overflow", "shift", "division", "lane"),
    *("divergence", "fault", "timeout", "fault", "use after free", "free", "leak"),
)
TIMEOUT = _KINDS.index("timeout")
#: Values of `how` in runtime/checked/state.h: an atomic access, a sum, an exchange, a compare and swap.
_ATOMIC = (1, 3, 5, 7)
#: Values of `region` there: from here on up in shared memory; from here on down, the kernel's own variables.
#: Below these are arrays behind a ``T**``, and memory that kernels allocate.
_SHARED, _FIRST_VARIABLE, _FIRST_ENTRY, _HEAP = 1000, -2, -(1 << 29), -(1 << 30)
_WARNING = re.compile(
    r"^(?:.*/)?(<[^<>\n]*>|[^<>\n:]+):(\d+):\d+: warning: (.*) \[-W(maybe-|sometimes-|conditional-)?uninitialized\]$",
    re.M,
)
#: Where GCC says that a function was inlined, and where it says that a variable was declared.
_INLINED = re.compile(r"^ +inlined from .* at (?:.*/)?(<[^<>\n]*>|[^<>\n:]+):(\d+):\d+", re.M)
_DECLARED = re.compile(
    r"^(?:.*/)?(<[^<>\n]*>|[^<>\n:]+):(\d+):\d+: note: [‘'](\w+)[’'] was declared here$", re.M
)


def _unset_reads(said: str, own: Callable[[str], bool]) -> list[tuple[str, str, str, str]]:
    """Reads of variables that may be unset: where, where declared, the compiler's words, and of which it is unsure.

    One in a function of the host's headers is where the kernel calls that, if the variable is the kernel's.

    Args:
        said: the compiler's warnings.
        own: whether a file is the kernel's text.
    """
    reads = []
    declared = {name: f"{file}:{line}" for file, line, name in _DECLARED.findall(said) if own(file)}
    for one in _WARNING.finditer(said):
        file, line, text, unsure = one.groups()
        name = fills.named(text)
        if not own(file) and name in declared:
            context = said[: one.start()].rpartition("In function ")[2]
            file, line = next((at for at in _INLINED.findall(context) if own(at[0])), (file, line))
        if own(file):
            reads.append((f"{file}:{line}", declared.get(name, ""), text, name if unsure else ""))
    return reads


#: A program counter in the runtime's messages.
_PC = re.compile(r",? \[pc ([0-9a-f]+)\](?::0)?")
#: By which threads or blocks may differ that never read their indices; and functions of preludes may read these.
_KNOWS_WHO = re.compile(
    r"\b(?:volatile|asm|clock|clock64|malloc|new|printf|curand\w*|cooperative_groups|cub)\b|atomic|_sync\b|__sync"
)
#: So many bytes are more than one element.
_SEVERAL = 64
_OTHER_PRELUDES = re.compile(r'^#line \d+ "prelude/(?!base\.cuh|fills)', re.MULTILINE)
_ALLOCATES = re.compile(r"\b(?:malloc|free|new|delete)\b")


class _Side(ctypes.Structure):
    _fields_ = (
        ("place", ctypes.c_ulonglong),
        ("block", ctypes.c_ulonglong),
        *((name, ctypes.c_uint) for name in ("thread", "writes", "how")),
    )


class RawReport(ctypes.Structure):
    """The struct ``Report`` of checked/state.h."""

    _fields_ = (
        ("kind", ctypes.c_uint),
        ("doubtful", ctypes.c_uint),
        ("region", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("offset", ctypes.c_longlong),
        ("bytes", ctypes.c_ulonglong),
        ("here", _Side),
        ("other", _Side),
        ("has_other", ctypes.c_int),
        ("line", ctypes.c_int),
        ("file", ctypes.c_char_p),
        ("text", ctypes.c_char * 1024),
    )


def _place(index: int, shape: Sequence[int]) -> Dim3:
    return index % shape[0], index // shape[0] % shape[1], index // shape[0] // shape[1]


class Reader:
    """Converts findings of the runtime in a kernel to reports.

    Args:
        unit: the kernel.
        path: its library, which has a line table.
        said: the compiler's warnings.
        variables: the names of its variables that are not shared, as the runtime numbers them.
    """

    def __init__(self, unit: Unit, path: Path, said: str, variables: Sequence[str]) -> None:
        self._unit = unit
        self._variables = variables
        #: The arrays behind tables of pointers in the launch that is read, and their names.
        self.entries: list[tuple[str, _Array]] = []
        #: In how many bytes threads of a block, or of blocks, wrote what others had written there.
        self.repeated = 0, 0
        #: How long the launch may take; 0 for no limit.
        self.seconds = 0.0
        self._path = path
        self._name = unit.signature.name
        self._templates = templates_of(unit)
        self._lines: dict[int, str] = {}
        self._own_text = COMMENT.sub(lambda comment: blank(comment[0]), unit.text[own_at(unit.text) :])
        #: Whether the text allocates memory.
        self.allocates = _ALLOCATES.search(self._own_text) is not None
        self._unset = _unset_reads(
            said, lambda file: file in self._templates and not file.startswith("prelude/")
        )
        self.unsure = frozenset(name for *_, name in self._unset if name)

    def read(
        self,
        raw: Sequence[RawReport],
        header: Sequence[int],
        arrays: Sequence[_Array | None],
        shared_name: Callable[[int], str],
        shared_size: Callable[[int], int],
        harmless: frozenset[str] = frozenset(),
    ) -> list[KernelReport]:
        """The reports, one for each line and kind.

        Args:
            raw: the runtime's findings.
            header: grid, block and bytes of dynamic shared memory.
            arrays: that of each parameter, or None.
            shared_name: the name of a variable in static shared memory, by its number.
            shared_size: its size in bytes.
            harmless: variables of which the compiler is unsure, and whose unset values this launch has not used.
        """
        self._find_lines({p for one in raw for p in (one.here.place, one.other.place) if p})
        self._grid, self._block = header[:3], header[3:6]
        self._arrays, self._shared = arrays, (shared_name, shared_size)
        unique: dict[tuple[object, ...], KernelReport] = {}
        for report in self._misfits():
            unique[report.kind, report.message] = report
        for place, other, text, name in self._unset:
            if name in harmless:
                continue
            unique["unset", place] = self._told("unset", f"unset register: {text}", place, other)
        for one in raw:
            report = self._report(one)
            key = report.kind, report.place, report.other_place, report.array, one.here.writes
            unique.setdefault(key, report)
        # Of an index that the compiler refuses, the array's name is known once the access is made.
        named = {(one.kind, one.place) for one in unique.values() if one.array}
        # An invalid access mostly follows from one out of bounds, which has been told.
        beyond = any(one.kind == "out of bounds" for one in unique.values())
        self._arrays = ()  # which others may want to be freed
        return [
            one
            for one in unique.values()
            if (one.array or (one.kind, one.place) not in named)
            and not (beyond and one.kind == "fault" and "access of memory" in one.message)
        ]

    def unset_array(self, name: str, place: str) -> KernelReport:
        """That a launch depends on elements of a local array which nothing has set."""
        what = f"unset register: {name} is used, of which nothing has set a part, or all"
        return self._told("unset", what, place, array=name)

    def _misfits(self) -> Iterator[KernelReport]:
        """What the launch has that the text does not know: threads or blocks along an axis that it never reads.

        Those along x are told of last, if each writes the same elements, as the text may know them by other means.
        """
        own, preludes = self._own_text, _OTHER_PRELUDES.search(self._unit.text)
        alike = (0, 0) if _KNOWS_WHO.search(own) or preludes else self.repeated
        both = ("block", "threadIdx", self._block, alike[0]), ("grid", "blockIdx", self._grid, alike[1])
        for axes in ("yz", "x"):
            for axis, (what, variable, sizes, count) in ((axis, one) for one in both for axis in axes):
                size = sizes["xyz".index(axis)]
                if self._unit.trusted or size == 1 or self._reads(variable, axis):
                    continue
                if axis == "x" and count < _SEVERAL:
                    continue
                does = "write the same elements" if axis == "x" else "do the same"
                text = (
                    f"geometry: {what} has {size} along {axis}, and the kernel never reads {variable}.{axis}: all "
                    f"{size} {does}"
                )
                yield self._told("geometry", text, self._line_of(self._name if axis == "x" else variable))

    def _told(self, kind: str, text: str, place: str, other: str = "", **more: Any) -> KernelReport:
        """A report, whose message has the lines of its places."""
        message = self._message(place, other, text)
        return KernelReport(kind, message, self._name, place, other_place=other, **more)

    def _line_of(self, word: str) -> str:
        """The first line of the user's text with a word; that of the kernel's name if there is none."""
        lines = list(placed(self._own_text))
        found = (f"{file}:{n}" for one in (word, self._name) for file, n, line in lines if one in line)
        return next(found, "")

    def _reads(self, variable: str, axis: str) -> bool:
        """Whether the text reads an axis of a built-in variable, or takes all of it."""
        pattern = rf"\b{variable}\s*\.\s*{axis}\b|\b{variable}\b(?!\s*\.)|\bthread_rank\b"
        return re.search(pattern, self._own_text) is not None

    def variable(self, region: int) -> str:
        """The name of what is no parameter and not shared, by its region."""
        if region == _HEAP:
            return "allocated memory"
        if region <= _FIRST_ENTRY:
            return self.entries[_FIRST_ENTRY - region][0]
        return self._variables[_FIRST_VARIABLE - region]

    def line(self, place: int) -> str:
        """The template's line of a place in the code; empty if it is not known."""
        if place:
            self._find_lines({place})
        return self._lines.get(place, "")

    def lines(self, places: set[int]) -> dict[int, str]:
        """The same of several, by one call of a tool."""
        self._find_lines(places - {0})
        return {place: self._lines.get(place, "") for place in sorted(places)}

    def _find_lines(self, places: set[int]) -> None:
        wanted = sorted(places - self._lines.keys())
        # A return address is behind its call.
        for place, lines in zip(wanted, frames(self._path, [place - 1 for place in wanted]), strict=True):
            self._lines[place] = template_line(lines, self._templates) or ""

    def _where(self, side: _Side, raw: RawReport | None = None) -> str:
        if raw is not None and raw.file:
            return f"{raw.file.decode(errors='replace')}:{raw.line}"
        return self._lines.get(side.place, "")

    def _report(self, raw: RawReport) -> KernelReport:
        kind = _KINDS[raw.kind]
        text = raw.text.decode(errors="replace")
        line = self._lines.get(raw.here.place, "")
        # Of what a warp does as one, where it is called.
        called = kind in ("lane", "fault") or not line or line.startswith("prelude/")
        place = self._where(raw.here, raw if called else None)
        if raw.kind in (9, 10, 11):
            return self._fault(kind, text, self._lines.get(raw.here.place, ""))
        name, element, described = self._element(raw)
        block, thread = _place(raw.here.block, self._grid), _place(raw.here.thread, self._block)
        who = f"block {block}, thread {thread}"
        does = "writes" if raw.here.writes else "reads"
        other: dict[str, Any] = {}
        other_place = ""
        if kind == "out of bounds":
            said = f"{who}: {text}" if text else f"{who} {does} {described}{self._since(raw)}"
        elif kind == "race" and text and not raw.has_other:  # shared memory of another block of a cluster
            said = f"{who} {does} {described}, {text}"
        elif kind == "race":
            other_place = self._where(raw.other)
            far, near = _place(raw.other.block, self._grid), _place(raw.other.thread, self._block)
            other = {"other_block": far, "other_thread": near}
            did = ("written" if raw.other.writes else "read") + " atomically" * (raw.other.how in _ATOMIC)
            at = f" at {other_place}" if other_place else ""
            if raw.here.how == 2:  # an asynchronous operation
                who, gap = f"{text} of {who}", "before a wait for it"
            else:
                gap = text or "with no barrier in between"
            said = f"{who} {does} {described}, {did} by block {far}, thread {near}{at} {gap}"
        elif kind == "unset":
            said = f"{who} reads {described}, which nothing has written"
        elif kind == "const":
            said = f"{who} writes {described}, which the kernel declares const"
        elif kind == "misaligned":
            said = f"{who}: {described}: {text}"
        elif kind == "use after free":
            said = f"{who} {does} {described}{self._since(raw)}"
        elif kind == "free":
            said = f"{who}: {described} {text}{self._since(raw)}"
        elif kind == "leak":
            said = f"an allocation of {raw.bytes} bytes by {who} is never freed, and no pointer to it is left"
        else:
            said = f"{who}: {text}"
        what = f"{kind}: {said}"
        return self._told(
            kind, what, place, other_place, array=name, element=element, block=block, thread=thread, **other
        )

    def _since(self, raw: RawReport) -> str:
        """Where memory was allocated that an access is not in, or freed."""
        place = self._where(raw.other) if raw.region == _HEAP and raw.has_other else ""
        how = "freed" if _KINDS[raw.kind] == "use after free" or b"again" in raw.text else "made"
        return f", {how} at {place}" if place else ""

    def _fault(self, kind: str, text: str, line: str) -> KernelReport:
        """The report of what ended a block, whose text names places, or else ended at the line of its last access."""
        self._find_lines({int(pc, 16) for pc in _PC.findall(text)})
        text = _PC.sub(
            lambda pc: f" at {self._lines[at]}" if self._lines.get(at := int(pc[1], 16)) else "", text
        )
        names = "|".join(re.escape(name) for name in self._templates)
        places = [*re.findall(rf"(?:{names}):\d+", text), "", ""] if names else ["", ""]
        where = [re.search(rf"{what} \((\d+), (\d+), (\d+)\)", text) for what in ("block", "thread")]
        block, thread = (None if at is None else (int(at[1]), int(at[2]), int(at[3])) for at in where)
        place = line or places[0] if kind == "timeout" else places[0] or line
        if kind == "timeout":
            text = f"stopped, as it ran longer than {self.seconds:g} s ({TIME_LIMIT}): {text}"
        return self._told(kind, text, place, places[1], block=block, thread=thread)

    def _message(self, place: str, other: str, what: str) -> str:
        at = f", {place}" if place and place not in what else ""
        parts = [f"{self._name}: {what}{at}"]
        for spot in dict.fromkeys(p for p in (place, other) if p):
            name, _, line = spot.rpartition(":")
            if text := self._text_of(name):
                parts.append(render.excerpt(text, int(line), 1))
        return "\n".join(parts)

    def _text_of(self, name: str) -> str:
        """The lines of a template, or else of a file, as far as the kernel needs them; empty if there are none."""
        with suppress(TemplateError):
            return render.source_of(name)
        lines = lines_from(self._unit.text, name)
        return "\n".join(lines.get(n, "") for n in range(1, max(lines, default=0) + 1))

    def _element(self, raw: RawReport) -> tuple[str, int | tuple[int, ...] | None, str]:
        """The name of what was touched, the index in it, and both in words."""
        if raw.region == _HEAP:
            return "", raw.offset, f"byte {raw.offset} of an allocation of {raw.bytes} bytes"
        if raw.region <= _FIRST_ENTRY:
            name, behind = self.entries[_FIRST_ENTRY - raw.region]
            return _in_array(name, name, behind, raw.offset)
        if raw.region <= _FIRST_VARIABLE:
            name = self.variable(raw.region)
            return _in_variable(name, f"variable {name}", raw, raw.bytes)
        if raw.region < 0:
            return "", None, f"address {raw.offset:#x}, which is no array's"
        if raw.region >= _SHARED:
            return self._shared_element(raw)
        param, array = self._unit.signature.params[raw.region], self._arrays[raw.region]
        if array is None:
            return param.name, None, f"byte {raw.offset} of {param.name}"
        if param.kind != "view":
            return _in_array(param.name, f"argument {param.name}", array, raw.offset)
        if array.ndim and (index := _index_in(array, raw.offset)) is not None:
            return param.name, index, f"element {index} of view {param.name}"
        return _in_array(param.name, f"view {param.name}", array, raw.offset)

    def _shared_element(self, raw: RawReport) -> tuple[str, int, str]:
        number = raw.region - _SHARED
        size = self._shared[1](number)
        if number:
            name = self._shared[0](number)
            return _in_variable(name, f"shared {name}", raw, size)
        name = next((one.name for one in self._unit.dynamic_shared), "")
        said = (
            f"byte {raw.offset} of dynamic shared memory {name}, of which the launch asked for {size} bytes"
        )
        return name, raw.offset, said + ("" if 0 <= raw.offset < size else " (shared=...)")


def _in_array(name: str, called: str, array: _Array, offset: int) -> tuple[str, int, str]:
    """The element of an array at an offset, as of :meth:`Reader._element`."""
    flat = offset // array.dtype.itemsize
    return name, flat, f"element {flat} of {called}, which has {array.size} element{'s' * (array.size != 1)}"


def _in_variable(name: str, called: str, raw: RawReport, size: int) -> tuple[str, int, str]:
    """The element of a variable of so many bytes that was touched, as of :meth:`Reader._element`."""
    flat = raw.offset // max(1, raw.size)
    return name, flat, f"element {flat} (byte {raw.offset}) of {called}, which has {size} bytes"


def _index_in(array: _Array, offset: int) -> tuple[int, ...] | None:
    """The index of the element at ``offset`` bytes from the first one in memory; None if it is between elements."""
    low = sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True) if stride < 0)
    rest, index = offset + low, [0] * array.ndim
    for axis in sorted(range(array.ndim), key=lambda a: -abs(array.strides[a])):
        stride = array.strides[axis]
        if stride == 0 or array.shape[axis] == 1:
            continue
        at = rest // stride if stride > 0 else -(rest // -stride)
        if stride < 0 and rest % -stride:
            at -= 1
        index[axis], rest = int(at), rest - at * stride
    inside = all(0 <= i < n for i, n in zip(index, array.shape, strict=True))
    return tuple(index) if inside and 0 <= rest < array.dtype.itemsize else None
