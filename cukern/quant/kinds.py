"""The kinds of blocks, those of GGML: their sizes, and how their weights are stored.

Source: ``ggml-common.h`` and ``gguf.quants`` of https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import dtypes


class Kind(NamedTuple):
    """A kind of blocks.

    Attributes:
        name: as GGML writes it.
        weights: of a block.
        bytes: of a block.
        levels: of a weight, if the library quantises to it; else 0.
        shifted: whether a weight is a multiple of the scale plus a minimum.
        dtype: of its elements, if they are plain numbers and not blocks.
    """

    name: str
    weights: int
    bytes: int
    levels: int = 0
    shifted: bool = False
    dtype: dtypes.DType | None = None

    @property
    def header(self) -> str:
        """The name of the template in `templates/quant/kinds/` that decodes a block."""
        return self.name.lower()

    @property
    def scaled(self) -> int:
        """Weights that share a scale, as products take them."""
        return 16 if self.name in ("Q2_K", "Q3_K", "Q6_K") else 32

    @property
    def unit(self) -> int:
        """Weights that a thread reads at once, as the header says."""
        return 64 if self.weights == 256 else 32

    @property
    def slice(self) -> int:
        """Weights of a row that a warp takes at a time."""
        return 32 * 64

    def row_bytes(self, weights: int) -> int:
        """The bytes of a row of as many weights, a multiple of those of a block."""
        return weights // self.weights * self.bytes


_ROWS = (
    Kind("F32", 1, 4, dtype=dtypes.float32),
    Kind("F16", 1, 2, dtype=dtypes.float16),
    Kind("BF16", 1, 2, dtype=dtypes.bfloat16),
    Kind("Q4_0", 32, 18, 16),
    Kind("Q4_1", 32, 20, 16, shifted=True),
    Kind("Q5_0", 32, 22, 32),
    Kind("Q5_1", 32, 24, 32, shifted=True),
    Kind("Q8_0", 32, 34, 256),
    Kind("Q8_1", 32, 36),
    Kind("Q2_K", 256, 84, shifted=True),
    Kind("Q3_K", 256, 110),
    Kind("Q4_K", 256, 144, shifted=True),
    Kind("Q5_K", 256, 176, shifted=True),
    Kind("Q6_K", 256, 210),
    Kind("Q8_K", 256, 292),
)
#: All kinds by name. A new kind of blocks also takes a header.
KINDS = {row.name: row for row in _ROWS}


def kind_of(name: object, function: str) -> Kind:
    """The kind with a name.

    Raises:
        ValueError: there is none.
    """
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"{function}: kind: expected one of {', '.join(KINDS)}, got {name!r}")
    return kind
