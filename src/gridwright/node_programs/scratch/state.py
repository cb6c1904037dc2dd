"""The journal of what the program made and is about to make, and whose each disk is by it.

`made` is what stands: by it a disk is known as ours. An intent is written, and flushed to disk, before the
first byte of a disk is changed; it has the UUIDs that are about to be written, so that a superblock of an
interrupted build is known as ours too. It goes when the file system is whole. A disk is ours, blank, wiped by
name, or another's that is left alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gridwright.node_programs.scratch.disks import Content, Disk, MdArray, MdMember
from gridwright.node_programs.scratch.problems import ScratchError, Trouble

SCHEMA = 1


@dataclass(frozen=True)
class Build:
    """One array as it is made, or is to be."""

    name: str
    serials: tuple[str, ...]
    """In the order of the stripe."""
    md_uuid: str | None
    """None for a single disk, which needs no md."""
    filesystem_uuid: str
    format: str
    chunk_bytes: int
    at: str = ""
    """When, as ISO 8601 in UTC."""


@dataclass(frozen=True)
class State:
    """What is made and what is meant, by the name of the array."""

    made: Mapping[str, Build]
    intents: Mapping[str, Build]

    def with_intent(self, build: Build) -> State:
        """The state in which `build` is meant."""
        return replace(self, intents={**self.intents, build.name: build})

    def with_made(self, build: Build) -> State:
        """The state in which `build` stands, and nothing else is meant for its name."""
        intents = {name: intent for name, intent in self.intents.items() if name != build.name}
        return State({**self.made, build.name: build}, intents)


NOTHING = State({}, {})


def read_state(path: Path) -> State:
    """Read the state; an absent file is NOTHING. Raises ScratchError where it is not what was written."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ValueError("of another schema")
        return State(_builds(data["made"]), _builds(data["intents"]))
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        raise ScratchError(Trouble(f"{path}: {error.strerror}")) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        remedy = (
            f"move it away: mv {path} {path}.old; arrays that are whole are then found by their names, and "
            "disks of one that is not are refused until they are named with --wipe"
        )
        raise ScratchError(Trouble(f"{path} is not what gridwright wrote there: {error}", remedy)) from None


def _builds(data: Any) -> Mapping[str, Build]:  # noqa: ANN401 - what JSON holds
    builds = [Build(**{**each, "serials": tuple(each["serials"])}) for each in data]
    for build in builds:
        texts = (build.name, build.filesystem_uuid, build.format, build.at, *build.serials)
        if not all(isinstance(text, str) for text in texts) or not isinstance(
            build.md_uuid, (str, type(None))
        ):
            raise TypeError(f"an array of it has fields of another kind: {build.name}")
    return {build.name: build for build in builds}


def write_state(path: Path, state: State) -> None:
    """Write whole or not at all, and through to the disk. Raises OSError."""
    document = {
        "schema": SCHEMA,
        "made": [asdict(build) for build in state.made.values()],
        "intents": [asdict(build) for build in state.intents.values()],
    }
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


HOME = "gridwright"
"""The home host of our arrays in md: it stays when the host is renamed."""
OURS, BLANK, WIPED, FOREIGN = "ours", "blank", "wiped", "foreign"
IN_USE, UNREADABLE = "in use", "unreadable"
_HEAD = 64 * 1024
"""Signatures behind this are data of the file system that starts the disk."""
_RAID = "linux_raid_member"
_TABLES = {"gpt": "GPT", "dos": "DOS", "PMBR": "GPT"}


@dataclass(frozen=True)
class Claim:
    """How a disk stands."""

    disk: Disk
    standing: str
    found: str
    """What is on it or who uses it, in words."""
    array: str | None = None
    """Of ours: the name of the array."""
    known: bool = False
    """Of ours: whether this node wrote down that it made it. What only has our name is never overwritten."""
    group: str = ""
    """Of ours: the UUID that its array or file system has."""


def claim(disk: Disk, state: State, arrays: Iterable[MdArray]) -> Claim:
    """How a disk stands, whatever the user has named to be wiped."""
    content = disk.content
    if content.error is not None:
        return Claim(disk, UNREADABLE, content.error)
    ours = _ours(disk, state)
    if ours is not None:
        held = _held_by_others(disk, arrays, ours)
        return Claim(disk, IN_USE, held) if held else ours
    held = disk.used or _held(disk)
    if held:
        return Claim(disk, IN_USE, held)
    if disk.read_only:
        return Claim(disk, FOREIGN, "read-only")
    if content.signatures or disk.partitions or content.md is not None or not content.zero_ends:
        return Claim(disk, FOREIGN, what_is_on(disk))
    return Claim(disk, BLANK, "blank")


