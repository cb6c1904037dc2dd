"""Whatever a file system allows, the manifest that is written of it is read again."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from contextlib import closing, suppress
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
from gridwright.repository.publishing import (
    Manifest,
    ManifestError,
    read_manifest,
    readable_rows,
    write_manifest,
)
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
        rows = readable_rows([row], lambda *_: pytest.fail())
        assert write_manifest(tmp_path / "m", rows, {}) == 1
        admission = Admission(opened, report, is_made=False)
        found = list(read_manifest(tmp_path / "m", admission))
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
    pq.write_table(
        table.set_column(at, "xattrs", pa.array(values, pa.binary())), tmp_path / "m", compression="zstd"
    )
    found = [each.path for each in read_manifest(tmp_path / "m", Admission(opened, report, is_made=False))]
    assert found == [b"a", b"c"]
    assert report.problems == [
        (
            "manifest.parquet",
            "1 row left out: a path, a key or attributes are longer than any written",
        )
    ]
    opened.close()


def test_a_readable_file_of_another_compression_is_not_called_damaged(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    opened = opened_without_store(tmp_path)
    write_manifest(tmp_path / "m", [replace(ROW, path=b"a")], {})
    pq.write_table(pq.read_table(tmp_path / "m"), tmp_path / "m", compression="snappy")
    admission = Admission(opened, RepositoryReport("archive", "import"), is_made=False)
    with pytest.raises(ManifestError, match=r"^its pages have the compression snap, which no release writes"):
        list(read_manifest(tmp_path / "m", admission))
    opened.close()


def test_arrow_is_not_imported_and_no_process_is_begun(tmp_path: Path) -> None:
    """Arrow takes 40 MiB for as long as it is loaded, and a process of its own as long to start."""
    code = """
import sys, pathlib, subprocess
from gridwright.repository.publishing import Manifest, write_manifest
from tests.unit.repository.test_manifest_rows import ROW
from dataclasses import replace
subprocess.Popen = None
file = pathlib.Path(sys.argv[1])
rows = [replace(ROW, path=b"%06d" % each) for each in range(50_000)]
assert write_manifest(file, rows, {"a": "b"}) == len(rows)
assert Manifest(file).facts == {"a": "b"}
assert "pyarrow.lib" not in sys.modules
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], check=True, env=environment)


def test_arrow_reads_what_is_written_and_what_arrow_writes_is_read(tmp_path: Path) -> None:
    """Releases before wrote and read manifests by Arrow."""
    import pyarrow.parquet as pq

    opened = opened_without_store(tmp_path)
    file, again = tmp_path / "m", tmp_path / "again"
    row = replace(ROW, mode=stat.S_IFREG | 0o600, stored_ns=7, libraries="0" * 32, xattrs=b'{"user.a": "00"}')
    rows = [
        replace(row, path=b"%05d" % each, key=opened.keys.key_of(b"%05d" % each)) for each in range(45_000)
    ]
    write_manifest(file, rows, {"exported": "5.0"})
    table = pq.read_table(file)
    assert [str(each.type) for each in table.schema][:2] == ["binary", "int64"]
    assert table["path"].to_pylist() == [each.path for each in rows]
    assert table["libraries"].to_pylist() == ["0" * 32] * len(rows)
    assert table["crc64"].null_count == len(rows)
    pq.write_table(table, again, compression="zstd")
    for each in (file, again):
        report = RepositoryReport("archive", "import")
        manifest = Manifest(each)
        assert manifest.facts == {"exported": "5.0"}
        found = list(manifest.rows(Admission(opened, report, is_made=False)))
        assert found == [replace(row, inode=0) for row in rows]
        assert report.problems == []
    opened.close()


def test_what_takes_too_much_memory_is_no_manifest(tmp_path: Path) -> None:
    """300 MB of zeros in some KB, as who writes to the bucket leaves it: no memory is taken for them."""
    code = """
import pyarrow as pa, pyarrow.parquet as pq, sys
table = pq.read_table(sys.argv[1])
at = table.schema.get_field_index("xattrs")
zeros = pa.array([bytes(300 << 20)], pa.binary())
pq.write_table(table.set_column(at, "xattrs", zeros), sys.argv[1], compression="zstd", use_dictionary=False)
"""
    write_manifest(tmp_path / "m", [ROW], {})
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], check=True)
    assert (tmp_path / "m").stat().st_size < 1 << 20
    opened = opened_without_store(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with closing(opened), pytest.raises(ManifestError, match="more memory"):
        list(read_manifest(tmp_path / "m", Admission(opened, RepositoryReport("archive", "import"))))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_more_values_than_a_page_has_take_no_memory(tmp_path: Path) -> None:
    """A reader makes room for all values of a dictionary before it looks at one."""
    file, opened = tmp_path / "m", opened_without_store(tmp_path)
    write_manifest(file, (replace(ROW, path=b"%05d" % each) for each in range(10_000)), {})
    # DictionaryPageHeader, the seventh field: 10,000 values, and 1,048,575.
    count, many = b"\x4c\x15\xa0\x9c\x01", b"\x4c\x15\xfe\xff\x7f"
    content = file.read_bytes()
    assert count in content
    file.write_bytes(content.replace(count, many, 1))
    with closing(opened), pytest.raises(ManifestError, match="more memory"):
        list(read_manifest(file, Admission(opened, RepositoryReport("archive", "import"))))


def test_a_schema_without_an_end_is_no_manifest(tmp_path: Path) -> None:
    """Groups within groups, so deep that a reader that follows them has no stack left."""
    element = b"\x48\x01a\x15\x02\x00"  # The name a, with one child.
    count = 1_000_000
    footer = b"\x15\x02\x19\xfc" + _varint(count) + element * count + b"\x00"
    file = tmp_path / "m"
    file.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ManifestError, match="schema"):
        Manifest(file)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=4)), min_size=1, max_size=4))
def test_damage_is_no_manifest_or_some_rows(tmp_path: Path, damage: list[tuple[int, bytes]]) -> None:
    file, opened = tmp_path / "m", opened_without_store(tmp_path)
    row = replace(ROW, mode=stat.S_IFREG | 0o600)
    write_manifest(file, (replace(row, path=b"%d" % each, key=f"prod/{each}") for each in range(10)), {})
    content = bytearray(file.read_bytes())
    for place, data in damage:
        at = place % len(content)
        content[at : at + len(data)] = data
    file.write_bytes(content)
    with closing(opened), suppress(ManifestError):
        list(read_manifest(file, Admission(opened, RepositoryReport("archive", "import"))))


def test_what_cannot_be_written_says_why(tmp_path: Path) -> None:
    rows = [replace(ROW, path=b"%06d" % each) for each in range(20_000)]
    with pytest.raises(FileNotFoundError):
        write_manifest(tmp_path / "none" / "m", rows, {})
    with pytest.raises(OSError, match="No space left"):
        write_manifest(Path("/dev/full"), rows, {})
