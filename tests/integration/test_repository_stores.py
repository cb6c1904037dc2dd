"""Stores of several makers, and odd ones: what they do otherwise is named, and nothing is asked for ever."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import StoreError
from gridwright.repository.verify import verify
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import BUCKET, StoreServer, prefix_of, store_server
from tests.support.repositories import forget, run

CONDITIONS = ("if-match", "if-none-match")
LARGE = (9 << 20) + 3
"""Two parts."""


@pytest.fixture
def liar(server: StoreServer) -> Iterator[LyingStore]:
    with LyingStore(server.endpoint_url) as between:
        yield between


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^a-z0-9:/-]+", "-", prefix_of(request.node.name).lower())


@pytest.fixture
def library(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    (place / "below/empty").mkdir(parents=True)
    for number in range(5):
        (place / f"below/file{number}").write_bytes(os.urandom(1000 * number))
    (place / "below/link").symlink_to("file1")
    return place


def send(opened: OpenRepository) -> RepositoryReport:
    return export(opened, ExportOptions())


def send_files(opened: OpenRepository) -> RepositoryReport:
    return export(opened, ExportOptions(prefer="files"))


def bring(opened: OpenRepository) -> RepositoryReport:
    import_names(opened, ImportOptions(contents=True))
    return import_contents(opened, ContentOptions())


def through(liar: LyingStore, server: StoreServer) -> StoreServer:
    return StoreServer(liar.endpoint_url, server.kind, server.environment)


def key_of(url: str, name: str) -> str:
    return f"{url.removeprefix(f's3://{BUCKET}/')}/{name}"


def contents(library: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(library)): each.read_bytes() for each in library.rglob("*") if each.is_file()
    }


@pytest.mark.parametrize("kind", ["moto", "versitygw", "seaweedfs"])
def test_each_store_takes_a_library_and_gives_it_back_in_few_requests(
    tmp_path: Path, library: Path, kind: str
) -> None:
    (library / "large").write_bytes(os.urandom(LARGE))
    with store_server(tmp_path / "store", kind) as served, pytest.MonkeyPatch.context() as patch:
        for name, value in served.environment.items():
            patch.setenv(name, value)
        with LyingStore(served.endpoint_url) as between:
            asked = through(between, served)
            assert run(library, asked, send).problems == []
            assert "probe" not in run(library, asked, send).requests
            # As after a loss of what is known: objects are there, some with other attributes.
            forget(library)
            # Names of one file stay names of one file, also where the store has no CRC that says so.
            os.link(library / "below/file1", library / "below/other")
            served.client().delete_object(Bucket=BUCKET, Key="prod/.gridwright/manifest.parquet")
            for name in ("below/file1", "below", "large"):
                os.utime(library / name, (1e9, 1e9))
            told = run(library, asked, send).problems
            assert {path for path, _ in told} <= {"below/file1", "below/other", "large"}
            assert run(library, asked, send_files).problems == []
            # Once more it is little: what was sent is known, whatever the store makes of directories.
            assert run(library, asked, send).done == {}
            # Each of nine objects takes a handful, and four times the store itself was tried.
            assert len(between.asked) < 320
        before = contents(library)
        forget(library)
        shutil.rmtree(library)
        library.mkdir()
        assert run(library, served, bring).problems == []
        assert contents(library) == before
        assert (library / "below/file1").samefile(library / "below/other")
        assert run(library, served, verify).problems == []
        left = served.client().list_objects_v2(Bucket=BUCKET, Prefix="prod/.gridwright/")["Contents"]
        assert [each["Key"] for each in left] == ["prod/.gridwright/manifest.parquet"]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["moto", "versitygw", "seaweedfs"])
def test_a_name_with_a_backslash_takes_no_other_files_object(
    tmp_path: Path, library: Path, url: str, kind: str
) -> None:
    (library / "x").mkdir()
    (library / "x" / "y").write_text("two")
    (library / "x\\y").write_text("one")
    with store_server(tmp_path / "store", kind) as served, pytest.MonkeyPatch.context() as patch:
        for name, value in served.environment.items():
            patch.setenv(name, value)
        for prefer in (None, "files"):
            report = run(library, served, lambda each, p=prefer: export(each, ExportOptions(prefer=p)), url)  # type: ignore[misc]
            refused = [name for name, why in report.nameless.first if "this store takes for a slash" in why]
            assert (refused, report.problems) == (["x\\y"] if kind == "seaweedfs" else [], [])
            object_of_other = served.client().get_object(Bucket=BUCKET, Key=key_of(url, "x/y"))
            assert object_of_other["Body"].read() == b"two"


def test_a_store_that_ignores_conditions_gets_nothing_and_keeps_what_others_wrote(
    library: Path, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # moto looks at no signature, which headers that are not passed on would break.
    with store_server(tmp_path / "store", "moto") as server, LyingStore(server.endpoint_url) as liar:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        _ignores_conditions(library, server, liar, url)


def _ignores_conditions(library: Path, server: StoreServer, liar: LyingStore, url: str) -> None:
    server.client().put_object(Bucket=BUCKET, Key=key_of(url, "below/file1"), Body=b"theirs")
    liar.ignored = frozenset(CONDITIONS)
    with pytest.raises(GridwrightError) as caught:
        run(library, through(liar, server), send, url)
    assert caught.value.status == ExitStatus.ENVIRONMENT
    said = str([str(each) for each in caught.value.problems])
    assert "ignores the condition If-None-Match" in said
    assert "ignores the condition If-Match" in said
    found = server.client().list_objects_v2(Bucket=BUCKET, Prefix=key_of(url, ""))["Contents"]
    assert [each["Key"] for each in found] == [key_of(url, "below/file1")]
    assert found[0]["Size"] == len(b"theirs")


def is_listing(answer: Answer) -> bool:
    return answer.method == "GET" and "list-type=2" in answer.path


def refuse(answer: Answer, status: int, code: str) -> None:
    answer.status = status
    answer.body = f"<Error><Code>{code}</Code><Message>not here</Message></Error>".encode()


def without_conditions(answer: Answer) -> None:
    if any(each in answer.wanted for each in CONDITIONS):
        refuse(answer, 501, "NotImplemented")


def without_etag(answer: Answer) -> None:
    answer.headers = {name: value for name, value in answer.headers.items() if name.lower() != "etag"}


def as_the_old_listing(answer: Answer) -> None:
    if is_listing(answer):
        answer.body = re.sub(rb"<NextContinuationToken>.*</NextContinuationToken>", b"", answer.body)
        answer.body = answer.body.replace(b"</Name>", b"</Name><Marker></Marker>")


def with_plain_plus(answer: Answer) -> None:
    if is_listing(answer):
        answer.body = re.sub(rb"(<Key>[^<]*)(%2B|\+)", rb"\1+", answer.body)


def without_metadata(answer: Answer) -> None:
    answer.headers = {
        name: value for name, value in answer.headers.items() if not name.lower().startswith("x-amz-meta")
    }


def without_parts(answer: Answer) -> None:
    if answer.path.endswith("?uploads"):
        refuse(answer, 501, "NotImplemented")


def with_heads_refused(answer: Answer) -> None:
    if answer.method == "HEAD":
        answer.status = 400


def forbidding(method: str, part: str) -> Callable[[Answer], None]:
    def forbid(answer: Answer) -> None:
        if answer.method == method and part in answer.path:
            refuse(answer, 403, "AccessDenied")

    return forbid


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (without_conditions, "HTTP 501"),
        (without_etag, "its answer has no ETag"),
        (as_the_old_listing, "the old ListObjects"),
        (with_plain_plus, "lists other keys than were written"),
        (without_metadata, "does not keep metadata"),
        (without_parts, "an upload in parts"),
        (with_heads_refused, "the store refused (HeadObject, HTTP 400)"),
        (forbidding("PUT", "probe-"), "allow these credentials s3:PutObject"),
        (forbidding("DELETE", "probe-"), "allow these credentials s3:DeleteObject"),
        (forbidding("HEAD", "manifest"), "s3:ListBucket: without it"),
        (forbidding("GET", "list-type"), "allow these credentials s3:ListBucket"),
    ],
)
def test_what_a_store_lacks_is_named_and_nothing_is_sent(
    library: Path, server: StoreServer, liar: LyingStore, url: str, lie: Callable[[Answer], None], said: str
) -> None:
    liar.lie = lie
    with pytest.raises(GridwrightError) as caught:
        run(library, through(liar, server), send, url)
    text = " ".join(str(each) for each in caught.value.problems)
    assert said in text
    assert "network" not in text
    found = server.client().list_objects_v2(Bucket=BUCKET, Prefix=key_of(url, "below")).get("Contents", [])
    assert found == []


def test_a_listing_that_says_the_same_again_ends(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    assert run(library, server, send, url).problems == []
    first: list[bytes] = []

    def repeat(answer: Answer) -> None:
        if is_listing(answer):
            first.append(answer.body)
            more = b"<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"
            answer.body = first[0].replace(b"<IsTruncated>false</IsTruncated>", more)

    liar.lie = repeat
    with pytest.raises(StoreError, match="never ends"):
        run(library, through(liar, server), bring, url)
    assert len(first) < 5


def test_names_of_another_maker_in_a_listing_are_read(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    def as_google(answer: Answer) -> None:
        if is_listing(answer):
            answer.body = answer.body.replace(b"//s3.amazonaws.com/doc", b"//doc.s3.amazonaws.com")
            answer.body = answer.body.replace(b"EncodingType>", b"Encoding-Type>")

    liar.lie = as_google
    assert run(library, through(liar, server), send, url).problems == []
    before = contents(library)
    shutil.rmtree(library)
    library.mkdir()
    assert run(library, through(liar, server), bring, url).problems == []
    assert contents(library) == before


def test_a_condition_that_never_holds_ends_an_export_and_is_named(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    assert run(library, server, send, url).problems == []
    forget(library)
    server.client().delete_object(Bucket=BUCKET, Key=key_of(url, ".gridwright/manifest.parquet"))
    os.utime(library / "below/file1", (1e9, 1e9))

    def never(answer: Answer) -> None:
        if answer.path.endswith("/below/file1"):
            if answer.method == "PUT":
                refuse(answer, 412, "PreconditionFailed")
            without_metadata(answer)

    liar.lie = never
    report = run(library, through(liar, server), send, url)
    assert [(name, "its conditions do not hold" in why) for name, why in report.problems] == [
        ("below/file1", True)
    ]
    tries = [path for method, path in liar.asked if method == "PUT" and path.endswith("file1")]
    assert len(tries) == 3


def test_a_store_is_tried_again_when_it_is_another_or_long_after(
    library: Path, server: StoreServer, liar: LyingStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = through(liar, server)
    assert run(library, asked, send, url).requests["probe"] > 10
    assert "probe" not in run(library, asked, send, url).requests

    def say(answer: Answer) -> None:
        answer.headers = {
            **{name: value for name, value in answer.headers.items() if name.lower() != "server"},
            "Server": "another/2",
        }

    liar.lie = say
    assert run(library, asked, send, url).requests["probe"] > 10
    assert "probe" not in run(library, asked, send, url).requests
    monkeypatch.setattr("gridwright.repository.probing.AGAIN_S", 0.0)
    assert run(library, asked, send, url).requests["probe"] > 10


def test_a_large_object_whose_last_reply_was_lost_is_found_to_be_there(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    assert run(library, server, send, url).problems == []
    (library / "large").write_bytes(os.urandom(LARGE))
    lost: list[str] = []

    def lose(answer: Answer) -> None:
        if answer.method == "POST" and "/large?uploadId=" in answer.path and not lost:
            lost.append(answer.path)
            answer.sent = 0

    liar.lie = lose
    assert run(library, through(liar, server), send, url).problems == []
    assert lost
    assert run(library, server, verify, url).problems == []
    uploads = server.client().list_multipart_uploads(Bucket=BUCKET, Prefix=key_of(url, "large"))
    assert uploads.get("Uploads", []) == []