def _held(disk: Disk) -> str:
    if disk.holders:
        return f"part of {', '.join(disk.holders)} ({what_is_on(disk)})"
    return "held by something, perhaps mounted in a container" if disk.content.busy else ""


def _ours(disk: Disk, state: State) -> Claim | None:
    content = disk.content
    if disk.partitions:
        return None
    if content.md is not None:
        return _ours_of_md(disk, content.md, state)
    plain = [build for build in (*state.made.values(), *state.intents.values()) if build.md_uuid is None]
    filesystem = content.filesystem
    for build in plain:
        if filesystem is not None and filesystem.uuid == build.filesystem_uuid:
            if _strange(content, {filesystem.type}, _HEAD):
                return None
            found = f"{filesystem.type} of {build.name}"
            return Claim(disk, OURS, found, build.name, True, filesystem.uuid)
    for build in state.intents.values():
        half = build.md_uuid is None and disk.serial in build.serials and not content.signatures
        # The disk was blank, or named to be wiped, when that intent was written; mkfs was cut off.
        if half and not content.zero_ends and not content.busy:
            return Claim(disk, OURS, f"an interrupted mkfs of {build.name}", build.name, True, "half made")
    return None


def _ours_of_md(disk: Disk, md: MdMember, state: State) -> Claim | None:
    if _strange(disk.content, {_RAID}, md.data_offset):
        return None
    for build in (*state.intents.values(), *state.made.values()):
        if md.uuid == build.md_uuid:
            return Claim(disk, OURS, _member_text(md), build.name, True, md.uuid)
    if md.name.startswith(f"{HOME}:") and md.intact:
        return Claim(disk, OURS, _member_text(md), md.name.split(":", 1)[1], False, md.uuid)
    return None


def _strange(content: Content, own: set[str], before: int) -> bool:
    """Whether there is another signature in front of the data: somebody wrote over ours."""
    return any(name not in own and offset < before for offset, name in content.signatures)


def _held_by_others(disk: Disk, arrays: Iterable[MdArray], ours: Claim) -> str:
    """Who else holds a disk of ours; nothing where only its own array or mount does."""
    md_names = {array.name for array in arrays}
    strangers = [holder for holder in disk.holders if holder not in md_names]
    if strangers:
        return f"{ours.found}, but part of {', '.join(strangers)}"
    if disk.content.md is not None and disk.used:
        return f"{ours.found}, but {disk.used}"
    if disk.content.busy and not disk.holders and not disk.used:
        return f"{ours.found}, but held by something, perhaps mounted in a container"
    return ""


def _member_text(md: MdMember) -> str:
    place = "damaged" if md.role is None else f"disk {md.role + 1} of {md.raid_disks}"
    return f"{place} of array {md.name}"


def what_is_on(disk: Disk) -> str:
    """What a disk holds, for a person who has to decide about it."""
    content = disk.content
    names = [name for _, name in content.signatures]
    said = []
    tables = sorted({_TABLES[name] for name in names if name in _TABLES})
    if tables or disk.partitions:
        partitions = f" with {', '.join(disk.partitions)}" if disk.partitions else ""
        said.append(f"a partition table ({', '.join(tables) or 'unknown'}){partitions}")
    if content.md is not None:
        said.append(_member_text(content.md))
    filesystem = content.filesystem
    for name in dict.fromkeys(names):
        if name in _TABLES or (name == _RAID and content.md is not None):
            continue
        labelled = filesystem is not None and filesystem.type == name and filesystem.label
        said.append(f"{name} {filesystem.label!r}" if labelled and filesystem else name)
    if not said:
        said.append("blank" if content.zero_ends else "data without a signature")
    return " and ".join(said)


def build_of(group: str, name: str, state: State) -> Build | None:
    """What was written down of an array or plain file system with this UUID; what stands comes first."""
    for build in (state.made.get(name), state.intents.get(name)):
        if build is not None and group in (build.md_uuid, build.filesystem_uuid):
            return build
    return None
