"""Quantised arrays: blocks of weights in memory, and what makes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.layout import address
from ..autodiff import tape
from ..device import Device
from ..elementwise.operands import on_device, require_array
from ..nn.fused import is_int
from .blocks import dequantized, quantized
from .kinds import Kind, kind_of

#: What the address of blocks is a multiple of: kernels read 16 bytes at a time.
_ALIGNMENT = 16


class QuantArray:
    """A constant array whose elements are stored in quantised blocks; made by :func:`quantize` and :func:`from_blocks`.

    A row, the elements along the last axis, consists of blocks that share a scale.

    Attributes:
        blocks: the bytes of the blocks, uint8: shape (*shape[:-1], bytes of a row). They must not be written to.
        kind: the name of the kind of blocks, such as ``"Q4_K"``.
        shape: the shape of the array of weights.

    >>> import cukern as ck
    >>> w = ck.quant.quantize(ck.ones((2, 32)), "Q8_0")
    >>> w
    QuantArray(Q8_0[2, 32], 68 bytes, host)
    >>> w.dequantize().shape, w.blocks.dtype.name
    ((2, 32), 'uint8')
    """

    __slots__ = ("_row", "blocks", "kind", "shape")

    blocks: Array
    kind: str
    shape: tuple[int, ...]
    _row: Kind

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise TypeError("a QuantArray is made by cukern.quant.quantize or cukern.quant.from_blocks")

    @classmethod
    def _of(cls, blocks: Array, row: Kind, shape: tuple[int, ...]) -> QuantArray:
        result = object.__new__(cls)
        result.blocks, result._row, result.kind, result.shape = blocks, row, row.name, shape
        return result

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of weights."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the blocks."""
        return self.blocks.nbytes

    @property
    def device(self) -> Device:
        """Where the blocks are."""
        return self.blocks.device

    def dequantize(self, dtype: npt.DTypeLike | None = None) -> Array:
        """The weights as an array; in float32 the same bits as those of ``gguf.quants.dequantize``.

        Args:
            dtype: a floating dtype, to which each weight is rounded; float32 when None.

        Raises:
            TypeError: ``dtype`` is not a real floating dtype.

        >>> import cukern as ck
        >>> ck.quant.quantize(ck.ones((2, 32)), "Q4_0").dequantize("bfloat16")[0, :2].tolist()
        [1.0, 1.0]
        """
        wanted = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)
        if wanted not in dtypes.FLOATS:
            raise TypeError(f"dequantize: dtype: expected a real floating dtype, got {wanted}")
        return self._dense(wanted, copy=True)

    def _dense(self, dtype: dtypes.DType, copy: bool = False) -> Array:
        """The weights, which share the blocks' memory where they are plain numbers of ``dtype``, unless ``copy``."""
        if self._row.dtype is None:
            return dequantized(self._rows(), self._row, self.shape, dtype)
        with tape.stop_recording():
            return ops.astype(self._numbers(), dtype, copy=copy)

    def _numbers(self) -> Array:
        """Elements that are plain numbers, a view of the blocks."""
        assert self._row.dtype is not None
        return Array._wrap(self.blocks._data.view(self._row.dtype), self.device)

    def _rows(self) -> Array:
        """The blocks as a matrix."""
        return Array._wrap(
            self.blocks._data.reshape(math.prod(self.shape[:-1]), self.blocks.shape[-1]), self.device
        )

    def to_device(self, device: Device | str, /) -> QuantArray:
        """This array on ``device``: itself if it is there already, else a copy."""
        if Device(device) is self.device:
            return self
        return self._of(self.blocks.to_device(device), self._row, self.shape)

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f"QuantArray({self.kind}[{sizes}], {self.nbytes} bytes, {self.device})"


def _shape_of(name: str, shape: Any, row: Kind) -> tuple[int, ...]:
    """A shape whose last axis consists of blocks.

    Raises:
        ValueError: it is none.
    """
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not sizes or not all(is_int(n) and n >= 0 for n in sizes):
        raise ValueError(f"{name}: shape: expected one size or more, ints of at least 0, got {shape!r}")
    if sizes[-1] % row.weights:
        raise ValueError(
            f"{name}: the last axis of {row.name} consists of blocks of {row.weights} weights, got shape {sizes}"
        )
    return tuple(map(int, sizes))


@on_device
def _settled(blocks: Array, shape: tuple[int, ...]) -> Array:
    """The blocks, contiguous and aligned, in a shape."""
    data = blocks.contiguous()._data
    if address(data) % _ALIGNMENT:
        data = data.copy()
        if address(data) % _ALIGNMENT:  # NumPy promises less
            whole = np.empty(data.nbytes + _ALIGNMENT, np.uint8)
            first = -address(whole) % _ALIGNMENT
            kept = whole[first : first + data.nbytes].reshape(data.shape)
            kept[...] = data
            data = kept
    return Array._wrap(data.reshape(shape), blocks.device)


