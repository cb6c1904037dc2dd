"""What a node must have, /etc/gridwright/health.json, and holding against it what the node has mounted.

```json
{
  "schema": 1,
  "limit_seconds": 10,
  "mounts": [{"path": "/shared", "types": ["lustre"], "source": "10.0.0.1@tcp:/shared"}],
  "directories": ["/scratch/work"]
}
```

`types` are those of /proc/self/mountinfo. With `source` the mount is at `path` itself and from there; without
one (null, or left out), `path` may lie anywhere on a mount of such a type. `limit_seconds` is how long a look
at one of them may take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.node_programs.health.looking import READ_ONLY, Glance
from gridwright.node_programs.scratch.disks import Mount
from gridwright.node_programs.scratch.problems import JsonReader, Trouble

CONFIGURATION = Path("/etc/gridwright/health.json")
SCHEMA = 1
LIMIT_S = 10
"""slurmd kills the program after 60 s (slurm.conf(5), HealthCheckProgram): a look, a pause and two questions
to slurmctld take less."""
_MOST_LIMIT_S = 20


class HealthError(Exception):
    """The configuration is wrong; `troubles` has all that is."""

    def __init__(self, *troubles: Trouble) -> None:
        super().__init__("\n".join(str(trouble) for trouble in troubles))
        self.troubles = troubles


@dataclass(frozen=True)
class ExpectedMount:
    """A file system that the node must have mounted."""

    path: str
    types: tuple[str, ...]
    source: str | None = None


@dataclass(frozen=True)
class HealthConfiguration:
    """All that the node must have."""

    mounts: tuple[ExpectedMount, ...] = ()
    directories: tuple[str, ...] = ()
    limit_s: int = LIMIT_S

    @property
    def paths(self) -> tuple[str, ...]:
        """Everything that is looked at, once."""
        return tuple(dict.fromkeys((*(mount.path for mount in self.mounts), *self.directories)))


def read_configuration(path: Path) -> HealthConfiguration:
    """Read and check the file. Raises HealthError with all that is wrong."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HealthError(Trouble(f"{path}: {error.strerror}", "run the playbook again")) from None
    except (ValueError, RecursionError) as error:
        raise HealthError(Trouble(f"{path} is not JSON: {error}", "run the playbook again")) from None
    reader = JsonReader()
    given = reader.mapping(data, "the file", {"schema", "limit_seconds", "mounts", "directories"})
    if given.get("schema") != SCHEMA:
        reader.wrong("schema", given.get("schema"), str(SCHEMA))
    limit = given.get("limit_seconds", LIMIT_S)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 < limit <= _MOST_LIMIT_S:
        reader.wrong("limit_seconds", limit, f"a whole number from 1 to {_MOST_LIMIT_S}")
    mounts = [
        _mount(reader, each, f"mounts[{number}]")
        for number, each in enumerate(reader.list(given.get("mounts", []), "mounts"))
    ]
    directories = [
        str(reader.path(each, f"directories[{number}]"))
        for number, each in enumerate(reader.list(given.get("directories", []), "directories"))
    ]
    if reader.troubles:
        raise HealthError(*reader.troubles)
    return HealthConfiguration(tuple(mounts), tuple(directories), limit)


def _mount(reader: JsonReader, data: Any, where: str) -> ExpectedMount:  # noqa: ANN401 - what JSON holds
    given = reader.mapping(data, where, {"path", "types", "source"})
    path = reader.path(given.get("path"), f"{where}.path")
    types = reader.list(given.get("types"), f"{where}.types")
    if not types or not all(isinstance(each, str) and each for each in types):
        reader.wrong(f"{where}.types", given.get("types"), "a list of types, such as lustre")
    source = given.get("source")
    if source is not None and (not isinstance(source, str) or not source):
        reader.wrong(
            f"{where}.source", source, "what is mounted there, such as 10.0.0.1@tcp:/shared, or null"
        )
    return ExpectedMount(str(path), tuple(map(str, types)), source)


_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a node, in words by the path.

    `certain` is what the kernel's own table says. `unsure` is what a slow or failing answer says, which a
    server that fails over gives too, so that one alone proves nothing.
    """

    certain: Mapping[str, str]
    unsure: Mapping[str, str]


def node_verdict(
    configuration: HealthConfiguration, table: Sequence[Mount], glances: Mapping[str, Glance]
) -> Verdict:
    """Everything that is wrong, each path once and with the weightiest."""
    certain = {
        mount.path: wrong
        for mount in configuration.mounts
        if (wrong := mount_problem(mount, table)) is not None
    }
    answers = {path: wrong for path, wrong in _answers(glances) if path not in certain}
    unsure = {
        path: wrong for path, wrong in answers.items() if not _may_be_read_only(path, wrong, configuration)
    }
    return Verdict(certain, unsure)


def mount_problem(expected: ExpectedMount, table: Sequence[Mount]) -> str | None:
    """What is wrong with a mount by the kernel's table; None where it is as it must be."""
    path = expected.path
    if expected.source is None:
        # Any mount of the type that the path lies on.
        holder = _holder(path, table)
        if holder is not None and holder.type in expected.types:
            return None
        return f"{path} is not mounted as {expected.types[0]}"
    # Of several mounts on one point the last is on top.
    there = [mount for mount in table if mount.point == path]
    if not there:
        return f"{path} is not mounted"
    if there[-1].type not in expected.types:
        return f"{path} is a mount of {there[-1].type}, not {expected.types[0]}"
    if not is_same_source(expected.source, there[-1].source):
        return f"{path} is mounted from {there[-1].source}, not {expected.source}"
    return None


def is_same_source(expected: str, found: str) -> bool:
    """Whether two names can mean the same file system.

    The part behind the servers must agree. A server has many names: one is another one only where both are
    written as addresses, and none of them agree.
    """
    if expected == found:
        return True
    (hosts, path), (found_hosts, found_path) = _parts(expected), _parts(found)
    if path != found_path:
        return False
    addresses, others = set(_ADDRESS.findall(hosts)), set(_ADDRESS.findall(found_hosts))
    return not addresses or not others or bool(addresses & others)


def _parts(source: str) -> tuple[str, str]:
    """Servers and path of `10.0.0.1@tcp:/shared`; a slash at the end of the path says nothing."""
    hosts, _, path = source.rpartition(":")
    return hosts, path.rstrip("/")


def _holder(path: str, table: Sequence[Mount]) -> Mount | None:
    holding = [
        mount
        for mount in table
        if mount.point in ("/", path) or path.startswith(mount.point.rstrip("/") + "/")
    ]
    # Of mounts on one point the last is on top.
    return max(reversed(holding), key=lambda each: len(each.point), default=None)


def _may_be_read_only(path: str, wrong: str, configuration: HealthConfiguration) -> bool:
    """Whether it is one that jobs only read from, for all that is known: a site may mount data so."""
    return wrong.endswith(READ_ONLY) and path not in configuration.directories


def _answers(glances: Mapping[str, Glance]) -> Iterator[tuple[str, str]]:
    for path, glance in glances.items():
        if glance.left is not None:
            yield path, f"{path} hangs"
        elif glance.wrong:
            yield path, f"{path} {glance.wrong}"
