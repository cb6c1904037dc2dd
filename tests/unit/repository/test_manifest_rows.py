"""Whatever a file system allows, the manifest that is written of it is read again."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gridwright.repository import extended
from gridwright.repository.admission import Admission
from gridwright.repository.extended import LONGEST_XATTRS, encode, of_users
from gridwright.repository.keys import KeyRefusal
from gridwright.repository.known_file import KnownFile
from gridwright.repository.manifest import read_manifest, readable_rows, write_manifest
from gridwright.repository.settings import RepositoryReport
from tests.support.repositories import opened_without_store

NAMES = st.binary(min_size=1, max_size=255).filter(lambda name: not {0, 47} & set(name))
XATTR_NAMES = st.binary(min_size=1, max_size=250).filter(lambda name: 0 not in name)
XATTRS = st.dictionaries(
    XATTR_NAMES.map(lambda name: os.fsdecode(b"user." + name)), st.binary(max_size=200), max_size=3
)
ROW = KnownFile(
    path=b"", mode=0, uid=0, gid=0, size=0, blocks=0, atime_ns=0, mtime_ns=0, ctime_ns=0, inode=1, links=1,
    key=None, etag="etag", version_id=None, crc64=None, target=None, xattrs=None, link_of=None,
    is_name_only=False,
)  # fmt: skip


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(NAMES, min_size=1, max_size=8),
    kind=st.sampled_from([stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK]),
    target=st.binary(min_size=1, max_size=4095).filter(lambda each: 0 not in each),
    xattrs=XATTRS,
    numbers=st.tuples(st.integers(0, 2**32 - 2), st.integers(0, 2**63 - 1)),
)
@example([b"a"], stat.S_IFREG, b"x", {os.fsdecode(b"user.\xff\xfe"): b"value"}, (0, 0))
@example([b"\xff" * 255] * 8, stat.S_IFDIR, b"x", {}, (0, 0))
def test_what_a_file_system_has_is_written_and_read(
    tmp_path: Path,
    names: list[bytes],
    kind: int,
    target: bytes,
    xattrs: dict[str, bytes],
    numbers: tuple[int, int],
) -> None:
    opened = opened_without_store(tmp_path)
    report = RepositoryReport("archive", "import")
    path, link = b"/".join(names), target if kind == stat.S_IFLNK else None
    try:
        try:
            key = opened.keys.key_of(path, is_directory=kind == stat.S_IFDIR)
        except KeyRefusal:
            return
        row = replace(
            ROW, path=path, key=key, mode=kind | 0o640, target=link, uid=numbers[0], gid=numbers[0],
            size=len(link) if link else 0 if kind == stat.S_IFDIR else numbers[1],
            xattrs=encode(xattrs) if xattrs else None,
        )  # fmt: skip
        opened.known.put(row)
        assert write_manifest(tmp_path / "m", readable_rows([row], lambda *_: pytest.fail()), {}) == 1
        found = list(read_manifest(tmp_path / "m", Admission(opened, report, is_made=False)))
        assert report.problems == []
        assert [each.path for each in found] == [path]
        for each in found:
            assert (each.key, each.target, each.size) == (row.key, row.target, row.size)
            assert of_users(each.xattrs or b"{}")[0] == {
                name: value for name, value in xattrs.items() if extended.is_of_users(name)
            }
    finally:
        opened.close()


def test_attributes_that_no_reader_takes_are_in_no_manifest(tmp_path: Path) -> None:
    opened = opened_without_store(tmp_path)
    xattrs = encode({"user.long": bytes(1 << 16)})
    row = replace(ROW, path=b"a", key=opened.keys.key_of(b"a"), mode=stat.S_IFREG | 0o600, xattrs=xattrs)
    try:
        with pytest.raises(OSError, match="131089 bytes"):
            opened.known.put(row)
        # An earlier release knew of such a row.
        left: list[str] = []
        assert list(readable_rows([row], lambda _row, why: left.append(why))) == []
        assert len(left) == 1
    finally:
        opened.close()


def test_a_row_that_is_too_long_is_refused_and_others_are_read(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    opened = opened_without_store(tmp_path)
    report = RepositoryReport("archive", "import")
    rows = [
        replace(ROW, path=name, key=opened.keys.key_of(name), mode=stat.S_IFREG | 0o600)
        for name in (b"a", b"b", b"c")
    ]
    write_manifest(tmp_path / "m", rows, {})
    table = pq.read_table(tmp_path / "m")
    values = [None, b"x" * (LONGEST_XATTRS + 1), None]
    at = table.schema.get_field_index("xattrs")
    pq.write_table(table.set_column(at, "xattrs", pa.array(values, pa.binary())), tmp_path / "m")
    found = [each.path for each in read_manifest(tmp_path / "m", Admission(opened, report, is_made=False))]
    assert found == [b"a", b"c"]
    assert report.problems == [
        (
            "manifest.parquet",
            "1 of its rows are refused: a path, a key or attributes are longer than any written",
        )
    ]
    opened.close()
