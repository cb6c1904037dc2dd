"""Pages of a listing say what they say, and nothing else is taken for one."""

from __future__ import annotations

from urllib.parse import parse_qs, quote
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridwright.repository.s3.s3_store import page_query, read_page
from gridwright.repository.s3.small_objects import head_of, written
from gridwright.repository.store import UNREADABLE, ObjectEntry

SPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)


def page(content: str, more: str = "<IsTruncated>false</IsTruncated>", space: str = SPACE) -> bytes:
    head = f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult {space}>'
    return f"{head}<EncodingType>url</EncodingType>{content}{more}</ListBucketResult>".encode()


def content(key: str, moment: str = "2026-11-25T12:00:00.000Z", size: int = 7) -> str:
    return (
        f"<Contents><Key>{escape(quote(key))}</Key><LastModified>{moment}</LastModified>"
        f"<ETag>&quot;0123-2&quot;</ETag><Size>{size}</Size></Contents>"
    )


@given(st.lists(keys, max_size=4))
@example(["a b+c%2F&<>\x01\x07"])
@pytest.mark.parametrize("space", [SPACE, ""])
def test_keys_come_back_whatever_is_in_them(space: str, names: list[str]) -> None:
    found = read_page(page("".join(map(content, names)), space=space))
    assert found.entries == [ObjectEntry(name, 7, "0123-2", 1795608000 * 10**9) for name in names]
    assert found.token is None


def test_a_page_says_where_the_next_one_begins() -> None:
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>a/b+c=</NextContinuationToken>"
    token = read_page(page(content("key"), more)).token
    assert token == "a/b+c="  # noqa: S105
    asked = parse_qs(page_query("some prefix/&", token=token), strict_parsing=True)
    assert asked == {
        "list-type": ["2"], "encoding-type": ["url"], "max-keys": ["1000"], "prefix": ["some prefix/&"],
        "continuation-token": ["a/b+c="],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (page(content("key"))[:-9], "no XML"),
        (b"<html><body>Welcome</body></html>", "no listing"),
        (page(content("key", size=7).replace("<Size>7</Size>", "")), "cannot be read"),
        (page(content("key", moment="yesterday")), "cannot be read"),
        (page(content("key"), "<IsTruncated>true</IsTruncated>"), "does not say where"),
        (page(content("key"), ""), "whether it goes on"),
        (page("<a/>" * 70_000), "more than 60000 tags"),
    ],
)
def test_what_is_no_page_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_page(body)


@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00", "9999-12-31T23:59:59.999Z", "2262-04-12T00:00:00Z"]
)
def test_one_object_of_a_senseless_moment_hides_no_other(moment: str) -> None:
    found = read_page(page(content("late", moment) + content("fine")))
    assert [(each.key, each.etag) for each in found.entries] == [("late", UNREADABLE), ("fine", "0123-2")]


@pytest.mark.parametrize(
    "moment",
    [
        "Mon, 01 Jan 2026 00:00:00 +99999999999999",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ],
)
def test_a_header_with_a_senseless_moment_is_one_without(moment: str) -> None:
    assert head_of("key", {"last-modified": moment, "content-length": "1"}).entry.last_modified_ns == 0
    assert written({"date": moment}).stored_ns == 0
