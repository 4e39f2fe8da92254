"""The static shared memory of a kernel, as its library's symbols tell it."""

from __future__ import annotations

import struct

from ...text.signature import Unit

#: The symbol of the headers' own thread-local variable.
_THREAD_INDEX = b"_ZL9threadIdx"
_PLACE = b"_ZN6cukernL5placeE"
_OWN_SYMBOLS = {_THREAD_INDEX, _PLACE, b"_ZL8blockIdx", b"_ZL8blockDim", b"_ZL7gridDim"}
_OWN_SYMBOLS.add(b"_ZN6cukernL19dynamic_shared_baseE")


def static_shared(library: bytes, unit: Unit) -> list[tuple[int, int]]:
    """The variables in static shared memory: offsets from the result of ``begin_block``, and sizes in bytes.

    They are the thread-local symbols of a 64-bit ELF library.
    """
    own = _OWN_SYMBOLS | {f"_ZL{len(d.name)}{d.name}".encode() for d in unit.dynamic_shared}
    table, count = struct.unpack_from("<Q", library, 40)[0], struct.unpack_from("<H", library, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", library, table + 64 * i) for i in range(count)]
    found: list[tuple[int, int]] = []
    anchors: dict[bytes, int] = {}
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = sections[link][4]
        for name, info, _, _, value, length in struct.iter_unpack("<IBBHQQ", library[offset : offset + size]):
            if info & 15 == 6:  # STT_TLS
                start = names + name
                symbol = library[start : library.index(b"\0", start)]
                if symbol in own:
                    anchors[symbol] = value
                else:
                    found.append((value, length))
    anchor = anchors.get(_PLACE, anchors.get(_THREAD_INDEX, 0))
    return [(value - anchor, length) for value, length in found]
