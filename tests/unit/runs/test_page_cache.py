"""What launches read out of the page cache: counted where the kernel tells, and said where it is much."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.runs.launch_record import LaunchRecord, LibraryTraffic
from gridwright.runs.workload_reducer import cached_finding, cached_reads, with_cached_reads
from tests.support.records import launch_record

DISK = {"data": {"device": "vda", "filesystem_type": "ext4"}}


def launch(read: int | None, fetched: int | None, libraries: dict[str, int] | None = None) -> LaunchRecord:
    return launch_record(
        1,
        read_bytes=read,
        device_read_bytes=fetched,
        libraries={name: LibraryTraffic(read_bytes=size) for name, size in (libraries or {}).items()},
    )


@pytest.mark.parametrize(
    ("read", "fetched", "libraries", "cached"),
    [
        (1000, 400, None, 600),
        (1000, 0, None, 1000),
        (1000, 1200, None, 0),
        (1_000_000, 400, {"data": 500, "util": 100}, 200),
        (1000, None, None, None),
        (None, 5, None, None),
    ],
)
def test_what_no_device_delivered_was_cached(
    read: int | None, fetched: int | None, libraries: dict[str, int] | None, cached: int | None
) -> None:
    """Readahead delivers more than is read; a test's modules are no data."""
    (found,) = with_cached_reads([launch(read, fetched, libraries)], DISK)
    assert found.cached_read_bytes == cached


@pytest.mark.parametrize(
    "devices",
    [{}, {"data": {"device": None, "filesystem_type": "lustre"}}, DISK | {"work": {"device": None}}],
)
def test_nothing_is_counted_where_the_kernel_does_not_count_what_was_fetched(devices: dict[str, Any]) -> None:
    """A client of Lustre counts nothing as fetched: all would seem to come from memory."""
    found = with_cached_reads([launch(1000, 0)], devices)
    assert found[0].cached_read_bytes is None
    assert cached_reads(found) is None
    assert cached_finding(found) is None


def test_much_is_said_and_little_is_not() -> None:
    mib = 1 << 20
    much = with_cached_reads([launch(1000 * mib, 400 * mib), launch(1000 * mib, 1000 * mib)], DISK)
    assert cached_reads(much) == (600 * mib, 2000 * mib)
    told = cached_finding(much)
    assert told is not None
    assert told.text.startswith("30% of what launches read")
    assert cached_finding(with_cached_reads([launch(1000 * mib, 960 * mib)], DISK)) is None
    assert cached_finding(with_cached_reads([launch(1000, 0)], DISK)) is None, "a shell reads itself"
