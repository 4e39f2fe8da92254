"""Number types that replace a text's floats: double, or dual numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TYPES = re.compile(r"\b(?:float|double|half|__half|__nv_bfloat16|nv_bfloat16)\b")
_TYPES_NOT_HALF = re.compile(r"\b(?:float|double|__half|__nv_bfloat16|nv_bfloat16)\b")
#: A directive that names a file, such as float.h, with the marks of :mod:`.line_directives`.
_NAMES_FILE = re.compile(r"(?:\x01[^\x02]*\x02|\s)*#\s*(?:line|include)\b")
#: A variable that is called half.
_HALF = re.compile(r"\w[\s*&]+half\s*[=;,)\[]")
_VECTORS = re.compile(r"\b(make_)?float([1-4])\b")
#: A literal of float, without its suffix.
_LITERAL = re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)[fF](?!\w)")
#: CUDA's functions of float, without the letter that tells them from those of double.
_NAMES = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc
    erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot j0 j1 jn ldexp lgamma
    llrint llround log log10 log1p log2 logb lrint lround modf nearbyint nextafter norm3d norm4d normcdf normcdfinv
    pow powi rcbrt remainder rhypot rint rnorm3d rnorm4d round rsqrt scalbln scalbn sin sincos sincospi sinh sinpi sqrt
    tan tanh tgamma trunc y0 y1 yn
"""
_FUNCTIONS = {f"{name}f": name for name in _NAMES.split()}
_FUNCTIONS |= {
    f"__{n}f": n
    for n in ("cos", "exp", "exp10", "log", "log10", "log2", "pow", "sin", "sincos", "tan", "tanh")
}
_FUNCTIONS |= {
    f"__f{name}_{to}": f"__d{name}_rn"
    for name in ("add", "sub", "mul", "div", "rcp", "sqrt")
    for to in ("rn", "rz", "ru", "rd")
}
_FUNCTIONS |= {f"__fmaf_{to}": "fma" for to in ("rn", "rz", "ru", "rd")}
_FUNCTIONS |= {"__frsqrt_rn": "rsqrt", "__fdividef": "__ddiv_rn", "fdividef": "__ddiv_rn"}
#: Conversions, which become the identity.
_FUNCTIONS |= dict.fromkeys(
    [
        "__half2float",
        "__float2half",
        "__float2half_rn",
        "__bfloat162float",
        "__float2bfloat16",
        "__float2bfloat16_rn",
    ],
    "double",
)
_CALLS = re.compile(rf"\b(?:{'|'.join(_FUNCTIONS)})\b(?=\s*\()")
_OF_BITS = (
    r"\basm\b|_as_(?:float|double|half|short|ushort|int|uint|longlong|ulonglong)\b|\bwmma\b|mma_"
    r"|\([\s]*(?:const\s+)?(?:unsigned|int|u?int\d\w*|long|short|char)(?:\s+(?:int|long|char|short))*\s*\*\s*\)\s*&"
)
#: Texts that take floats apart: as bits; as bits or vectors.
_BITS = re.compile(
    rf"{_OF_BITS}|\breinterpret_cast\s*<\s*(?:const\s+)?(?!const|float|double|half|__half|__nv_bfloat16)\w+"
    r"|\b(?:__)?(?:half|nv_bfloat16)2\b|\b__nv_bfloat162\b|\b__h(?!alf\b)[a-z]+2?(?:_rn|_sat)?(?=\s*\()|\b__saturatef\b"
    r"|\bh(?:cos|exp|exp10|exp2|log|log10|log2|rcp|rsqrt|sin|sqrt|tanh)(?=\s*\()"
)
_BITS_OR_VECTORS = re.compile(
    rf"{_OF_BITS}|\b(?:float|double|half|__half|__nv_bfloat16|int|uint)[1-4]\b|\breinterpret_cast\b|\b__nv_bfloat162\b"
)


@dataclass(frozen=True)
class StandIn:
    """A number type that replaces floats.

    Attributes:
        dual: whether it is dual numbers, see ``templates/prelude/dual.cuh``; otherwise it is double.
    """

    dual: bool

    def text(self, body: str) -> str:
        """A kernel's text with this type in place of all floats, except in names of files."""
        types = _TYPES_NOT_HALF if _HALF.search(body) else _TYPES
        lines = body.split("\n")
        return "\n".join(line if _NAMES_FILE.match(line) else self._line(line, types) for line in lines)

    def _line(self, line: str, types: re.Pattern[str]) -> str:
        line = _LITERAL.sub(_decimal, line)
        if self.dual:
            return types.sub("complex<double>", line)
        line = _VECTORS.sub(r"\1double\2", types.sub("double", line))
        return _CALLS.sub(lambda match: _FUNCTIONS[match[0]], line)

    def refused(self, text: str) -> str:
        """The first use of floats in a text that this type cannot replace; empty if there is none."""
        match = (_BITS_OR_VECTORS if self.dual else _BITS).search(text)
        return "" if match is None else " ".join(match[0].split())


def _decimal(literal: re.Match[str]) -> str:
    digits = literal[1]
    return digits if any(c in digits for c in ".eE") else f"{digits}.0"


DUAL, DOUBLE = StandIn(True), StandIn(False)
