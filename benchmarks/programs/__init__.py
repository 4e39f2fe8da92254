"""Programs of public architectures, each written once for either library; `models.py` measures them.

A program is a function of `lib`, the names of a library (`libraries.py`), and of a scale that divides its sizes. To add
one, write it in the module of its family, and a `Program` with its inputs and dtype into that module's `PROGRAMS`.
"""

from . import diffusion, images, language, science, sequences, small
from .program import Program

__all__ = ["PROGRAMS", "Program"]

#: All programs, in the order of the table.
PROGRAMS: tuple[Program, ...] = (
    *diffusion.PROGRAMS,
    *images.PROGRAMS,
    *language.PROGRAMS,
    *sequences.PROGRAMS,
    *science.PROGRAMS,
    *small.PROGRAMS,
)
