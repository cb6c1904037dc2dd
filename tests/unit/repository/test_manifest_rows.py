"""Whatever a file system allows, the manifest that is written of it is read again."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gridwright.repository import extended, manifest_program
from gridwright.repository.admission import Admission
from gridwright.repository.extended import LONGEST_XATTRS, encode, of_users
from gridwright.repository.keys import KeyRefusal
from gridwright.repository.known_file import KnownFile
from gridwright.repository.manifest import Manifest, read_manifest, readable_rows, write_manifest
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
        # Hundreds of them: without a process for each.
        assert write_manifest(tmp_path / "m", rows, {}, manifest_program.write) == 1
        admission = Admission(opened, report, is_made=False)
        found = list(read_manifest(tmp_path / "m", admission, manifest_program.read))
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


def test_no_memory_of_arrow_is_that_of_a_command(tmp_path: Path) -> None:
    """Arrow takes 40 MiB for as long as it is loaded: a process of its own has it, and ends."""
    code = """
import sys, pathlib
from gridwright.repository.manifest import Manifest, write_manifest
from tests.unit.repository.test_manifest_rows import ROW
from dataclasses import replace
file = pathlib.Path(sys.argv[1])
rows = [replace(ROW, path=b"%06d" % each) for each in range(50_000)]
assert write_manifest(file, rows, {"a": "b"}) == len(rows)
assert Manifest(file).facts == {"a": "b"}
assert "pyarrow.lib" not in sys.modules
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], check=True, env=environment)


def test_what_takes_too_much_memory_is_no_manifest(tmp_path: Path) -> None:
    """900 MB of zeros in some KB, as who writes to the bucket leaves it; a hard limit stands for 4 GiB."""
    code = """
import pyarrow as pa, pyarrow.parquet as pq, sys
table = pq.read_table(sys.argv[1])
at = table.schema.get_field_index("xattrs")
zeros = pa.array([bytes(900 << 20)], pa.binary())
pq.write_table(table.set_column(at, "xattrs", zeros), sys.argv[1], compression="zstd", use_dictionary=False)
"""
    write_manifest(tmp_path / "m", [ROW], {})
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], check=True)
    assert (tmp_path / "m").stat().st_size < 1 << 20
    read = """
import resource, sys, pathlib
from gridwright.repository.manifest import ManifestError, read_apart, LAYOUT
resource.setrlimit(resource.RLIMIT_AS, (1536 << 20,) * 2)
try:
    list(read_apart(sys.argv[1], LAYOUT))
except ManifestError as error:
    print(error)
"""
    found = subprocess.run(
        [sys.executable, "-c", read, str(tmp_path / "m")], check=True, capture_output=True, text=True
    )
    assert "more memory" in found.stdout


def test_a_process_that_cannot_write_says_why(tmp_path: Path) -> None:
    rows = [replace(ROW, path=b"%06d" % each) for each in range(20_000)]
    with pytest.raises(FileNotFoundError):
        write_manifest(tmp_path / "none" / "m", rows, {})
    with pytest.raises(OSError, match="No space left"):
        write_manifest(Path("/dev/full"), rows, {})


def test_a_process_that_is_killed_is_an_error(tmp_path: Path) -> None:
    def rows() -> Iterator[KnownFile]:
        for each in range(100_000):
            if each == 50_000:
                (program,) = children()
                os.kill(program, signal.SIGKILL)
            yield replace(ROW, path=b"%06d" % each)

    with pytest.raises(OSError, match="has ended too early"):
        write_manifest(tmp_path / "m", rows(), {})
    assert children() == []


def test_who_stops_reading_leaves_no_process_behind(tmp_path: Path) -> None:
    opened = opened_without_store(tmp_path)
    names = [b"%06d" % each for each in range(50_000)]
    row = replace(ROW, mode=stat.S_IFREG | 0o600)
    write_manifest(
        tmp_path / "m", (replace(row, path=each, key=opened.keys.key_of(each)) for each in names), {}
    )
    with closing(opened), closing(Manifest(tmp_path / "m")) as manifest:
        found = next(manifest.rows(Admission(opened, RepositoryReport("archive", "import"))))
        assert found.path == names[0]
        assert len(children()) == 1
    assert children() == []


def children() -> list[int]:
    """Programs that this process has begun, and that have not ended."""
    found = psutil.Process().children()
    return [each.pid for each in found if any("manifest_program" in word for word in each.cmdline())]
