"""Requests are signed as botocore signs them."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import patch
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from gridwright.repository.s3.plain import RequestSigner

HOST = "store.example:9000"
texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)
tokens = st.one_of(st.none(), st.text("abcXYZ/+=0", min_size=1, max_size=30))


def signature_of_botocore(
    credentials: Credentials, url: str, headers: dict[str, str], moment: datetime
) -> str:
    request = AWSRequest("PUT", url, headers=dict(headers), data=b"")
    with patch("botocore.auth.get_current_datetime", lambda: moment.replace(tzinfo=None)):
        S3SigV4Auth(credentials, "s3", "eu-central-1").add_auth(request)
    return str(request.headers["Authorization"])


@given(texts, texts, st.dictionaries(st.sampled_from("abcdef"), st.text("ab c:;", min_size=1)), tokens)
def test_a_request_has_the_signature_that_botocore_makes(
    key: str, secret: str, metadata: dict[str, str], token: str | None
) -> None:
    credentials = Credentials("access", secret, token)
    moment = datetime(2026, 11, 25, 23, 59, 59, tzinfo=UTC)
    path, query = f"/bucket/{quote(key, safe='/~')}", f"versionId={quote(key, safe='')}"
    own = {"host": HOST, **{f"x-amz-meta-{name}": value for name, value in metadata.items()}}
    signer = RequestSigner("eu-central-1", credentials.get_frozen_credentials)
    head = signer.head("PUT", path, query, own, now_s=moment.timestamp())
    url = f"https://{HOST}{path}?{query}"
    first, signed = lines_of(head)
    assert first == f"PUT {path}?{query} HTTP/1.1"
    assert signed.pop("authorization") == signature_of_botocore(credentials, url, own, moment)
    assert {name: value for name, value in signed.items() if name in own} == own


def lines_of(head: bytes) -> tuple[str, dict[str, str]]:
    """The first line of a request, and its headers."""
    assert head.endswith(b"\r\n\r\n")
    first, *lines = head.decode().removesuffix("\r\n\r\n").split("\r\n")
    return first, dict(each.split(": ", 1) for each in lines)


@pytest.mark.parametrize("value", ["a\r\nx-amz-acl: public-read", "a\nb", "a\0"])
def test_no_value_adds_a_header(value: str) -> None:
    """ETags come from the store, which may be anybody's."""
    signer = RequestSigner("eu-central-1", lambda: Credentials("one", "secret"))
    with pytest.raises(ValueError, match="line break"):
        signer.head("GET", "/b/k", "", {"host": HOST, "if-match": value})


def test_rolled_over_credentials_sign_the_next_request() -> None:
    now = [Credentials("one", "secret"), Credentials("two", "other")]
    signer = RequestSigner("eu-central-1", lambda: now.pop(0))
    first, second = (lines_of(signer.head("GET", "/b/k", "", {"host": HOST}, now_s=0.0))[1] for _ in range(2))
    assert "Credential=one/" in first["authorization"]
    assert "Credential=two/" in second["authorization"]
    assert first["authorization"].rpartition("=")[2] != second["authorization"].rpartition("=")[2]
