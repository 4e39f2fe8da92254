"""The steps of recurrent layers along a sequence: one product and one kernel each, forward and backward.

What does not depend on the step before is one product over many steps: the gates by the inputs, of the first layer
computed by the caller, and the gradient of the weights. The launches of a step are prepared once; only their addresses
move. In a graph the layers of a stack run side by side: each is some steps behind the one below (a wavefront, as in
Appleyard and others, "Optimizing performance of recurrent neural networks on GPUs", 2016).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..autodiff import tape
from ..elementwise.fuse import fuse
from ..function import Function
from ..kernel.plan import new, on, zeroed
from ..launch.replayed import forked, replayed
from ..linear.blas import product
from ..shape.copy import write
from ..shape.known_views import items
from .fused import fused_vjp
from .linear import linear
from .recurrent_step import Form, Launches, Step

_fused: Callable[[Step], Callable[..., tuple[Array, ...]]] = functools.cache(fuse)


#: What is prepared for a form.
_launches = functools.lru_cache(maxsize=8192)(Launches)


class _Layer(NamedTuple):
    """What a layer is given.

    Attributes:
        weight_x: multiplies the outputs of the layer below, (gates * size, size); None for the lowest layer.
        bias_x: is added to that product, if there is a bias.
        weight, bias: of the state.
        starts: the arrays of the state at the start.
    """

    weight_x: Array | None
    bias_x: Array | None
    weight: Array
    bias: Array | None
    starts: tuple[Array, ...]

    @classmethod
    def grouped(cls, flat: Sequence[Any], states: int) -> list[_Layer]:
        """The layers of all their arrays in sequence."""
        count = len(cls._fields) - 1 + states
        groups = [flat[i : i + count] for i in range(0, len(flat), count)]
        return [cls(x, bias_x, w, bias, tuple(starts)) for x, bias_x, w, bias, *starts in groups]

    def flat(self) -> list[Array | None]:
        """All arrays in sequence."""
        return [*self[:-1], *self.starts]


#: The launches of some steps of a layer.
_Steps: TypeAlias = "Callable[[Sequence[int]], None]"


class _Sequence:
    """The steps of a layer in a call, on memory in C order, which tapes do not record."""

    def __init__(self, step: Step, backwards: bool, of_x: Array, layer: _Layer) -> None:
        count, batch, width = of_x.shape
        states, size = len(layer.starts), layer.weight.shape[1]
        self.form = Form(step, of_x.device, of_x.dtype, batch, width, size, states, layer.bias is not None)
        self.launches = _launches(self.form)
        self.count, self.of_x, self.layer = count, of_x, layer
        self.order = range(count)[:: -1 if backwards else 1]
        #: Where the state before and after step t is, among those of all steps and the start.
        self.before, self.after = (1, 0) if backwards else (0, 1)

    def empty(self, *shape: int) -> Array:
        """New memory of these sizes."""
        return new([fresh_layout(self.form.device, self.form.dtype, shape)])[0]

    def _split(self, x: Array) -> list[list[Any]]:
        """The gates in each item of an array, along its last axis, as launches take them."""
        size, width = self.form.size, self.form.width
        if x.device.addressable:
            return [[one[..., i : i + size] for i in range(0, width, size)] for one in x._data]
        step, end = size * x.itemsize, width * x.itemsize
        return [[*range(at, at + end, step)] for at in self._items(x)]

    @staticmethod
    def _items(x: Array) -> Sequence[Any]:
        """The items of an array along its first axis, as launches take them."""
        if x.device.addressable:
            return list(x._data)
        own = x._planned()
        return range(x._operand, x._operand + own.nbytes, own.nbytes // len(x))

    def _read(
        self, states: Sequence[Array], of_h: Array
    ) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """All that each step reads, and the state at each of the steps and at the start."""
        own = [*zip(*map(self._items, states), strict=True)]
        bias = [] if self.layer.bias is None else self._split(ops.expand_dims(self.layer.bias, 0))[0]
        of_x, gates = self._split(self.of_x), self._split(of_h)
        gates = gates if len(gates) == self.count else gates * self.count
        return [(*of_x[t], *gates[t], *bias, *own[t + self.before]) for t in range(self.count)], own

    def forward(self, keep: bool) -> tuple[list[Array], Array]:
        """Memory for the state before the first step and after all, and for the gates by it, of all steps to keep."""
        form = self.form
        states = [self.empty(self.count + 1, form.batch, form.size) for _ in self.layer.starts]
        for one, start in zip(states, self.layer.starts, strict=True):
            write(form.device, one._data[self.before * self.count], start._data)
        return states, self.empty(self.count if keep else 1, form.batch, form.width)

    def forward_steps(self, states: Sequence[Array], of_h: Array) -> _Steps:
        """The launches on this memory."""
        launches, rows, gates = self.launches, items(states[0]), items(of_h)
        read, own = self._read(states, of_h)

        def steps(times: Sequence[int]) -> None:
            for t in times:
                launches.product(rows[t + self.before], self.layer.weight, gates[t % len(gates)])
                launches.forward(*read[t], *own[t + self.after])

        return steps


class _Backward:
    """The derivative of a layer's steps, on memory in C order.

    Args:
        sequence: the steps.
        states, of_h: what :meth:`_Sequence.forward` gave.
        outputs_d, ends_d: the cotangents of its results.

    Attributes:
        of_x_d, of_h_d: the cotangents of the gates by the input and by the state.
    """

    def __init__(
        self,
        sequence: _Sequence,
        states: Sequence[Array],
        of_h: Array,
        outputs_d: Array,
        ends_d: Sequence[Array],
    ) -> None:
        self.sequence, self.states, self.of_h, self.outputs_d = sequence, states, of_h, outputs_d
        form, launches = sequence.form, sequence.launches
        shape = sequence.count, form.batch, form.width
        self.of_x_d = sequence.empty(*shape)
        self.of_h_d = self.of_x_d if launches.shared else sequence.empty(*shape)
        # The cotangents of the state: the first array's by the product, and what kernels read and write by turns.
        self._by_product = ops.expand_dims(ends_d[0], 0).copy()
        self._turns = [sequence.empty(2, form.batch, form.size) for _ in launches.direct]
        for i, one in zip(launches.direct, self._turns, strict=True):
            write(form.device, one._data[1], ends_d[i]._data if i else zeroed(ends_d[0]._planned())._data)

    def arrays(self) -> list[Array]:
        """What the launches read and write."""
        return [
            *self.states,
            self.of_h,
            self.outputs_d,
            self.of_x_d,
            self.of_h_d,
            self._by_product,
            *self._turns,
        ]

    def steps(self) -> _Steps:
        """The launches."""
        own, launches = self.sequence, self.sequence.launches
        (read, _), above = own._read(self.states, self.of_h), own._items(self.outputs_d)
        gates_d, written = items(self.of_h_d), own._split(self.of_x_d)
        if not launches.shared:
            written = [[*x, *h] for x, h in zip(written, own._split(self.of_h_d), strict=True)]
        (product,), (total,) = own._items(self._by_product), items(self._by_product)
        turns: list[Any] = [*zip(*map(own._items, self._turns), strict=True)] or [(), ()]

        def steps(times: Sequence[int]) -> None:
            for t in times:
                written_to, read_from = turns
                launches.backward(*read[t], above[t], product, *read_from, *written[t], *written_to)
                launches.back(gates_d[t], own.layer.weight, total)
                turns.reverse()

        return steps

    def starts_d(self) -> list[Array]:
        """The cotangents of the start, after all steps."""
        own = self.sequence
        last = {i: one[(own.count - 1) % 2] for i, one in zip(own.launches.direct, self._turns, strict=True)}
        (total,) = items(self._by_product)
        first = ops.add(total, last[0]) if 0 in last else total
        return [first, *(last[i] for i in range(1, own.form.states))]

    def gradients(self, below: Array | None, needs: Sequence[bool]) -> list[Array | None]:
        """The cotangents of all that the layer is given, from the outputs of the layer below."""
        own = self.sequence
        of_x_d, of_h_d = (ops.reshape(one, (-1, own.form.width)) for one in (self.of_x_d, self.of_h_d))
        before = self.states[0][own.before : own.count + own.before]

        def of_weight(rows: Array, factor: Array) -> Array:
            return ops.matmul(ops.permute_dims(rows, (1, 0)), ops.reshape(factor, (-1, factor.shape[-1])))

        return [
            of_weight(of_x_d, below) if needs[0] and below is not None else None,
            ops.sum(of_x_d, axis=0) if needs[1] else None,
            of_weight(of_h_d, before) if needs[2] else None,
            ops.sum(of_h_d, axis=0) if needs[3] else None,
            *self.starts_d(),
        ]


#: The steps that a layer is behind the one below: one part of so many of the sequence, but as many as this at least.
_PARTS, _FEWEST = 16, 8


class _Stack:
    """Layers along a sequence, each but the lowest on the outputs of the one below."""

    def __init__(self, step: Step, backwards: bool, of_x: Sequence[Array], layers: Sequence[_Layer]) -> None:
        self.device, self.count = of_x[0].device, len(of_x[0])
        self.sequences = [_Sequence(step, backwards, *one) for one in zip(of_x, layers, strict=True)]

    def _parts(self) -> list[Sequence[int]]:
        """The steps in their order, in parts that the layers run side by side."""
        order, single = self.sequences[0].order, len(self.sequences) == 1
        length = self.count if single else max(_FEWEST, -(-self.count // _PARTS))
        return [order[i : i + length] for i in range(0, self.count, length)]

    def _run(self, what: Any, launches: Callable[[], None], arrays: Sequence[Array]) -> None:
        """Make the launches of all steps, which read and write these arrays and those of the call alone."""
        given = [
            *arrays,
            *(x for one in self.sequences for x in (one.of_x, *one.layer[:-1]) if x is not None),
        ]
        addresses = [one._planned() and one._operand for one in given]
        forms = [(one.form, one.before) for one in self.sequences]
        replayed(self.device, (what, self.count, *forms, *addresses), launches)

    def forward(self, keep: bool) -> list[tuple[list[Array], Array]]:
        """What :meth:`_Sequence.forward` gives for each layer, after all steps."""
        found = [one.forward(keep) for one in self.sequences]

        def launches() -> None:
            steps = [one.forward_steps(*memory) for one, memory in zip(self.sequences, found, strict=True)]
            with forked(self.device, len(steps)) as branches:
                for times in self._parts():
                    for i, one in enumerate(self.sequences):
                        if i:
                            branches[i].follow(branches[i - 1])
                        with branches[i]:
                            if i:
                                outputs = found[i - 1][0][0][one.after :]
                                assert one.layer.weight_x is not None
                                transposed = ops.permute_dims(one.layer.weight_x, (1, 0))
                                _multiply(outputs, times, transposed, one.of_x, one.layer.bias_x is not None)
                            steps[i](times)

        arrays = [x for states, of_h in found for x in (*states, of_h)]
        self._run(f"forward {keep}", launches, arrays)
        return found

    def backward(
        self,
        found: Sequence[tuple[Sequence[Array], Array]],
        outputs_d: Array,
        ends_d: Sequence[Sequence[Array]],
    ) -> list[_Backward]:
        """The derivative of each layer, after all steps."""
        made: list[_Backward] = []
        for i, (one, memory) in enumerate(zip(self.sequences, found, strict=True)):
            highest = i == len(found) - 1
            above = outputs_d if highest else one.empty(self.count, one.form.batch, one.form.size)
            made.append(_Backward(one, *memory, above, ends_d[i]))

        def launches() -> None:
            steps = [one.steps() for one in made]
            with forked(self.device, len(made)) as branches:
                for times in reversed(self._parts()):
                    for k, i in enumerate(reversed(range(len(made)))):
                        if k:
                            branches[k].follow(branches[k - 1])
                        with branches[k]:
                            if k:
                                weight = self.sequences[i + 1].layer.weight_x
                                assert weight is not None
                                _multiply(made[i + 1].of_x_d, times, weight, made[i].outputs_d, False)
                            steps[i](times[::-1])

        self._run("backward", launches, [x for one in made for x in one.arrays()])
        return made


def _multiply(x: Array, times: Sequence[int], weight: Array, out: Array, plus: bool) -> None:
    """Write the products of some items of ``x`` and ``weight`` to those of ``out``, or add them to these."""
    some = slice(min(times), max(times) + 1)
    rows, to = (ops.reshape(one[some], (-1, one.shape[-1])) for one in (x, out))
    product(rows._planned(), weight._planned(), to._planned(), add=plus)(rows, weight, to)


def reference(
    step: Step, backwards: bool, of_x: Array, weight: Array, bias: Array | None, *state: Array
) -> tuple[Array, ...]:
    """A layer as a composition: for derivatives of higher order, and for tests."""
    transposed, gates = ops.permute_dims(weight, (1, 0)), weight.shape[0] // weight.shape[1]
    parts, outputs = ops.unstack(of_x), []
    for part in parts[::-1] if backwards else parts:
        of_h = ops.matmul(state[0], transposed)
        of_h = of_h if bias is None else ops.add(of_h, bias)
        state = _fused(step)(*(ops.split(one, gates, axis=-1) for one in (part, of_h)), list(state))
        outputs.append(state[0])
    return ops.stack(outputs[::-1] if backwards else outputs), *state


def _composed(
    step: Step, backwards: bool, states: int, of_x: Array, *flat: Array | None
) -> tuple[Array, ...]:
    """The outputs of the highest layer and the ends of all, one layer after the other."""
    outputs, ends = of_x, []
    for i, one in enumerate(_Layer.grouped(flat, states)):
        if i:
            assert one.weight_x is not None
            outputs = linear(outputs, one.weight_x, one.bias_x)
        outputs, *end = reference(step, backwards, outputs, one.weight, one.bias, *one.starts)
        ends += end
    return outputs, *ends


class _Recurrence(Function):
    _only_reads = True

    @staticmethod
    def forward(
        ctx: Any, step: Step, backwards: bool, states: int, of_x: Array, *flat: Array | None
    ) -> tuple[Array, ...]:
        keep = any(ctx.needs_input_grad)
        with on(of_x.device):
            layers = _Layer.grouped(flat, states)
            # The products with the outputs of the layer below are added to the bias.
            inner = [_filled(one.bias_x, of_x._planned()) for one in layers[1:]]
            stack = _Stack(step, backwards, [of_x, *inner], layers)
            found = stack.forward(keep)
        ctx.call = step, backwards, states
        if keep:
            memory = [x for own, of_h in found for x in (*own, of_h)]
            ctx.save_for_backward(of_x, *flat, *inner, *memory)
        # Views of the saved states that share their storage, so that writes to them are noticed.
        one = stack.sequences[-1]
        end = one.after * one.count
        outputs = found[-1][0][0][one.after : one.count + one.after]
        return outputs, *(x[end].copy() for own, _ in found for x in own)

    @staticmethod
    def backward(ctx: Any, outputs_d: Array, *ends_d: Array) -> tuple[Array | None, ...]:
        step, backwards, states = ctx.call
        count, each = len(ends_d) // states, len(_Layer._fields) - 1 + states
        of_x, *others = ctx.saved_arrays
        flat, others = others[: each * count], others[each * count :]
        inner, memory = others[: count - 1], others[count - 1 :]
        needs = ctx.needs_input_grad[3:]

        def kernels() -> list[Array | None]:
            with on(of_x.device), tape.stop_recording():
                layers = _Layer.grouped(flat, states)
                stack = _Stack(step, backwards, [of_x, *inner], layers)
                found = [
                    (memory[i : i + states], memory[i + states]) for i in range(0, len(memory), states + 1)
                ]
                ends = [one.contiguous() for one in ends_d]
                made = stack.backward(
                    found, _packed(outputs_d), [ends[i : i + states] for i in range(0, len(ends), states)]
                )
                result: list[Array | None] = [made[0].of_x_d]
                for i, one in enumerate(made):
                    own = one.sequence
                    below = found[i - 1][0][0][own.after : own.count + own.after] if i else None
                    result += one.gradients(below, needs[1 + i * each :])
            return result

        composed = functools.partial(_composed, step, backwards, states)
        return None, None, None, *fused_vjp(kernels, composed, [of_x, *flat], (outputs_d, *ends_d), needs)


def stacked(
    step: Step,
    backwards: bool,
    of_x: Array,
    layers: Sequence[tuple[Array | None, Array | None, Array, Array | None, Sequence[Array]]],
) -> tuple[Array, list[tuple[Array, ...]]]:
    """Run a step along a sequence, in layers of one size, each but the first on the outputs of the one before.

    Args:
        step: the elementwise function, one object for all calls.
        backwards: whether the last step is the first to run.
        of_x: the gates of the first layer by the inputs, (steps, batch, gates * size), at least one step.
        layers: for each the weight and the bias of its inputs, which the first one does not have; the weight of the
            state, shape (gates * size, size); its bias, (gates * size,), or None; and the arrays of the state at the
            start, each (batch, size).

    Returns:
        The first array of the state of the last layer after each step, (steps, batch, size), and all arrays of each
        layer after the last one.
    """
    states = len(layers[0][-1])
    given = [of_x, *(x for *own, starts in layers for x in (*own, *starts))]
    dtype = dtypes.result_type(*(x.dtype for x in given if x is not None))
    flat: list[Any] = [None if x is None else ops.astype(x, dtype, copy=False) for x in given]
    if of_x.size:
        flat = [None if x is None else _packed(x) for x in flat]
        outputs, *ends = _Recurrence.apply(step, backwards, states, *flat)
    else:
        outputs, *ends = _composed(step, backwards, states, *flat)
    return outputs, [tuple(ends[i : i + states]) for i in range(0, len(ends), states)]


def _filled(row: Array | None, own: Layout) -> Array:
    """New memory of a layout, with ``row`` in its rows if that is given."""
    return new([own])[0] if row is None else ops.broadcast_to(row, own.shape).copy()


def _packed(x: Array) -> Array:
    """``x`` in C order, at an address from which packs are read."""
    x = x.contiguous()
    return x if x._planned().aligned else x.copy()
