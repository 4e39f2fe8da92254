"""Mutation testing of kernels: how many small wrong versions of a text do its tests notice?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..device import Device
from ..errors import CompileError
from ..kernel import Kernel
from ..text import render
from ..text.line_directives import held_lines, lines_of
from ..text.needed import needed
from ..text.std_names import own_at
from .checked import checked
from .mutations import Mutation, mutations


@dataclass(frozen=True)
class MutationResult:
    """The outcome for each wrong version.

    Attributes:
        kernel: the kernel's name.
        source: its text.
        noticed: the changes that the check noticed.
        survivors: those that it did not.
        equivalent: survivors that the caller knows to make no difference.
        invalid: changes that do not compile, which count nowhere.
    """

    kernel: str
    source: str = field(repr=False)
    noticed: list[Mutation] = field(default_factory=list)
    survivors: list[Mutation] = field(default_factory=list)
    equivalent: list[Mutation] = field(default_factory=list)
    invalid: list[Mutation] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The part of the wrong versions that was noticed, equivalent ones left out; 1 without any."""
        count = len(self.noticed) + len(self.survivors)
        return len(self.noticed) / count if count else 1.0

    def __str__(self) -> str:
        head = (
            f"{self.kernel}: {len(self.noticed)} of {len(self.noticed) + len(self.survivors)} wrong versions "
            f"noticed ({self.score:.0%}), {len(self.equivalent)} equivalent, {len(self.invalid)} do not compile"
        )
        return "\n\n".join([head, *(one.diff(self.source) for one in self.survivors)])


def mutants(
    kernel: Kernel,
    check: Callable[[], object],
    *,
    equivalent: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    timeout: float = 2.0,
) -> MutationResult:
    """Run ``check`` with small wrong versions of a kernel, to see which ones it notices.

    A version differs from the template's text in one place of the kernel that runs, or of a function that it calls: a
    barrier or fence left out, a bound, an index or a constant off by one, a comparison, a sign or an operator changed,
    a guard or a statement dropped, indices swapped, an assignment for a sum, a plain operation for an atomic one, min
    for max, a wrong stride or axis. While ``check`` runs, ``kernel`` itself has the wrong text, and launches on the
    host are checked ones, so that races count as noticed.

    Args:
        kernel: a kernel of your own. Files that it includes stay as they are.
        check: calls what is to be tested; it notices by raising an error or returning False. Its default device is the
            host.
        equivalent: changes that make no difference, each as ``"LINE: KIND"``, as ``str(result)`` shows survivors.
        limit: the most versions to try, chosen at random; None for all.
        seed: the seed of that choice.
        timeout: after how many seconds a launch counts as one that does not end, and so as noticed.

    Returns:
        The score, and each survivor with its lines before and after.

    Raises:
        TypeError: ``kernel`` is not a :class:`Kernel`.
        ValueError: ``check`` fails with the kernel as it is, or does not launch it.

    >>> import cukern as ck
    >>> twice = ck.Kernel('''
    ... extern "C" __global__ void << name >>(const float* x, float* y, int n) {
    ...     int i = blockIdx.x * << block >> + threadIdx.x;
    ...     if (i < n) y[i] = 2 * x[i];
    ... }''', name="twice", block=4)
    >>> def check():
    ...     x, y = ck.ones(4), ck.zeros(4)
    ...     twice(x, y, 4)
    ...     return bool((y == 2).all())
    >>> result = mutants(twice, check)
    >>> result.score < 0.8
    True
    >>> print(result.survivors[0].diff(result.source))
    line 3: `blockIdx.x` is `blockIdx.y`
    -     int i = blockIdx.x * << block >> + threadIdx.x;
    +     int i = blockIdx.y * << block >> + threadIdx.x;
    """
    from ..device.host.checked.function import time_limit  # loads the compiler's module

    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel: expected a cukern.Kernel, got {type(kernel).__name__}")
    source = render.source_of(kernel.template)
    with Device("host").activate(), kernel._rewritten(source):
        try:
            with checked():
                passes = check()
        except Exception as error:
            raise ValueError(f"check: it fails with the kernel as it is: {error}") from error
        if passes is False:
            raise ValueError("check: it fails with the kernel as it is")
        if not kernel._bound:
            which = kernel.name if kernel.entry is None else f"{kernel.name}[{kernel.entry!r}]"
            hint = f"; give one of its kernels, as {kernel.name}[...]" if kernel._entries else ""
            raise ValueError(f"check: it does not launch the kernel {which}{hint}")
        ran = _lines_that_ran(kernel, source)
    chosen = [one for one in mutations(source) if one.line in ran]
    if limit is not None and limit < len(chosen):
        chosen = sorted(random.Random(seed).sample(chosen, limit), key=lambda one: one.start)
    result = MutationResult(kernel.name, source)
    known = set(equivalent)
    for one in chosen:
        with Device("host").activate(), kernel._rewritten(one.apply(source)), time_limit(timeout):
            outcome = _outcome(check)
        if outcome == "survivors" and f"{one.line}: {one.what}" in known:
            outcome = "equivalent"
        getattr(result, outcome).append(one)
    return result


def _lines_that_ran(kernel: Kernel, source: str) -> set[int]:
    """The lines of a text, counted from 1, of the launched kernels and of what these need."""
    lines: set[int] = set()
    for bound in kernel._bound.values():
        text = needed(bound.rendered.text)
        if kernel.plain:
            whole = render.render(kernel.template, {}, plain=True).text
            before = whole.count("\n") - source.count("\n")
            before += text.count("\n", 0, own_at(text)) - whole.count("\n", 0, own_at(whole))
            numbered = enumerate(text.split("\n")[before : before + source.count("\n") + 1], 1)
            lines |= {number for number, line in numbered if line.strip()}
        else:
            lines |= lines_of(text, kernel.template) | held_lines(source)
    return lines


def _outcome(check: Callable[[], object]) -> str:
    """The outcome for a wrong version: the name of its list in :class:`MutationResult`."""
    try:
        with checked():
            return "noticed" if check() is False else "survivors"
    except CompileError:
        return "invalid"
    except Exception:
        return "noticed"
