"""A kernel compiled for one device, and its launches: checked once per form of arguments, then replayed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..array import Array
from ..array.deferred import about_to_write, traced_threads
from ..autodiff import tape, writes
from ..cache import Cache
from ..device import Device, bundles, capture_hooks
from ..device.interface import MISSING_HEADER, CompiledFunction, CompilerFailure, Properties
from ..errors import CompileError, LaunchError, TemplateError
from ..text import LEFT_OUT, Dim3, render, signature
from ..text.entry import unknown_macro
from ..text.syntax import unclosed
from . import arguments
from .repeat import Repeat, form_of
from .sizes import as_dim3
from .variables import State


class BoundKernel:
    """A kernel compiled for one device, with all template variables bound.

    Attributes:
        device: the device on which it runs.
        rendered: the text, and the variables from which it was rendered.
        signature: the parsed name and parameters.
        block: threads per block along x, y and z.
        function: the compiled function, which launches values without checking them.
    """

    def __init__(
        self,
        rendered: render.Rendered,
        device: Device,
        block: Dim3,
        checked: bool = False,
        state: State | None = None,
    ) -> None:
        unit = bundles.unit(rendered.text, render.is_own(rendered.template))
        if checked or rendered.plain:
            unit = replace(unit, checked=checked, plain=rendered.plain)
        self.device = device
        self.rendered = rendered
        self.signature = unit.signature
        self.block = block
        _check_block(block, device, self.signature)
        try:
            self.function: CompiledFunction = device.backend.compile(device.index, unit)
        except CompilerFailure as failure:
            raise compile_error(failure.log, rendered, device) from None
        _check_bounds(block, self.attributes, self.signature)
        self._state = state if self.function.variables else None
        if self._state is not None:
            self._state.compiled(device, self.function)
        self._repeats: Cache[Any, Repeat] = Cache()
        self._static_shared = int(self.function.attributes.get("shared_size_bytes", 0))
        self._converters = arguments.converters(unit.signature, device)
        self._maps = [i for i, p in enumerate(unit.signature.params) if arguments.is_tensor_map(p)]
        self._written = [i for i, p in enumerate(unit.signature.params) if not p.const and p.kind != "scalar"]

    @property
    def attributes(self) -> Mapping[str, int]:
        """CUDA's function attributes, as far as the device knows them."""
        return self.function.attributes

    def grid_for(self, args: Sequence[Any]) -> int:
        """The blocks with one thread for each element of the first written array, or of the first array.

        Raises:
            LaunchError: no argument is an array.
        """
        written = [args[i] for i in self._written if i < len(args) and isinstance(args[i], Array)]
        sized = written or [arg for arg in args if isinstance(arg, Array)]
        if not sized:
            raise LaunchError(f"{self.signature.name}: grid: expected a grid, as no argument is an array")
        return -(-int(sized[0].size) // math.prod(self.block))

    def __call__(self, args: Sequence[Any], grid: int | Sequence[int], shared: int = 0) -> None:
        """Launch on the current stream.

        Args:
            args: one argument per parameter: an Array (or None for a null pointer), a number, a TensorMap or ``bytes``.
            grid: blocks along x, y and z; with a 0 nothing is launched.
            shared: bytes of dynamic shared memory per block.

        Raises:
            LaunchError: an argument does not fit its parameter, or the launch does not fit the device.
            KernelFault: the kernel failed while it ran.
        """
        form = form_of(args, grid, shared)
        repeat = self._repeats.get(form)
        if repeat is None or not repeat(args):
            repeat = self.launch(args, grid, shared)
            if form is not None and repeat is not None:
                self._repeats.keep(form, repeat)

    def launch(self, args: Sequence[Any], grid: int | Sequence[int], shared: int = 0) -> Repeat | None:
        """Launch as a call does, with all checks; return the repeated launch for arguments of the same form."""
        if not self.device.is_current():
            with self.device.activate():
                return self.launch(args, grid, shared)
        name = self.signature.name
        if len(args) != len(self._converters):
            wanted = ", ".join(f"{p.type_text} {p.name}" for p in self.signature.params)
            raise LaunchError(
                f"{name}: expected {len(self._converters)} arguments ({wanted}), got {len(args)}"
            )
        if traced_threads:
            about_to_write(*self._into(args))
        values = [convert(arg) for convert, arg in zip(self._converters, args, strict=True)]
        if self._written or self._maps:
            arguments.check_overlap(self.signature, args, values, self._written, self.device)
        blocks = as_dim3(grid, "grid")
        if 0 in blocks:
            return None
        self._check_launch(blocks, shared)
        if capture_hooks.new_empty is not None:
            for array in arguments.arrays_in(args):
                empty = array._storage.empty
                if empty is not None and not array._storage.version and (whole := empty()) is not None:
                    capture_hooks.new_empty(whole, True)
        if self._state is not None:
            self._state.before(self.device, self.function, name)
        try:
            self.function(blocks, self.block, shared, values)
        finally:  # a kernel that fails may already have written
            self._bump(args)
            if self._state is not None:
                self._state.after(self.device, self.function)
        if self._state is not None or not arguments.plain(self.signature, args, values):
            return None
        if not any(isinstance(arg, Array) for arg in args):  # it runs on whichever device is current
            return None
        prepared = self.function.prepare(blocks, self.block, shared, ())
        return Repeat(self, prepared, self._converters, self._written, args)

    def _into(self, args: Sequence[Any]) -> list[Array]:
        """The arrays of a launch that it may write."""
        written = arguments.arrays_in([args[i] for i in self._written])
        if self._maps:
            written += [args[i].array for i in self._maps if args[i].writes]
        return written

    def _bump(self, args: Sequence[Any]) -> None:
        written = self._into(args)
        for array in written:
            array._bump(self.signature.name)
        if tape.active():
            self.tell_tapes(args, written)

    def tell_tapes(self, args: Sequence[Any], written: Sequence[Array]) -> None:
        """Tell the tapes of this thread of a launch that wrote to these arrays."""
        given = [(p.name, getattr(a, "array", a)) for p, a in zip(self.signature.params, args, strict=True)]
        arrays = [(name, one) for name, a in given for one in arguments.arrays_in([a])]
        writes.launched(self.signature.name, arrays, written)

    def _check_launch(self, grid: Dim3, shared: int) -> None:
        limits = self.device.properties
        for axis, size, limit in zip("xyz", grid, limits.max_grid, strict=True):
            if size > limit:
                longest = limits.max_grid[0]
                more = f", and {longest} along x" if longest > limit else ""
                raise LaunchError(
                    f"{self.signature.name}: grid.{axis} is {size}, and {_taker(limits)} takes {limit} at most{more}"
                )
        for axis, size, blocks in zip("xyz", grid, self.signature.cluster, strict=True):
            if size % blocks:
                raise LaunchError(
                    f"{self.signature.name}: grid.{axis} is {size}, which is no multiple of the {blocks} blocks of a "
                    "cluster along this axis"
                )
        if not isinstance(shared, int) or shared < 0:
            raise LaunchError(f"{self.signature.name}: shared: expected bytes, at least 0, got {shared!r}")
        if self._static_shared + shared > limits.max_shared_memory_per_block:
            raise LaunchError(
                f"{self.signature.name}: shared is {shared} bytes besides {self._static_shared} static ones, "
                f"and {_taker(limits)} has {limits.max_shared_memory_per_block} a block"
            )


def _taker(limits: Properties) -> str:
    """Whose the limits of launches are, in words."""
    return limits.name if any(limits.compute_capability) else "the host, with the limits of a GPU,"


def _check_block(block: Dim3, device: Device, parsed: signature.Signature) -> None:
    limits, name = device.properties, parsed.name
    threads = block[0] * block[1] * block[2]
    if threads > limits.max_threads_per_block or any(
        n > m for n, m in zip(block, limits.max_block, strict=True)
    ):
        raise LaunchError(
            f"{name}: block is {block}, {threads} threads; {_taker(limits)} takes "
            f"{limits.max_threads_per_block} at most, and {limits.max_block} along x, y and z"
        )
    if threads == 0:
        raise LaunchError(f"{name}: block is {block}; expected at least one thread")
    blocks = math.prod(parsed.cluster)
    if blocks > limits.max_blocks_per_cluster:
        raise LaunchError(
            f"{name}: its clusters have {blocks} blocks, and {_taker(limits)} takes "
            f"{limits.max_blocks_per_cluster} at most"
        )


def _check_bounds(block: Dim3, attributes: Mapping[str, int], parsed: signature.Signature) -> None:
    threads = block[0] * block[1] * block[2]
    bounds = (attributes.get("max_threads_per_block"), parsed.max_threads)
    allowed = min((n for n in bounds if n is not None), default=threads)
    if threads > allowed:
        raise LaunchError(
            f"{parsed.name}: block is {block}, {threads} threads; this kernel, by its __launch_bounds__ or "
            f"its registers, takes {allowed} at most"
        )


#: So many names in a compiler's messages are looked up, as messages of templates have hundreds.
_MOST_NAMES = 20


def compile_error(log: str, rendered: render.Rendered, target: object) -> CompileError:
    """The error for a text that does not compile, with the template's line of the first error."""
    parts = [f"{rendered.template} does not compile for {target}", log.strip()]
    spot = render.locate(log)
    if spot is not None:
        name, line = spot
        parts += [f"{name}, line {line}:", render.excerpt(render.source_of(name), line)]
    elif brace := unclosed(rendered.text):  # the compiler saw it in what follows the text
        parts.insert(1, brace)
    if missing := MISSING_HEADER.search(log):
        parts.append(
            f"{missing[1]} is not on this machine. CUDA's toolkit has it, and so have these packages: "
            "nvidia-cuda-runtime-cu12 CUDA's own headers, nvidia-cuda-cccl-cu12 those of <cuda/...>, cub and "
            "cooperative_groups, nvidia-cuda-nvcc-cu12 those of crt/ for <mma.h>, nvidia-curand-cu12 those of curand; "
            "the host needs none of them"
        )
    if rendered.plain:
        with suppress(TemplateError):
            text = render.source_of(rendered.template)
            names = list(dict.fromkeys(re.findall(r"[‘'\"](\w+)[’'\"]", log)))[:_MOST_NAMES]
            parts += list(filter(None, (unknown_macro(text, name) for name in names)))[:1]
        parts += [
            line.removeprefix("// ")
            for line in rendered.text.split("\n")
            if line.startswith(f"// {LEFT_OUT}")
        ]
    parts.append(f"bound variables: {render.describe(rendered.variables)}")
    return CompileError("\n".join(parts), log, rendered.text)
