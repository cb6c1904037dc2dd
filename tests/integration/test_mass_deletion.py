"""What is deleted by mistake on one side is not deleted on the other one, and files lie in the trash."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, Ended
from tests.support.disks import other_mount
from tests.support.object_store import BUCKET, StoreServer, store_server


def fill(library: Path, count: int) -> None:
    for number in range(count):
        (library / f"d{number % 4}").mkdir(exist_ok=True)
        (library / f"d{number % 4}" / f"f{number}").write_text(f"{number}")


def said(ended: Ended) -> str:
    """What a command printed, on one line."""
    return " ".join(ended.out.split())


def keys(server: StoreServer, url: str) -> list[str]:
    prefix = url.removeprefix(f"s3://{BUCKET}/") + "/"
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    found = [each["Key"] for page in pages for each in page.get("Contents", ())]
    return [each for each in found if "/.gridwright/" not in each]


def test_an_export_deletes_no_half_of_a_library_unless_it_is_named(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    fill(library, 100)
    assert gridwright("repo", "export", *flags).status == 0
    before = keys(server, url)
    (library / "d0" / "f0").unlink()
    assert gridwright("repo", "export", "--deletions", *flags).status == 0
    assert len(keys(server, url)) == len(before) - 1, "one of many is deleted"

    shutil.rmtree(library / "d1")
    (library / "new").write_text("new")
    (library / "d2").rename(library / "moved")
    planned = gridwright("repo", "export", "--deletions", "--dry-run", *flags)
    assert (planned.status, "--delete-up-to" in said(planned)) == (1, True)
    ended = gridwright("repo", "export", "--deletions", "--json", *flags)
    assert ended.status == 1
    ((name, why),) = [(each["name"], each["why"]) for each in ended.json["problems"]]
    assert name == "--deletions"
    assert "25 of 99 would be deleted, more than 10%" in why, "what has another name is not lost"
    assert any(each.endswith("/new") for each in keys(server, url)), "all else is done"
    assert sum("/d1/" in each for each in keys(server, url)) == 26
    status = gridwright("repo", "status", *flags)
    assert (status.status, "refused: 25 of 99" in said(status)) == (1, True)
    assert "could not be sent" not in said(status)

    assert gridwright("repo", "export", "--deletions", "--delete-up-to", "24", *flags).status == 1
    assert gridwright("repo", "export", "--deletions", "--delete-up-to", "25", *flags).status == 0
    assert not any("/d1/" in each for each in keys(server, url))
    assert "refused" not in gridwright("repo", "status", *flags).out


def test_a_refusal_stays_until_deletions_are_well_or_all_is_back(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)

    def is_refused() -> bool:
        status = gridwright("repo", "status", *flags)
        return "refused: 25 of 100" in said(status)

    fill(library, 100)
    assert gridwright("repo", "export", *flags).status == 0
    shutil.move(library / "d1", aside := library.parent / "aside")
    assert gridwright("repo", "export", "--deletions", *flags).status == 1
    assert gridwright("repo", "export", *flags).status == 0
    assert is_refused(), "what is gone is still to be decided"
    shutil.move(aside, library / "d1")
    assert gridwright("repo", "export", "./d0", *flags).status == 0
    assert is_refused(), "a run of some paths has not looked at the others"
    assert gridwright("repo", "export", *flags).status == 0
    assert not is_refused()

    client = server.client()
    for each in [each for each in keys(server, url) if "/d1" in each]:
        client.delete_object(Bucket=BUCKET, Key=each)
    assert gridwright("repo", "import", "--deletions", *flags).status == 1
    assert gridwright("repo", "import", *flags).status == 0
    assert is_refused()
    assert gridwright("repo", "export", "--prefer", "files", *flags).status == 0
    assert gridwright("repo", "import", *flags).status == 0
    assert not is_refused()


def test_an_empty_side_is_never_taken_for_a_wish(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    (library / "a").write_text("a")
    (library / "b").write_text("b")
    assert gridwright("repo", "export", *flags).status == 0
    for name in ("a", "b"):
        (library / name).rename(library.parent / name)
    assert gridwright("repo", "export", "--deletions", *flags).status == 1
    assert len(keys(server, url)) == 3
    for name in ("a", "b"):
        (library.parent / name).rename(library / name)
    assert gridwright("repo", "export", "--deletions", *flags).status == 0

    client = server.client()
    for each in keys(server, url):
        client.delete_object(Bucket=BUCKET, Key=each)
    ended = gridwright("repo", "import", "--deletions", *flags)
    assert (ended.status, "nothing would be left" in said(ended)) == (1, True)
    assert sorted(each.name for each in library.iterdir()) == ["a", "b"]


def test_what_an_import_deletes_lies_in_the_trash_until_it_is_emptied(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    fill(library, 40)
    assert gridwright("repo", "export", *flags).status == 0
    inode = (library / "d1" / "f1").stat().st_ino
    client = server.client()
    gone = [each for each in keys(server, url) if "/d1/" in each or "/d2/" in each]
    for each in gone:
        client.delete_object(Bucket=BUCKET, Key=each)
    ended = gridwright("repo", "import", "--deletions", *flags)
    assert (ended.status, "--delete-up-to 20" in said(ended)) == (1, True)
    assert (library / "d1" / "f1").exists()
    assert gridwright("repo", "import", "--deletions", "--delete-up-to", "20", *flags).status == 0
    assert not (library / "d1").exists()
    (moved,) = (library / ".gridwright" / "trash").glob("*/d1/f1")
    assert (moved.stat().st_ino, moved.read_text()) == (inode, "1")

    exported = gridwright("repo", "export", "--json", *flags)
    assert "sent" not in exported.json["done"], "nobody exports the trash"
    assert exported.json["notes"] == []
    name = moved.parent.parent.name
    shown = gridwright("repo", "trash", *flags)
    assert f"{name}, 20 files" in shown.out
    assert gridwright("repo", "trash", "--empty-older-than", "1d", *flags).status == 0
    assert moved.exists()
    planned = gridwright("repo", "trash", "--empty-older-than", "0s", "--dry-run", *flags)
    assert (planned.status, f"would be removed: {name}, 20 files" in planned.out) == (0, True)
    assert "nothing lies there" not in planned.out
    assert moved.exists()
    assert gridwright("repo", "trash", "--dry-run", *flags).status == 2
    assert "removed" in gridwright("repo", "trash", "--empty-older-than", "0s", *flags).out
    assert not moved.exists()


def test_a_cut_over_from_an_emptied_source_removes_nothing(
    tmp_path: Path, library: Path, gridwright: Command
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    fill(source, 44)
    flags = ("repo", "import", "--from", source, "--directory", library)
    assert gridwright(*flags).status == 0
    shutil.rmtree(source / "d1")
    ended = gridwright(*flags, "--cut-over")
    assert (ended.status, "11 of 44 would be deleted" in said(ended)) == (1, True)
    for each in source.iterdir():
        shutil.rmtree(each)
    ended = gridwright(*flags, "--cut-over")
    assert (ended.status, "nothing would be left" in said(ended)) == (1, True)
    assert (library / "d2" / "f2").exists()
    assert gridwright(*flags, "--cut-over", "--delete-up-to", "44").status == 0
    assert [each.name for each in library.iterdir()] == [".gridwright"]
    assert len([each for each in (library / ".gridwright/trash").rglob("f*") if each.is_file()]) == 44


@pytest.mark.root
@pytest.mark.parametrize("verb", ["status", "export", "import", "verify"])
def test_a_library_that_is_not_mounted_is_an_error(
    tmp_path: Path, server: StoreServer, url: str, gridwright: Command, verb: str
) -> None:
    url = f"{url}-{verb}"
    place = tmp_path / "library"
    flags = ("--bucket", url, "--directory", place)
    with other_mount(place, "tmpfs"):
        fill(place, 8)
        assert gridwright("repo", "export", *flags).status == 0
    before = keys(server, url)
    ended = gridwright("repo", verb, *flags, *(("--deletions",) if verb in ("export", "import") else ()))
    assert ended.status not in (0, 1)
    assert "not mounted" in ended.err
    assert (keys(server, url), list(place.iterdir())) == (before, [])
    assert os.listxattr(place) == []


def test_what_is_known_is_that_of_one_bucket(
    tmp_path: Path, server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    fill(library, 8)
    first, second = (f"{url}/first", f"{url}/second")

    def export(to: str, *more: str) -> dict[str, Any]:
        ended = gridwright("repo", "export", "--json", "--bucket", to, "--directory", library, *more)
        assert ended.status == 0, ended.out
        return {**ended.json, "err": ended.err}

    export(first)
    assert export(first)["done"] == {}
    other = export(second)
    assert other["done"] == {"sent": {"count": 13, "bytes": 8}}
    assert "is another repository than" in str(other["err"])
    (library / "d1" / "f1").write_text("edited")
    export(second)
    client = server.client()

    def content(place: str) -> bytes:
        key = f"{place.removeprefix(f's3://{BUCKET}/')}/d1/f1"
        found: bytes = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return found

    assert (content(first), content(second)) == (b"1", b"edited")
    back = export(first)
    assert back["done"]["sent"] == {"count": 1, "bytes": 6}, "what was known of it is found again"
    assert content(first) == b"edited"

    with store_server(tmp_path / "another", "moto") as another:
        there = export(first, "--endpoint", another.endpoint_url)
        assert there["done"] == {"sent": {"count": 13, "bytes": 13}}
        assert len(keys(another, first)) == 13


def test_what_an_older_release_knew_is_of_the_bucket_that_its_files_name(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    from contextlib import closing

    from gridwright.repository.known import Known

    fill(library, 8)
    first, second = (f"{url}/first", f"{url}/second")

    def as_before() -> None:
        with closing(Known(library)) as known:
            known.database.execute("DELETE FROM facts WHERE name = 'bucket'")

    def export(to: str) -> dict[str, object]:
        ended = gridwright("repo", "export", "--json", "--bucket", to, "--directory", library)
        done: dict[str, object] = ended.json["done"]
        return done

    export(first)
    as_before()
    assert export(first) == {}
    as_before()
    assert set(export(second)) == {"sent"}
    assert len(keys(server, second)) == 13
