"""The plan of one LLTM step: its kernels and their geometry, chosen once per layouts of arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...device import Device
from ...device.interface import Prepared
from ...kernel import Kernel
from ...kernel.plan import Plan, serial
from ...kernel.sizes import divide_up, index_type
from ...linear.blas import Part, Product
from .small import Small, fits

FORWARD = Kernel("nn/lltm/forward.cu", name="lltm_forward")
BACKWARD = Kernel("nn/lltm/backward.cu", name="lltm_backward")
#: The same for elements that are moved together.
_PACKED = {
    FORWARD: Kernel("nn/lltm/forward_packs.cu", name="lltm_forward"),
    BACKWARD: Kernel("nn/lltm/backward_packs.cu", name="lltm_backward"),
}
#: Elements of a pack: 16 bytes from each of seven arrays are enough bytes in flight at half occupancy, which is what
#: the registers allow.
PACK = 4
#: The most threads per block.
BLOCK = 256


class Shape:
    """How threads share the elements of a step's state.

    Args:
        pack: elements moved together; by default as many as the device and ``aligned`` allow.
        aligned: whether the addresses of all arrays are multiples of 16 bytes.

    Attributes:
        items: elements per thread.
    """

    def __init__(
        self, device: Device, batch: int, state: int, aligned: bool, pack: int | None = None
    ) -> None:
        self.pack = pack or (1 if serial(device) else widest_pack(state, aligned))
        self.block, self.items = 1, state
        if not serial(device) or self.pack > 1:
            self.block = min(BLOCK, 32 * divide_up(max(state, 1), 32 * self.pack))
            self.items = self.pack
        self.grid = (batch, divide_up(state, max(1, self.block * self.items)), 1)
        self.index = index_type(3 * batch * state)


def widest_pack(state: int, aligned: bool) -> int:
    """Elements that may be moved together: with aligned arrays, as many as leave a warp enough work per row."""
    pack = math.gcd(PACK, state) if aligned else 1
    while pack > 1 and state < 32 * pack:
        pack //= 2
    return pack


def product_dtype(elem: dtypes.DType) -> dtypes.DType:
    """The dtype of products of ``elem``: the accumulator's, so that half types are rounded once."""
    return dtypes.info(elem).acc


def prepared(
    kernel: Kernel, device: Device, elem: dtypes.DType, state: int, shape: Shape, **variables: bool
) -> Prepared | None:
    """The prepared launch of a step's kernel, which takes the arrays' operands; None if there is nothing to do.

    Args:
        variables: template variables: ``keep``, or ``one_dh`` and ``one_dcell``.
    """
    if 0 in shape.grid:
        return None
    bound = (_PACKED[kernel] if shape.pack > 1 else kernel).bind(
        device,
        elem=elem,
        product=dtypes.info(product_dtype(elem)).cxx,
        index=shape.index,
        block=shape.block,
        pack=shape.pack,
        **variables,
    )
    return bound.function.prepare(shape.grid, (shape.block, 1, 1), 0, (state, shape.items))


