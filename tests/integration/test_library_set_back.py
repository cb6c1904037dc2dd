"""A library that was set back to a snapshot: what was made since stays in the bucket."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.command import Command, Ended
from tests.support.disks import run, unmount
from tests.support.object_store import BUCKET, StoreServer


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[None]:
    run("mount", "-o", "loop", image, place)
    try:
        yield
    finally:
        unmount(place)


def problems(ended: Ended) -> list[str]:
    return sorted(each["name"] for each in ended.json["problems"])


def body(server: StoreServer, url: str, name: str) -> bytes:
    key = f"{url.removeprefix(f's3://{BUCKET}/')}/{name}"
    return bytes(server.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())


@pytest.mark.root
def test_a_library_that_was_set_back_takes_nothing_newer_from_the_bucket(
    server: StoreServer, url: str, tmp_path: Path, gridwright: Command
) -> None:
    image, snapshot, place = tmp_path / "image", tmp_path / "snapshot", tmp_path / "library"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    run("mkfs.ext4", "-q", "-F", image)
    flags = ("--bucket", url, "--directory", place)
    with mounted(image, place):
        shutil.rmtree(place / "lost+found")
        for number in range(30):
            (place / f"f{number}").write_text(f"content {number}")
        assert gridwright("repo", "export", *flags).status == 0
        assert gridwright("repo", "release", "--name", "x", "f9", *flags).status == 0
    shutil.copyfile(image, snapshot)
    with mounted(image, place):
        assert "set back" not in gridwright("repo", "status", *flags).err, "no command has run since"
        for name in ("f1", "f2"):
            (place / name).write_text("edited")
        for name in ("c1", "c2"):
            (place / name).write_text("created")
        (place / "f3").chmod(0o600)
        assert gridwright("repo", "export", *flags).status == 0
        ended = gridwright("repo", "export", "--json", *flags)
        assert (ended.status, ended.json["done"], "set back" in ended.err) == (0, {}, False)
    shutil.copyfile(snapshot, image)
    with mounted(image, place):
        ended = gridwright("repo", "export", "--deletions", "--dry-run", *flags)
        assert "was set back to an earlier state" in ended.text
        ended = gridwright("repo", "export", "--deletions", "--json", *flags)
        assert "was set back to an earlier state" in ended.text
        assert (ended.status, problems(ended)) == (1, ["f1", "f2", "f3"]), ended.out
        assert "deleted from the bucket" not in ended.json["done"]
        assert "sent" not in ended.json["done"], ended.out
        for name in ("f1", "f2"):
            assert (body(server, url, name), (place / name).read_text()) == (b"edited", f"content {name[1]}")
        assert {body(server, url, name) for name in ("c1", "c2")} == {b"created"}
        assert body(server, url, "f9") == b"content 9"
        assert "set back" not in gridwright("repo", "status", *flags).err, "it is said once"

        # The import makes what was made since, and names what differs, until somebody says who wins.
        ended = gridwright("repo", "import", "--json", *flags)
        assert (ended.status, problems(ended)) == (1, ["f1", "f2", "f3"])
        assert (place / "c1").read_text() == "created"
        assert gridwright("repo", "import", "--prefer", "objects", *flags).status == 0
        assert (place / "f2").read_text() == "edited"
        assert (place / "f3").stat().st_mode & 0o777 == 0o600
        assert gridwright("repo", "export", "--deletions", *flags).status == 0
        assert gridwright("repo", "verify", *flags).status == 0
        (place / "c2").unlink()
        ended = gridwright("repo", "export", "--deletions", "--json", *flags)
        assert ended.json["done"]["deleted from the bucket"]["count"] == 1


@pytest.mark.root
def test_machines_that_share_a_library_and_one_whose_state_was_lost_are_not_set_back(
    server: StoreServer, url: str, library: Path, tmp_path: Path, gridwright: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from gridwright.repository.state_directory import VARIABLE

    flags = ("--bucket", url, "--directory", library)
    for number in range(6):
        machine = tmp_path / ("one", "other")[number % 2]
        if number == 4:
            shutil.rmtree(machine)
        monkeypatch.setenv(VARIABLE, str(machine))
        (library / f"f{number}").write_text(f"content {number}")
        ended = gridwright("repo", "export", *flags)
        assert (ended.status, "set back" in ended.err) == (0, False), ended.err
    shutil.copytree(tmp_path / "one", tmp_path / "backup")
    (library / "f9").write_text("later")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "one"))
    assert gridwright("repo", "export", *flags).status == 0
    monkeypatch.setenv(VARIABLE, str(tmp_path / "backup"))
    assert "set back" not in gridwright("repo", "export", *flags).err, "a state that is older is none"


@pytest.mark.root
def test_a_library_that_was_set_back_in_the_midst_of_a_migration_is_compared_anew(
    tmp_path: Path, gridwright: Command
) -> None:
    image, snapshot, place = tmp_path / "image", tmp_path / "snapshot", tmp_path / "library"
    source = tmp_path / "source"
    for each in (place, source):
        each.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    run("mkfs.ext4", "-q", "-F", image)
    words = ("repo", "import", "--directory", place, "--from", source, "--json")
    for name in ("same", "edited", "removed"):
        (source / name).write_text(name)
    with mounted(image, place):
        shutil.rmtree(place / "lost+found")
        assert gridwright(*words).status == 0
    shutil.copyfile(image, snapshot)
    with mounted(image, place):
        (source / "edited").write_text("edited since")
        (source / "new").write_text("new")
        for _ in range(2):
            ended = gridwright(*words)
            assert (ended.status, "set back" in ended.out) == (0, False), ended.text
    shutil.copyfile(snapshot, image)
    with mounted(image, place):
        (source / "removed").unlink()
        assert "was set back to an earlier state" in gridwright(*words, "--dry-run").out
        ended = gridwright(*words, "--cut-over")
        assert "was set back to an earlier state" in ended.out
        assert (ended.status, problems(ended)) == (1, ["edited"]), ended.text
        assert (place / "edited").read_text() == "edited"
        assert (place / "new").read_text() == "new"
        assert (place / "removed").read_text() == "removed"
        assert "set back" not in gridwright(*words).out


@pytest.mark.few(1)
@pytest.mark.root
@pytest.mark.parametrize("prefer", [(), ("--prefer", "objects")], ids=["", "objects"])
@pytest.mark.parametrize("first", [True, False], ids=["export", "import"])
def test_a_directory_that_was_set_back_keeps_its_later_owner_in_the_bucket(
    server: StoreServer, url: str, tmp_path: Path, gridwright: Command, first: bool, prefer: tuple[str, ...]
) -> None:
    image, snapshot, place = tmp_path / "image", tmp_path / "snapshot", tmp_path / "library"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    run("mkfs.ext4", "-q", "-F", image)
    flags = ("--json", "--bucket", url, "--directory", place)
    key = f"{url.removeprefix(f's3://{BUCKET}/')}/d/"
    with mounted(image, place):
        shutil.rmtree(place / "lost+found")
        (place / "d").mkdir(mode=0o755)
        (place / "d/file").write_text("content")
        assert gridwright("repo", "export", *flags).status == 0
    shutil.copyfile(image, snapshot)
    with mounted(image, place):
        os.chown(place / "d", 4101, 4102)
        (place / "d").chmod(0o700)
        assert gridwright("repo", "export", *flags).status == 0
    said = server.client().head_object(Bucket=BUCKET, Key=key)["Metadata"]
    assert (said["file-owner"], said["file-permissions"]) == ("4101", "0040700")
    shutil.copyfile(snapshot, image)
    with mounted(image, place):
        if first:
            assert gridwright("repo", "export", *flags).status == 1
        gridwright("repo", "import", *prefer, *flags)
        for number in range(2):
            (place / f"d/new-{number}").write_text("new")
            gridwright("repo", "export", *flags)
            said = server.client().head_object(Bucket=BUCKET, Key=key)["Metadata"]
            assert (said["file-owner"], said["file-group"]) == ("4101", "4102")
            assert said["file-permissions"] == "0040700"
