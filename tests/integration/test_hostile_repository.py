"""A bucket or a directory of somebody who wants to become root: nothing of it is believed."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gridwright.repository.keys import MANIFEST
from gridwright.repository.known import Known
from gridwright.repository.known_file import KnownFile
from gridwright.repository.publishing import write_manifest
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all
from tests.support.command import Command, Ended
from tests.support.object_store import BUCKET, StoreServer, prefix_of

pytestmark = pytest.mark.root

ROW = KnownFile(
    path=b"tool", mode=0o100644, uid=ALICE, gid=ALICE, size=4, blocks=8, atime_ns=1, mtime_ns=2, ctime_ns=0,
    inode=0, links=1, key="tool", etag="", version_id=None, crc64=None, target=None, xattrs=None,
    link_of=None, is_name_only=False,
)  # fmt: skip


class Attacked:
    """A bucket that mallory writes, and a library into which root imports."""

    def __init__(self, server: StoreServer, gridwright: Command, url: str, library: Path) -> None:
        self.client = server.client()
        self.prefix = url.removeprefix(f"s3://{BUCKET}/")
        self.flags = ("--bucket", url, "--directory", library)
        self.library = library
        self._gridwright = gridwright

    def put(self, name: str, body: bytes = b"boot", **metadata: str) -> str:
        """Write an object; its ETag."""
        given = {each.replace("_", "-"): value for each, value in metadata.items()}
        written = self.client.put_object(
            Bucket=BUCKET, Key=f"{self.prefix}/{name}", Body=body, Metadata=given
        )
        return str(written["ETag"]).strip('"')

    def row(self, name: str, body: bytes = b"boot", **values: Any) -> KnownFile:
        """Write an object, and make the row that a manifest has of it."""
        etag = self.put(name, body)
        path = name.rstrip("/").encode()
        row = replace(ROW, path=path, key=f"{self.prefix}/{name}", etag=etag, size=len(body))
        return replace(row, stored_ns=2**62, **values)

    def publish(self, *rows: KnownFile) -> None:
        """Write the manifest."""
        file = self.library.parent / "manifest"
        write_manifest(file, sorted(rows, key=lambda row: row.path or b""), {"exported": "5.0"})
        self.put(f".gridwright/{MANIFEST}", file.read_bytes())
        file.unlink()

    def __call__(self, verb: str, *flags: str) -> Ended:
        """Run a verb of `gridwright repo` as root."""
        ended = self._gridwright("repo", verb, *self.flags, *flags)
        assert "Traceback" not in ended.err, ended.err
        return ended

    def refused(self, *flags: str) -> dict[str, str]:
        """Import as root; what was refused, and why."""
        return {each["name"]: each["why"] for each in self("import", "--json", *flags).json["problems"]}


@pytest.fixture
def attacked(
    server: StoreServer, gridwright: Command, library: Path, request: pytest.FixtureRequest
) -> Attacked:
    return Attacked(server, gridwright, prefix_of(request.node.name), library)


def dangerous(library: Path) -> list[str]:
    """Files that would make somebody else of who runs them."""
    found = []
    for directory, names, files in os.walk(library):
        for name in (*names, *files):
            path = Path(directory, name)
            status = path.lstat()
            is_link, is_file = stat.S_ISLNK(status.st_mode), stat.S_ISREG(status.st_mode)
            if (is_file and status.st_mode & 0o6000) or (status.st_mode & stat.S_ISUID and not is_link):
                found.append(f"{name} {status.st_mode:o}")
            found += [f"{name} {each}" for each in os.listxattr(path, follow_symlinks=False) if "cap" in each]
    return found


def names(directory: Path) -> list[str]:
    """What is in a directory."""
    return sorted(each.name for each in directory.iterdir())


def changed(path: Path) -> tuple[int, ...]:
    """What a change of a file leaves."""
    status = path.lstat()
    return status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, status.st_ctime_ns


@pytest.mark.parametrize("contents", [(), ("--contents",)])
def test_a_row_makes_no_setuid_file_of_root(attacked: Attacked, contents: tuple[str, ...]) -> None:
    os.chown(attacked.library, ALICE, ALICE)
    capability = "0100000202000000000000000000000000000000"
    xattrs = {"security.capability": capability, "trusted.x": "00", "user.note": "6869"}
    attacked.publish(
        attacked.row("setuid", mode=0o104755, uid=0, gid=0),
        attacked.row("setgid", mode=0o102755, gid=6),
        attacked.row("capable", xattrs=json.dumps(xattrs).encode()),
        attacked.row("empty", b"", mode=0o106777, uid=0, gid=0),
        attacked.row("shared/", b"", mode=0o042770),
        attacked.row("shared/first", links=2),
        attacked.row("shared/second", mode=0o104755, uid=0, links=2, link_of=b"shared/first"),
    )
    attacked.put("metadata", file_permissions="0104755", file_owner="0", file_group="6")
    attacked.put("metadata2", file_permissions="0102755", file_owner="0", file_group="6")
    ended = attacked("import", "--json", *contents)
    assert ended.json["problems"] == []
    assert dangerous(attacked.library) == []
    for each in attacked.library.rglob("*"):
        assert (each.stat().st_uid, each.stat().st_gid) == (ALICE, ALICE), each
    assert os.getxattr(attacked.library / "capable", "user.note") == b"hi"
    assert stat.S_IMODE((attacked.library / "shared").stat().st_mode) == 0o2770
    notes = " ".join(ended.json["notes"])
    for words in ("setuid", "lost the set-user-ID", "lost extended attributes", "the bucket's is not within"):
        assert words in notes


def test_ids_are_those_that_are_allowed(attacked: Attacked) -> None:
    attacked.publish(attacked.row("system", uid=12, gid=13), attacked.row("high", uid=70_000, gid=70_000))
    attacked("import", "--ids", "10-20")
    owners = {each.name: (each.stat().st_uid, each.stat().st_gid) for each in attacked.library.iterdir()}
    assert owners == {"system": (12, 13), "high": (0, 0)}
    wrong = attacked("import", "--ids", "20-10")
    assert (wrong.status, "--ids" in wrong.err) == (2, True)


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"path": b"../outside"}, "leads out"),
    ({"path": b"/etc/outside"}, "leads out"),
    ({"path": b"a//b"}, "leads out"),
    ({"path": b"a\0b"}, "leads out"),
    ({"path": b".gridwright/x"}, "own"),
    ({"path": b"other"}, "not that of its path"),
    ({"key": None}, "not that of its path"),
    ({"path": b""}, "not that of its path"),
    ({"path": None}, "another type"),
    ({"size": None}, "another type"),
    ({"mode": 0o020666}, "which no file"),
    ({"mode": 0o010666}, "which no file"),
    ({"mode": 0o140666}, "which no file"),
    ({"mode": -1}, "which no file"),
    ({"mode": 0o4100644}, "which no file"),
    ({"uid": -1}, "uid"),
    ({"gid": 2**32 - 1}, "gid"),
    ({"size": -4}, "size"),
    ({"atime_ns": -(2**63)}, "atime_ns"),
    ({"mode": 0o120777}, "target"),
    ({"target": b"boot"}, "target"),
    ({"mode": 0o120777, "target": b"b\0ot"}, "target"),
    ({"link_of": b"../../etc/shadow"}, "leads out"),
    ({"link_of": b"row"}, "other name"),
    ({"xattrs": b"["}, "extended attributes"),
    ({"xattrs": b'{"user.x": 7}'}, "extended attributes"),
    ({"xattrs": b'{"user.\\u0000": "00"}'}, "extended attributes"),
    ({"crc64": "zz"}, "checksum"),
    ({"etag": "x" * 2000}, "too long"),
)


def test_rows_that_make_no_sense_are_named_and_the_rest_goes_on(attacked: Attacked) -> None:
    rows = []
    for place, (values, _) in enumerate(WRONG):
        given = dict(values)
        if given.get("link_of") == b"row":
            given["link_of"] = f"row{place:02}".encode()
        rows.append(attacked.row(f"row{place:02}", **given))
    attacked.publish(attacked.row("good"), *rows)
    problems = [each["why"] for each in attacked("import", "--json", "--contents").json["problems"]]
    assert len(problems) == len(WRONG), problems
    for values, why in WRONG:
        assert any(why in each for each in problems), values
    # Objects are made of what the store says of them.
    assert names(attacked.library) == ["good", *(f"row{place:02}" for place in range(len(WRONG)))]
    assert not (attacked.library.parent / "outside").exists()
    for verb in ("export", "status", "verify"):
        assert attacked(verb).status in (0, 1)


def test_a_row_of_another_size_than_its_object_is_not_made(attacked: Attacked) -> None:
    attacked.publish(replace(attacked.row("bomb"), size=2**62))
    assert attacked.refused() == {}
    assert (attacked.library / "bomb").stat().st_size == 4


def test_a_link_of_the_bucket_is_made_and_never_followed(attacked: Attacked) -> None:
    outside = attacked.library.parent / "outside"
    outside.mkdir()
    target = os.fsencode(outside)
    attacked.publish(attacked.row("out", target, mode=0o120777, target=target), attacked.row("z"))
    # One that is there already, as its owner would make it.
    (attacked.library / "way").symlink_to(outside)
    attacked.put("way/file")
    attacked.put("far", b"../../../etc/passwd", file_permissions="0120777")
    before = changed(outside)
    problems = attacked.refused("--contents")
    assert list(problems) == ["way/file"]
    assert (attacked.library / "out").readlink() == outside
    assert (attacked.library / "far").readlink() == Path("../../../etc/passwd")
    assert (list(outside.iterdir()), changed(outside)) == ([], before)
    for verb in ("export", "verify", "status"):
        attacked(verb)
    assert (list(outside.iterdir()), changed(outside)) == ([], before)


def test_a_manifest_that_is_none_or_a_bomb_is_refused_with_its_address(attacked: Attacked) -> None:
    def published(table: pa.Table, **options: Any) -> str:
        file = io.BytesIO()
        pq.write_table(table, file, compression="zstd", **options)
        attacked.put(f".gridwright/{MANIFEST}", file.getvalue())
        ended = attacked("import")
        assert ended.status not in (0, 1)
        assert f".gridwright/{MANIFEST}" in ended.text
        assert list(attacked.library.iterdir()) == []
        return ended.text

    attacked.publish(attacked.row("row"))
    key = f"{attacked.prefix}/.gridwright/{MANIFEST}"
    good = pq.read_table(io.BytesIO(attacked.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()))

    def with_column(name: str, column: Any) -> pa.Table:
        table = pa.table({each: good[each] if len(column) == 1 else pa.concat_arrays(
            [good[each].combine_chunks()] * len(column)) for each in good.column_names})  # fmt: skip
        changed = table.set_column(table.column_names.index(name), name, column)
        return changed.replace_schema_metadata(good.schema.metadata)

    assert "is string" in published(with_column("size", pa.array(["4"])))
    assert "is int64" in published(with_column("path", pa.array([4])))
    # A thousand rows, each of 100 MB, in some kilobytes.
    long = pa.array([b"x" * (100 << 20)])
    big = pa.DictionaryArray.from_arrays(pa.array([0] * 1001), long)
    assert "make no sense" in published(with_column("xattrs", big))
    assert "order" in published(with_column("path", pa.array([b"row", b"row"])))
    many = pa.array([f"{each:06}".encode() for each in range(1_001)])
    assert "make no sense" in published(with_column("path", many))
    facts = {**good.schema.metadata, b"gridwright.facts": b'{"exported": "never"}'}
    assert "no time" in published(good.replace_schema_metadata(facts))
    attacked.put(f".gridwright/{MANIFEST}", b"PAR1" + bytes(100) + b"PAR1")
    assert "damaged" in attacked("import").text


def test_root_believes_nothing_in_a_directory_of_a_user(attacked: Attacked, tmp_path: Path) -> None:
    """Mallory's `.gridwright`: links to files that root would make or replace, and rows that lead out."""
    open_to_all(tmp_path)
    library, outside = attacked.library, tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("root's")
    os.chown(library, MALLORY, MALLORY)
    attacked.put("good")

    def prepare(place: Path) -> None:
        for name in ("lock", f"{MANIFEST}.part", f"{MANIFEST}.{os.getpid()}.part"):
            (place / name).symlink_to(outside / name.replace("manifest", "made"))
        (place / f"{MANIFEST}.part").unlink()
        (place / f"{MANIFEST}.part").symlink_to(outside / "file")
        with sqlite3.connect(place / "known.sqlite") as database:
            database.execute(f"CREATE TABLE files ({', '.join(KnownFile.__slots__)})")
            row = replace(
                ROW, path=b"../outside/file", key=f"{attacked.prefix}/gone", inode=outside.stat().st_ino
            )
            values = [getattr(row, name) for name in KnownFile.__slots__]
            marks = ", ".join("?" * len(values))
            database.execute(f"INSERT INTO files VALUES ({marks})", values)  # noqa: S608
            database.execute("PRAGMA user_version = 2")

    def mallory() -> None:
        (library / ".gridwright").mkdir()
        prepare(library / ".gridwright")
        (library / "mine").write_text("mallory's")

    as_user(MALLORY, mallory)
    untouched = names(library / ".gridwright")
    first = attacked("import", "--deletions", "--contents")
    assert "older release" not in first.text, "it may be what mallory's own commands know"
    for verb in ("export", "status", "verify", "import"):
        ended = attacked(verb)
        assert ended.status == 0, ended
        assert "older release" not in ended.text
    assert (library / "good").read_bytes() == b"boot"
    assert names(library / ".gridwright") == untouched
    assert names(outside) == ["file"]
    assert (outside / "file").read_text() == "root's"


