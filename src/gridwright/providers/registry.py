"""Which providers can make the nodes of a grid, and what is said of those that cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gridwright.errors import input_error

if TYPE_CHECKING:
    from gridwright.providers.caller import Caller
    from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class Removal:
    """What `down` would do, to be looked at before it is done."""

    plan: Any
    """Of a type of the provider's own; None where nothing is to be asked."""
    carry_out: Callable[[Caller], Any]
    """Does it; gives a result of a type of the provider's own. Raises GridwrightError naming what is left."""


class Provider(Protocol):
    """Makes the nodes of grids, tells how they stand, and takes them away; see the modules of each.

    What the verbs give is of a type of the provider's own: `cli/up_show.py`, `status_show.py` and
    `down_show.py` have a printer for each, entered under the type. A status has `whole` and `state`.
    """

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str]) -> Any:  # noqa: ANN401
        """Make the grid; called again, mend or change it. `replace` names file systems that may be emptied.

        Raises GridwrightError.
        """

    def status(self, spec: GridSpec) -> Any:  # noqa: ANN401
        """How the grid stands; nothing is changed. Raises GridwrightError."""

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str]) -> Removal:
        """How to take it away; `delete_data` names file systems that go with their data.

        Nothing is changed yet. Raises GridwrightError.
        """


def provider_of(spec: GridSpec, verb: str) -> Provider:
    """The provider of a grid. Raises GridwrightError (INPUT) where it can do nothing about a verb."""
    where = str(spec.file) if spec.file else None
    if spec.provider == "lab":
        from gridwright.providers.lab.provider import LabProvider

        return LabProvider()
    if spec.provider == "aws":
        from gridwright.providers.aws.provider import AwsProvider

        return AwsProvider()
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
