"""The host, with a record of what it compiles."""

from __future__ import annotations

from ...text.signature import Unit
from ..host.backend import Host, HostFunction
from . import Recording


class RecordedHost(Host):
    """The host's backend; ``recording`` has the units that it has compiled."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def compile(self, index: int, unit: Unit) -> HostFunction:
        function = super().compile(index, unit)
        self.recording.note(unit)  # not what the compiler refuses, with which the program may go on
        return function
