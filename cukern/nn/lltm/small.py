"""Kernels for small LLTM steps, dominated by launches: one launch forward, one for the parameters' gradients."""

from __future__ import annotations

from collections.abc import Sequence

from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...device.interface import Prepared
from ...kernel import Kernel
from ...kernel.sizes import divide_up

#: Rows of a batch per warp, which share the weights that it reads.
ROWS = 4
#: Threads per block.
BLOCK = 128
FORWARD = Kernel("nn/lltm/small_forward.cu", name="lltm_small_forward", block=BLOCK, rows=ROWS)
#: The most rows of a batch; with more, the library's products are faster than these kernels.
MOST = 32
#: The most weights, likewise.
WEIGHTS = 1 << 18
#: Units of the state per block in the gates' gradients, one per warp.
UNITS = 8
BACKWARD = Kernel("nn/lltm/small_backward.cu", name="lltm_small_backward", block=32 * UNITS, most=MOST)


def on_gpu(layout: Layout) -> bool:
    """Whether a layout is on a GPU; on the host fusing the loops gains nothing."""
    return not layout.on_host


def fits(layouts: Sequence[Layout]) -> bool:
    """Whether these kernels can run a step for arguments of these layouts."""
    _, weights, _, old_h, _ = layouts
    return (
        on_gpu(weights)
        and 0 < old_h.shape[0] <= MOST
        and 0 < weights.size <= WEIGHTS
        and all(one.contiguous for one in layouts)
    )


class Small:
    """The launches of a small step, for arguments of given layouts."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        inputs, weights, bias, old_h, _ = layouts
        self._device, self._dtype = inputs.device, inputs.dtype
        self._weights, self._bias = (
            fresh_layout(one.device, one.dtype, one.shape) for one in (weights, bias)
        )
        self._sizes = (*old_h.shape, inputs.shape[1])
        self._forward: dict[bool, Prepared] = {}
        self._backward: dict[tuple[bool, bool], Prepared] = {}

    def forward(self, arguments: Sequence[Array], new_h: Array, new_cell: Array, gates: int) -> None:
        """Write the new h, the new cell and, if their address is not null, the gates."""
        launch = self._forward.get(gates != 0)
        if launch is None:
            batch, state, _ = self._sizes
            bound = FORWARD.bind(self._device, elem=self._dtype, keep=gates != 0)
            grid = (state, divide_up(batch, ROWS * BLOCK // 32), 1)
            launch = bound.function.prepare(grid, (BLOCK, 1, 1), 0, self._sizes)
            self._forward[gates != 0] = launch
        inputs, weights, bias, old_h, old_cell = arguments
        launch(
            inputs._operand,
            weights._operand,
            bias._operand,
            old_h._operand,
            old_cell._operand,
            new_h._operand,
            new_cell._operand,
            gates,
        )

    def backward(
        self, arguments: Sequence[Array], new_cell: Array, gates: Array, h_d: Array, cell_d: Array
    ) -> tuple[Array, Array]:
        """The gradients of the weights and of the bias, from cotangents in C order or of one broadcast element."""
        key = (not any(h_d._planned().strides), not any(cell_d._planned().strides))
        launch = self._backward.get(key)
        if launch is None:
            _, state, features = self._sizes
            bound = BACKWARD.bind(self._device, elem=self._dtype, one_dh=key[0], one_dcell=key[1])
            grid = (divide_up(state, UNITS), divide_up(state + features, 32), 1)
            launch = bound.function.prepare(grid, (32 * UNITS, 1, 1), 0, self._sizes)
            self._backward[key] = launch
        weights_d, bias_d = Array._made(self._weights), Array._made(self._bias)
        read = (gates, new_cell, h_d, cell_d, arguments[3], arguments[0])
        launch(*[one._operand for one in read], weights_d._operand, bias_d._operand)
        return weights_d, bias_d
