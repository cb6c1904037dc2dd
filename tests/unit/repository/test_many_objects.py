"""Memory is bounded whatever the number of objects: a plan of a bucket keeps none of them."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from gridwright.repository.importing import ImportOptions, import_objects
from gridwright.repository.keys import RESERVED
from gridwright.repository.settings import OpenRepository, ReportedCount, RepositorySettings
from gridwright.repository.store import (
    ObjectEntry,
    ObjectHead,
    RequestCount,
    StoreAbilities,
    StoreError,
    StoreFault,
)

ETAG = "d41d8cd98f00b204e9800998ecf8427e"
MOST_MORE = 64 << 20
"""Bytes; a million rows of Python objects would take a gigabyte."""


class ListedStore:
    """A bucket of nothing but keys."""

    bucket = "site-sas"
    place = software = "store"
    abilities = StoreAbilities()

    def __init__(self, objects: int) -> None:
        self._objects = objects
        self.requests = RequestCount()

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectEntry]:
        for place in range(self._objects):
            key = f"{prefix}part={place // 1000:05}/rows-{place:09}.sas7bdat"
            yield ObjectEntry(key, 1, ETAG, 10**18)

    def head(self, key: str, version_id: str | None = None) -> Future[ObjectHead]:
        answer: Future[ObjectHead] = Future()
        if RESERVED in key:
            answer.set_exception(StoreError(StoreFault.NOT_THERE, key))
        else:
            answer.set_result(ObjectHead(ObjectEntry(key, 1, ETAG, 10**18), {}))
        return answer

    def close(self) -> None:
        """Nothing is under way."""


@pytest.mark.parametrize("objects", [20_000, pytest.param(1_000_000, marks=pytest.mark.thorough)])
def test_a_plan_of_a_bucket_takes_little_memory(tmp_path: Path, objects: int) -> None:
    settings = RepositorySettings("archive", tmp_path, "s3://site-sas/prod")
    opened = OpenRepository.open(settings, ListedStore(objects), looks=True)  # type: ignore[arg-type]
    try:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        report = import_objects(opened, ImportOptions(dry_run=True))
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    finally:
        opened.close()
    assert report.done["made"] == report.done["brought"] == ReportedCount(objects, objects, objects)
    assert more < MOST_MORE
    assert list(tmp_path.iterdir()) == []
