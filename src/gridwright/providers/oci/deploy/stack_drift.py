"""Drift of a stack of Resource Manager: a work request of its own looks at each resource."""

from __future__ import annotations

import time
from typing import Any

from gridwright.errors import environment_error
from gridwright.providers.caller import Caller
from gridwright.providers.oci.session import OciCloud

LONGEST_S = 3600.0
"""So long a look is waited for; it reads every resource."""
_MANAGER = ("resource_manager", "ResourceManagerClient")
_DRIFT = {"MODIFIED": "changed", "DELETED": "gone"}
"""Statuses of resources that are not in sync (oci SDK 2.189.0, StackResourceDriftSummary)."""


def stack_drift(
    cloud: OciCloud,
    stack: Any,  # noqa: ANN401 - the SDK has no types
    caller: Caller,
    poll_s: float,
) -> tuple[tuple[str, str], ...]:
    """Address of each resource that is not as the state has it, and how. Raises GridwrightError."""
    from oci.resource_manager import models

    details = models.DetectStackDriftDetails()
    look = cloud.started(*_MANAGER, "detect_stack_drift", stack.id, detect_stack_drift_details=details)
    _wait(cloud, look, stack.display_name, caller, poll_s)
    found = cloud.listed(*_MANAGER, "list_stack_resource_drift_details", stack.id, work_request_id=look)
    return tuple(
        (f"{each.resource_type}.{each.resource_name}", _DRIFT[each.resource_drift_status])
        for each in found
        if each.resource_drift_status in _DRIFT
    )


def _wait(cloud: OciCloud, look: str, name: str, caller: Caller, poll_s: float) -> None:
    until = time.monotonic() + LONGEST_S
    while (status := cloud.call(*_MANAGER, "get_work_request", look).status) != "SUCCEEDED":
        if status == "FAILED" or time.monotonic() > until:
            why = "failed" if status == "FAILED" else f"has not ended in {LONGEST_S / 60:.0f} min"
            raise environment_error(
                f"{name}: Resource Manager's look for drift {why}",
                where=f"OCI, {look}",
                remedy="read the log of that work request in the console, under the stack, then run the same "
                "command",
            )
        if caller.stop.wait(poll_s):
            raise KeyboardInterrupt
