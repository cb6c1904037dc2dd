"""A repository of tests, opened as commands open it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar, cast

from gridwright.repository.s3.connection import connect
from gridwright.repository.s3.s3_store import S3Store
from gridwright.repository.settings import OpenRepository, RepositorySettings
from gridwright.repository.state_directory import open_state
from gridwright.repository.store import ObjectStore
from tests.support.object_store import BUCKET, StoreServer
from tests.unit.repository.test_many_objects import ListedStore

Result = TypeVar("Result")
URL = f"s3://{BUCKET}/prod"


class SameStore(S3Store):
    """Those of one test are one store, also where something that lies stands in front of it."""

    place = "store of the tests"


def forget(directory: Path) -> None:
    """Remove all that is known of a directory, as on a machine that never saw it."""
    state = open_state(directory)
    state.close()
    shutil.rmtree(state.path)


@contextlib.contextmanager
def opened(
    directory: Path, server: StoreServer, url: str = URL, *, alone: bool = True, looks: bool = False
) -> Iterator[OpenRepository]:
    """The repository of a directory; retries come soon. A dry run `looks`."""
    store = SameStore(connect(BUCKET, endpoint_url=server.endpoint_url), pause_ms=20)
    settings = RepositorySettings("archive", directory, url)
    repository = OpenRepository.open(settings, store, alone=alone, looks=looks)
    try:
        yield repository
    finally:
        repository.close()


@contextlib.contextmanager
def looking(repository: OpenRepository) -> Iterator[OpenRepository]:
    """The same repository as a dry run opens it."""
    plan = OpenRepository.open(repository.settings, repository.store, looks=True)
    try:
        yield plan
    finally:
        plan.known.close()
        plan.below.close()


def run(
    directory: Path,
    server: StoreServer,
    what: Callable[[OpenRepository], Result],
    url: str = URL,
    *,
    looks: bool = False,
) -> Result:
    """What a function gives of the opened repository."""
    with opened(directory, server, url, looks=looks) as repository:
        return what(repository)


def opened_without_store(directory: Path, url: str = URL) -> OpenRepository:
    """The repository of a directory, for what asks nothing of the bucket."""
    settings = RepositorySettings("archive", directory, url)
    return OpenRepository.open(settings, cast("ObjectStore", ListedStore(0)), alone=False)
