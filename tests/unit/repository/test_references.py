"""A file says which object it is, by an attribute that stays with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.repository.references import (
    ContentPlace,
    FileState,
    ObjectReference,
    StateError,
    attribute_name,
    can_have_state,
    clear_state,
    decode,
    encode,
    read_state,
    write_state,
)

REFERENCE = ObjectReference(
    "s3://site-sas/prod", "prod/é␛ff", "d41d8cd98f00b204e9800998ecf8427e-7", None, 1 << 40
)
STATE = FileState(REFERENCE, ContentPlace.NAME_ONLY, 1595002920123456789)
TEXTS = st.text(max_size=30)


@given(
    TEXTS,
    TEXTS,
    TEXTS,
    st.none() | TEXTS,
    st.integers(0, 2**62),
    st.sampled_from(ContentPlace),
    st.integers(-(2**63), 2**63),
)
def test_what_is_written_is_read(
    bucket: str, key: str, etag: str, version: str | None, size: int, presence: ContentPlace, mtime_ns: int
) -> None:
    state = FileState(ObjectReference(bucket, key, etag, version, size), presence, mtime_ns, "00ff" * 4)
    assert decode(encode(state)) == state


@given(st.binary(max_size=80))
def test_a_damaged_value_is_an_error_of_its_own(value: bytes) -> None:
    with pytest.raises(StateError):
        decode(value)


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(StateError, match="format 2"):
        decode(encode(STATE).replace(b'"format":1', b'"format":2'))
    with pytest.raises(StateError, match="damaged"):
        decode(encode(STATE).replace(b'"size":1099511627776', b'"size":"big"'))


def test_by_path_and_by_descriptor(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    assert can_have_state(os.fsencode(tmp_path))
    assert read_state(str(file)) is None
    before = file.stat()
    write_state(os.fsencode(file), STATE)
    with file.open("rb") as opened:
        assert read_state(opened.fileno()) == STATE
    after = file.stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    clear_state(str(file))
    clear_state(str(file))
    assert read_state(str(file)) is None


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch()
    link.symlink_to(target)
    if os.geteuid() == 0:
        write_state(str(link), STATE)
        assert read_state(str(link)) == STATE
        clear_state(str(link))
    else:
        with pytest.raises(OSError, match="not permitted"):
            write_state(str(link), STATE)
    write_state(str(target), STATE)
    assert read_state(str(link)) is None


def test_who_is_root_writes_what_users_cannot_forge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert attribute_name() == "trusted.gridwright.repository"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert attribute_name() == "user.gridwright.repository"


def test_another_size_or_time_is_a_change(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, STATE.reference.size)
    os.utime(file, ns=(5, STATE.mtime_ns))
    assert STATE.is_unchanged(file.stat())
    os.utime(file, ns=(5, STATE.mtime_ns + 1))
    assert not STATE.is_unchanged(file.stat())
    os.truncate(file, 7)
    os.utime(file, ns=(5, STATE.mtime_ns))
    assert not STATE.is_unchanged(file.stat())
