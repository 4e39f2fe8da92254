"""Families: the variants of one computation, of which the fastest that fits a problem is chosen, once for its form."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple

from ..array import Array
from ..cache import Cache
from ..device import Device, kernels_only
from ..device.interface import Properties
from ..errors import LaunchError
from ..kernel.by_numpy import watchers
from ..kernel.plan import kept, on
from ..text.render import table
from . import tuned
from .variant import P, Plan, Variant

#: The limits for which variants that need a GPU are laid out where a test has them run on the host: an H200's.
STAND_IN = Properties(
    name="a stand-in for a GPU of compute capability 9.0",
    max_threads_per_block=1024,
    max_block=(1024, 1024, 64),
    max_grid=(2**31 - 1, 65535, 65535),
    max_shared_memory_per_block=227 * 1024,
    warp_size=32,
    multiprocessors=132,
    max_blocks_per_cluster=8,
    compute_capability=(9, 0),
)


class Choice(NamedTuple):
    """What a family knows of one of its variants for a problem.

    Attributes:
        variant: its name.
        config: the best constants; None where it does not fit.
        why: why it does not fit, or "".
        predicted: seconds by its cost model.
        measured: seconds by the tuned data of the device, carried over from problems within their reach; or None.
        chosen: whether it computes the problem.
    """

    variant: str
    config: Any
    why: str
    predicted: float = 0.0
    measured: float | None = None
    chosen: bool = False

    @property
    def seconds(self) -> float:
        """The measured time, or else the predicted one."""
        return self.predicted if self.measured is None else self.measured


class Used(list[Any]):
    """The constants that a family has used, one entry for each new problem.

    Attributes:
        problems: what they were used for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[Any] = []


class _Only(NamedTuple):
    """The variants that alone are used, in order of preference, and constants that replace those chosen."""

    names: tuple[str, ...]
    limits: Properties | None
    fields: dict[str, Any]
    used: Used


