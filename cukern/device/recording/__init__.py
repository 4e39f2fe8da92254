"""Devices that note what a program compiles: a GPU that is not here, whose kernels the host runs, and the host itself."""

from __future__ import annotations

from ...text.signature import Unit


class Recording:
    """The units that a device has compiled, each text once, in order."""

    def __init__(self) -> None:
        self.units: dict[str, Unit] = {}

    def note(self, unit: Unit) -> None:
        """Add a unit."""
        self.units.setdefault(unit.text, unit)
