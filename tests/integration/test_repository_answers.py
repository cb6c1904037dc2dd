"""Answers that S3 documents and no store of the tests gives: a proxy before a real store gives them.

Sources: Amazon S3 API Reference, "Error responses", PutObject, CompleteMultipartUpload, RestoreObject; Amazon
S3 User Guide, "How to prevent object overwrites with conditional writes".
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.settings import OpenRepository, RepositoryReport
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import BUCKET, StoreServer, prefix_of
from tests.support.repositories import run

LARGE = (9 << 20) + 3
"""Two parts."""
FEW, EVER = 2, 1000


@pytest.fixture
def liar(server: StoreServer) -> Iterator[LyingStore]:
    with LyingStore(server.endpoint_url) as between:
        yield between


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^a-z0-9:/-]+", "-", prefix_of(request.node.name).lower())


@pytest.fixture
def asked(liar: LyingStore, server: StoreServer) -> StoreServer:
    return StoreServer(liar.endpoint_url, server.kind, server.environment)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    place.mkdir()
    (place / "small").write_bytes(os.urandom(1000))
    (place / "large").write_bytes(os.urandom(LARGE))
    return place


def send(opened: OpenRepository) -> RepositoryReport:
    return export(opened, ExportOptions())


def bring(opened: OpenRepository) -> RepositoryReport:
    import_names(opened, ImportOptions(contents=True))
    return import_contents(opened, ContentOptions(restore="Standard"))


def key_of(url: str, name: str) -> str:
    return f"{url.removeprefix(f's3://{BUCKET}/')}/{name}"


def refusing(method: str, name: str, code: str, times: int, status: int = 409) -> Callable[[Answer], None]:
    """Refuse requests for a key before the store has them, and then no more."""
    left = [times]

    def refuse(answer: Answer) -> None:
        path, _, query = answer.path.partition("?")
        is_part = "partNumber" in query or query.startswith("uploads")
        if answer.method == method and path.endswith(f"/{name}") and not is_part and left[0]:
            left[0] -= 1
            answer.status = status
            answer.body = f"<Error><Code>{code}</Code><Message>In between</Message></Error>".encode()

    return refuse


@pytest.mark.few(3)
@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted"])
@pytest.mark.parametrize(
    ("method", "name"),
    [("PUT", "lease"), ("PUT", "small"), ("PUT", "manifest.parquet"), ("POST", "large")],
)
def test_what_meets_another_request_is_tried_again(
    library: Path, server: StoreServer, liar: LyingStore, asked: StoreServer, url: str,
    method: str, name: str, code: str,
) -> None:  # fmt: skip
    liar.instead = refusing(method, name, code, FEW)
    report = run(library, asked, send, url)
    assert report.problems == []
    for each in ("small", "large"):
        found = server.client().get_object(Bucket=BUCKET, Key=key_of(url, each))["Body"].read()
        assert found == (library / each).read_bytes()
    uploads = server.client().list_multipart_uploads(Bucket=BUCKET, Prefix=key_of(url, "")).get("Uploads", [])
    assert uploads == []
    begun = [path for method, path in liar.asked if path.endswith("/large?uploads") and method == "POST"]
    # The end of an upload that met another request is of no use: it begins anew.
    assert len(begun) == (1 + FEW if name == "large" else 1)


@pytest.mark.parametrize(("method", "name"), [("PUT", "small"), ("POST", "large")])
def test_what_meets_others_each_time_is_named_so_and_the_next_export_sends_it(
    library: Path, liar: LyingStore, asked: StoreServer, url: str, method: str, name: str
) -> None:
    liar.instead = refusing(method, name, "ConditionalRequestConflict", EVER)
    report = run(library, asked, send, url)
    ((path, why),) = report.problems
    assert path == name
    assert why.startswith("another request for the object is under way: In between")
    tries = [asked for asked in liar.asked if asked[0] == method and f"/{name}" in asked[1]]
    assert len(tries) < 20
    liar.instead = lambda _answer: None
    assert run(library, asked, send, url).done["sent"].count == 1


@pytest.mark.parametrize(("off_s", "side"), [(-3600, "ahead of"), (3600, "behind")])
@pytest.mark.parametrize("method", ["HEAD", "PUT"])
def test_a_clock_that_is_off_is_named_and_no_right_asked_for(
    library: Path, liar: LyingStore, asked: StoreServer, url: str, method: str, off_s: int, side: str
) -> None:
    def skewed(answer: Answer) -> None:
        if answer.method == method:
            answer.status = 403
            answer.headers = {"Date": formatdate(time.time() + off_s, usegmt=True)}
            answer.body = (
                b"<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the request time "
                b"and the current time is too large.</Message></Error>"
            )

    liar.instead = skewed
    said = _said(library, asked, url)
    assert re.search(rf"this machine's clock is 3[56][0-9]{{2}} s {side} the store's", said)
    assert "chronyc" in said
    assert "allow these credentials" not in said


@pytest.mark.parametrize(
    ("code", "status", "remedy"),
    [
        ("ExpiredToken", 400, "get new credentials"),
        ("TokenRefreshRequired", 400, "get new credentials"),
        ("InvalidAccessKeyId", 403, "the access key and its secret"),
        ("SignatureDoesNotMatch", 403, "the access key and its secret"),
    ],
)
def test_credentials_that_are_none_any_more_are_not_told_to_get_rights(
    library: Path, liar: LyingStore, asked: StoreServer, url: str, code: str, status: int, remedy: str
) -> None:
    def refuse(answer: Answer) -> None:
        answer.status = status
        answer.body = f"<Error><Code>{code}</Code><Message>No</Message></Error>".encode()

    liar.instead = refuse
    said = _said(library, asked, url)
    assert remedy in said
    assert "allow these credentials" not in said


def _said(library: Path, asked: StoreServer, url: str) -> str:
    with pytest.raises(GridwrightError) as caught:
        run(library, asked, send, url)
    return " ".join(f"{each.what} {each.remedy}" for each in caught.value.problems)


def _archived(
    storage_class: str, restore: str, requests: list[bytes]
) -> tuple[Callable[[Answer], None], Callable[[Answer], None]]:
    """An archived object, as S3 has it: not read, and restored with days but by Intelligent-Tiering."""

    def instead(answer: Answer) -> None:
        if "/small" not in answer.path:
            return
        if answer.method == "GET":
            answer.status = 403
            answer.body = b"<Error><Code>InvalidObjectState</Code><Message>It is archived</Message></Error>"
        if answer.method == "POST" and answer.path.split("?")[1].startswith("restore"):
            requests.append(answer.given)
            has_days = b"<Days>" in answer.given
            answer.status = 202 if has_days != (storage_class == "INTELLIGENT_TIERING") else 400
            answer.body = b"" if answer.status == 202 else (
                b"<Error><Code>MalformedXML</Code><Message>Do not specify Days</Message></Error>"
            )  # fmt: skip

    def lie(answer: Answer) -> None:
        if answer.method == "HEAD" and answer.path.endswith("/small"):
            answer.headers["x-amz-storage-class"] = storage_class
            if restore:
                answer.headers["x-amz-restore"] = restore

    return instead, lie


@pytest.mark.few(3)
@pytest.mark.parametrize("storage_class", ["INTELLIGENT_TIERING", "GLACIER"])
@pytest.mark.parametrize(
    ("restore", "begins"),
    [
        ("", True),
        ('ongoing-request="true"', False),
        ('ongoing-request="false", expiry-date="Fri, 21 Dec 2029 00:00:00 GMT"', False),
    ],
)
def test_what_is_archived_is_restored_once_and_with_days_only_where_s3_takes_them(
    library: Path, liar: LyingStore, asked: StoreServer, url: str,
    storage_class: str, restore: str, begins: bool,
) -> None:  # fmt: skip
    assert run(library, asked, send, url).problems == []
    (library / "small").unlink()
    requests: list[bytes] = []
    liar.instead, liar.lie = _archived(storage_class, restore, requests)
    report = run(library, asked, bring, url)
    assert [(name, "is being restored" in why) for name, why in report.problems] == [("small", True)]
    assert len(requests) == begins
    assert ("restore started" in report.done) == begins
