"""Rules of clouds and of the configuration say which disks are instance stores; others are left alone."""

from __future__ import annotations

import fnmatch
import json
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass

from gridwright.node_programs.scratch.configuration import DiskRule
from gridwright.node_programs.scratch.disks import Disk


@dataclass(frozen=True)
class CloudRules:
    """What the clouds call their instance stores, and what they call disks that outlive a stop."""

    stores: tuple[DiskRule, ...]
    never: tuple[str, ...]
    """Patterns of models that are refused even to a rule of the configuration."""


def cloud_rules() -> CloudRules:
    """The rules of `instance_stores.json`, beside this module or in the zipapp."""
    data = json.loads(pkgutil.get_data(__package__, "instance_stores.json") or b"")
    stores = tuple(
        DiskRule(
            name=each["name"],
            transport=each["transport"],
            model=each.get("model"),
            board=each.get("board"),
            mapped=each.get("mapped", False),
        )
        for each in data["rules"]
    )
    return CloudRules(stores, tuple(each["model"] for each in data["never"]))


@dataclass(frozen=True)
class Surroundings:
    """What rules look at besides the disk."""

    board: str = ""
    """What the firmware says: chassis tag and vendor (/sys/class/dmi/id)."""
    mapped: frozenset[str] = frozenset()
    """Names of devices that the cloud's mapping has as instance store."""


def fitting(disk: Disk, own: Sequence[DiskRule], clouds: CloudRules, around: Surroundings) -> DiskRule | None:
    """The first rule that the disk fits: of the configuration where it has some, else of the clouds."""
    if any(fnmatch.fnmatchcase(disk.model, pattern) for pattern in clouds.never):
        return None
    # Disks over a network outlive the machine, whatever they are called.
    if disk.remote:
        return None
    return next((rule for rule in own or clouds.stores if _fits(disk, rule, around)), None)


def _fits(disk: Disk, rule: DiskRule, around: Surroundings) -> bool:
    least, most = rule.at_least_bytes, rule.at_most_bytes
    return all(
        (
            rule.transport in (None, disk.transport),
            # A loop device is a file of somebody's: it has to be meant.
            rule.transport is not None or disk.transport != "loop",
            rule.model is None or fnmatch.fnmatchcase(disk.model, rule.model),
            rule.serial is None or fnmatch.fnmatchcase(disk.serial, rule.serial),
            least is None or disk.bytes >= least,
            most is None or disk.bytes <= most,
            rule.board is None or rule.board in around.board,
            not rule.mapped or disk.name in around.mapped,
        )
    )
