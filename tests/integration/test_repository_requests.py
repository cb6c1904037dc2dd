"""Plain requests, parts and TLS: what goes wrong on the way is asked again, and nothing is left behind."""

from __future__ import annotations

import random
import shutil
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import CredentialRetrievalError

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.repository.content import FileContent
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_objects
from gridwright.repository.s3.connection import connect
from gridwright.repository.s3.plain import PlainRequests, Unusual
from gridwright.repository.s3.s3_store import S3Store
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import StoreError
from gridwright.repository.verify import verify
from tests.support.certificate_authority import make_certificates
from tests.support.command import wait_until
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import BUCKET, StoreServer
from tests.support.repositories import run

LARGE = (17 << 20) + 3
"""Three parts."""


@pytest.fixture
def liar(server: StoreServer) -> Iterator[LyingStore]:
    with LyingStore(server.endpoint_url) as between:
        yield between


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def send(opened: OpenRepository) -> RepositoryReport:
    return export(opened, ExportOptions())


def bring(opened: OpenRepository) -> RepositoryReport:
    return import_objects(opened, ImportOptions())


def through(liar: LyingStore, server: StoreServer) -> StoreServer:
    return StoreServer(liar.endpoint_url, server.kind, server.environment)


def uploads_left(server: StoreServer) -> list[object]:
    """Without those of trials of the store: where an answer is lost, nobody knows of that upload."""
    uploads = server.client().list_multipart_uploads(Bucket=BUCKET).get("Uploads", ())
    return [each for each in uploads if "/.gridwright/probe-" not in each["Key"]]


def random_bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)  # noqa: S311


def emptied(library: Path) -> Path:
    shutil.rmtree(library)
    library.mkdir()
    return library


