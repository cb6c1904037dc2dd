"""Rows of a bucket, of any kind: what is made of them is harmless, and nothing outside is touched."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gridwright.repository.admission import Admission
from gridwright.repository.extended import LONGEST_XATTRS
from gridwright.repository.known_file import KnownFile
from gridwright.repository.making import Maker
from gridwright.repository.publishing import ManifestError, read_manifest, write_manifest
from gridwright.repository.settings import DEFAULT_IDS, RepositoryReport
from gridwright.repository.verify import verify
from gridwright.spec.users import FIRST_ID, LAST_ID
from tests.support.examples import examples
from tests.support.repositories import opened_without_store

ROW = KnownFile(
    path=b"a", mode=0o100644, uid=2001, gid=2001, size=1, blocks=8, atime_ns=1, mtime_ns=2, ctime_ns=0,
    inode=0, links=1, key="prod/a", etag="abc", version_id=None, crc64=None, target=None, xattrs=None,
    link_of=None, is_name_only=False,
)  # fmt: skip
NAMES = st.one_of(
    st.sampled_from(
        [b"a", b"b/c", b"../outside", b"b/../../outside", b"/outside", b"", b".gridwright/x", b"b//c"]
    ),
    st.binary(min_size=1, max_size=12),
)
NUMBERS = st.one_of(
    st.sampled_from(
        [0, -1, 0o104755, 0o102755, 0o106777, 0o047777, 0o120777, 0o020666, 2**32 - 1, 2**63 - 1]
    ),
    st.integers(-(2**63), 2**63 - 1),
)
XATTRS = st.one_of(
    st.sampled_from([
        b'{"security.capability": "0100000202000000000000000000000000000000", "user.a": "00"}',
        b'{"trusted.overlay.opaque": "79"}', b'{"user.gridwright.repository": "7b7d"}', b"[" * 100_000, b"{}",
    ]),
    st.binary(max_size=30),
)  # fmt: skip
TEXTS = st.one_of(st.none(), st.text(max_size=12), st.sampled_from(["prod/a", "prod/b/c", "prod/../outside"]))
BYTES = {
    "path": NAMES,
    "target": st.none() | NAMES,
    "link_of": st.none() | NAMES,
    "xattrs": st.none() | XATTRS,
}
HERE = ("ctime_ns", "inode", "is_name_only")


def values(name: str) -> st.SearchStrategy[object]:
    if name in BYTES:
        return BYTES[name]
    return TEXTS if name in ("key", "etag", "version_id", "crc64") else NUMBERS


CHANGED = st.sampled_from([each.name for each in fields(KnownFile) if each.name not in HERE]).flatmap(
    lambda name: st.tuples(st.just(name), values(name))
)


@st.composite
def rows(draw: st.DrawFn) -> KnownFile:
    """A row with some values that an attacker has chosen; its key may be that of its path."""
    given: dict[str, Any] = dict(draw(st.lists(CHANGED, max_size=4)))
    row = replace(ROW, **given)
    if draw(st.booleans()):
        with contextlib.suppress(UnicodeDecodeError, AttributeError):
            row.key = f"prod/{row.path.decode()}{'/' if row.mode & 0o170000 == 0o040000 else ''}"
    return row


@example([replace(ROW, xattrs=b"")])
@settings(max_examples=examples(400))
@given(st.lists(rows(), min_size=1, max_size=5))
def test_what_is_made_of_rows_of_any_kind_is_harmless(some: list[KnownFile]) -> None:
    with tempfile.TemporaryDirectory() as place:
        library, file = Path(place) / "library", Path(place) / "manifest"
        library.mkdir()
        try:
            write_manifest(file, sorted(some, key=lambda row: row.path), {})
        except (TypeError, OverflowError, UnicodeError):
            return
        report = RepositoryReport("archive", "import")
        with contextlib.closing(opened_without_store(library)) as opened:
            make = Maker(opened, report)
            with contextlib.suppress(ManifestError):
                for row in read_manifest(file, Admission(opened, report)):
                    made(make, row)
            verify_all(opened)
        assert sorted(each.name for each in Path(place).iterdir()) == ["library", "manifest"]
        for each in library.rglob("*"):
            status = each.lstat()
            assert stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
            assert stat.S_ISLNK(status.st_mode) or not status.st_mode & stat.S_ISUID
            assert not (stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_ISGID)
            for name in os.listxattr(each, follow_symlinks=False):
                assert name.startswith(("user.", "system.posix_acl", "trusted.gridwright."))
            if os.geteuid() == 0:
                assert all(each == 0 or each >= FIRST_ID for each in (status.st_uid, status.st_gid))


def made(make: Maker, row: KnownFile) -> None:
    """Make it as an import does."""
    # What a file system cannot do, such as sizes above its own, is an OSError that an import names.
    with contextlib.suppress(OSError):
        if row.attributes.is_directory:
            if row.path:
                make.directory(row.path)
            make.dress_directory(row)
        elif row.link_of is not None and make.hard_link(row):
            pass
        elif row.attributes.is_link:
            make.link(row)
        else:
            # Where nothing guards names, those without content are empty files.
            row.size = 0
            make.name_only(row)


def verify_all(opened: object) -> None:
    """Nothing that was refused is known, of a store that has an object of each name."""
    assert all("was never exported" in why for _, why in verify(opened).problems)  # type: ignore[arg-type]


def test_the_ids_of_specs_and_of_repositories_are_the_same() -> None:
    assert (FIRST_ID, LAST_ID) == DEFAULT_IDS


@pytest.mark.parametrize("name", ["path", "key", "target", "xattrs"])
def test_a_text_that_many_rows_share_is_not_copied_for_each(tmp_path: Path, name: str) -> None:
    file = tmp_path / "manifest"
    write_manifest(file, [ROW], {})
    whole = pq.read_table(file)
    long = b"x" * (LONGEST_XATTRS + 1)
    value = long.decode() if name == "key" else long
    columns = {
        each: pa.DictionaryArray.from_arrays(pa.array([0] * 50_000), pa.array([value]))
        if each == name
        else pa.concat_arrays([whole[each].combine_chunks()] * 50_000)
        for each in whole.column_names
    }
    pq.write_table(pa.table(columns).replace_schema_metadata(whole.schema.metadata), file, compression="zstd")
    assert file.stat().st_size < 100_000
    report = RepositoryReport("archive", "import")
    with (
        contextlib.closing(opened_without_store(tmp_path)) as opened,
        pytest.raises(ManifestError, match="more than 1000 of its rows make no sense"),
    ):
        list(read_manifest(file, Admission(opened, report)))


@pytest.mark.root
def test_what_comes_in_the_place_of_a_link_is_not_given_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may write the directory exchanges the link for a name of another file, before it has its owner."""
    library, outside = tmp_path / "library", tmp_path / "outside"
    library.mkdir()
    outside.write_text("root's")
    before = outside.stat()
    symlink = os.symlink

    def exchanged(target: bytes, name: bytes, *, dir_fd: int) -> None:
        symlink(target, name, dir_fd=dir_fd)
        os.unlink(name, dir_fd=dir_fd)
        os.link(outside, name, dst_dir_fd=dir_fd)

    monkeypatch.setattr(os, "symlink", exchanged)
    row = replace(ROW, mode=0o120777, target=b"x", size=1)
    with contextlib.closing(opened_without_store(library)) as opened:
        make = Maker(opened, RepositoryReport("archive", "import"))
        with pytest.raises(OSError, match="in its place"):
            make.link(row)
    after = outside.stat()
    assert (after.st_uid, after.st_mtime_ns) == (before.st_uid, before.st_mtime_ns)
    assert list(library.iterdir()) == []
