"""What is watched of a grid that runs: the section `monitoring` of the grid spec."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridwright.spec.fields import Change, SpecModel, Update


class Monitoring(SpecModel):
    """What machines note of themselves while the grid runs."""

    history: Annotated[bool, Update(Change.LIVE, "machines run the playbook in place, and jobs go on")] = (
        Field(
            default=False,
            description="Whether nodes and servers keep the history of what they did, each its own, for "
            "charts and reasons later: setup installs a service that samples once a second. Their image "
            "has /usr/local/bin/gridwright, or a role of setup.before installs it. By default none is kept.",
        )
    )
