"""An attempt to run a job has arguments, an environment and private directories."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gridwright.schedulers.local.identifiers import NO_INDEX, TOKEN, JobKey, token
from gridwright.schedulers.local.machine_resources import MachineResources
from gridwright.schedulers.local.policy import Demand
from gridwright.schedulers.local.queries import demand_of
from gridwright.schedulers.local.schema import unpack, unpack_mapping
from gridwright.schedulers.local.store import Store

PRIVATE = (b"work", b"util")
"""Libraries in which each job has a directory of its own."""
OWN = tuple(
    f"GRIDWRIGHT_{name}".encode()
    for name in ("DATA", "WORK", "UTIL", "JOB_ID", "CORES", "MEMORY_BYTES", "ARRAY_INDEX", "JOB_TOKEN")
)
"""Variables that tell a job what it has; those of a job that submits another are not handed on."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as the store has it: what all elements of an array have in common."""

    id: int
    priority: int
    command: Sequence[bytes]
    directory: bytes
    environment: Mapping[bytes, bytes]
    libraries: Mapping[bytes, bytes]
    cores: int
    memory_bytes: int
    queue: str
    time_limit_s: float | None
    is_restarted: bool
    is_kept: bool
    is_exclusive: bool
    is_null: bool

    @property
    def rank(self) -> tuple[int, int]:
        """Its place among all jobs."""
        return (-self.priority, self.id)

    def demand(self, machine: MachineResources) -> Demand:
        """What it takes while it runs."""
        return demand_of(machine, self.cores, self.memory_bytes, self.queue, self.is_exclusive)


_ROWS = """
SELECT j.id, j.priority, j.command, j.directory, j.environment, j.libraries, j.cores, j.memory, j.queue,
    j.time_limit, j.is_restarted, j.is_kept, j.is_exclusive, j.is_null
FROM jobs j
WHERE j.id>? AND j.id IN (
    SELECT t.job FROM tasks t WHERE t.state IN ('waiting', 'running') AND t.state=?)
ORDER BY j.id
"""


def read_rows(store: Store, state: str, *, beyond: int = 0) -> list[JobRow]:
    """The jobs with tasks in a state, with numbers above `beyond`, in the order of their numbers."""
    return [
        JobRow(
            row[0],
            row[1],
            unpack(row[2]),
            row[3],
            unpack_mapping(row[4]),
            unpack_mapping(row[5]),
            *row[6:10],
            *map(bool, row[10:14]),
        )
        for row in store.all(_ROWS, (beyond, state))
    ]


def private_directories(store: Store, row: JobRow, key: JobKey, attempt: int) -> list[bytes]:
    """The directories that are made for an attempt: below work and util, with names that tell the job.

    The store's identity keeps apart grids that share a library; each attempt has its own, since what the
    attempt before left may take time to be removed.
    """
    again = f"-{attempt + 1}" if attempt else ""
    name = os.fsencode(f".gridwright-job-{key}{again}-{store.identity}")
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
