"""A repository of tests, opened as commands open it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from gridwright.repository.s3.connection import connect
from gridwright.repository.s3.s3_store import S3Store
from gridwright.repository.settings import OpenRepository, RepositorySettings
from tests.support.object_store import BUCKET, StoreServer

Result = TypeVar("Result")
URL = f"s3://{BUCKET}/prod"


@contextlib.contextmanager
def opened(
    directory: Path, server: StoreServer, url: str = URL, *, alone: bool = True
) -> Iterator[OpenRepository]:
    """The repository of a directory; retries come soon."""
    store = S3Store(connect(BUCKET, endpoint_url=server.endpoint_url), pause_ms=20)
    repository = OpenRepository.open(RepositorySettings("archive", directory, url), store, alone=alone)
    try:
        yield repository
    finally:
        repository.close()


def run(
    directory: Path, server: StoreServer, what: Callable[[OpenRepository], Result], url: str = URL
) -> Result:
    """What a function gives of the opened repository."""
    with opened(directory, server, url) as repository:
        return what(repository)