def test_all_sizes_go_and_come_over_tls_and_a_stranger_gets_nothing(
    library: Path, tmp_path: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_certificates(tmp_path, "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    contents = {f"file{size}": random_bytes(size) for size in (0, 1, 300_000, LARGE)}
    for name, content in contents.items():
        (library / name).write_bytes(content)
    with LyingStore(server.endpoint_url, context) as between:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        assert run(library, through(between, server), send, url).problems == []
        asked = len(between.asked)
        assert run(emptied(library), through(between, server), bring, url).problems == []
        assert {each.name: each.read_bytes() for each in library.iterdir() if each.is_file()} == contents
        gets = [path for method, path in between.asked[asked:] if method == "GET" and "/file" in path]
        assert sorted(path.rpartition("/")[2] for path in gets) == [
            "file1", f"file{LARGE}", f"file{LARGE}", "file300000"
        ]  # fmt: skip


def test_a_connection_that_ended_without_a_word_is_made_anew(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    for place in range(40):
        (library / f"file{place}").write_bytes(random_bytes(1000 + place))

    def hang_up(answer: Answer) -> None:
        answer.hangs_up = True

    liar.lie = hang_up
    sent = run(library, through(liar, server), send, url)
    brought = run(emptied(library), through(liar, server), bring, url)
    assert sent.problems == brought.problems == []
    # Nothing was asked for a second time by another client: 40 files, the directory, lease and manifest.
    assert sent.requests["put"] == 43
    assert len({path for method, path in liar.asked if method == "GET" and "/file" in path}) == 40
    assert run(library, server, verify, url).problems == []


def test_a_store_whose_answers_are_never_plain_is_not_asked_twice_for_long(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    for place in range(100):
        (library / f"file{place}").write_bytes(random_bytes(1000 + place))
    assert run(library, server, send, url).problems == []

    def say_it_is_a_part(answer: Answer) -> None:
        if answer.method == "GET" and "/file" in answer.path:
            answer.status = 206

    liar.lie = say_it_is_a_part
    assert run(emptied(library), through(liar, server), bring, url).problems == []
    assert run(library, server, verify, url).problems == []
    # It is noticed after 16; those that are under way then, of which there are 64, are asked for twice, too.
    assert sum(method == "GET" and "/file" in path for method, path in liar.asked) <= 100 + 64 + 16


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_authority_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: StoreServer, content: str | None
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(file))
    with pytest.raises(GridwrightError) as caught:
        connect(BUCKET, endpoint_url="https://127.0.0.1:9")
    assert caught.value.status == ExitStatus.INPUT
    assert str(file) in str(caught.value)


def test_credentials_that_cannot_be_had_are_a_fault_of_the_store_and_no_traceback(
    library: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (library / "file").write_bytes(b"x")
    connection = connect(BUCKET, endpoint_url=server.endpoint_url)

    def refuse(*_: object) -> None:
        raise CredentialRetrievalError(provider="role", error_msg="expired")

    store = S3Store(connection, pause_ms=20)
    monkeypatch.setattr(connection.session.get_credentials(), "get_frozen_credentials", refuse)
    try:
        with (library / "file").open("rb") as file:
            error = store.send("key", FileContent(file.fileno()), {}).exception(timeout=60)
    finally:
        store.close()
    assert isinstance(error, StoreError)


def test_a_proxy_is_left_to_those_who_know_it(monkeypatch: pytest.MonkeyPatch, server: StoreServer) -> None:
    connection = connect(BUCKET, endpoint_url=server.endpoint_url)
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(Unusual):
        PlainRequests(connection).connect()
    monkeypatch.setenv("no_proxy", "127.0.0.1,.example")
    requests = PlainRequests(connection)
    requests.end(requests.connect())


def test_parts_whose_connections_break_are_sent_again(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    (library / "file").write_bytes(random_bytes(LARGE))
    broken: set[str] = set()

    def break_off(answer: Answer) -> None:
        number = parse_qs(urlsplit(answer.path).query).get("partNumber", [""])[0]
        if number and number not in broken:
            broken.add(number)
            if number == "2":
                answer.sent = 0
            else:
                answer.status = 500

    liar.lie = break_off
    assert run(library, through(liar, server), send, url).problems == []
    assert broken == {"1", "2", "3"}
    assert run(emptied(library), server, bring, url).problems == []
    assert (library / "file").read_bytes() == random_bytes(LARGE)
    assert uploads_left(server) == []


def test_an_upload_that_is_given_up_leaves_no_parts(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    (library / "file").write_bytes(random_bytes(LARGE))
    asked, go_on = threading.Event(), threading.Event()

    def be_silent(answer: Answer) -> None:
        if "partNumber=" in answer.path:
            asked.set()
            go_on.wait(60)

    def give_up(opened: OpenRepository) -> BaseException | None:
        with (library / "file").open("rb") as file:
            future = opened.store.send("given-up", FileContent(file.fileno()), {})
            assert asked.wait(60)
            opened.store.close()
            return future.exception(timeout=20)

    liar.lie = be_silent
    try:
        error = run(library, through(liar, server), give_up, url)
        assert "given up" in str(error)
        wait_until(
            lambda: not uploads_left(server) or None,
            seconds=20,
            what="the end of all parts",
            last=lambda: str(uploads_left(server)),
        )
    finally:
        go_on.set()


@pytest.mark.parametrize("is_known", [False, True], ids=["new", "known"])
def test_a_large_object_that_somebody_else_writes_meanwhile_stays(
    library: Path, server: StoreServer, liar: LyingStore, url: str, is_known: bool
) -> None:
    key = f"{url.removeprefix(f's3://{BUCKET}/')}/file"
    if is_known:
        (library / "file").write_bytes(b"known")
        assert run(library, server, send, url).problems == []
    (library / "file").write_bytes(random_bytes(LARGE))

    def write_another(answer: Answer) -> None:
        if answer.method == "POST" and answer.path.endswith("?uploads"):
            server.client().put_object(Bucket=BUCKET, Key=key, Body=b"theirs")

    liar.lie = write_another
    report = run(library, through(liar, server), send, url)
    assert "neither was overwritten" in report.problems[0][1]
    assert server.client().get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"theirs"
    assert uploads_left(server) == []


def test_parts_of_a_file_that_changes_make_no_object(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    file = library / "file"
    file.write_bytes(random_bytes(LARGE))

    def write_to_it(answer: Answer) -> None:
        if answer.method == "PUT" and "partNumber=" in answer.path:
            with file.open("r+b") as out:
                out.write(b"changed")

    liar.lie = write_to_it
    report = run(library, through(liar, server), send, url)
    assert "it changed each of the 3 times" in report.problems[0][1]
    assert uploads_left(server) == []
    liar.lie = lambda _answer: None
    assert run(library, through(liar, server), send, url).problems == []
    assert run(library, server, verify, url).problems == []
