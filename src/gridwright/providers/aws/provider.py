"""AWS as a provider: what the verbs up, status and down reach it by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.providers.caller import Caller
from gridwright.providers.registry import Removal
from gridwright.spec.model import GridSpec

if TYPE_CHECKING:
    from gridwright.providers.aws.results import AwsStatus, AwsUp


class AwsProvider:
    """See registry.Provider."""

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> AwsUp:
        """Make the grid, or change it."""
        from gridwright.providers.aws.up import up

        return up(spec, caller, replace)

    def status(self, spec: GridSpec) -> AwsStatus:
        """How the grid stands."""
        from gridwright.providers.aws.status import status

        return status(spec)

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """What down would do."""
        from gridwright.providers.aws.down import down, look, plan

        found = look(spec, delete_data)
        return Removal(plan(found), lambda caller: down(found, caller))
