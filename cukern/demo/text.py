"""The demo's text: the source files of Python's own standard library."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

#: The characters of the model; all others become the last one, the replacement character.
ALPHABET = "\n" + "".join(map(chr, range(0x20, 0x7F))) + "\N{REPLACEMENT CHARACTER}"

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Corpus:
    """The training and validation texts as positions in :data:`ALPHABET`, and the number of files of each."""

    training: Codes
    validation: Codes
    training_files: int
    validation_files: int


def encode(text: str) -> Codes:
    """The positions of a text's characters in the alphabet."""
    table = np.full(0x110000, len(ALPHABET) - 1, dtype=np.int32)
    table[[ord(character) for character in ALPHABET[:-1]]] = np.arange(len(ALPHABET) - 1)
    return table[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)]


def decode(codes: npt.ArrayLike) -> str:
    """The text of positions in the alphabet."""
    return "".join(ALPHABET[code] for code in np.asarray(codes).ravel())


def standard_library() -> Corpus:
    """The top-level modules of the standard library, sorted by name, with every tenth one held out.

    Raises:
        FileNotFoundError: this Python lacks the source of its standard library.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    # _sysconfigdata is generated for the machine on which Python was built.
    files = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_sysconfigdata")]
    if len(files) < 20:
        raise FileNotFoundError(f"the source files of Python's standard library are not in {folder}")
    held_out = files[9::10]
    kept = [path for path in files if path not in held_out]
    return Corpus(_read(kept), _read(held_out), len(kept), len(held_out))


def _read(files: list[Path]) -> Codes:
    return encode("\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files))


def unigram_entropy(codes: Codes) -> float:
    """The entropy of the distribution of single characters, in nats: the lowest loss of a model without context."""
    counts = np.bincount(codes, minlength=len(ALPHABET))
    shares = counts[counts > 0] / codes.size
    return float(-(shares * np.log(shares)).sum())


def windows(codes: Codes, starts: npt.NDArray[np.int64], length: int) -> tuple[Codes, Codes]:
    """Windows of a text, and the next character at each position; both of shape (length, len(starts))."""
    places = starts[None, :] + np.arange(length)[:, None]
    return codes[places], codes[places + 1]
