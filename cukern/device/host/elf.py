"""Symbol tables of kernels' libraries: the static shared memory, and other variables."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ...text.signature import Unit

#: The symbol of the headers' own thread-local variable.
_THREAD_INDEX = b"_ZL9threadIdx"
_PLACE = b"_ZN6cukernL5placeE"
_OWN_SYMBOLS = {_THREAD_INDEX, _PLACE, b"_ZL8blockIdx", b"_ZL8blockDim", b"_ZL7gridDim"}
_OWN_SYMBOLS.add(b"_ZN6cukernL19dynamic_shared_baseE")
#: The names in a checked build of objects as long as its variables in static shared memory, allocated in each launch.
SIZE_OF_SHARED = "cukern_size_of_shared_"


def symbols(library: bytes) -> Iterator[tuple[bytes, int, bytes, int, int]]:
    """The symbols of a 64-bit ELF library: name, type, name of the section, value and size."""
    table, count = struct.unpack_from("<Q", library, 40)[0], struct.unpack_from("<H", library, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", library, table + 64 * i) for i in range(count)]
    texts = sections[struct.unpack_from("<H", library, 62)[0]][4]

    def text(start: int) -> bytes:
        return library[start : library.index(b"\0", start)]

    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        for name, info, _, where, value, length in struct.iter_unpack(
            "<IBBHQQ", library[offset : offset + size]
        ):
            section = text(texts + sections[where][0]) if where < count else b""
            yield text(sections[link][4] + name), info & 15, section, value, length


def static_shared(library: bytes, unit: Unit) -> list[tuple[int, int]]:
    """The variables in static shared memory: offsets from the result of ``begin_block``, and sizes in bytes.

    They are the thread-local symbols of a 64-bit ELF library; in a checked build others tell their sizes alone.
    """
    own = _OWN_SYMBOLS | {f"_ZL{len(d.name)}{d.name}".encode() for d in unit.dynamic_shared}
    variables: list[tuple[int, int]] = []
    sizes: list[tuple[int, int]] = []
    anchors: dict[bytes, int] = {}
    for symbol, kind, _, value, length in symbols(library):
        if kind == 6:  # STT_TLS
            if symbol in own:
                anchors[symbol] = value
            else:
                variables.append((value, length))
        elif SIZE_OF_SHARED.encode() in symbol:
            sizes.append((0, length))
    anchor = anchors.get(_PLACE, anchors.get(_THREAD_INDEX, 0))
    return [*((value - anchor, length) for value, length in variables), *sizes]
