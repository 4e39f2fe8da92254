"""The linear layer with quantised weights."""

from __future__ import annotations

from ..array import Array
from ..elementwise.operands import require_array
from ..nn.module import Module, Parameter
from .array import QuantArray, require_weights
from .product import linear


class Linear(Module):
    """:func:`linear` with weights that are not trained; the bias is, if it is a :class:`cukern.nn.Parameter`.

    Args:
        weight: shape (outputs, inputs).
        bias: shape (outputs,); none is added when None.

    Attributes:
        blocks: the weights' bytes, a buffer, which a saved model has.

    Raises:
        TypeError: ``weight`` is no quantised array, or ``bias`` no array.
        ValueError: ``bias`` has another shape.

    >>> import cukern as ck
    >>> layer = ck.quant.Linear(ck.quant.quantize(ck.ones((3, 32)), "Q8_0"))
    >>> layer(ck.ones((2, 32))).shape
    (2, 3)
    """

    def __init__(self, weight: QuantArray, bias: Array | Parameter | None = None) -> None:
        weight = require_weights(weight, "Linear")
        if bias is not None:
            given = require_array(bias, "Linear", "bias")
            if given.shape != weight.shape[:1]:
                raise ValueError(f"Linear: bias: expected shape ({weight.shape[0]},), got {given.shape}")
        self.blocks = weight.blocks
        self.bias = bias
        self._kind, self._shape = weight._row, weight.shape

    @property
    def weight(self) -> QuantArray:
        """The weights."""
        return QuantArray._of(self.blocks, self._kind, self._shape)

    def forward(self, x: Array) -> Array:
        """The outputs (..., outputs) of ``x`` (..., inputs)."""
        return linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The kind and the shape of the weights."""
        return f"{self._kind.name}[{', '.join(map(str, self._shape))}]"


__all__ = ["Linear"]