class Family(Generic[P]):
    """The variants of one computation.

    Args:
        name: of the family.
        variants: in no order: the one of the least time is chosen.
        reference: a composition of other operations that computes any problem: what results are compared with.
        samples: problems for which variants are measured, with arrays for them, on a device, by a seed.
    """

    def __init__(
        self,
        name: str,
        *variants: type[Variant[P]],
        reference: Callable[[P], Plan],
        samples: Callable[[Device, int], Iterator[tuple[P, Sequence[Array]]]] | None = None,
    ) -> None:
        self.name, self.reference, self.samples = name, reference, samples
        self.variants = {one.name: one for one in variants}
        #: Those for all variants, and those for kernels only.
        self._plans: tuple[Cache[P, Plan], Cache[P, Plan]] = Cache(), Cache()
        #: Whether a variant computes a problem, where that was asked.
        self._computes: Cache[P, bool] = Cache()
        #: See :meth:`seconds`.
        self._seconds: Cache[P, float] = Cache()
        self._only: _Only | None = None
        FAMILIES[name] = self

    def __repr__(self) -> str:
        return f"Family({self.name!r}: {', '.join(self.variants)})"

    def __call__(self, problem: P) -> Plan:
        """What computes a problem: chosen and compiled at the first call for it.

        Raises:
            LaunchError: no variant fits.
        """
        if watchers:
            for watch in watchers:
                watch(self, problem)
        plans = self._plans[kernels_only.active()]
        plan = plans.get(problem)
        if plan is None:
            with on(problem.device):
                config, limits = self._chosen(problem)
                plan = config.plan(problem, limits)
                plans.keep(problem, plan)
        return plan

    def expect(self, problem: P) -> None:
        """Compile what computes a problem ahead of need, where that is a kernel; on whatever thread."""
        plans = self._plans[False]
        if watchers or self._only is not None or plans.get(problem) is not None:
            return
        with on(problem.device):
            config, limits = self._chosen(problem)
            if not config.of_library:
                plans.keep(problem, config.plan(problem, limits))

    def seconds(self, problem: P) -> float:
        """The time of what computes a problem, measured or predicted; infinite if no variant does."""
        found = self._seconds.get(problem)
        if found is None:
            chosen = [one.seconds for one in self._candidates(problem) if one.chosen]
            found = self._seconds.keep(problem, min(chosen, default=math.inf))
        return found

    def known(self, problem: P) -> Plan | None:
        """What computes a problem, if it has been chosen before and nobody asks why."""
        return None if watchers else self._plans[kernels_only.active()].get(problem)

    def computes(self, problem: P) -> bool:
        """Whether a variant computes a problem, of those alone that are used."""
        found = self._computes.get(problem)
        if found is None:
            names = self.variants if self._only is None else self._only.names
            found = any(not self._laid_out(name, problem).why for name in names)
            self._computes.keep(problem, found)
        return found

    def choices(self, problem: P) -> list[Choice]:
        """What is known of each variant for a problem, whether or not some alone are used."""
        limits = self._given(problem)
        own = kernels_only.active()
        found = [
            Choice(one.name, None, "kernels only")
            if own and one.of_library
            else self._choice(one, problem, limits)
            for one in self.variants.values()
        ]
        predicted = {one.variant: one.predicted for one in found if not one.why}
        known = tuned.times(limits.name, self.name, problem.features, predicted) if predicted else {}
        found = [one._replace(measured=known.get(one.variant)) for one in found]
        fitting = [one for one in found if not one.why]
        if not fitting:
            return found
        best = min(fitting, key=lambda one: one.seconds)
        return [one._replace(chosen=one is best) for one in found]

    def explain(self, problem: P) -> str:
        """A table of the variants: whether each fits or why not, its constants, and the predicted and measured time."""
        limits = problem.device.properties
        rows = [("", "variant", "predicted", "measured", "constants")]
        for one in sorted(self._candidates(problem), key=lambda one: (bool(one.why), one.seconds)):
            measured = "" if one.measured is None else f"{1e6 * one.measured:.1f} us"
            predicted = "" if one.why else f"{1e6 * one.predicted:.1f} us"
            about = one.why or ", ".join(f"{k}={v}" for k, v in self.fields(one.config).items())
            rows.append((">" if one.chosen else "", one.variant, predicted, measured, about))
        least = f"{1e6 * problem.least_seconds(limits):.1f} us at least on {limits.name}"
        return f"{self.name}: {problem.summary}; {least}\n{table(rows, ' ')}"

    def candidates(self, choice: Choice, problem: P, count: int) -> list[Variant[P]]:
        """The ``count`` best constants of a variant that fits, by its cost model; none of one that does not."""
        limits = problem.device.properties
        if choice.why:
            return []
        found = self.variants[choice.variant].configs(problem, limits)
        return sorted(found, key=lambda one: one.cost(problem, limits))[:count]

    @staticmethod
    def fields(config: Variant[P]) -> dict[str, Any]:
        """The constants of a variant, by name."""
        return {one.name: getattr(config, one.name) for one in dataclasses.fields(config)}  # type: ignore[arg-type]

    @contextmanager
    def only(self, *names: str, limits: Properties | None = None, **fields: Any) -> Iterator[Used]:
        """Have these variants alone compute what is asked for in the with-block: the first that fits.

        On the host they are laid out for a GPU if they need one. It holds for all threads.

        Args:
            names: of variants.
            limits: those for which they are laid out, by default those of the device.
            fields: constants that the ones used have, where a variant has them: those of the least time among its own,
                or if it has none of these, those that would be chosen with these in their place.

        Yields:
            The list of what is used, one entry for each new problem.

        Raises:
            ValueError: the family has no variant of a name, or none of the named ones has a constant.
        """
        for name in names:
            if name not in self.variants:
                raise ValueError(
                    f"only: {self.name} has no variant {name!r}; it has {', '.join(self.variants)}"
                )
        known = [one.name for name in names for one in dataclasses.fields(self.variants[name])]  # type: ignore[arg-type]
        for field in fields:
            if field not in known:
                raise ValueError(
                    f"only: {' and '.join(names)} of {self.name}: no constant {field!r}; there are {', '.join(known)}"
                )
        before, plans = (self._plans, self._computes, self._seconds, self._only), dict(kept(self.name))
        self._plans, self._computes, self._seconds = (Cache(), Cache()), Cache(), Cache()
        kept(self.name).clear()
        self._only = _Only(names, limits, fields, Used())
        try:
            yield self._only.used
        finally:
            self._plans, self._computes, self._seconds, self._only = before
            kept(self.name).clear()
            kept(self.name).update(plans)

    def _chosen(self, problem: P) -> tuple[Variant[P], Properties]:
        found = self._candidates(problem)
        for one in found:
            if one.chosen:
                limits = self._limits(one.variant, problem)
                if self._only is None:
                    return self._tuned(one, problem, limits), limits
                self._only.used.append(one.config)
                self._only.used.problems.append(problem)
                return one.config, limits
        raise LaunchError(
            f"{self.name}: no variant fits: {'; '.join(f'{one.variant}: {one.why}' for one in found)}"
        )

    def _tuned(self, chosen: Choice, problem: P, limits: Properties) -> Variant[P]:
        """The constants with which the variant was fastest for this very problem, if they still are some of its own."""
        own = tuned.config(limits.name, self.name, problem.features, chosen.variant)
        if own is not None:
            for one in self.variants[chosen.variant].configs(problem, limits):
                if self.fields(one) == own:
                    return one
        config: Variant[P] = chosen.config
        return config

    def _candidates(self, problem: P) -> list[Choice]:
        """:meth:`choices`, or where some variants alone are used these: the first of them that fits is chosen."""
        if self._only is None:
            return self.choices(problem)
        found = {name: self._forced(name, problem, self._only.fields) for name in self._only.names}
        first = next((name for name, one in found.items() if not one.why), None)
        others = [Choice(name, None, "left out by only") for name in self.variants if name not in found]
        return [*(one._replace(chosen=name == first) for name, one in found.items()), *others]

    def _forced(self, name: str, problem: P, fields: Mapping[str, Any]) -> Choice:
        """What is known of a variant with these constants, where it has them."""
        variant, one, limits = self.variants[name], self._laid_out(name, problem), self._limits(name, problem)
        if one.why:
            return one
        own = {key: value for key, value in fields.items() if key in self.fields(one.config)}
        alike = [
            each
            for each in variant.configs(problem, limits)
            if all(getattr(each, key) == value for key, value in own.items())
        ]
        if alike:
            config = min(alike, key=lambda each: each.cost(problem, limits))
        else:
            config = dataclasses.replace(one.config, **own)
        return one._replace(config=config, predicted=config.cost(problem, limits))

    def _limits(self, name: str, problem: P) -> Properties:
        """Those for which a variant is laid out: a GPU's on the host, if it needs one and alone is used."""
        limits = self._given(problem)
        lacks = limits.compute_capability < self.variants[name].needs
        return STAND_IN if self._only is not None and lacks and problem.device.style == "serial" else limits

    def _given(self, problem: P) -> Properties:
        """The device's limits, or those that :meth:`only` gives in their place."""
        given = None if self._only is None else self._only.limits
        return given or problem.device.properties

    def _laid_out(self, name: str, problem: P) -> Choice:
        """What is known of a variant, for the limits for which it is laid out."""
        return self._choice(self.variants[name], problem, self._limits(name, problem))

    def _choice(self, variant: type[Variant[P]], problem: P, limits: Properties) -> Choice:
        why = variant.refusal(problem, limits)
        if why:
            return Choice(variant.name, None, why)
        priced = [
            (one.cost(problem, limits), i, one) for i, one in enumerate(variant.configs(problem, limits))
        ]
        if not priced:
            return Choice(variant.name, None, f"no constants fit {limits.name}")
        cost, _, config = min(priced)
        return Choice(variant.name, config, "", cost)


#: All families by name.
FAMILIES: dict[str, Family[Any]] = {}
