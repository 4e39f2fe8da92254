"""The steps of a recurrent layer along a sequence: one product and one kernel each, forward and backward.

What does not depend on the step before is one product over all steps: the gates by the inputs, which the caller
computes, and the gradient of the weights. The launches of a step are prepared once; only their addresses move.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.layout import ALIGNMENT, Layout, fresh_layout, layout
from ..autodiff import tape
from ..cache import Cache
from ..device import Device
from ..elementwise.fuse import fuse
from ..elementwise.graph import Expr, Node, input_node, order, tracing
from ..elementwise.plan import make_plan
from ..elementwise.program import compact, cotangents_of
from ..function import Function
from ..kernel.plan import new, on, zeroed
from ..launch.replayed import replayed
from ..linear.blas import Part, Product
from ..shape.copy import write
from ..shape.known_views import items
from .fused import fused_vjp

#: An elementwise function of a step: the gates by the input, the gates by the state, and the arrays of the state before
#: the step, the first of which is multiplied by the weights. It returns the arrays of the state after the step.
Step = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], tuple[Any, ...]]

_fused: Callable[[Step], Callable[..., tuple[Array, ...]]] = functools.cache(fuse)


class _Form(NamedTuple):
    """What the launches of a step depend on.

    Attributes:
        batch, width, size: the rows of the arrays, the columns of all gates, and those of an array of the state.
        states: the number of arrays of the state.
        biased: whether the gates by the state have a bias.
    """

    step: Step
    device: Device
    dtype: dtypes.DType
    batch: int
    width: int
    size: int
    states: int
    biased: bool

    @property
    def gates(self) -> int:
        """The number of gates."""
        return self.width // self.size

    @property
    def parts(self) -> int:
        """What a step reads besides the state: the gates by the input, those by the state, and the bias of these."""
        return self.gates * (2 + self.biased)

    def after(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The state after a step, from all that it reads."""
        n = self.gates
        of_h = values[n : 2 * n]
        if self.biased:
            of_h = [one + bias for one, bias in zip(of_h, values[2 * n : 3 * n], strict=True)]
        return self.step(values[:n], of_h, values[self.parts :])


class _Kernel:
    """The launch of a program on operands in memory of given layouts.

    Args:
        name: the kernel's.
        roots: what it computes from inputs.
        inputs: their layouts; it reads those on which the roots depend.
        outs: the layouts of the results.
    """

    def __init__(
        self, name: str, roots: Sequence[Node], inputs: Sequence[Layout], outs: Sequence[Layout]
    ) -> None:
        device = inputs[0].device
        program, used, _ = compact(name, roots)
        self._chosen = operator.itemgetter(*used, *range(len(inputs), len(inputs) + len(outs)))
        self._launch = make_plan(program, device, [inputs[k] for k in used], outs).launch
        self._operand = device.backend.operand if device.addressable else None

    def __call__(self, *values: Any) -> None:
        """Launch for inputs and results: addresses on a GPU, ndarrays on the host."""
        chosen = self._chosen(values)
        assert self._launch is not None
        self._launch(*(chosen if self._operand is None else map(self._operand, chosen)))


class _Launches:
    """The launches of a step.

    Attributes:
        forward: the kernel, from all that a step reads to the state after it.
        direct: the arrays of the state that it reads, besides the product with the first of them.
        backward: its derivative. After what the step reads come the cotangents of the output, of the first array by the
            product of the step after, and of the arrays that are ``direct``. It writes the cotangents of the gates by
            the input, of those by the state unless they are ``shared``, and of the arrays that are ``direct``.
        shared: whether the gates by the input and by the state have the same cotangents.
        product: the gates by the state; ``back`` multiplies the cotangents of these by the weights.
    """

    def __init__(self, form: _Form) -> None:
        device, dtype, batch, gates = form.device, form.dtype, form.batch, form.gates
        wide, narrow, item = (n * dtype.itemsize for n in (form.width, form.size, 1))
        shape, aligned = (batch, form.size), narrow % ALIGNMENT == 0
        gate, state = (layout(device, dtype, shape, (step, item), aligned) for step in (wide, narrow))
        bias = layout(device, dtype, shape[1:], (item,), aligned)
        inputs = [*[gate] * 2 * gates, *[bias] * (form.parts - 2 * gates), *[state] * form.states]
        nodes = [input_node(i, dtype) for i in range(len(inputs) + 2 + form.states)]
        outputs = _traced(form, [Expr(node, shape) for node in nodes[: len(inputs)]])
        name = form.step.__name__.strip("_")
        self.forward = _Kernel(name, outputs, inputs, [state] * form.states)

        of_state, read = nodes[form.parts : len(inputs)], set(order(outputs))
        self.direct = [i for i, node in enumerate(of_state) if node in read]
        states = [state] * len(self.direct)
        output, by_product, *carried = map(Expr, nodes[len(inputs) : len(inputs) + 2 + len(states)])
        terms: list[list[Expr]] = [[output, by_product], *[[] for _ in of_state[1:]]]
        for i, one in zip(self.direct, carried, strict=True):
            terms[i].append(one)
        seeds = [functools.reduce(operator.add, one).node for one in terms]
        wanted = nodes[: 2 * gates] + [of_state[i] for i in self.direct]
        found = cotangents_of(outputs, seeds, wanted)
        self.shared = found[:gates] == found[gates : 2 * gates]
        roots = found[gates:] if self.shared else found
        results = [*[gate] * (len(roots) - len(states)), *states]
        self.backward = _Kernel(f"{name}_vjp", roots, [*inputs, state, state, *states], results)

        whole = fresh_layout(device, dtype, (batch, form.width))
        weight = fresh_layout(device, dtype, (form.width, form.size))
        self.product = Product(Part(state), Part(weight, operator.attrgetter("T")), Part(whole))
        self.back = Product(Part(whole), Part(weight), Part(state))


