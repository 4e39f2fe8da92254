"""Devices that record what a program compiles: a GPU that is not here, whose kernels run on the host, and the host."""

from __future__ import annotations

from ...text.signature import Unit


class Recording:
    """The units that a device has compiled, each text once, in order."""

    def __init__(self) -> None:
        self._units: dict[tuple[str, bool], Unit] = {}

    def note(self, unit: Unit) -> None:
        """Add a unit."""
        self._units.setdefault((unit.text, unit.trusted), unit)

    def units(self) -> list[Unit]:
        """The recorded units."""
        return list(self._units.values())
