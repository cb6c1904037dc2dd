"""What a command could not do is named with its reason and the next step, and all else is done."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from gridwright.cli.data.repo import unopened
from gridwright.refusals import reason_of
from gridwright.repository.keys import LEASE, Keys
from gridwright.repository.lease import Lease
from gridwright.repository.s3.connection import connect
from gridwright.repository.s3.s3_store import S3Store
from tests.support.as_user import ALICE, as_user, open_to_all
from tests.support.command import Command, Ended
from tests.support.object_store import BUCKET, StoreServer


def said(ended: Ended) -> str:
    return " ".join((ended.out + ended.err).split())


def test_an_error_without_a_text_of_the_systems_has_its_own() -> None:
    assert reason_of(FileExistsError("too many")) == "too many"
    assert reason_of(PermissionError(13, "Permission denied", b"p"), named=True) == "p: Permission denied"


@pytest.mark.root
def test_a_directory_that_cannot_be_looked_at_ends_no_listing(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    for name in ("f1", "p/inside", "q/f2"):
        (library / name).parent.mkdir(exist_ok=True)
        (library / name).write_text(name)
    assert gridwright("repo", "export", *flags).status == 0
    mounted = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0/p"; "$@"', str(library))
    ended = gridwright("repo", "ls", *flags, prefix=mounted)
    assert ended.status == 1, said(ended)
    assert "p/inside: it cannot be looked at: another file system is mounted there" in said(ended)
    assert all(f" {name}" in said(ended) for name in ("f1", "q/f2"))
    assert "b'" not in said(ended)


@pytest.mark.few(2)
@pytest.mark.parametrize("what", ["link", "file", "open", "unmarked", "trash"])
def test_what_has_the_name_of_the_trash_is_named_with_the_remedy(
    server: StoreServer, url: str, library: Path, gridwright: Command, what: str
) -> None:
    flags, reserved = ("--bucket", url, "--directory", library), library / ".gridwright"
    (library / "f").write_text("here")
    assert gridwright("repo", "export", *flags).status == 0
    (library / "f").write_text("here, too")
    prefix = url.removeprefix(f"s3://{BUCKET}/")
    server.client().put_object(Bucket=BUCKET, Key=f"{prefix}/f", Body=b"there")
    if what == "link":
        reserved.symlink_to("/nowhere")
    elif what == "file":
        reserved.touch()
    else:
        reserved.mkdir()
        reserved.chmod(0o777 if what == "open" else 0o700)
        (reserved / ("trash" if what == "trash" else "other")).touch()
    ended = gridwright("repo", "import", "--prefer", "objects", *flags)
    expected = {
        "link": ".gridwright is a symbolic link: nothing can go to the trash; see who put it there, and move",
        "file": ".gridwright is no directory: nothing can go to the trash",
        "open": "has mode 0777: look who put what into it, and have its owner run chmod 0700 .gridwright",
        "unmarked": "another directory has the name .gridwright: nothing can go to the trash",
        "trash": ".gridwright/trash is no directory: nothing can go to the trash",
    }[what]
    assert ended.status == 1
    assert expected in said(ended)
    assert "None" not in said(ended)
    looked = gridwright("repo", "trash", *flags)
    assert looked.status == 1
    assert expected in said(looked)
    assert "nothing lies there" not in said(looked)
    assert (library / "f").read_text() == "here, too"


def test_a_bucket_that_is_not_there_is_named_with_its_prefix(
    server: StoreServer, library: Path, gridwright: Command
) -> None:
    (library / "f").write_text("here")
    for verb in ("status", "ls", "export", "import"):
        ended = gridwright("repo", verb, "--bucket", "s3://no-such-bucket/prod", "--directory", library)
        assert ended.status == 3
        assert "s3://no-such-bucket/prod: the bucket is not there" in said(ended), (verb, said(ended))
        assert "make the bucket" in said(ended)


def test_what_cannot_be_meant_is_refused_with_the_next_step(
    server: StoreServer, library: Path, gridwright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = gridwright("repo", "status", "--bucket", f"s3://{BUCKET}/../prod", "--directory", library)
    assert ended.status == 2
    assert "has . or .. in its prefix" in said(ended)
    ended = gridwright("repo", "duplicate", "--bucket", f"s3://{BUCKET}", "--directory", library)
    assert "write gridwright repo duplicate [NAME] --to FILE" in said(ended)
    monkeypatch.setenv("AWS_PROFILE", "nosuch")
    ended = gridwright("repo", "status", "--bucket", f"s3://{BUCKET}", "--directory", library)
    assert ended.status == 3
    assert "set AWS_PROFILE to one of those that" in said(ended)


def test_the_remedy_of_lost_objects_is_a_command_that_works(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--directory", library, "--bucket", url)
    (library / "f").write_text("here")
    assert gridwright("repo", "export", *flags).status == 0
    server.client().delete_object(Bucket=BUCKET, Key=f"{url.removeprefix(f's3://{BUCKET}/')}/f")
    told = gridwright("repo", "status", "--json", *flags).json["repositories"][0]["finding"]["remedy"]
    assert f"gridwright repo export --directory {library} --bucket {url} --prefer files" in told
    words = told.partition("gridwright ")[2].partition(",")[0].split()
    assert gridwright(*words).status == 0
    assert gridwright("repo", "status", *flags).status == 0


def test_an_object_in_the_place_of_a_directory_has_a_next_step(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    (library / "f4").mkdir()
    server.client().put_object(Bucket=BUCKET, Key=f"{url.removeprefix(f's3://{BUCKET}/')}/f4", Body=b"there")
    flags = ("--bucket", url, "--directory", library)
    for more in ((), ("--deletions",)):
        ended = gridwright("repo", "import", *flags, *more)
        assert "f4: its object is no directory, and here it is one" in said(ended)
        assert "else rename the directory and import again" in said(ended)
    (library / "f4").rename(library / "renamed")
    assert gridwright("repo", "import", *flags).status == 0
    assert (library / "f4").read_text() == "there"


def test_conflicts_of_one_kind_are_one_line(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags, prefix = ("--bucket", url, "--directory", library), url.removeprefix(f"s3://{BUCKET}/")
    names = [f"f{number:02}" for number in range(45)]
    for name in names:
        (library / name).write_text("here")
        server.client().put_object(Bucket=BUCKET, Key=f"{prefix}/{name}", Body=b"there")
    ended = gridwright("repo", "export", *flags)
    assert ended.out.count("both the file and its object were changed") == 1
    assert "f00, f01, f02, f03, f04 and 40 more: both the file" in said(ended)
    told = gridwright("repo", "export", "--json", *flags).json
    assert sorted(each["name"] for each in told["problems"]) == names


def test_a_manifest_that_cannot_be_read_is_brought_back_before_it_is_deleted(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    key = f"{url.removeprefix(f's3://{BUCKET}/')}/.gridwright/manifest.parquet"
    server.client().put_object(Bucket=BUCKET, Key=key, Body=b"damaged")
    ended = gridwright("repo", "import", "--bucket", url, "--directory", library)
    assert ended.status == 3
    assert f"aws s3api list-object-versions --bucket {BUCKET} --prefix {key}" in said(ended)
    assert said(ended).index("older version") < said(ended).index("delete it: ACLs")
    assert "objects of files that other machines released" in said(ended)


def test_a_release_says_why_nothing_goes_and_how_names_come_back(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    for name in ("one", "two", "alone"):
        (library / name).write_text(name)
    (library / "other").hardlink_to(library / "one")
    (library / "empty").touch()
    assert gridwright("repo", "export", *flags).status == 0
    (library / "new").write_text("new")
    for path, why in (
        ("one", "1 file has other names: space is free when all names"),
        (
            "new",
            f"object that is known: gridwright repo export --directory {library} --bucket {url} sends such",
        ),
        ("empty", "1 file has no content that takes space"),
    ):
        assert why in said(gridwright("repo", "release", path, *flags)), path
    ended = gridwright("repo", "release", *flags)
    assert "2 files have other names" in said(ended)
    assert f"gridwright repo import --directory {library} --bucket {url} brings them back" in said(ended)
    assert not (library / "two").exists()
    assert "in the bucket alone already" in said(gridwright("repo", "release", "two", *flags))
    assert gridwright("repo", "import", *flags).status == 0
    assert (library / "two").read_text() == "two"


def test_a_listing_for_programs_has_paths_that_can_be_arguments(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    names = {b"line\nbreak", rb"line\nbreak", b"tab\there", b"no UTF-8 \xff", rb"no UTF-8 \xff"}
    for name in names:
        Path(os.fsdecode(os.fsencode(library) + b"/" + name)).write_bytes(name)
    assert gridwright("repo", "export", *flags).status == 0
    paths = [each["path"] for each in gridwright("repo", "ls", "--json", *flags).json["entries"]]
    assert set(map(os.fsencode, paths)) == names
    for path in paths:
        (one,) = gridwright("repo", "ls", "--json", "--name", "a", path, *flags).json["entries"]
        assert one["path"] == path


def test_a_listing_says_something_of_each_path_that_was_named(
    server: StoreServer, url: str, library: Path, tmp_path: Path, gridwright: Command
) -> None:
    flags, prefix = ("--bucket", url, "--directory", library), url.removeprefix(f"s3://{BUCKET}/")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("here", "released"):
        (library / name).write_text(name)
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "import", "--bucket", url, "--directory", other).status == 0
    assert gridwright("repo", "export", "--bucket", url, "--directory", other).status == 0
    assert gridwright("repo", "release", "released", *flags).status == 0
    for name in ("here", "released"):
        server.client().delete_object(Bucket=BUCKET, Key=f"{prefix}/{name}")
    (library / "new").write_text("new")
    again = f"gridwright repo export --name a --directory {library} --bucket {url} --prefer files sends it"
    for path, why, status in (
        ("here", f"here: its object is gone from the bucket: {again}", 1),
        ("released", "1 file has no object any more, and a file in another library", 0),
        ("new", "new: the bucket has no object of it", 1),
        ("nothing", "and nothing in the bucket, has that name", 1),
    ):
        ended = gridwright("repo", "ls", "--name", "a", path, *flags)
        assert why in said(ended), (path, said(ended))
        assert ended.status == status


@pytest.mark.few(2)
@pytest.mark.parametrize("verb", ["release", "export", "import", "verify", "ls"])
def test_an_empty_path_is_not_everything(
    server: StoreServer, url: str, library: Path, gridwright: Command, verb: str
) -> None:
    flags = ("--directory", library, "--bucket", f"{url}-{verb}")
    (library / "f").write_text("here")
    assert gridwright("repo", "export", *flags).status == 0
    for words in (("",), ("f", ""), ("--name", "x", "")):
        ended = gridwright("repo", verb, *words, *flags)
        assert ended.status == 2, said(ended)
        assert "a NAME or a PATH is empty see whether a variable of the shell is set" in said(ended)
    assert (library / "f").exists()


@pytest.mark.parametrize("age", ["30", "0", "nan"])
def test_an_age_without_a_unit_removes_nothing(
    server: StoreServer, url: str, library: Path, gridwright: Command, age: str
) -> None:
    flags = ("--directory", library, "--bucket", url)
    (library / "f").write_text("here")
    assert gridwright("repo", "export", *flags).status == 0
    for words in (("release", "--unread-for", age), ("trash", "--empty-older-than", age)):
        ended = gridwright("repo", *words, *flags)
        assert ended.status == 2, said(ended)
        assert "say 30d, 12h, 45m or 30s" in said(ended)
    assert (library / "f").exists()


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_credentials_that_are_wrong_or_half_are_no_lack_of_rights(
    server: StoreServer,
    url: str,
    library: Path,
    gridwright: Command,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    flags = ("--directory", library, "--bucket", url)
    (library / "f").write_text("here")
    assert gridwright("repo", "export", *flags).status == 0
    monkeypatch.setenv(name, "wrong")
    for verb in ("status", "import", "export", "release"):
        ended = gridwright("repo", verb, *flags)
        assert ended.status == 3, said(ended)
        assert re.search("look (at the|whether) access key and (its )?secret", said(ended))
        assert "whether somebody" not in said(ended)
    monkeypatch.delenv(name)
    ended = gridwright("repo", "status", *flags)
    assert (ended.status, f"set {name}, too" in said(ended)) == (3, True), said(ended)


@pytest.mark.root
def test_a_first_mistake_has_a_next_step(
    server: StoreServer, url: str, library: Path, gridwright: Command, tmp_path: Path
) -> None:
    def is_told_whose() -> None:
        denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        assert "it belongs to root (mode 0700)" in str(
            unopened(library, "the directory cannot be opened", denied)
        )

    missing = tmp_path / "no where"
    ended = gridwright("repo", "export", "--directory", missing, "--bucket", url)
    assert (ended.status, f"mkdir -p '{missing}'" in said(ended)) == (3, True), said(ended)
    ended = gridwright("repo", "trash", "--directory", missing, "--bucket", url)
    assert (ended.status, f"mkdir -p '{missing}'" in said(ended)) == (3, True), said(ended)
    open_to_all(tmp_path)
    library.chmod(0o700)
    as_user(ALICE, is_told_whose)
    for verb in ("status", "export", "trash"):
        assert "write --directory DIR --bucket s3://bucket/prefix" in said(gridwright("repo", verb))
    (library / "2026").mkdir()
    ended = gridwright("repo", "export", "--directory", library, "--bucket", url, "./library/2026")
    assert f"nothing below {library}, and nothing in the bucket, has that name; did you mean 2026?" in said(
        ended
    )


def test_who_holds_the_lease_is_told_with_the_bucket(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    with Lease(
        S3Store(connect(BUCKET, endpoint_url=server.endpoint_url)),
        Keys(url.removeprefix(f"s3://{BUCKET}/")).own(LEASE),
    ):
        ended = gridwright("repo", "export", "--directory", library, "--bucket", url)
    assert f"{url}/.gridwright/lease: another command writes" in said(ended)