def _traced(form: _Form, symbols: Sequence[Expr]) -> list[Node]:
    """What a step computes of symbols."""
    with tracing(form.step.__name__):
        return [one.node for one in form.after(symbols)]


_launches: Cache[_Form, _Launches] = Cache()


class _Sequence:
    """The steps of a call, on memory in C order, which tapes do not record."""

    def __init__(
        self,
        step: Step,
        backwards: bool,
        of_x: Array,
        weight: Array,
        bias: Array | None,
        states: int,
    ) -> None:
        count, batch, width = of_x.shape
        self.form = _Form(
            step, of_x.device, of_x.dtype, batch, width, weight.shape[1], states, bias is not None
        )
        self.launches = _launches.get(self.form) or _launches.keep(self.form, _Launches(self.form))
        self.count, self.of_x, self.weight, self.bias = count, of_x, weight, bias
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

    def _run(self, what: str, launches: Callable[[], None], *arrays: Array) -> None:
        """Make the launches of all steps, which read and write these arrays and those of the call alone."""
        given = [one for one in (self.of_x, self.weight, self.bias, *arrays) if one is not None]
        addresses = [one._planned() and one._operand for one in given]
        replayed(self.form.device, (what, self.form, self.count, self.before, *addresses), launches)

    def _read(
        self, states: Sequence[Array], of_h: Array
    ) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """All that each step reads, and the state at each of the steps and at the start."""
        own = [*zip(*map(self._items, states), strict=True)]
        bias = [] if self.bias is None else self._split(ops.expand_dims(self.bias, 0))[0]
        of_x, gates = self._split(self.of_x), self._split(of_h)
        gates = gates if len(gates) == self.count else gates * self.count
        return [(*of_x[t], *gates[t], *bias, *own[t + self.before]) for t in range(self.count)], own

    def forward(self, starts: Sequence[Array], keep: bool) -> tuple[list[Array], Array]:
        """The state before the first step and after all steps, and the gates by the state, of all steps to keep."""
        form, launches = self.form, self.launches
        states = [self.empty(self.count + 1, form.batch, form.size) for _ in starts]
        of_h = self.empty(self.count if keep else 1, form.batch, form.width)
        for one, start in zip(states, starts, strict=True):
            write(form.device, one._data[self.before * self.count], start._data)

        def steps() -> None:
            rows, gates = items(states[0]), items(of_h)
            read, own = self._read(states, of_h)
            for t in self.order:
                launches.product(rows[t + self.before], self.weight, gates[t % len(gates)])
                launches.forward(*read[t], *own[t + self.after])

        self._run(f"forward {keep}", steps, *states, of_h)
        return states, of_h

    def backward(
        self, states: Sequence[Array], of_h: Array, outputs_d: Array, ends_d: Sequence[Array]
    ) -> tuple[Array, Array, list[Array]]:
        """The cotangents of the gates by the inputs and by the state, and of the start, from those of the results."""
        form, launches = self.form, self.launches
        shape = self.count, form.batch, form.width
        of_x_d = self.empty(*shape)
        of_h_d = of_x_d if launches.shared else self.empty(*shape)
        # The cotangents of the state: the first array's by the product, and what kernels read and write by turns.
        by_product = ops.expand_dims(ends_d[0], 0).copy()
        turns = [self.empty(2, form.batch, form.size) for _ in launches.direct]
        for i, one in zip(launches.direct, turns, strict=True):
            write(form.device, one._data[1], ends_d[i]._data if i else zeroed(ends_d[0]._planned())._data)
        (total,) = items(by_product)

        def steps() -> None:
            (read, _), above, gates_d = self._read(states, of_h), self._items(outputs_d), items(of_h_d)
            written = self._split(of_x_d)
            if not launches.shared:
                written = [[*x, *h] for x, h in zip(written, self._split(of_h_d), strict=True)]
            (product,) = self._items(by_product)
            written_to, read_from = zip(*map(self._items, turns), strict=True) if turns else ((), ())
            for t in reversed(self.order):
                launches.backward(*read[t], above[t], product, *read_from, *written[t], *written_to)
                launches.back(gates_d[t], self.weight, total)
                read_from, written_to = written_to, read_from

        self._run("backward", steps, *states, of_h, outputs_d, of_x_d, of_h_d, by_product, *turns)
        last = {i: one[(self.count - 1) % 2] for i, one in zip(launches.direct, turns, strict=True)}
        starts_d = [ops.add(total, last[0]) if 0 in last else total]
        return of_x_d, of_h_d, starts_d + [last[i] for i in range(1, form.states)]