def from_blocks(
    blocks: Any, shape: int | Sequence[int], kind: str, device: Device | str | None = None
) -> QuantArray:
    """The array whose weights are stored in blocks of bytes, as GGUF files have them.

    Args:
        blocks: the bytes: an array of uint8 of any shape, or ``bytes``, a ``bytearray`` or a ``memoryview``. An
            aligned array on the same device is shared, not copied.
        shape: of the array of weights; the blocks of its last axis lie behind one another.
        kind: ``"F32"``, ``"F16"``, ``"BF16"``, ``"Q4_0"``, ``"Q4_1"``, ``"Q5_0"``, ``"Q5_1"``, ``"Q8_0"``,
            ``"Q8_1"``, ``"Q2_K"``, ``"Q3_K"``, ``"Q4_K"``, ``"Q5_K"``, ``"Q6_K"`` or ``"Q8_K"``.
        device: where the blocks go; by default where they are, or the current device.

    Raises:
        TypeError: ``blocks`` are no bytes.
        ValueError: there is no such kind, the last axis is no multiple of a block, or there are more or fewer bytes.

    >>> import cukern as ck
    >>> w = ck.quant.from_blocks(bytes([0, 60, *range(32)]), (1, 32), "Q8_0")
    >>> w.dequantize()[0, :4].tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    row = kind_of(kind, "from_blocks")
    sizes = _shape_of("from_blocks", shape, row)
    if isinstance(blocks, (bytes, bytearray, memoryview)):
        blocks = np.frombuffer(blocks, np.uint8)
    given = require_array(blocks, "from_blocks", "blocks")
    if given.dtype != dtypes.uint8:
        raise TypeError(f"from_blocks: blocks: expected bytes or an array of uint8, got {given.dtype}")
    wanted = (*sizes[:-1], row.row_bytes(sizes[-1]))
    if given.size != math.prod(wanted):
        raise ValueError(
            f"from_blocks: blocks: expected {math.prod(wanted)} bytes for shape {sizes} of {row.name}, "
            f"got {given.size}"
        )
    if device is not None:
        given = given.to_device(device)
    return QuantArray._of(_settled(given, wanted), row, sizes)


def quantize(x: Any, kind: str) -> QuantArray:
    """``x`` in quantised blocks, the same bytes as those of ``gguf.quants.quantize``.

    Args:
        x: shape (..., n), a floating dtype; n is a multiple of 32, the weights of a block. It is rounded to float32
            first. Blocks with NaN or infinity are undefined.
        kind: ``"Q4_0"``, ``"Q4_1"``, ``"Q5_0"``, ``"Q5_1"`` or ``"Q8_0"``; or ``"F32"``, ``"F16"`` or ``"BF16"`` for
            plain numbers.

    Raises:
        TypeError: ``x`` is not a real floating array.
        ValueError: there is no such kind, none that the library quantises to, or ``x`` has no axis of whole blocks.

    >>> import cukern as ck
    >>> ck.quant.quantize(ck.linspace(-1, 1, 64), "Q5_1")
    QuantArray(Q5_1[64], 48 bytes, host)
    """
    row = kind_of(kind, "quantize")
    if not row.levels and row.dtype is None:
        raise ValueError(
            f"quantize: kind: {row.name} can be read, but not made: "
            "write Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, F32, F16 or BF16"
        )
    x = require_array(x, "quantize")
    if x.dtype not in dtypes.FLOATS:
        raise TypeError(f"quantize: x: expected a real floating array, got {x.dtype}")
    if not x.ndim:
        raise ValueError("quantize: x: expected at least one axis, got shape ()")
    sizes = _shape_of("quantize", x.shape, row)
    wanted = (*sizes[:-1], row.row_bytes(sizes[-1]))
    with tape.stop_recording():
        if row.dtype is not None:
            plain = ops.astype(x, row.dtype).contiguous()
            return QuantArray._of(_settled(_bytes(plain), wanted), row, sizes)
        result = quantized(ops.astype(x, dtypes.float32, copy=False).contiguous(), row)
    return QuantArray._of(_settled(result, wanted), row, sizes)


def _bytes(x: Array) -> Array:
    return Array._wrap(x._data.reshape(-1).view(dtypes.uint8), x.device)


def require_weights(w: object, name: str) -> QuantArray:
    """``w``, which has to be a quantised array of two axes.

    Raises:
        TypeError: it is another object.
        ValueError: it has other axes.
    """
    if not isinstance(w, QuantArray):
        raise TypeError(f"{name}: w: expected a QuantArray, got {type(w).__name__}")
    if w.ndim != 2:
        raise ValueError(f"{name}: w: expected two axes, got shape {w.shape}")
    return w
