"""What is deleted by mistake on one side is not deleted on the other one, and files lie in the trash."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gridwright.repository.state_directory import VARIABLE
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


@pytest.mark.few(1)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_file_in_place_of_a_directory_waits_for_deletions_that_are_refused(
    server: StoreServer, url: str, library: Path, gridwright: Command, is_known: bool
) -> None:
    flags = ("--json", "--bucket", url, "--directory", library)
    fill(library, 60)
    assert gridwright("repo", "export", *flags).status == 0
    if not is_known:
        # As where a bucket has no objects of directories, or an earlier release has deleted this one.
        for state in Path(os.environ[VARIABLE]).rglob("known*.sqlite"):
            with closing(sqlite3.connect(state)) as database, database:
                database.execute("DELETE FROM files WHERE path = ?", (b"d1",))
        server.client().delete_object(Bucket=BUCKET, Key=f"{url.removeprefix(f's3://{BUCKET}/')}/d1/")
    before = keys(server, url)
    shutil.rmtree(library / "d1")
    (library / "d1").write_text("a file now")
    if is_known or server.kind == "versitygw":
        refused = gridwright("repo", "export", "--deletions", *flags)
        assert sorted(each["name"] for each in refused.json["problems"]) == ["--deletions", "d1"]
        assert keys(server, url) == before
    plan, done = (
        gridwright("repo", "export", "--deletions", "--delete-up-to", "15", *words, *flags)
        for words in (["--dry-run"], [])
    )
    assert (done.status, done.json["problems"]) == (0, [])
    assert (plan.json["requests"], plan.json["done"]) == (done.json["requests"], done.json["done"])
    found = [each for each in keys(server, url) if "/d1" in each]
    assert [each.rpartition("/")[2] for each in found] == ["d1"]


@pytest.mark.few(1)
@pytest.mark.parametrize("words", [[], ["--deletions", "--delete-up-to", "1"]])
def test_what_lies_in_a_directory_in_place_of_a_file_waits_with_it(
    server: StoreServer, url: str, library: Path, gridwright: Command, words: list[str]
) -> None:
    flags = ("--json", "--bucket", url, "--directory", library)
    fill(library, 20)
    (library / "place").write_text("a file")
    assert gridwright("repo", "export", *flags).status == 0
    before = keys(server, url)
    (library / "place").unlink()
    (library / "d0" / "f0").unlink()
    (library / "place" / "sub").mkdir(parents=True)
    for name in ("x", "sub/y"):
        (library / "place" / name).write_text("content")
    plan = gridwright("repo", "export", *words, "--dry-run", *flags)
    done = gridwright("repo", "export", *words, *flags)
    assert plan.json["problems"] == done.json["problems"]
    found = {each["name"]: each["why"] for each in done.json["problems"] if each["name"] != "--deletions"}
    assert found.keys() == {"place", "place/sub", "place/sub/y", "place/x"}
    assert len(set(found.values())) == 1
    assert keys(server, url) == before
    one = gridwright("repo", "export", "--name", "x", "place/x", *words, *flags)
    assert "place/x" in {each["name"] for each in one.json["problems"]}
    assert "409" not in one.out
    assert gridwright("repo", "export", "--deletions", *flags).status == 0
    assert {each.partition("/place")[2] for each in keys(server, url)} >= {"/x", "/sub/y"}


def test_files_that_became_directories_are_deletions_within_the_limit(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--json", "--bucket", url, "--directory", library)
    for number in range(40):
        (library / f"f{number}").write_text(f"{number}")
    assert gridwright("repo", "export", *flags).status == 0
    before = keys(server, url)
    (library / "f39").rename(library / "elsewhere")
    for number in range(20, 40):
        (library / f"f{number}").unlink(missing_ok=True)
        (library / f"f{number}").mkdir()
        (library / f"f{number}" / "below").write_text("new")
    refused = gridwright("repo", "export", "--deletions", *flags)
    whys = {each["name"]: each["why"] for each in refused.json["problems"]}
    assert whys["--deletions"].startswith("19 of 40 would be deleted")
    assert set(before) <= set(keys(server, url))
    plan, done = (
        gridwright("repo", "export", "--deletions", "--delete-up-to", "19", *words, *flags)
        for words in (["--dry-run"], [])
    )
    assert (done.status, done.json["problems"]) == (0, [])
    assert (plan.json["requests"], plan.json["done"]) == (done.json["requests"], done.json["done"])
    found = keys(server, url)
    assert sum(each.endswith("/below") for each in found) == 20
    assert not any(each.endswith("/f20") for each in found)


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

    def counted(ended: dict[str, Any]) -> tuple[int, int]:
        (sent,) = ended["done"].values()
        return sent["count"], sent["bytes"]

    export(first)
    assert export(first)["done"] == {}
    other = export(second)
    assert counted(other) == (13, 8)
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
    assert counted(back) == (1, 6), "what was known of it is found again"
    assert content(first) == b"edited"

    with store_server(tmp_path / "another", "moto") as another:
        there = export(first, "--endpoint", another.endpoint_url)
        assert counted(there) == (13, 13)
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
