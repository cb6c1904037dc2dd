"""The desired arrays: /etc/gridwright/scratch.json, read and checked in full before a disk is looked at.

```json
{
  "schema": 1,
  "wait_seconds": 30,
  "state_file": "/var/lib/gridwright/scratch.json",
  "arrays": [
    {
      "name": "scratch",
      "mount_point": "/scratch",
      "members": 4,
      "chunk_bytes": 524288,
      "format": "xfs",
      "read_ahead_kib": 8192,
      "owner": "root", "group": "root", "mode": "0755",
      "directories": [{"path": "work", "owner": "root", "group": "root", "mode": "1777"}],
      "match": [{"transport": "nvme", "model": "Amazon EC2 NVMe Instance Storage", "serial": "*",
                 "at_least_bytes": 1000000000, "at_most_bytes": 9000000000000}]
    }
  ]
}
```

Only `schema`, `arrays`, and `name` and `mount_point` of each array are needed. `members` is a number of
disks, or null for all that are found. `match` is a list of rules, of which one has to fit; `model` and
`serial` are patterns as of a shell; without `match` the instance stores of the clouds are found
(`instance_stores.json`). `transport` is nvme, virtio, xen, scsi, ubd or loop. `wait_seconds` is how long it
waits at most for disks that were there when the array was made, or that `members` asks for. `directories` are
made on the file system, below its root; `owner` and `group` are names or numbers.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.node_programs.scratch.problems import WRONG_INPUT, JsonReader, ScratchError, Trouble

CONFIGURATION = Path("/etc/gridwright/scratch.json")
STATE = Path("/var/lib/gridwright/scratch.json")
SCHEMA = 1
TRANSPORTS = ("nvme", "virtio", "xen", "scsi", "ubd", "loop")
FORMATS = ("xfs", "ext4")
CHUNK_BYTES = 512 * 1024
"""What mdadm(8) takes itself since 3.1, and what the nodes of paper 003 had (their mounts: sunit=1024)."""
READ_AHEAD_KIB = 8192
"""Facts 000.tun.readahead and 003.tun.66: 16384 sectors of 512 bytes."""
WAIT_SECONDS = 30
_BLOCK = 4096
_LARGEST_CHUNK = 64 << 20
_MOST_ARRAYS = 16
_NAME = r"[a-z0-9][a-z0-9-]{0,19}"
"""Fits, behind `gridwright:`, into the 32 bytes that md has for a name (linux/raid/md_p.h, set_name)."""


@dataclass(frozen=True)
class DiskRule:
    """Which disks are meant; what is None fits any."""

    name: str
    transport: str | None = None
    model: str | None = None
    serial: str | None = None
    at_least_bytes: int | None = None
    at_most_bytes: int | None = None
    board: str | None = None
    """Text that the firmware has as chassis tag or vendor, for rules that hold in one cloud only."""
    mapped: bool = False
    """The cloud's own mapping has to name the disk as one of the instance store."""


@dataclass(frozen=True)
class DesiredDirectory:
    """A directory on the file system."""

    path: str
    owner: str
    group: str
    mode: int


@dataclass(frozen=True)
class DesiredArray:
    """One file system over striped disks, or on one disk."""

    name: str
    mount_point: Path
    members: int | None = None
    chunk_bytes: int = CHUNK_BYTES
    format: str = "xfs"
    read_ahead_kib: int = READ_AHEAD_KIB
    root: DesiredDirectory = DesiredDirectory(".", "root", "root", 0o755)
    directories: tuple[DesiredDirectory, ...] = ()
    match: tuple[DiskRule, ...] = ()


@dataclass(frozen=True)
class Configuration:
    """All that is configured on this node."""

    arrays: tuple[DesiredArray, ...] = ()
    wait_seconds: float = WAIT_SECONDS
    state_file: Path = STATE


def read_configuration(path: Path) -> Configuration:
    """Read and check the configuration. Raises ScratchError (status 2) with all that is wrong in it."""
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "it is no regular file")  # A pipe might be waited for without end.
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        remedy = "write it with gridwright setup, or name another one: --config FILE"
        raise ScratchError(Trouble(f"{path}: {reason}", remedy), status=WRONG_INPUT) from None
    try:
        return parse_configuration(json.loads(text))
    except ValueError as error:
        raise ScratchError(
            Trouble(f"{path}: not JSON: {error}", "correct it, or write it anew: gridwright setup"),
            status=WRONG_INPUT,
        ) from None
    except RecursionError:
        raise ScratchError(Trouble(f"{path}: nested too deep to be read"), status=WRONG_INPUT) from None
    except ScratchError as error:
        where = [Trouble(f"{path}: {trouble.what}", trouble.remedy) for trouble in error.troubles]
        raise ScratchError(*where, status=WRONG_INPUT) from None


def parse_configuration(data: Any) -> Configuration:  # noqa: ANN401 - whatever JSON holds
    """Check plain data and make a Configuration of it. Raises ScratchError (status 2)."""
    reader = _Reader()
    configuration = reader.configuration(data)
    if reader.troubles:
        raise ScratchError(*reader.troubles, status=WRONG_INPUT)
    return configuration


