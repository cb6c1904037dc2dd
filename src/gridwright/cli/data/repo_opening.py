"""A repository and its store, opened for a command, with what a killed command or an older release left."""

from __future__ import annotations

import contextlib
import gc
import shlex
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.data.repo_flags import RepositoryFlags
from gridwright.cli.verbosity import say
from gridwright.errors import GridwrightError, environment_error, input_error
from gridwright.refusals import reason_of, refusal
from gridwright.units import counted

if TYPE_CHECKING:
    from gridwright.repository.s3.s3_store import S3Store
    from gridwright.repository.settings import OpenRepository, RepositorySettings


def opened_store(flags: RepositoryFlags, bucket_url: str, endpoint: str | None) -> S3Store:
    """The store of a bucket, as the flags have it reached. Raises GridwrightError."""
    from gridwright.repository.s3.connection import BucketLocation, connect
    from gridwright.repository.s3.request_threads import Pace
    from gridwright.repository.s3.s3_store import S3Store

    rate = flags.requests_per_second
    if rate is not None and rate <= 0:
        raise input_error("no requests at all do nothing", where="--requests-per-second", remedy="write 100")
    connection = connect(
        BucketLocation.parse(bucket_url).bucket,
        endpoint_url=flags.endpoint or endpoint,
        requester_pays=flags.requester_pays,
    )
    return S3Store(connection, pace=Pace(rate))


def unopened(directory: Path, what: str, error: OSError) -> GridwrightError:
    """The error of a repository's directory that cannot be looked into: whose it is, and the next step."""
    helps = f"mount its file system, or make it: mkdir -p {shlex.quote(str(directory))}"
    why = refusal(directory, error, helps if isinstance(error, FileNotFoundError) else "run as its owner")
    return environment_error(f"{what}: {why.reason}", where=str(directory), remedy=why.remedy)


_COLLECTION = (20_000, 20, 20)
"""Objects that are made before a collection: rows have no cycles, and those of exceptions are few."""


@contextlib.contextmanager
def _of_bucket(url: str) -> Iterator[None]:
    """Have a bucket that is not there named as the user did, whatever key the store was asked for."""
    from gridwright.repository.store import StoreError, StoreFault

    try:
        yield
    except StoreError as error:
        if error.fault is not StoreFault.NO_BUCKET:
            raise
        raise GridwrightError(replace(error.problems[0], where=url), status=error.status) from error


@contextlib.contextmanager
def open_repository(
    flags: RepositoryFlags, settings: RepositorySettings, *, looks: bool = False
) -> Iterator[OpenRepository]:
    """The repository that the flags name, opened; see `OpenRepository.open`. Raises GridwrightError."""
    with _of_bucket(settings.bucket_url), _opened(flags, settings, looks=looks) as opened:
        yield opened


@contextlib.contextmanager
def _opened(flags: RepositoryFlags, settings: RepositorySettings, *, looks: bool) -> Iterator[OpenRepository]:
    from gridwright.repository.keys import shown
    from gridwright.repository.release import put_back_left
    from gridwright.repository.settings import OpenRepository
    from gridwright.repository.state_failures import FULL, state_failure
    from gridwright.repository.unfinished import remove_placeholders

    store = opened_store(flags, settings.bucket_url, settings.endpoint)
    # What was imported so far stays; looking through it again and again takes a fifth of the CPU.
    gc.freeze()
    gc.set_threshold(*_COLLECTION)
    try:
        opened = OpenRepository.open(settings, store, looks=looks)
    except OSError as error:
        raise unopened(settings.directory, "the directory cannot be opened", error) from error
    if opened.known.state.note:
        say(opened.known.state.note)
    try:
        if not looks:
            removed, problems = remove_placeholders(opened)
            if removed:
                say(
                    f"{counted(removed, 'file')} without content here, which gave zeros to readers, had to "
                    "be removed; objects are in the bucket (gridwright repo ls, gridwright repo import)"
                )
            for path, why in (*problems, *put_back_left(opened)):
                say(f"{shown(path)}: {why}")
        yield opened
        opened.known.flush()
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) or error.errno in FULL:
            raise state_failure(error, opened.known.file, beside=[settings.directory]) from error
        raise environment_error(
            f"the repository's files cannot be worked on: {reason_of(error, named=True)}",
            where=str(settings.directory),
        ) from error
    finally:
        with contextlib.suppress(sqlite3.Error, OSError):
            opened.close()
