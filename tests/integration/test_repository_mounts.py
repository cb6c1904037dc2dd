"""What one user mounts or nests in a library takes nothing from others, and misleads no work of root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gridwright.beneath import remove_tree
from tests.support.command import Command
from tests.support.object_store import StoreServer, prefix_of
from tests.unit.test_beneath import deep

pytestmark = pytest.mark.root


@pytest.mark.few(1)
def test_nothing_comes_into_what_is_mounted_over_a_directory(
    server: StoreServer, gridwright: Command, library: Path, request: pytest.FixtureRequest
) -> None:
    flags = ("--bucket", prefix_of(request.node.name), "--directory", library)
    for name in ("m/one", "n/one"):
        (library / name).parent.mkdir()
        (library / name).write_text("one")
    assert gridwright("repo", "export", *flags).status == 0
    for name in ("m/one", "n/one"):
        (library / name).unlink()

    script = 'mount -t tmpfs none "$0/m"; touch "$0/m/other"; "$@"; ls "$0/m" >&2'
    mounts = ("unshare", "--mount", "sh", "-c", script, str(library))
    for more in ((), ("--contents",), ("--deletions",)):
        ended = gridwright("repo", "import", "--json", *flags, *more, prefix=mounts)
        problems = {each["name"]: each["why"] for each in ended.json["problems"]}
        assert "another file system is mounted there" in problems["m/one"]
        assert ended.err.splitlines()[-1:] == ["other"]
    assert (library / "n" / "one").exists()
    assert not (library / "m" / "one").exists()


def test_few_open_files_are_enough_for_many(
    server: StoreServer, gridwright: Command, library: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for place in range(400):
        (library / f"d{place % 7}").mkdir(exist_ok=True)
        (library / f"d{place % 7}" / f"file{place}").write_bytes(os.urandom(100))
    other = tmp_path / "other"
    other.mkdir()
    few = ("prlimit", "--nofile=128:128")
    for turn, verb, directory in (
        (0, "export", library), (0, "import", other),
        (1, "export", library), (1, "import", other), (1, "release", other),
    ):  # fmt: skip
        for place in range(0, 400 if (turn, verb) == (1, "export") else 0, 2):
            (library / f"d{place % 7}" / f"file{place}").write_bytes(os.urandom(100))
        flags = ("--bucket", prefix_of(request.node.name), "--directory", directory)
        more = {"import": ("--contents",), "release": ("--name", "x", "d1")}.get(verb, ())
        ended = gridwright("repo", verb, "--json", *flags, *more, prefix=few)
        assert ended.json["problems"] == [], ended.text
        if verb == "import":
            assert sum(each.is_file() for each in other.rglob("file*")) == 400
    assert not list((other / "d1").iterdir())


def test_a_deep_directory_keeps_nobody_elses_files_from_being_exported(
    server: StoreServer, gridwright: Command, library: Path, request: pytest.FixtureRequest
) -> None:
    prefix = prefix_of(request.node.name)
    # A key has 1,024 bytes at most.
    path = deep(library, 450)
    (library / "neighbour").write_text("one")

    flags = ("--bucket", prefix, "--directory", library)
    ended = gridwright("repo", "export", "--json", *flags, prefix=("prlimit", "--nofile=256:256"))
    assert ended.json["problems"] == []
    client, (bucket, start) = server.client(), prefix.removeprefix("s3://").split("/", 1)
    for name in (b"neighbour", path):
        client.head_object(Bucket=bucket, Key=f"{start}/{os.fsdecode(name)}")
    assert remove_tree(os.fsencode(library / "d"))
