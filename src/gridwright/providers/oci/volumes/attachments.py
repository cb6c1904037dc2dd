"""Volumes that are attached to this machine, as the cloud lists them, and those that it should have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIGURATION = Path("/etc/gridwright/volumes.json")
DEVICE = re.compile(r"/dev/oracleoci/oraclevd(?:[b-z]|a[a-g])")
"""The 32 names that Compute gives to attachments (Oracle Cloud, consistent device paths)."""
_IQN = re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[a-zA-Z0-9.:_-]+")
_ADDRESS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")


class VolumesError(Exception):
    """What is wrong, all of it, in words for administrators: each with what to do about it."""

    def __init__(self, *troubles: str) -> None:
        super().__init__("; ".join(troubles))
        self.troubles = troubles


@dataclass(frozen=True)
class WantedVolume:
    """A volume that this machine should have."""

    name: str
    device: str


@dataclass(frozen=True)
class Portal:
    """Where a target is reached."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class VolumeAttachment:
    """One volume of this machine."""

    device: str
    iqn: str
    portals: tuple[Portal, ...]
    by_agent: bool = False
    """Whether Oracle's agent logs in: to volumes with several paths it does, and nobody else may then."""


@dataclass(frozen=True)
class VolumesConfiguration:
    """What /etc/gridwright/volumes.json says."""

    volumes: tuple[WantedVolume, ...]
    attachments: tuple[dict[str, Any], ...] | None
    """As the Compute API would list them; None has it asked."""
    wait_seconds: float


def read_configuration(path: Path) -> VolumesConfiguration:
    """Read it. Raises VolumesError with all that is wrong."""
    try:
        found = json.loads(path.read_text("utf-8"))
        volumes = tuple(WantedVolume(str(each["name"]), str(each["device"])) for each in found["volumes"])
        given = found.get("attachments")
        wait = float(found.get("wait_seconds", 900))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VolumesError(f"{path} cannot be read ({error!r}): have the machine set up again") from None
    wrong = [f"{each.name}: {each.device} is no device of an attachment" for each in volumes
             if not DEVICE.fullmatch(each.device)]  # fmt: skip
    wrong += [f"{device} is the device of two volumes" for device in twice(each.device for each in volumes)]
    if wrong:
        raise VolumesError(*wrong)
    return VolumesConfiguration(volumes, None if given is None else tuple(given), wait)


def attachments_of(documents: Sequence[dict[str, Any]]) -> tuple[VolumeAttachment, ...]:
    """Those that are attached by iSCSI under a consistent device name. Raises VolumesError.

    Fields are those of IScsiVolumeAttachment (Core Services API); others come and go by themselves.
    """
    found, wrong = [], []
    for each in documents:
        if each.get("attachmentType") != "iscsi" or each.get("lifecycleState") != "ATTACHED":
            continue
        if not each.get("device"):
            continue
        more = each.get("multipathDevices") or ()
        portals = tuple(Portal(str(one["ipv4"]), int(one["port"])) for one in (each, *more))
        device, iqn = str(each["device"]), str(each["iqn"])
        if not (DEVICE.fullmatch(device) and _IQN.fullmatch(iqn)):
            wrong.append(f"attachment {each.get('id', '?')} has device {device!r} and target {iqn!r}")
        elif not all(_ADDRESS.fullmatch(one.address) for one in portals):
            wrong.append(f"attachment {each.get('id', '?')} is reached at {', '.join(map(str, portals))}")
        else:
            by_agent = bool(each.get("isMultipath") or each.get("isAgentAutoIscsiLoginEnabled"))
            found.append(VolumeAttachment(device, iqn, portals, by_agent))
    wrong += [f"two volumes are attached as {device}" for device in twice(each.device for each in found)]
    if wrong:
        raise VolumesError(*(f"{each}: detach it, and apply the grid anew" for each in wrong))
    return tuple(sorted(found, key=lambda each: (len(each.device), each.device)))


def twice(names: Iterable[str]) -> list[str]:
    """What is there more than once."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    return sorted(name for name, count in seen.items() if count > 1)
