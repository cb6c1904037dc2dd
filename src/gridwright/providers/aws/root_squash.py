"""Sets root squash of FSx for Lustre once the stack exists: CloudFormation has no property for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridwright.providers.aws.layout import aws_layout, fsx_file_systems
from gridwright.providers.aws.names import logical_id
from gridwright.providers.aws.session import Cloud
from gridwright.spec.model import GridSpec

OFF = "0:0"
"""Root stays root (FSx API reference, LustreRootSquashConfiguration)."""


def desired_root_squash(spec: GridSpec) -> dict[str, dict[str, Any]]:
    """RootSquash and NoSquashNids of each FSx for Lustre, as the spec wants them."""
    kept = aws_layout(spec).root_nids
    return {
        name: {"RootSquash": each.root_squash, "NoSquashNids": kept}
        if each.root_squash is not None
        else {"RootSquash": OFF, "NoSquashNids": []}
        for name, each in fsx_file_systems(spec).items()
    }


def settle_root_squash(cloud: Cloud, spec: GridSpec, physical: Mapping[str, str]) -> tuple[str, ...]:
    """Bring each file system to what the spec says; the names of those that were changed.

    `physical` has the resources of the storage stack by their logical IDs. Raises CloudError.
    """
    changed = []
    for name, desired in desired_root_squash(spec).items():
        identifier = physical[logical_id(name)]
        (found,) = cloud.call("fsx", "describe_file_systems", FileSystemIds=[identifier])["FileSystems"]
        settings = found.get("LustreConfiguration", {}).get("RootSquashConfiguration") or {}
        squashed, kept = settings.get("RootSquash", OFF), settings.get("NoSquashNids") or []
        if squashed != desired["RootSquash"] or set(kept) != set(desired["NoSquashNids"]):
            cloud.call(
                "fsx",
                "update_file_system",
                FileSystemId=identifier,
                LustreConfiguration={"RootSquashConfiguration": desired},
            )
            changed.append(name)
    return tuple(changed)
