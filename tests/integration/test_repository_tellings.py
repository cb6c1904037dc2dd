"""What commands say: what has no object, what nobody has, what is known, and what a lost answer means."""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path

import pytest

from gridwright.repository.keys import LEASE, Keys
from gridwright.repository.lease import Lease
from gridwright.repository.probing import probe
from gridwright.repository.s3.connection import connect
from gridwright.repository.s3.s3_store import S3Store
from tests.support.command import Command, Ended
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import BUCKET, StoreServer, prefix_of, store_server
from tests.support.repositories import forget


def said(ended: Ended) -> str:
    return " ".join(ended.out.split())


def problems(ended: Ended) -> dict[str, str]:
    return {each["name"]: each["why"] for each in ended.json["problems"]}


def test_a_verify_names_what_has_no_object(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    (library / "old").write_text("old")
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "verify", *flags).status == 0
    for number in range(7):
        (library / f"new{number}").write_text("new")
    ended = gridwright("repo", "verify", "--json", *flags)
    assert ended.status == 1
    assert ended.json["done"]["here alone"] == {"count": 7, "bytes": 21}
    assert sorted(problems(ended)) == [f"new{number}" for number in range(7)]
    assert gridwright("repo", "verify", "--name", "x", "old", *flags).status == 0


def test_a_verify_tells_objects_of_somebody_else_from_none(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    for name in ("alone", "both"):
        (library / name).write_text("mine")
    server.client().put_object(
        Bucket=BUCKET, Key=f"{url.removeprefix(f's3://{BUCKET}/')}/both", Body=b"somebody else's"
    )
    plan = gridwright("repo", "verify", "--json", "--dry-run", *flags)
    assert (plan.status, plan.json["done"]["asked for, never exported"]["count"]) == (0, 2)
    ended = gridwright("repo", "verify", "--json", *flags)
    assert (ended.status, ended.json["requests"]["head"]) == (1, plan.json["requests"]["head"])
    assert ended.json["done"]["here alone"]["count"] == 1
    told = problems(ended)
    assert sorted(told) == ["alone", "both"]
    assert ("has no object" in told["alone"], "object is of somebody else" in told["both"]) == (True, True)
    assert "both the file and its object" in problems(gridwright("repo", "export", "--json", *flags))["both"]


def test_a_verify_says_what_to_do_where_objects_of_directories_are_gone(
    tmp_path: Path, url: str, library: Path, gridwright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_server(tmp_path / "store", "moto") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        flags = ("--bucket", url, "--directory", library)
        (library / "sub").mkdir()
        (library / "sub/file").write_text("content")
        assert gridwright("repo", "export", *flags).status == 0
        prefix = url.removeprefix(f"s3://{BUCKET}/")
        for key in ("", "sub/", "sub/file"):
            server.client().delete_object(Bucket=BUCKET, Key=f"{prefix}/{key}")
        told = problems(gridwright("repo", "verify", "--json", *flags))
        assert sorted(told) == [".", "sub", "sub/file"]
        again = f"gridwright repo export --directory {library} --bucket {url} --prefer files sends it"
        assert all(again in why for why in told.values())
        assert gridwright("repo", "export", "--prefer", "files", *flags).status == 0
        assert gridwright("repo", "verify", *flags).status == 0


def test_a_library_that_is_gone_for_good_is_forgotten_by_its_name(
    server: StoreServer, url: str, library: Path, tmp_path: Path, gridwright: Command
) -> None:
    flags, gone = ("--bucket", url, "--directory", library), tmp_path / "gone"
    gone.mkdir()
    (gone / "theirs").write_text("theirs")
    (library / "ours").write_text("ours")
    assert gridwright("repo", "export", "--bucket", url, "--directory", gone).status == 0
    assert gridwright("repo", "export", *flags).status == 0
    shutil.rmtree(gone)
    server.client().delete_object(Bucket=BUCKET, Key=f"{url.removeprefix(f's3://{BUCKET}/')}/theirs")
    assert "a file in another library" in said(gridwright("repo", "verify", *flags))
    listed = gridwright("repo", "export", "--forget-library", "none", "--dry-run", *flags)
    assert listed.status == 2
    (name,) = re.findall(r"[0-9a-f]{32}(?= has)", listed.err)
    status = gridwright("repo", "status", *flags)
    known = re.findall(r"library ([0-9a-f]{32})(, this one)?: (\S+), last whole export 20", status.out)
    own, other = known
    host = socket.gethostname()
    assert (own[1:], other) == ((", this one", f"{host}:{library}"), (name, "", f"{host}:{gone}"))
    plan = gridwright("repo", "export", "--forget-library", name[:12], "--dry-run", "--json", *flags)
    assert plan.json["done"]["no more said to be in that library"]["count"] > 0
    ended = gridwright("repo", "export", "--forget-library", name[:12], "--json", *flags)
    assert list(problems(ended)) == ["theirs"], "nobody has it any more"
    assert "no other library" in gridwright("repo", "export", "--forget-library", name, *flags).err
    # Another machine learns it.
    forget(library)
    assert list(problems(gridwright("repo", "verify", "--json", *flags))) == ["theirs"]


@pytest.mark.parametrize("verb", ["import", "export", "verify", "release", "ls"])
def test_a_path_that_nothing_has_is_named_with_the_nearest(
    server: StoreServer, url: str, library: Path, gridwright: Command, verb: str
) -> None:
    flags = ("--bucket", f"{url}-{verb}", "--directory", library)
    (library / "sub").mkdir()
    (library / "sub/claims.csv").write_text("claims")
    assert gridwright("repo", "export", *flags).status == 0
    ended = gridwright("repo", verb, "--name", "x", "sub/claim.csv", "--json", *flags)
    assert ended.status == 1
    assert "did you mean sub/claims.csv?" in problems(ended)["sub/claim.csv"]
    assert gridwright("repo", verb, "--name", "x", "sub", *flags).status == 0


def test_a_file_that_was_released_to_one_bucket_is_not_removed_from_another(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    first, second = ((("--bucket", f"{url}/{name}", "--directory", library)) for name in ("one", "two"))
    for number in range(20):
        (library / f"f{number}").write_text(f"content {number}")
    assert gridwright("repo", "export", *first).status == 0
    assert gridwright("repo", "export", *second).status == 0
    assert gridwright("repo", "release", "--name", "x", "f12", *first).status == 0
    (library / "f13").unlink()
    status = gridwright("repo", "status", *second)
    assert "files gone 1, whose" in said(status), "the one that a user has removed"
    ended = gridwright("repo", "export", "--deletions", "--json", *second)
    assert ended.json["done"]["deleted from the bucket"]["count"] == 1, ended.out
    assert any("f12" in each for each in ended.json["notes"]) or "f12" in said(status)
    prefix = f"{url.removeprefix(f's3://{BUCKET}/')}/two"
    body = server.client().get_object(Bucket=BUCKET, Key=f"{prefix}/f12")["Body"].read()
    assert body == b"content 12"


def test_a_file_under_a_released_name_is_no_name_only(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    """Of the same size, so that only its content tells."""
    flags = ("--bucket", url, "--directory", library)
    (library / "f03").write_bytes(b"first")
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "release", *flags).status == 0
    (library / "f03").write_bytes(b"other")
    ended = gridwright("repo", "verify", *flags)
    assert "names only" not in said(ended), ended.out
    assert "changed since the last export" in said(ended), ended.out


@pytest.mark.parametrize("every", [1, 2])
def test_a_lost_answer_to_a_lease_is_no_lease_of_another(server: StoreServer, url: str, every: int) -> None:
    asked = 0

    def lie(answer: Answer) -> None:
        nonlocal asked
        if answer.method == "PUT" and answer.path.endswith("/.gridwright/lease") and answer.status == 200:
            asked += 1
            if asked % every == 0 and asked < 3:
                answer.status, answer.body = 500, b""

    with LyingStore(server.endpoint_url) as between:
        between.lie = lie
        store = S3Store(connect(BUCKET, endpoint_url=between.endpoint_url), pause_ms=1)
        for _ in range(2):
            with Lease(store, Keys(prefix_of(url)).own(LEASE)):
                pass
    assert asked >= 2


def test_a_status_after_its_state_was_lost_counts_the_files_that_are_here(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    for number in range(18):
        (library / f"f{number}").write_text("x")
    assert gridwright("repo", "export", *flags).status == 0
    forget(library)
    status = gridwright("repo", "status", *flags)
    assert "files 18 (18 B)" in said(status), status.out
    assert "not known yet 18 (18 B); the next" in " ".join(said(status).split())
    forget(library)
    ended = gridwright("repo", "import", "--names", "--json", *flags)
    assert ended.json["done"].get("made", {"count": 0})["count"] == 0, "nothing is made where all is here"


@pytest.mark.parametrize("how", ["each first try", "one answer"])
def test_a_lost_or_damaged_answer_is_no_lack_of_a_store(server: StoreServer, url: str, how: str) -> None:
    lied = set[str]()

    def lie(answer: Answer) -> None:
        if "/probe-" not in answer.path or answer.path in lied or answer.status != 200:
            return
        if how == "each first try" and answer.method == "PUT" and "partNumber" not in answer.path:
            lied.add(answer.path)
            answer.status, answer.body = 500, b""
        elif how == "one answer" and answer.method == "HEAD" and not lied:
            lied.add(answer.path)
            answer.headers = {
                name: '"' + "0" * 32 + '"' if name.lower() == "etag" else value
                for name, value in answer.headers.items()
            }

    with LyingStore(server.endpoint_url) as between:
        between.lie = lie
        store = S3Store(connect(BUCKET, endpoint_url=between.endpoint_url), pause_ms=1)
        try:
            assert probe(store, Keys(url.removeprefix(f"s3://{BUCKET}/"))).required == []
        finally:
            store.close()
    assert lied