class _Reader(JsonReader):
    """Reads a configuration."""

    def configuration(self, data: Any) -> Configuration:  # noqa: ANN401
        known = {"schema", "arrays", "wait_seconds", "state_file", "made"}
        fields = self.mapping(data, "the file", known)
        if fields.get("schema") != SCHEMA:
            self.wrong("schema", fields.get("schema"), f"{SCHEMA}; another Gridwright may have written it")
        wait = self.number(fields, "wait_seconds", WAIT_SECONDS, 0, 600)
        state = self.path(fields.get("state_file", str(STATE)), "state_file")
        arrays = [
            self.array(each, f"arrays[{index}]")
            for index, each in enumerate(self.list(fields.get("arrays"), "arrays"))
        ]
        if len(arrays) > _MOST_ARRAYS:
            self.wrong("arrays", len(arrays), f"{_MOST_ARRAYS} at most")
        self.together(arrays)
        return Configuration(tuple(arrays), wait, state)

    def array(self, data: Any, where: str) -> DesiredArray:  # noqa: ANN401
        known = {
            "name", "mount_point", "members", "chunk_bytes", "format", "read_ahead_kib",
            "owner", "group", "mode", "directories", "match",
        }  # fmt: skip
        fields = self.mapping(data, where, known)
        name = fields.get("name")
        if not isinstance(name, str) or not re.fullmatch(_NAME, name):
            self.wrong(f"{where}.name", name, "1 to 20 letters a to z, digits and -, such as scratch")
            name = "scratch"
        members = fields.get("members")
        if members is not None:
            members = self.number(fields, "members", 1, 1, 128, where)
        chunk = self.number(fields, "chunk_bytes", CHUNK_BYTES, _BLOCK, _LARGEST_CHUNK, where)
        if chunk % _BLOCK:
            self.wrong(f"{where}.chunk_bytes", chunk, f"a multiple of {_BLOCK}")
        kind = fields.get("format", "xfs")
        if kind not in FORMATS:
            self.wrong(f"{where}.format", kind, "xfs or ext4")
        mount_point = self.path(fields.get("mount_point"), f"{where}.mount_point")
        if mount_point == Path("/"):
            self.wrong(f"{where}.mount_point", "/", "a directory of its own, such as /scratch")
        return DesiredArray(
            name=name,
            mount_point=mount_point,
            members=members,
            chunk_bytes=chunk,
            format=str(kind),
            read_ahead_kib=self.number(fields, "read_ahead_kib", READ_AHEAD_KIB, 0, 1 << 20, where),
            root=self.directory(fields, where, ".", 0o755),
            directories=tuple(self.directories(fields.get("directories", []), f"{where}.directories")),
            match=tuple(
                self.rule(each, f"{where}.match[{index}]")
                for index, each in enumerate(self.list(fields.get("match", []), f"{where}.match"))
            ),
        )

    def directories(self, data: Any, where: str) -> Iterator[DesiredDirectory]:  # noqa: ANN401
        for index, each in enumerate(self.list(data, where)):
            here = f"{where}[{index}]"
            fields = self.mapping(each, here, {"path", "owner", "group", "mode"})
            path = fields.get("path")
            parts = Path(path).parts if isinstance(path, str) else ()
            if not parts or ".." in parts or parts[0] == "/" or "\0" in str(path):
                self.wrong(f"{here}.path", path, "a directory below the mount point, such as work")
                path = "."
            yield self.directory(fields, here, str(path), 0o1777)

    def directory(self, fields: Mapping[str, Any], where: str, path: str, mode: int) -> DesiredDirectory:
        text = fields.get("mode", f"{mode:04o}")
        if not isinstance(text, str) or not re.fullmatch(r"0?[0-7]{3,4}", text):
            self.wrong(f"{where}.mode", text, 'an octal number as text, such as "1777"')
            text = "0755"
        names = [fields.get(key, "root") for key in ("owner", "group")]
        for key, value in zip(("owner", "group"), names):  # noqa: B905 - strict came with 3.10
            if not isinstance(value, (str, int)) or isinstance(value, bool) or value in ("", -1):
                self.wrong(f"{where}.{key}", value, "a name or a number")
        return DesiredDirectory(path, str(names[0]), str(names[1]), int(text, 8))

    def rule(self, data: Any, where: str) -> DiskRule:  # noqa: ANN401
        known = {"transport", "model", "serial", "at_least_bytes", "at_most_bytes"}
        fields = self.mapping(data, where, known)
        if not fields:
            self.wrong(where, data, 'a rule that says something, such as {"transport": "nvme"}')
        transport = fields.get("transport")
        if transport is not None and transport not in TRANSPORTS:
            self.wrong(f"{where}.transport", transport, ", ".join(TRANSPORTS))
        for key in ("model", "serial"):
            if fields.get(key) is not None and (not isinstance(fields[key], str) or not fields[key]):
                self.wrong(f"{where}.{key}", fields[key], "a pattern, such as Amazon EC2*")
        if set(fields) <= {"at_least_bytes", "at_most_bytes"} and fields:
            self.wrong(where, data, "a transport, a model or a serial besides the size")
        sizes = [
            None if fields.get(key) is None else self.number(fields, key, 0, 0, 1 << 62, where)
            for key in ("at_least_bytes", "at_most_bytes")
        ]
        return DiskRule("match", transport, fields.get("model"), fields.get("serial"), sizes[0], sizes[1])

    def together(self, arrays: list[DesiredArray]) -> None:
        """What spans arrays: names and mount points of their own, and at most one that takes all disks."""
        for attribute in ("name", "mount_point"):
            seen = [getattr(array, attribute) for array in arrays]
            for value in sorted({str(each) for each in seen if seen.count(each) > 1}):
                self.wrong(f"arrays: {attribute}", value, "one that no other array has")
        takers = [array.name for array in arrays if array.members is None and not array.match]
        if len(takers) > 1:
            self.wrong(
                "arrays: members", None, f"a number for {' and '.join(takers)}: each would take all disks"
            )

    def number(
        self, fields: Mapping[str, Any], key: str, default: int, low: int, high: int, where: str = ""
    ) -> int:
        value = fields.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.wrong(f"{where}.{key}".lstrip("."), value, f"a whole number from {low} to {high}")
            return default
        return value
