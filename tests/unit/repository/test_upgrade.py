"""What an earlier release wrote of a repository is read on."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gridwright.repository.admission import Admission
from gridwright.repository.known import Known
from gridwright.repository.known_file import KnownFile
from gridwright.repository.publishing import Manifest, read_manifest, write_manifest
from gridwright.repository.settings import RepositoryReport
from tests.support.repositories import opened_without_store

ROW = KnownFile(
    path=b"file", mode=0o100644, uid=0, gid=0, size=7, blocks=8, atime_ns=1, mtime_ns=2, ctime_ns=3, inode=4,
    links=1, key="prod/file", etag="abc", version_id=None, crc64=None, target=None, xattrs=None, link_of=None,
    is_name_only=False,
)  # fmt: skip


@pytest.mark.parametrize(("version", "later"), [(1, ("stored_ns", "libraries")), (2, ("libraries",))])
def test_what_earlier_releases_knew_is_known_on(tmp_path: Path, version: int, later: tuple[str, ...]) -> None:
    known = Known(tmp_path)
    known.put(ROW)
    known.close()
    with sqlite3.connect(known.file) as former:
        for name in later:
            former.execute(f"ALTER TABLE files DROP COLUMN {name}")
        former.execute("DROP TABLE newer")
        former.execute(f"PRAGMA user_version = {version}")
    known = Known(tmp_path)
    assert known.get(b"file") == ROW
    known.close()
    known = Known(tmp_path)
    assert known.get(b"file") == ROW
    known.close()


def test_a_manifest_without_moments_and_libraries_is_read(tmp_path: Path) -> None:
    file = tmp_path / "manifest.parquet"
    write_manifest(file, [ROW], {"exported": "5.0"})
    table = pq.read_table(file).drop_columns(["stored_ns", "libraries"])
    former = dict(table.schema.metadata) | {b"gridwright.format": b"1"}
    pq.write_table(table.replace_schema_metadata(former), file, compression="zstd")
    assert Manifest(file).facts == {"exported": "5.0"}
    with contextlib.closing(opened_without_store(tmp_path)) as opened:
        (row,) = read_manifest(file, Admission(opened, RepositoryReport("archive", "import")))
    assert (row.path, row.key, row.stored_ns, row.libraries, row.inode) == (b"file", "prod/file", 0, "", 0)
