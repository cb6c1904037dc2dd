"""Requests are signed as botocore signs them."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import patch
from urllib.parse import quote

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
    signed = signer.signed("PUT", path, query, own, now_s=moment.timestamp())
    url = f"https://{HOST}{path}?{query}"
    assert signed["authorization"] == signature_of_botocore(credentials, url, own, moment)


def test_rolled_over_credentials_sign_the_next_request() -> None:
    now = [Credentials("one", "secret"), Credentials("two", "other")]
    signer = RequestSigner("eu-central-1", lambda: now.pop(0))
    first, second = (signer.signed("GET", "/b/k", "", {"host": HOST}, now_s=0.0) for _ in range(2))
    assert "Credential=one/" in first["authorization"]
    assert "Credential=two/" in second["authorization"]
    assert first["authorization"].rpartition("=")[2] != second["authorization"].rpartition("=")[2]
