"""Kernel text: render templates to CUDA C++, and parse the signature of that text."""

import re

#: Three sizes: along x, y and z.
Dim3 = tuple[int, int, int]

#: The version of C++ of texts that ask for no other one.
DEFAULT_STD = "c++17"
#: Begins the line, a comment, by which a text asks for another one.
STANDARD = "Compiled as "
#: Begins the line, a comment, that names what is left out of a program.
LEFT_OUT = "Left out, as no code of kernels"
#: A comment of C++.
COMMENT = re.compile(r"//[^\n]*|(?s:/\*.*?\*/)")


def standard(text: str) -> str:
    """The version of C++ of a text."""
    _, asked, rest = text.rpartition(f"\n// {STANDARD}")
    return rest.partition("\n")[0] if asked else DEFAULT_STD
