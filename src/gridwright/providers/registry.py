"""Which providers can make the nodes of a grid, and what is said of those that cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gridwright.errors import input_error

if TYPE_CHECKING:
    from gridwright.providers.caller import Caller
    from gridwright.providers.lab.status import LabStatus
    from gridwright.providers.lab.up import UpResult
    from gridwright.spec.model import GridSpec


class Provider(Protocol):
    """Makes the nodes of grids, tells how they stand, and takes them away; see the modules of each."""

    def up(self, spec: GridSpec, caller: Caller) -> UpResult:
        """Make the grid; called again, mend what is missing. Raises GridwrightError."""

    def status(self, spec: GridSpec) -> LabStatus:
        """How the grid stands. Raises GridwrightError."""

    def down(self, spec: GridSpec) -> bool:
        """Take it away; False where there was none. Raises GridwrightError naming what is left."""


def provider_of(spec: GridSpec, verb: str) -> Provider:
    """The provider of a grid. Raises GridwrightError (INPUT) where it can do nothing about a verb."""
    where = str(spec.file) if spec.file else None
    if spec.provider == "lab":
        from gridwright.providers.lab.provider import LabProvider

        return LabProvider()
    if spec.provider == "local":
        raise input_error(
            f"grid {spec.name} is the machine that Gridwright runs on: nothing is for {verb} to do",
            where=where,
            remedy="gridwright prove and gridwright submit work as it is; write provider: lab for a lab",
        )
    raise input_error(
        f"this release does not make grids of provider {spec.provider}",
        where=where,
        remedy="gridwright plan and predict work for it; write provider: lab for a lab on this machine",
    )
