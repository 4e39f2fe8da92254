"""Names of the C++ library in kernels, which the host and NVRTC get from one text: ``templates/prelude/std.cuh``."""

from __future__ import annotations

import re
from functools import lru_cache

from .definitions import definitions
from .line_directives import directive
from .render import source_of

_TEMPLATE = "prelude/std.cuh"
_OWN = re.compile(r'^#line \d+ "(?!prelude/)', re.MULTILINE)
_COMMENTS = re.compile(r"//[^\n]*|(?s:/\*.*?\*/)|\"(?:\\.|[^\"\\\n])*\"")
_USES = re.compile(r"\bstd\s*::|\busing\s+namespace\s+std\b")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<(cuda/std/\w+)>.*$", re.MULTILINE)
#: Headers of the C and C++ libraries, of which NVRTC has none.
_OF_LIBRARIES = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*<(?:[a-z_0-9]+|(?:assert|ctype|errno|float|inttypes|limits|math|stdarg|stdbool|stddef|"
    r"stdint|stdio|stdlib|string|time|tgmath|wchar)\.h)>.*$",
    re.MULTILINE,
)
#: Functions of <cuda/std/algorithm>, which some versions of libcu++ have in parts alone.
_OF_ALGORITHM = re.compile(r"\bcuda\s*::\s*std\s*::\s*(min|max|clamp)\b")
_IF_THERE = "#if __has_include(<{0}>)\n#include <{0}>\n#endif"
#: NVRTC may have CUDA's own headers, with more in them, which those of cub include too.
_CUDA_STD = """#if defined(__CUDACC_RTC__) && __has_include(<cuda/std/type_traits>)
{}
#else
namespace cuda {{
namespace std = ::std;
}}
#endif"""


@lru_cache(maxsize=1)
def _library() -> str:
    text = source_of(_TEMPLATE)
    return "\n".join([*definitions(text), directive(_TEMPLATE, 1), text])


@lru_cache(maxsize=1)
def only_in_std() -> frozenset[str]:
    """The names that kernels do not have without ``std::``."""
    made = re.findall(r"(?:\bstruct|\busing|CUKERN_\w+\() ?(\w+)(?=[ ,:<;])", _library())
    return frozenset([*made, "swap", "exchange", "clamp", "move", "forward", "bit_cast", "make_pair"])


@lru_cache(maxsize=1)
def also_global() -> frozenset[str]:
    """The names that kernels have with ``std::`` and without it."""
    listed = re.findall(r"^using ((?:::\w+,? ?)+);", _library(), re.MULTILINE)
    return frozenset([*re.findall(r"\w+", " ".join(listed)), "abs", "max", "min"])


def own_at(text: str) -> int:
    """Where the first part of a rendered text begins that is not of the prelude."""
    own = _OWN.search(text)
    return own.start() if own else 0


def with_std(text: str) -> str:
    """A rendered text with what its own part names of ``std`` and ``cuda::std`` defined before that part."""
    at = own_at(text)
    if _library() in text or not _USES.search(_COMMENTS.sub(" ", text[at:])):
        return text
    headers = dict.fromkeys(_INCLUDE.findall(text))
    headers |= dict.fromkeys(f"cuda/std/__algorithm/{name}.h" for name in _OF_ALGORITHM.findall(text[at:]))
    asks = re.search(r"\bcuda\s*::\s*std\b", text[at:])
    of_cuda = [_CUDA_STD.format("\n".join(map(_IF_THERE.format, headers)))] if asks else []
    return "\n".join([text[:at], _library(), *of_cuda, _INCLUDE.sub("", text[at:])])


def completed(text: str) -> str:
    """A user's template, rendered, with what it names of the C and C++ libraries in place of their headers."""
    at = own_at(text)
    body = _OF_LIBRARIES.sub("", text[at:])
    defined = definitions(body)
    return with_std(
        "\n".join([text[:at] + '#line 1 "prelude/plain"', *defined, body] if defined else [text[:at] + body])
    )
