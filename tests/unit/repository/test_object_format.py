"""The metadata of objects are those of FSx for Lustre, both ways."""

from __future__ import annotations

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.repository import object_format as fmt
from gridwright.repository.object_format import FileAttributes, attributes_of, metadata_of

TIMES = st.integers(-(2**63) + 1, 2**63 - 1)
KINDS = st.sampled_from([stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK])


@st.composite
def attributes(draw: st.DrawFn) -> FileAttributes:
    ids = st.integers(0, 2**32 - 2)
    return FileAttributes(
        mode=fmt.portable_mode(draw(KINDS) | draw(st.integers(0, 0o7777))),
        uid=draw(ids), gid=draw(ids), atime_ns=draw(TIMES), mtime_ns=draw(TIMES),
    )  # fmt: skip


def test_a_file_has_exactly_the_metadata_of_fsx() -> None:
    file = FileAttributes(0o100644, 1001, 1002, 1595002920000000000, 1595002920123456789)
    assert metadata_of(file) == {
        "file-permissions": "0100644",
        "file-owner": "1001",
        "file-group": "1002",
        "file-atime": "1595002920000000000ns",
        "file-mtime": "1595002920123456789ns",
    }


@pytest.mark.parametrize(("mode", "written"), [(0o040755, "0040755"), (0o120777, "0120777")])
def test_directories_and_links_say_what_they_are(mode: int, written: str) -> None:
    assert metadata_of(FileAttributes(mode, 0, 0, 1, 2))["file-permissions"] == written


def test_setuid_goes_and_setgid_stays_on_directories_alone() -> None:
    assert metadata_of(FileAttributes(0o106755, 0, 0, 1, 2))["file-permissions"] == "0100755"
    assert metadata_of(FileAttributes(0o046755, 0, 0, 1, 2))["file-permissions"] == "0042755"
    read = attributes_of({"file-permissions": "0106755"}, is_directory=False, last_modified_ns=0)
    assert read.attributes.mode == 0o100755


@given(attributes())
def test_what_is_written_is_read(file: FileAttributes) -> None:
    read = attributes_of(metadata_of(file), is_directory=file.is_directory, last_modified_ns=7)
    assert read == fmt.ReadAttributes(file)


def test_what_is_missing_is_as_fsx_has_it() -> None:
    read = attributes_of({}, is_directory=False, last_modified_ns=5_000)
    assert read.attributes == FileAttributes(0o100755, 0, 0, 5_000, 5_000)
    assert read.problems == ()
    assert attributes_of({}, is_directory=True, last_modified_ns=5).attributes.mode == 0o040755


def test_times_without_ns_are_milliseconds() -> None:
    read = attributes_of({"File-Mtime": "1595002920123"}, is_directory=False, last_modified_ns=0)
    assert read.attributes.mtime_ns == 1595002920123 * 10**6
    assert read.attributes.atime_ns == read.attributes.mtime_ns


def test_permissions_without_a_type_are_those_of_the_key() -> None:
    for is_directory, kind in ((True, stat.S_IFDIR), (False, stat.S_IFREG)):
        read = attributes_of({"file-permissions": "0640"}, is_directory=is_directory, last_modified_ns=0)
        assert (read.attributes.mode, read.problems) == (kind | 0o640, ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("file-permissions", "0020666"),  # a device
        ("file-permissions", "0040755"),  # a directory, and the key is that of a file
        ("file-permissions", "rwxr-xr-x"),
        ("file-permissions", "0888"),
        ("file-permissions", "7777777"),
        ("file-owner", "-1"),
        ("file-owner", "4294967295"),
        ("file-group", "wheel"),
        ("file-mtime", "yesterday"),
        ("file-mtime", "99999999999999999999"),
        ("file-atime", "1e9ns"),
        ("file-atime", "\u0661ns"),
    ],
)
def test_what_makes_no_sense_is_named_and_left_aside(name: str, value: str) -> None:
    read = attributes_of({name: value}, is_directory=False, last_modified_ns=9)
    assert len(read.problems) == 1
    assert name in read.problems[0]
    assert stat.S_ISREG(read.attributes.mode)
    assert (read.attributes.uid, read.attributes.gid, read.attributes.mtime_ns) == (0, 0, 9)


@given(st.dictionaries(st.sampled_from(fmt.KEYS), st.text(max_size=30)), st.booleans())
def test_any_metadata_give_attributes_that_linux_takes(metadata: dict[str, str], is_directory: bool) -> None:
    read = attributes_of(metadata, is_directory=is_directory, last_modified_ns=0).attributes
    assert read.is_directory == is_directory
    assert not read.mode & stat.S_ISUID
    assert 0 <= read.uid < 2**32 - 1
    assert abs(read.mtime_ns) < 2**63


def test_sockets_and_devices_have_no_object() -> None:
    for kind in (stat.S_IFSOCK, stat.S_IFIFO, stat.S_IFBLK, stat.S_IFCHR):
        with pytest.raises(ValueError, match="only files"):
            metadata_of(FileAttributes(kind | 0o600, 0, 0, 0, 0))


def test_targets() -> None:
    assert fmt.why_no_target(6, b"../\xff/x") is None
    assert all(fmt.why_no_target(len(each), each) for each in (b"", b"a\0b", b"x" * 4096))
