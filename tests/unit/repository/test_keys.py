"""Paths and keys are each made of the other, and no hostile key leads out of the repository."""

from __future__ import annotations

import os.path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridwright.repository.keys import LONGEST_KEY, KeyRefusal, Keys

PREFIXES = st.sampled_from(["", "prod", "site/sas/prod"])
PIECES = st.sampled_from([b"\xff", b"\xe2", b"\x90", b"\x9b", b"41", b"ff", "␛".encode(), "é".encode(), b"a"])
NAMES = st.one_of(
    st.lists(PIECES, min_size=1, max_size=8).map(b"".join),
    st.binary(min_size=1, max_size=40),
    st.text(min_size=1, max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
).filter(lambda name: not (name in (b".", b"..") or set(name) & {0, 0x2F} or name.startswith(b".gridwright")))
"""Names of users: Gridwright's own have no keys, and hypothesis knows them from our source."""
PATHS = st.lists(NAMES, min_size=1, max_size=5).map(b"/".join)


@given(PREFIXES, PATHS, st.booleans())
@example("", b"a.", False)
@example("", b"\n\x7f\x01", True)
@example("", "␛".encode() + b"e2", False)
def test_a_path_comes_back_from_its_key(prefix: str, path: bytes, is_directory: bool) -> None:
    keys = Keys(prefix)
    key = keys.key_of(path, is_directory=is_directory)
    key.encode()
    assert keys.path_of(key) == (path, is_directory)


@given(
    PREFIXES,
    st.text(max_size=60) | st.lists(st.sampled_from(["␛", "4", "1", "f", "/", ".", "é"])).map("".join),
)
def test_a_key_comes_back_from_its_path_or_is_refused(prefix: str, text: str) -> None:
    keys = Keys(prefix)
    try:
        path, is_directory = keys.path_of(keys.start + text)
    except KeyRefusal:
        return
    assert keys.key_of(path, is_directory=is_directory) == keys.start + text


@given(
    st.text(max_size=40) | st.lists(st.sampled_from(["..", "/", ".", "a", "\0", "␛2f", "␛00"])).map("".join)
)
def test_no_key_leads_out(key: str) -> None:
    try:
        path, _ = Keys("").path_of(key)
    except KeyRefusal:
        return
    assert not path.startswith(b"/")
    assert b"\0" not in path
    assert os.path.normpath(path) == path


ORDINARY = st.text(
    st.characters(min_codepoint=0x20, exclude_categories=["Cs"], exclude_characters="/␛\ufffe\uffff"),
    min_size=1, max_size=20,
).filter(lambda name: name not in (".", ".."))  # fmt: skip


@given(st.lists(ORDINARY, min_size=1, max_size=4).map("/".join))
def test_a_name_in_utf_8_is_its_own_key(path: str) -> None:
    assert Keys("").key_of(path.encode()) == path


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("prod/../etc/passwd", "leads elsewhere"),
        ("prod/a/./b", "leads elsewhere"),
        ("prod//etc/passwd", "empty name"),
        ("prod/a//b", "empty name"),
        ("prod/", "empty name"),
        ("prod/a\0b", "NUL"),
        ("prod/a␛00", "NUL"),
        ("prod/a␛2fb", "escaped /"),
        ("prod/␛2e␛2e/x", "leads elsewhere"),
        ("prod/␛41", "escape"),
        ("prod/a\x01", "escape"),
        ("other/a", "does not begin"),
        ("prod/.gridwright/manifest", "own"),
        ("prod/" + "n" * 256, "256 bytes"),
        ("prod/" + "d/" * 600, "1205 bytes"),
        ("prod/\ud800", "not UTF-8"),
    ],
)
def test_hostile_keys_are_refused_and_named(key: str, reason: str) -> None:
    with pytest.raises(KeyRefusal, match=reason) as refused:
        Keys("prod").path_of(key)
    assert refused.value.what.isprintable()


def test_what_listings_lose_is_escaped() -> None:
    assert Keys("").key_of(b"\x01\r\n\t\x7f") == "␛01␛0d\n\t\x7f"
    assert Keys("").key_of("\uffff".encode()) == "␛ef␛bf␛bf"


def test_the_longest_key_and_one_byte_more() -> None:
    names = [b"n" * 255] * 4
    path = b"/".join(names)
    assert len(path) == LONGEST_KEY - 1
    assert len(Keys("").key_of(path, is_directory=True)) == LONGEST_KEY
    with pytest.raises(KeyRefusal, match="1025 bytes"):
        Keys("p").key_of(path)
    with pytest.raises(KeyRefusal, match="1027 bytes"):
        Keys("").key_of(b"/".join([b"\xff" + b"n" * 254, *names[1:]]))


def test_gridwrights_own_is_no_files() -> None:
    keys = Keys("/prod/")
    assert keys.own("manifest.parquet") == "prod/.gridwright/manifest.parquet"
    assert keys.is_own(keys.own("x"))
    assert not keys.is_own("prod/a/.gridwright/x")
    with pytest.raises(KeyRefusal, match="own"):
        keys.key_of(b".gridwright/x")
    assert keys.key_of(b"a/.gridwright") == "prod/a/.gridwright"
