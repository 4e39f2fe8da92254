"""Launches of a kernel with all but the leading arguments, which another text's kernel can make, too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..device.interface import Prepared
from ..errors import LaunchError
from ..text import Dim3

if TYPE_CHECKING:
    from .bound import BoundKernel


class BoundLaunch(NamedTuple):
    """A launch of a kernel, of which the leading arguments are still to be given.

    Attributes:
        bound: the kernel.
        grid: blocks along x, y and z.
        block: threads of a block, along x.
        tail: the last arguments, see :class:`..device.interface.CompiledFunction`.
        shared: bytes of dynamic shared memory per block.
        structs: the bytes of each struct among the leading arguments.
    """

    bound: BoundKernel
    grid: Dim3
    block: int
    tail: tuple[Any, ...] = ()
    shared: int = 0
    structs: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """That of the kernel."""
        return self.bound.rendered.text

    @property
    def form(self) -> tuple[Any, ...]:
        """What is equal for launches of one text that do the same with the same leading arguments."""
        return (self.text, *self[1:])

    def prepare(self) -> Prepared:
        """The launch, as a function of the leading arguments."""
        return self.bound.function.prepare(
            self.grid, (self.block, 1, 1), self.shared, self.tail, self.structs
        )

    def by(self, text: str, name: str) -> BoundLaunch:
        """The same launch of a kernel with another text and the same parameters.

        Args:
            text: CUDA C++: the text of this kernel, changed, or a program of its own.
            name: by which messages call the text.

        Raises:
            LaunchError: its kernel takes other parameters.
            TemplateError, CompileError: as :meth:`.Kernel.bind`.
        """
        from ..text import render, signature
        from ..text.line_directives import directive
        from .bound import BoundKernel
        from .kernel import Kernel

        device = self.bound.device
        if (
            text.split("\n")[1:2] == self.text.split("\n")[1:2]
        ):  # the prelude is there; lines are to be the user's
            own = re.sub(r"(?m)^#line .*$", "", text)
            label = render.add_source(own, name)
            bound = BoundKernel(
                render.Rendered(directive(label, 2) + own, label, {}), device, (self.block, 1, 1)
            )
        else:
            bound = Kernel(text, self.block, name, plain=True).bind(device)
        wanted, given = (signature.passed(one.rendered.text) for one in (self.bound, bound))
        if wanted != given:
            raise LaunchError(
                f"{name}: expected a kernel with the parameters of {self.bound.signature.name}, "
                f"({', '.join(wanted)}), got ({', '.join(given)})"
            )
        return self._replace(bound=bound)
