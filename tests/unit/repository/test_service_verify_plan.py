"""The time of a planned verify, by what binds: the listing alone, requests, or bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from gridwright.repository.forecast import TransferLimit
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.store import ObjectEntry, ObjectStore
from gridwright.repository.verify import plan_verify_linked

READ = (TransferLimit("the file system", 1e6),)


class Listing:
    """A bucket of so many objects of a size, of which nothing but the listing may be asked for."""

    def __init__(self, objects: int, size: int) -> None:
        self.objects, self.size = objects, size

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        for index in range(self.objects):
            yield ObjectEntry(f"{prefix}{index}", self.size, "etag", 0)


def planned(objects: int, size: int, read: Any = READ) -> RepositoryReport:
    store = cast(ObjectStore, Listing(objects, size))
    return plan_verify_linked("sales", Path("/nowhere"), "s3://site/prod", store, (), read)


@pytest.mark.parametrize(
    ("objects", "size", "read", "seconds", "by"),
    [
        (0, 0, READ, 0.0, "the file system"),
        (2001, 10_000, READ, 20.01, "the file system"),
        (11_000, 1, READ, 2.0, "prefix"),
        (11_000, 10**9, (), 2.0, "prefix; how fast files are read is not known"),
    ],
)
def test_what_takes_longest_bounds_it(objects: int, size: int, read: Any, seconds: float, by: str) -> None:
    found = planned(objects, size, read)

    assert found.at_least_s == pytest.approx(seconds)
    assert found.at_least_by.endswith(by)
    assert found.requests.get("head", 0) == objects
    assert found.requests["list"] == max(1, -(-objects // 1000))
    assert found.count("compared").bytes == objects * size
