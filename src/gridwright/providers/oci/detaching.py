"""Volumes that are to go are detached first: OCI deletes none that a server has."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from gridwright.errors import environment_error
from gridwright.providers.caller import Caller
from gridwright.providers.oci.session import OciCloud

LONGEST_S = 900.0
"""So long detaching may take in all."""
_CORE, _CLIENT = "core", "ComputeClient"


def detach(
    cloud: OciCloud, compartment: str, volumes: Collection[str], caller: Caller, poll_s: float
) -> None:
    """Detach volumes, by their OCIDs, from all their servers, and wait until that is done.

    Terraform learns of it at its next refresh, and attaches what takes their place. Raises GridwrightError.
    """
    until = time.monotonic() + LONGEST_S
    asked: set[str] = set()
    while attached := _attached(cloud, compartment, volumes):
        if not asked:
            caller.say(f"detaching {len(set(volumes))} volumes from their servers")
        for each in attached:
            if each.id not in asked:
                asked.add(each.id)
                if each.lifecycle_state != "DETACHING":
                    cloud.found(_CORE, _CLIENT, "detach_volume", each.id)
        if time.monotonic() > until:
            raise environment_error(
                f"{len(attached)} volumes are attached still, after {LONGEST_S / 60:.0f} min",
                where=f"OCI, {attached[0].id}",
                remedy="shut the file system down on its servers, then run the same command",
            )
        if caller.stop.wait(poll_s):
            raise KeyboardInterrupt


def _attached(cloud: OciCloud, compartment: str, volumes: Collection[str]) -> list[Any]:
    listed = cloud.listed(_CORE, _CLIENT, "list_volume_attachments", compartment)
    return [each for each in listed if each.volume_id in volumes and each.lifecycle_state != "DETACHED"]
