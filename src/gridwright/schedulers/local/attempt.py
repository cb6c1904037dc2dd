"""An attempt to run a job has arguments, an environment and private directories."""

from __future__ import annotations

import hmac
import os

from gridwright.schedulers.local.identifiers import NO_INDEX, TOKEN, JobKey, token
from gridwright.schedulers.local.job_row import JobRow
from gridwright.schedulers.local.store import Store

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
