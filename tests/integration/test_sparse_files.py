"""Files that seem larger than anything, which cost a user nothing to make: they hold nobody up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.repository.s3.parts import part_bytes, part_count
from gridwright.repository.scan import Action
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all
from tests.support.command import Command
from tests.support.object_store import BUCKET, StoreServer, prefix_of
from tests.support.repositories import opened_without_store

LARGEST_FILE = 2**63 - 4097
"""What truncate(1) makes on XFS and tmpfs of 64 bits."""
LARGEST_OBJECT = 10_000 * (5 << 30)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A library of many users, on a tmpfs, which takes the largest files."""
    open_to_all(tmp_path)
    library = tmp_path / "shared"
    library.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", library], check=True, timeout=20)
    library.chmod(0o1777)
    yield library
    subprocess.run(["umount", library], check=True, timeout=20)


def make(uid: int, path: Path, size: int) -> None:
    """A file of a user's that is one hole."""

    def act() -> None:
        path.touch()
        os.truncate(path, size)

    as_user(uid, act)


@pytest.mark.root
def test_files_of_no_object_are_named_and_those_of_others_are_exported(
    server: StoreServer, gridwright: Command, shared: Path, request: pytest.FixtureRequest
) -> None:
    url = prefix_of(request.node.name)
    flags = ("--bucket", url, "--directory", shared, "--json")
    for name, size in (("a", LARGEST_FILE), ("b", LARGEST_FILE), ("c", LARGEST_OBJECT + 1)):
        make(MALLORY, shared / name, size)
    make(ALICE, shared / "report", 5)
    planned = gridwright("repo", "export", "--dry-run", *flags)
    ended = gridwright("repo", "export", *flags)
    status = gridwright("repo", "status", *flags)
    for each in (planned.json, ended.json, status.json["repositories"][0]):
        found = {refused["name"]: refused["why"] for refused in each["nameless"]["first"]}
        assert sorted(found) == ["a", "b", "c"]
        assert all("48.8 TiB is the most" in why for why in found.values()), found
    assert (planned.status, ended.status) == (0, 0), "it is whole without what no object can be"
    assert planned.json["requests"]["put"] < 10
    prefix = url.removeprefix(f"s3://{BUCKET}/")
    keys = [each["Key"] for each in server.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]]
    assert f"{prefix}/report" in keys and f"{prefix}/a" not in keys


@pytest.mark.root
def test_a_plan_says_what_holes_cost(
    server: StoreServer, gridwright: Command, shared: Path, request: pytest.FixtureRequest
) -> None:
    url = prefix_of(request.node.name)
    make(MALLORY, shared / "hole", 16 << 40)
    planned = gridwright("repo", "export", "--dry-run", "--json", "--bucket", url, "--directory", shared)
    assert planned.status == 0
    # Beside the parts: begin and end, the directory, the lease, and the manifest.
    assert planned.json["requests"]["put"] == part_count(16 << 40) + 5 <= 10_005
    assert any("holes" in note and note.endswith("hole") for note in planned.json["notes"])


def test_sums_of_sizes_are_exact_and_large_files_come_last(tmp_path: Path) -> None:
    most = 2**63 - 1
    opened = opened_without_store(tmp_path)
    try:
        known = opened.known
        work = [(b"huge%d" % number, Action.SEND, most, None) for number in range(3)]
        known.add_work([*work, (b"small", Action.SEND, 1, None)])
        known.list_objects((f"key{number}", most, "etag", 0, "STANDARD") for number in range(3))
        assert known.count_work() == {Action.SEND: (4, 3 * most + 1)}
        assert known.count_listed() == (3, 3 * most)
        assert [path for path, _, _ in known.work_with_rows()] == [b"small", b"huge0", b"huge1", b"huge2"]
    finally:
        opened.close()


def test_the_largest_object_has_parts_that_a_store_takes() -> None:
    assert part_bytes(LARGEST_OBJECT) == 5 << 30