@pytest.mark.few(2)
@pytest.mark.parametrize("place", ["link", "dangling", "file", "pipe"])
def test_what_is_in_the_place_of_a_state_directory_harms_nobody(
    attacked: Attacked, tmp_path: Path, place: str
) -> None:
    library, outside = attacked.library, tmp_path / "outside"
    outside.mkdir()
    attacked.put("good")
    os.chown(library, MALLORY, MALLORY)
    name = library / ".gridwright"
    if place == "pipe":
        os.mkfifo(name)
    elif place == "file":
        name.write_text("")
    else:
        name.symlink_to(outside if place == "link" else outside / "not")
    for verb in ("import", "export", "verify", "status"):
        assert attacked(verb).status == 0
    assert list(outside.iterdir()) == []
    assert (library / "good").stat().st_size == 4


def test_state_of_an_older_release_is_taken_over_where_only_root_writes(attacked: Attacked) -> None:
    library = attacked.library
    (library / "file").write_bytes(b"content")
    assert attacked("export").status == 0
    known = Known(library)
    state = known.state.path
    known.close()
    # As an older release had it.
    (library / ".gridwright").mkdir(mode=0o700)
    (state / "known.sqlite").rename(library / ".gridwright" / "known.sqlite")
    (library / ".gridwright" / "lock").touch()
    ended = attacked("export", "--json")
    # The directory's own time is another one, since a name was made in it.
    assert (ended.json["done"].keys() <= {"given new attributes"}, ended.json["problems"]) == (True, [])
    assert not (library / ".gridwright").exists()
    assert (state / "known.sqlite").exists()
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_a_library_that_is_not_mounted_is_not_taken_for_deletions(attacked: Attacked) -> None:
    library = attacked.library
    (library / "file").write_bytes(b"content")
    assert attacked("export").status == 0
    # Another file system has the path: nothing is there, and all was.
    library.rename(library.parent / "away")
    library.mkdir()
    gone = attacked("export", "--deletions")
    assert gone.status == 0
    assert "is another directory than before: all is compared anew" in gone.text
    assert attacked.client.head_object(Bucket=BUCKET, Key=f"{attacked.prefix}/file")
    # Its own comes back, and nothing is sent again.
    library.rmdir()
    (library.parent / "away").rename(library)
    assert attacked("export", "--json").json["done"].keys() <= {"compared", "given new attributes"}