def reference(
    step: Step, backwards: bool, of_x: Array, weight: Array, bias: Array | None, *state: Array
) -> tuple[Array, ...]:
    """:func:`recurrence` as a composition: for derivatives of higher order, and for tests."""
    transposed, gates = ops.permute_dims(weight, (1, 0)), weight.shape[0] // weight.shape[1]
    parts, outputs = ops.unstack(of_x), []
    for part in parts[::-1] if backwards else parts:
        of_h = ops.matmul(state[0], transposed)
        of_h = of_h if bias is None else ops.add(of_h, bias)
        state = _fused(step)(*(ops.split(one, gates, axis=-1) for one in (part, of_h)), list(state))
        outputs.append(state[0])
    return ops.stack(outputs[::-1] if backwards else outputs), *state


class _Recurrence(Function):
    _only_reads = True

    @staticmethod
    def forward(
        ctx: Any, step: Step, backwards: bool, of_x: Array, weight: Array, bias: Array | None, *starts: Array
    ) -> tuple[Array, ...]:
        keep = any(ctx.needs_input_grad)
        with on(of_x.device):
            sequence = _Sequence(step, backwards, of_x, weight, bias, len(starts))
            states, of_h = sequence.forward(starts, keep)
        ctx.call = step, backwards
        if keep:
            ctx.save_for_backward(of_x, weight, bias, *starts, *states, of_h)
        # Views of the saved states that share their storage, so that writes to them are noticed.
        end = sequence.after * sequence.count
        outputs = states[0][sequence.after : sequence.count + sequence.after]
        return outputs, *(one[end].copy() for one in states)

    @staticmethod
    def backward(ctx: Any, outputs_d: Array, *ends_d: Array) -> tuple[Array | None, ...]:
        step, backwards = ctx.call
        count = len(ends_d)
        of_x, weight, bias, *others, of_h = ctx.saved_arrays
        starts, states = others[:count], others[count:]
        needs = ctx.needs_input_grad[2:]

        def kernels() -> list[Array | None]:
            with on(of_x.device), tape.stop_recording():
                sequence = _Sequence(step, backwards, of_x, weight, bias, count)
                ends = [one.contiguous() for one in ends_d]
                found = sequence.backward(states, of_h, _packed(outputs_d), ends)
                of_x_d, of_h_d, starts_d = found
                rows = ops.reshape(of_h_d, (-1, sequence.form.width))
                before = states[0][sequence.before : sequence.count + sequence.before]
                before = ops.reshape(before, (-1, sequence.form.size))
                weight_d = ops.matmul(ops.permute_dims(rows, (1, 0)), before) if needs[1] else None
                bias_d = ops.sum(rows, axis=0) if needs[2] else None
            return [of_x_d, weight_d, bias_d, *starts_d]

        composed = functools.partial(reference, step, backwards)
        primals = [of_x, weight, bias, *starts]
        return None, None, *fused_vjp(kernels, composed, primals, (outputs_d, *ends_d), needs)


def recurrence(
    step: Step, backwards: bool, of_x: Array, weight: Array, bias: Array | None, starts: Sequence[Array]
) -> tuple[Array, tuple[Array, ...]]:
    """Run a step along a sequence.

    Args:
        step: the elementwise function, one object for all calls.
        backwards: whether the last step is the first to run.
        of_x: the gates by the inputs, (steps, batch, gates * size), at least one step.
        weight: shape (gates * size, size).
        bias: is added to the gates by the state, (gates * size,), if it is given.
        starts: the arrays of the state at the start, each (batch, size).

    Returns:
        The first array of the state after each step, (steps, batch, size), and all arrays after the last one.
    """
    given = [of_x, weight, *([] if bias is None else [bias]), *starts]
    dtype = dtypes.result_type(*(one.dtype for one in given))
    of_x, weight, *others = (ops.astype(one, dtype, copy=False) for one in given)
    if not of_x.size:
        outputs, *ends = reference(step, backwards, of_x, weight, bias, *starts)
        return outputs, tuple(ends)
    bias = None if bias is None else _packed(others.pop(0))
    of_x, weight, *starts = (_packed(one) for one in (of_x, weight, *others))
    outputs, *ends = _Recurrence.apply(step, backwards, of_x, weight, bias, *starts)
    return outputs, tuple(ends)


def _packed(x: Array) -> Array:
    """``x`` in C order, at an address from which packs are read."""
    x = x.contiguous()
    return x if x._planned().aligned else x.copy()
