"""The launches of one step of a recurrent layer, which are prepared once for all steps."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import dtypes
from ..array.layout import ALIGNMENT, Layout, fresh_layout, layout
from ..device import Device
from ..elementwise.graph import Expr, Node, input_node, order, tracing
from ..elementwise.plan import make_plan
from ..elementwise.program import compact, cotangents_of
from ..linear.blas import Product

#: An elementwise function of a step: the gates by the input, the gates by the state, and the arrays of the state before
#: the step, the first of which is multiplied by the weights. It returns the arrays of the state after the step.
Step = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], tuple[Any, ...]]


class Form(NamedTuple):
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


class Launches:
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

    def __init__(self, form: Form) -> None:
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
        self.product = Product(state, weight, whole, transposed=(False, True))
        self.back = Product(whole, weight, state)


def _traced(form: Form, symbols: Sequence[Expr]) -> list[Node]:
    """What a step computes of symbols."""
    with tracing(form.step.__name__):
        return [one.node for one in form.after(symbols)]
