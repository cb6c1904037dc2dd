"""Resources that hold data and are in no stack any more: kept when a file system was replaced, and billed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.providers.aws.names import GRID_TAG, SLOT_TAG, TARGET_TAG, claims_table
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.providers.aws.tagged import of_grid, tags_of
from gridwright.spec.model import GridSpec

KEPT_TAG = "gridwright:kept-of"
"""The tag of what was replaced and is kept: the name of its file system."""
_VOLUME = "vol-"


@dataclass(frozen=True, slots=True)
class Retired:
    """A resource that holds data and is in no stack any more."""

    id: str
    filesystem: str
    size: str

    @property
    def text(self) -> str:
        """In words."""
        kind = "volume" if self.id.startswith(_VOLUME) else "FSx file system"
        return f"{kind} {self.id} of {self.size}, the former {self.filesystem}"


def retired(cloud: Cloud, spec: GridSpec, in_stack: Collection[str]) -> list[Retired]:
    """All of a grid: what holds data, and is not among the resources of its storage stack."""
    found = []
    for volume in _volumes(cloud, spec):
        tags = tags_of(volume)
        # Root volumes go with their machines, and have no target.
        if volume["VolumeId"] not in in_stack and (KEPT_TAG in tags or TARGET_TAG in tags):
            found.append(Retired(volume["VolumeId"], _filesystem(spec, tags), f"{volume['Size']} GiB"))
    for system in _systems(cloud, spec):
        if system["FileSystemId"] not in in_stack:
            size = f"{system['StorageCapacity']} GiB"
            found.append(Retired(system["FileSystemId"], _filesystem(spec, tags_of(system)), size))
    return found


def _filesystem(spec: GridSpec, tags: Mapping[str, str]) -> str:
    """The file system that something was made for, by the mark that it has, or else by its own tags."""
    slot = tags.get(SLOT_TAG, "").rpartition("-")[0]
    return tags.get(KEPT_TAG) or slot or tags.get("Name", "").removeprefix(f"{spec.name} ")


def mark(cloud: Cloud, spec: GridSpec, in_stack: Collection[str]) -> int:
    """Mark what holds data and is in no stack, and forget the claims of its servers; how many are new.

    Volumes lose the tags that a server finds its own by: a new server must not take the old ones.
    """
    slots: set[str] = set()
    count = 0
    for volume in _volumes(cloud, spec):
        tags = tags_of(volume)
        if volume["VolumeId"] in in_stack or KEPT_TAG in tags or TARGET_TAG not in tags:
            continue
        slot = tags.get(SLOT_TAG, "")
        slots.add(slot)
        chosen = [{"Key": KEPT_TAG, "Value": _filesystem(spec, tags)}]
        cloud.call("ec2", "create_tags", Resources=[volume["VolumeId"]], Tags=chosen)
        lost = [{"Key": SLOT_TAG}, {"Key": TARGET_TAG}]
        cloud.call("ec2", "delete_tags", Resources=[volume["VolumeId"]], Tags=lost)
        count += 1
    for system in _systems(cloud, spec):
        tags = tags_of(system)
        if system["FileSystemId"] in in_stack or KEPT_TAG in tags:
            continue
        chosen = [{"Key": KEPT_TAG, "Value": _filesystem(spec, tags)}]
        cloud.call("fsx", "tag_resource", ResourceARN=system["ResourceARN"], Tags=chosen)
        count += 1
    forget(cloud, spec, slots - {""})
    return count


def forget(cloud: Cloud, spec: GridSpec, slots: Iterable[str]) -> None:
    """Remove the claims of machines whose volumes are not theirs any more."""
    for slot in sorted(slots):
        try:
            cloud.call("dynamodb", "delete_item", TableName=claims_table(spec), Key={"slot": {"S": slot}})
        except CloudError as error:
            if error.code != "ResourceNotFoundException":
                raise


def _volumes(cloud: Cloud, spec: GridSpec) -> Iterator[Mapping[str, Any]]:
    return cloud.listed("ec2", "describe_volumes", "Volumes", Filters=of_grid(spec.name))


def _systems(cloud: Cloud, spec: GridSpec) -> Iterator[Mapping[str, Any]]:
    for each in cloud.listed("fsx", "describe_file_systems", "FileSystems"):
        if tags_of(each).get(GRID_TAG) == spec.name and each.get("Lifecycle") != "DELETING":
            yield each


def delete(cloud: Cloud, which: Retired) -> None:
    """Delete one for good, with its data."""
    if which.id.startswith(_VOLUME):
        cloud.call("ec2", "delete_volume", VolumeId=which.id)
    else:
        cloud.call("fsx", "delete_file_system", FileSystemId=which.id)