class Step(Plan):
    """The launches of one step, forward and backward, for arguments of given layouts.

    Args:
        layouts: the layouts of the input, the weights, the bias, the old h and the old cell, of one floating dtype and
            one device; bias and cell in C order, the others as from :func:`cukern.linear.blas.readable`.

    The results are the new h and the new cell.
    """

    def __init__(self, layouts: Sequence[Layout]) -> None:
        inputs, weights, bias, old_h, old_cell = layouts
        batch, state = old_h.shape
        self._cell, self._gates = (
            fresh_layout(inputs.device, inputs.dtype, (batch, n * state)) for n in (1, 3)
        )
        super().__init__(inputs.device, (self._cell, self._cell))
        self.arguments, self.dtype, self.state = tuple(layouts), inputs.dtype, state
        self._shape = Shape(self.device, batch, state, bias.aligned and old_cell.aligned)
        product = product_dtype(self.dtype)
        self._sums = fresh_layout(self.device, product, (batch, 3 * state))
        self._inputs_d, self._weights_d, self._old_h_d = (
            fresh_layout(self.device, product, one.shape) for one in (inputs, weights, old_h)
        )
        of_state, of_input = slice(None, state), slice(state, None)
        gates, sums = Part(self._gates), Part(self._sums)
        self._from_input = Product(Part(inputs), _columns(weights, of_input, transposed=True), sums)
        self._from_state = Product(Part(old_h), _columns(weights, of_state, transposed=True), sums)
        self._to_input = Product(gates, _columns(weights, of_input), Part(self._inputs_d))
        self._to_state = Product(gates, _columns(weights, of_state), Part(self._old_h_d))
        transposed = Part(self._gates, lambda gates: gates.T)
        self._of_input = Product(transposed, Part(inputs), _columns(self._weights_d, of_input))
        self._of_state = Product(transposed, Part(old_h), _columns(self._weights_d, of_state))
        self._small = Small(layouts) if fits(layouts) else None
        self._null = self.device.backend.operand(None)
        self._forward: dict[bool, Prepared | None] = {}
        self._backward: dict[tuple[bool, bool, bool], Prepared | None] = {}

    def forward(self, arguments: Sequence[Array], keep: bool) -> tuple[Array, Array, Array | None]:
        """The new h, the new cell, and the gates if they are kept, for arguments of the plan's layouts."""
        if self.which is not None and self.which() != self.device.index:
            with self.device.activate():
                return self.forward(arguments, keep)
        inputs, weights, bias, old_h, old_cell = arguments
        new_h, new_cell = Array._made(self._cell), Array._made(self._cell)
        gates = Array._made(self._gates) if keep else None
        if self._small is not None:
            self._small.forward(arguments, new_h, new_cell, self._null if gates is None else gates._operand)
            return new_h, new_cell, gates
        from_input, from_state = Array._made(self._sums), Array._made(self._sums)
        self._from_input(inputs, weights, from_input)
        self._from_state(old_h, weights, from_state)
        if keep not in self._forward:
            bound = (FORWARD, self.device, self.dtype, self.state, self._shape)
            self._forward[keep] = prepared(*bound, keep=keep)
        launch = self._forward[keep]
        if launch is not None:
            arrays = (from_input, from_state, bias, old_cell, new_h, new_cell)
            launch(*[one._operand for one in arrays], self._null if gates is None else gates._operand)
        return new_h, new_cell, gates

    def backward(
        self,
        arguments: Sequence[Array],
        new_cell: Array,
        gates: Array,
        cotangents: Sequence[Array],
        needs: Sequence[bool],
    ) -> list[Array | None]:
        """The gradients of the arguments, as far as they are needed."""
        if self.which is not None and self.which() != self.device.index:
            with self.device.activate():
                return self.backward(arguments, new_cell, gates, cotangents, needs)
        inputs, weights, _, old_h, _ = arguments
        h_d, cell_d = map(_read_as_it_is, cotangents)
        if self._small is not None and not (needs[0] or needs[3] or needs[4]):
            gradients = self._small.backward(arguments, new_cell, gates, h_d, cell_d)
            return [None, gradients[0] if needs[1] else None, gradients[1] if needs[2] else None, None, None]
        gates_d, old_cell_d = self._gates_d(new_cell, gates, h_d, cell_d)
        inputs_d = weights_d = bias_d = old_h_d = None
        if needs[0]:
            inputs_d = Array._made(self._inputs_d)
            self._to_input(gates_d, weights, inputs_d)
        if needs[1]:
            weights_d = Array._made(self._weights_d)
            self._of_state(gates_d, old_h, weights_d)
            self._of_input(gates_d, inputs, weights_d)
        if needs[2]:
            bias_d = ops.sum(gates_d, axis=0)
        if needs[3]:
            old_h_d = Array._made(self._old_h_d)
            self._to_state(gates_d, weights, old_h_d)
        outputs = (inputs_d, weights_d, bias_d, old_h_d, old_cell_d)
        return [None if one is None else ops.astype(one, self.dtype, copy=False) for one in outputs]

    def _gates_d(self, new_cell: Array, gates: Array, h_d: Array, cell_d: Array) -> tuple[Array, Array]:
        """The cotangents of the gates and of the old cell."""
        gates_d, old_cell_d = Array._made(self._gates), Array._made(self._cell)
        layouts = (h_d._planned(), cell_d._planned())
        one_dh, one_dcell = (not any(layout.strides) for layout in layouts)
        aligned = all(layout.aligned for layout in layouts)
        key = (aligned, one_dh, one_dcell)
        if key not in self._backward:
            batch, state = self._cell.shape
            shape = self._shape if aligned else Shape(self.device, batch, state, aligned)
            bound = (BACKWARD, self.device, self.dtype, state, shape)
            self._backward[key] = prepared(*bound, one_dh=one_dh, one_dcell=one_dcell)
        launch = self._backward[key]
        if launch is not None:
            operands = [one._operand for one in (gates, new_cell, h_d, cell_d, gates_d, old_cell_d)]
            launch(*operands[:3], self._null, *operands[3:])
        return gates_d, old_cell_d


def _columns(whole: Layout, columns: slice, transposed: bool = False) -> Part:
    return Part(whole, lambda w: w[:, columns].T if transposed else w[:, columns])


def _read_as_it_is(cotangent: Array) -> Array:
    """A cotangent that the kernel can read: one broadcast element, as from a sum, or an array in C order."""
    layout = cotangent._planned()
    return cotangent if layout.contiguous or not any(layout.strides) else cotangent.contiguous()
