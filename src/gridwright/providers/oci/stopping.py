"""Machines are shut down before their volumes are detached: nodes first, then servers of file systems.

Terraform destroys attachments before instances, and OCI detaches a volume that a running server writes to:
what had not reached the volume would be lost (facts oci-scale, rule 9: compute, unmount, shut down, detach).
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from gridwright.errors import environment_error
from gridwright.providers.oci.layout import OciLayout, is_there
from gridwright.providers.oci.session import COMPUTE, OciCallError, OciCloud
from gridwright.providers.provider import Caller

LONGEST_S = 1500.0
"""OCI powers an instance off that has not shut down 15 minutes after SOFTSTOP (Core Services API,
InstanceAction); the rest is for machines that start or stop already."""


def shut_down(
    cloud: OciCloud,
    compartment: str,
    layout: OciLayout,
    caller: Caller,
    poll_s: float,
    *,
    only: Collection[str] | None = None,
) -> None:
    """Shut clients down, then servers, and wait for each. Raises GridwrightError where one does not end.

    With `only` those of these names. Without servers of file systems nothing is done: what nodes hold goes
    with them.
    """
    servers = {each.name for each in layout.machines if each.role.is_server}
    if not servers:
        return
    clients = {each.name for each in layout.machines} - servers
    if only is not None:
        # What the layout does not know any more may have been a server.
        clients, servers = clients & set(only), set(only) - clients
    for what, names in (("nodes", clients), ("servers of file systems", servers)):
        _shut_down(cloud, compartment, (layout.grid, what, names), caller, poll_s)


def _shut_down(
    cloud: OciCloud, compartment: str, which: tuple[str, str, Collection[str]], caller: Caller, poll_s: float
) -> None:
    grid, what, names = which
    until = time.monotonic() + LONGEST_S
    asked: set[str] = set()
    while running := _running(cloud, compartment, grid, names):
        if not asked:
            caller.say(f"shutting {what} down: {len(running)}")
        for each in running:
            if each.id not in asked and each.lifecycle_state == "RUNNING":
                asked.add(each.id)
                _ask(cloud, each.id)
        if time.monotonic() > until:
            raise environment_error(
                f"{', '.join(each.display_name for each in running)}: not shut down after "
                f"{LONGEST_S / 60:.0f} min, so no volume was detached",
                where=f"OCI, {running[0].id}",
                remedy="stop it in the console, then run the same command",
            )
        caller.pause(poll_s)


def _running(cloud: OciCloud, compartment: str, grid: str, names: Collection[str]) -> list[Any]:
    return [
        each
        for each in cloud.listed(*COMPUTE, "list_instances", compartment)
        if is_there(each, grid) and each.display_name in names and each.lifecycle_state != "STOPPED"
    ]


def _ask(cloud: OciCloud, instance: str) -> None:
    """Have the system shut down; one that is gone, or changes its state already, is looked at again."""
    try:
        cloud.call(*COMPUTE, "instance_action", instance, "SOFTSTOP")
    except OciCallError as error:
        if error.http_status not in (404, 409):
            raise
