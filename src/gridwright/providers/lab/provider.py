"""The lab as a provider: what the verbs up, status and down reach it by."""

from __future__ import annotations

from gridwright.providers.caller import Caller
from gridwright.providers.lab.down import down
from gridwright.providers.lab.status import LabStatus, status
from gridwright.providers.lab.up import UpResult, up
from gridwright.spec.model import GridSpec


class LabProvider:
    """See registry.Provider."""

    def up(self, spec: GridSpec, caller: Caller) -> UpResult:
        """Make the lab."""
        return up(spec, caller)

    def status(self, spec: GridSpec) -> LabStatus:
        """How the lab stands."""
        return status(spec.name)

    def down(self, spec: GridSpec) -> bool:
        """Take the lab down."""
        return down(spec.name)
