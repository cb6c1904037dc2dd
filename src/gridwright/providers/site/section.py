"""What only a site's own grid has: where its head node is, and who logs in."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridwright.spec.fields import Change, HostName, SpecModel, Update
from gridwright.yamltext.fields import matching

_REACHED = Update(Change.LIVE, "the next command goes there")
UserName = Annotated[
    str, matching(r"^[a-z_][a-z0-9_.@-]{0,62}\$?$", "the name of an account", "one, such as admin")
]


class SiteSection(SpecModel):
    """How the machines of a site are reached."""

    head: Annotated[HostName | None, _REACHED] = Field(
        default=None,
        description="The machine that has the scheduler's commands, as ssh reaches it. By default the one "
        "that Gridwright runs on, such as a login node.",
    )
    login: Annotated[HostName | None, _REACHED] = Field(
        default=None,
        description="The machine that ssh goes through to head and nodes, where these are out of reach.",
    )
    user: Annotated[UserName | None, _REACHED] = Field(
        default=None, description="The account that ssh logs in as, everywhere. By default whoever ssh takes."
    )
