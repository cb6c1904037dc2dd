"""The lab as a provider: what the verbs up, status and down reach it by."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.errors import input_error
from gridwright.providers.caller import Caller
from gridwright.providers.lab.down import down
from gridwright.providers.lab.status import LabStatus, status
from gridwright.providers.lab.up import UpResult, up
from gridwright.providers.registry import Removal
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class LabDown:
    """What `down` of a lab did."""

    lab: str
    was_up: bool


class LabProvider:
    """See registry.Provider."""

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> UpResult:
        """Make the lab."""
        _refuse_names(spec, "--replace", replace)
        return up(spec, caller)

    def status(self, spec: GridSpec) -> LabStatus:
        """How the lab stands."""
        return status(spec.name)

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """How to take the lab down: nothing is asked, as it keeps nothing."""
        _refuse_names(spec, "--delete-data", delete_data)
        return removal_of(spec.name)


def removal_of(lab: str) -> Removal:
    """How to take a lab down by its name."""
    return Removal(None, lambda _caller: LabDown(lab, down(lab)))


def _refuse_names(spec: GridSpec, flag: str, names: frozenset[str]) -> None:
    if names:
        raise input_error(
            f"grid {spec.name} is a lab, which keeps no data when it goes",
            where=flag,
            remedy=f"leave {flag} out; file systems of a cloud are what it is for",
        )
