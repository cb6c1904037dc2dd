"""A row of table `jobs`: what commands hand to the runner, with one field for each column.

An attempt to run such a job has arguments, an environment and private directories.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from gridwright.schedulers.job_options import JobOptions, options_text, read_options
from gridwright.schedulers.local.identifiers import NO_INDEX, TOKEN, JobKey, token
from gridwright.schedulers.local.machine_resources import MachineResources
from gridwright.schedulers.local.policy import Demand, Rank
from gridwright.schedulers.local.queries import demand_of
from gridwright.schedulers.local.store import Store, pack, pack_mapping, unpack, unpack_mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job in the store: what all elements of an array have in common."""

    id: int = 0
    """0 until the store has given it a number."""
    name: bytes
    command: Sequence[bytes]
    directory: bytes
    environment: Mapping[bytes, bytes]
    libraries: Mapping[bytes, bytes]
    cores: int
    memory_bytes: int
    queue: str
    priority: float
    """That of its queue, less a part below 1 for its nice value."""
    time_limit_s: float | None
    is_array: bool
    is_restarted: bool
    is_kept: bool
    is_exclusive: bool
    is_null: bool
    user: str
    submitted: float
    """Seconds since 1970."""
    options: JobOptions = field(default_factory=JobOptions)

    @property
    def rank(self) -> Rank:
        """Its place among all jobs."""
        return (-self.priority, self.id)

    def demand(self, machine: MachineResources) -> Demand:
        """What it takes while it runs."""
        return demand_of(machine, self.cores, self.memory_bytes, self.queue, self.is_exclusive)


_FIELDS = tuple(each.name for each in fields(JobRow))
_COLUMNS = tuple({"memory_bytes": "memory", "time_limit_s": "time_limit"}.get(each, each) for each in _FIELDS)
_FLAGS = tuple(each for each in _FIELDS if each.startswith("is_"))
_MAPPINGS = ("environment", "libraries")
_INSERT = f"INSERT INTO jobs ({', '.join(_COLUMNS[1:])}) VALUES ({', '.join('?' * len(_COLUMNS[1:]))})"  # noqa: S608
_SELECT = f"""
SELECT {", ".join(_COLUMNS)} FROM jobs
WHERE id>? AND id IN (SELECT t.job FROM tasks t WHERE t.state IN ('waiting', 'running') AND t.state=?)
ORDER BY id
"""  # noqa: S608 - names of columns only


def insert_row(store: Store, row: JobRow) -> int:
    """Put a job into the store, within a transaction; its number."""
    values = {name: getattr(row, name) for name in _FIELDS[1:]}
    values["command"] = pack(row.command)
    values |= {name: pack_mapping(values[name]) for name in _MAPPINGS}
    values["options"] = options_text(row.options)
    return store.insert(_INSERT, list(values.values()))


def read_rows(store: Store, state: str, *, beyond: int = 0) -> list[JobRow]:
    """The jobs with tasks in a state, with numbers above `beyond`, in the order of their numbers."""
    return [_decoded(row) for row in store.all(_SELECT, (beyond, state))]


def _decoded(row: Sequence[Any]) -> JobRow:
    values = dict(zip(_FIELDS, row, strict=True))
    values["command"] = unpack(values["command"])
    values |= {name: unpack_mapping(values[name]) for name in _MAPPINGS}
    values["options"] = read_options(values["options"])
    values |= {name: bool(values[name]) for name in _FLAGS}
    return JobRow(**values)


PRIVATE = (b"work", b"util")
"""Libraries in which each job has a directory of its own."""
OWN = tuple(
    f"GRIDWRIGHT_{name}".encode()
    for name in ("DATA", "WORK", "UTIL", "JOB_ID", "CORES", "MEMORY_BYTES", "ARRAY_INDEX", "JOB_TOKEN")
)
"""Variables that tell a job what it has; those of a job that submits another are not handed on."""

PRIVATE_PREFIX = ".gridwright-job-"


def private_directories(store: Store, row: JobRow, key: JobKey, attempt: int) -> list[bytes]:
    """The directories that are made for an attempt: below work and util, with names that tell the job.

    The store's identity keeps apart grids that share a library; each attempt has its own, since what the
    attempt before left may take time to be removed. Nobody else can know a name before it is there, and take
    it.
    """
    again = f"-{attempt + 1}" if attempt else ""
    name = os.fsencode(f"{PRIVATE_PREFIX}{key}{again}-{store.identity}")
    if store.secret:
        name += b"-" + hmac.digest(store.secret.encode(), name, "sha256").hex()[:16].encode()
    return [os.path.join(row.libraries[each], name) for each in PRIVATE if each in row.libraries]  # noqa: PTH118


def job_environment(store: Store, row: JobRow, key: JobKey, attempt: int) -> dict[bytes, bytes]:
    """All of the environment of an attempt."""
    environment = {**row.environment}
    for name in OWN:
        environment.pop(name, None)
    ours = {
        "GRIDWRIGHT_JOB_ID": str(key),
        "GRIDWRIGHT_CORES": str(row.cores),
        "GRIDWRIGHT_MEMORY_BYTES": str(row.memory_bytes),
        TOKEN: token(store.identity, key, attempt),
    }
    if key.element != NO_INDEX:
        ours["GRIDWRIGHT_ARRAY_INDEX"] = str(key.element)
    environment.update({name.encode(): value.encode() for name, value in ours.items()})
    directories = dict(zip((each for each in PRIVATE if each in row.libraries),
                           private_directories(store, row, key, attempt), strict=True))  # fmt: skip
    for library, directory in {**row.libraries, **directories}.items():
        environment[b"GRIDWRIGHT_" + library.upper()] = directory
    return environment
