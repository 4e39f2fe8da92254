"""Localisation of wrong gradients: the argument, the elements, and the kernel's line that writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from .. import pytree
from ..array import Array
from ..array.array import Storage
from ..autodiff.tape import Tape
from ..kernel import Kernel
from ..kernel.kernel import Call
from ..kernel.sizes import as_dim3
from ..text import render
from ..text.line_directives import origin
from .shapes import index_of, is_real, on
from .stand_ins import Launch, launching

Values = npt.NDArray[np.float64]
#: The most elements of an argument that are perturbed one by one.
TRIED = 48


class Pulled(NamedTuple):
    """The results of one call, the gradients of their products with cotangents, and the lines that wrote these."""

    outputs: list[Values]
    gradients: list[Values]
    writers: list[str]


class Launches:
    """The launches of users' kernels: block sizes and tiles, and the last writer of each array."""

    def __init__(self) -> None:
        self.blocks: set[int] = set()
        # Weak, as memory that is kept to the end of a checked launch has to be written.
        self._writers: WeakKeyDictionary[Storage, str] = WeakKeyDictionary()
        self._launches: Launch = Call.launch

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record launches while the with-block runs."""
        with launching(self._launch) as self._launches:
            yield

    def _launch(self, call: Call) -> None:
        kernel, overrides = call.kernel, call.overrides
        block = as_dim3(overrides.get("block", kernel.block), "block")
        variables = {**kernel.variables, **overrides}
        self.blocks |= {block[0] * block[1] * block[2], *(size for size in block if size > 1)}
        self.blocks |= {
            value
            for name, value in variables.items()
            if "tile" in name and type(value) is int and value < 512
        }
        self._launches(call)
        for param, arg in zip(call.bound().signature.params, call.args, strict=False):
            if isinstance(arg, Array) and not param.const:
                self._writers[arg._storage] = writer_line(kernel, param.name)

    def writer(self, array: Array) -> str:
        """The last writer of an array, such as ``"dx of <softsign_backward>:5"``; empty if no kernel wrote it."""
        return self._writers.get(array._storage, "")


def writer_line(kernel: Kernel, param: str) -> str:
    """The first line of a kernel's text that writes to a parameter, such as ``"dx of <softsign_backward>:5"``."""
    text = render.source_of(kernel.template)
    word = re.escape(param)
    written = re.compile(
        rf"\b{word}\s*\[[^;]*\]\s*[-+*/]?=(?!=)|\b{word}\([^;]*\)\s*[-+*/]?=(?!=)|atomic\w+\(&?\s*{word}\b"
    )
    found = next((line for line in re.finditer(".+", text) if written.search(line[0])), None)
    if found is None:
        return f"{param} of {kernel.template}"
    line, _, name = origin(text, found.start()).removeprefix("line ").partition(" of ")
    return f"{param} of {name or kernel.template}:{line}"


def floats(values: Any) -> list[Array]:
    """The floating arrays among the leaves of a pytree, complex ones left out."""
    return [leaf for leaf in pytree.leaves(values) if is_real(leaf)]


def paths(args: Sequence[Any]) -> list[str]:
    """Where the floating arrays are among arguments."""
    return [leaf.path for leaf in pytree.leaves_with_path(list(args), "args") if is_real(leaf.value)]


def pull(
    function: Callable[..., Any],
    args: Sequence[Any],
    seed: int,
    launches: Launches | None = None,
    spread: Callable[[Array], Array] = lambda cotangent: cotangent,
    differentiable: bool = True,
) -> Pulled:
    """Call a function, and pull random cotangents, as ``spread`` lays them out, back to its floating arguments."""
    watch = Launches() if launches is None else launches
    inputs = floats(list(args))
    with watch.watching():
        if not differentiable:
            return Pulled([y.numpy().astype(np.float64) for y in floats(function(*args))], [], [])
        with Tape() as tape:
            tape.watch(inputs)
            outputs = floats(function(*args))
        weights = zip(cotangents(outputs, seed), outputs, strict=True)
        seeds = [spread(on(one, y.dtype, y.device)) for one, y in weights]
        gradients = tape.gradient(outputs, inputs, seeds, unconnected="zero")
    return Pulled(
        [y.numpy().astype(np.float64) for y in outputs],
        [gradient.numpy().astype(np.float64) for gradient in gradients],
        [watch.writer(gradient) for gradient in gradients],
    )


def cotangents(outputs: Sequence[Any], seed: int) -> list[Values]:
    """Random cotangents of some outputs, none near zero, which bfloat16 holds exactly."""
    rng = np.random.default_rng([seed, 7])
    return [rng.integers(4, 13, y.shape) / 8.0 * rng.choice([-1.0, 1.0], y.shape) for y in outputs]


def wrong_elements(
    function: Callable[..., Any], args: Sequence[Any], blocks: set[int], seed: int
) -> list[str]:
    """For each argument of float64 whose gradient is wrong, a sentence that names its elements and the line.

    Elements at both ends, near multiples of block sizes and at random are perturbed one by one.
    """
    pulled = pull(function, args, seed)
    weights = cotangents(pulled.outputs, seed)
    said = []
    for position, (name, gradient) in enumerate(zip(paths(args), pulled.gradients, strict=True)):
        tried = _tried(gradient.size, blocks, seed)
        numeric = {at: _slope(function, args, position, at, weights) for at in tried}
        scale = max(
            [abs(x) for x in numeric.values()] + [float(np.max(np.abs(gradient), initial=0))] + [1e-3]
        )
        wrong = [at for at in tried if not abs(gradient.flat[at] - numeric[at]) <= 1e-4 * scale]
        if wrong:
            first = wrong[0]
            index = index_of(first, gradient.shape)
            writer = f"; written by {pulled.writers[position]}" if pulled.writers[position] else ""
            said.append(
                f"{name}, element {index}: numeric {numeric[first]:.6g}, analytic {gradient.flat[first]:.6g}; "
                f"{len(wrong)} of {len(tried)} elements that were tried are wrong{writer}"
            )
    return said


def _tried(size: int, blocks: set[int], seed: int) -> list[int]:
    if size <= TRIED:
        return list(range(size))
    near = {0, 1, size - 1, size - 2}
    for block in sorted(blocks):
        near |= {at for at in (block - 1, block, block + 1, 2 * block) if at < size}
    rest = np.random.default_rng(seed).permutation(size)[: max(0, TRIED - len(near))]
    return sorted(near | {int(at) for at in rest})


def change(
    function: Callable[..., Any], args: Sequence[Any], position: int, move: Values, weights: list[Values]
) -> float:
    """The change of the weighted sum of all outputs from one end to the other of a move of a floating argument."""
    inputs = floats(list(args))
    array, sums = inputs[position], []
    for sign in (1, -1):
        moved = on(array.numpy().astype(np.float64) + sign * move, array.dtype, array.device)
        leaves = [moved if leaf is array else leaf for leaf in pytree.leaves(list(args))]
        outputs = floats(function(*pytree.replace(list(args), leaves)))
        terms = zip(weights, outputs, strict=True)
        sums.append(sum(float(np.sum(w * y.numpy().astype(np.float64))) for w, y in terms))
    return sums[0] - sums[1]


def _slope(
    function: Callable[..., Any], args: Sequence[Any], position: int, at: int, weights: list[Values]
) -> float:
    """The derivative of the weighted sum of all outputs by one element, by a central difference."""
    values = floats(list(args))[position].numpy()
    step = 1e-5 * max(1.0, abs(float(values.flat[at])))
    move = np.zeros(values.shape)
    move.flat[at] = step
    return change(function, args, position, move, weights) / (2 * step)
