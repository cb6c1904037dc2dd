"""Objects that no file can be, checksums that lack, answers that are lost, and uploads that a kill leaves."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest

from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.scan import Action
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.status import repository_status
from gridwright.repository.verify import verify
from tests.support.command import GRIDWRIGHT, wait_until
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import BUCKET, StoreServer, store_server
from tests.support.repositories import run

KINDS = ("moto", "versitygw")


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with (
        pytest.MonkeyPatch.context() as patch,
        store_server(tmp_path_factory.mktemp("store"), request.param) as served,
    ):
        for name, value in served.environment.items():
            patch.setenv(name, value)
        yield served


@pytest.fixture
def liar(server: StoreServer) -> Iterator[LyingStore]:
    with LyingStore(server.endpoint_url) as between:
        yield between


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "library").mkdir()
    return tmp_path / "library"


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return "".join(each if each.isalnum() else "-" for each in request.node.name)


def through(liar: LyingStore, server: StoreServer) -> StoreServer:
    return StoreServer(liar.endpoint_url, server.kind, server.environment)


def url(prefix: str) -> str:
    return f"s3://{BUCKET}/{prefix}"


def do_export(directory: Path, server: StoreServer, prefix: str, **options: object) -> RepositoryReport:
    wanted = ExportOptions(**options)  # type: ignore[arg-type]
    return run(directory, server, lambda each: export(each, wanted), url(prefix))


def bring(opened: OpenRepository) -> list[tuple[str, str]]:
    """Import files with their contents; what could not be done."""
    names = import_names(opened, ImportOptions(contents=True))
    return names.problems + import_contents(opened, ContentOptions()).problems


def put(server: StoreServer, prefix: str, **objects: bytes) -> None:
    for path, content in objects.items():
        server.client().put_object(Bucket=BUCKET, Key=f"{prefix}/{path}", Body=content)


def body(server: StoreServer, prefix: str, path: str) -> bytes:
    content: bytes = server.client().get_object(Bucket=BUCKET, Key=f"{prefix}/{path}")["Body"].read()
    return content


def without_crc(answer: Answer) -> None:
    """As of a store that keeps no checksums of its own."""
    for name in [each for each in answer.headers if each.lower().startswith("x-amz-checksum")]:
        del answer.headers[name]


keeps_both = pytest.mark.parametrize("server", ["moto"], indirect=True)
"""A store of files has no two objects of which one lies below the other."""


def _as_older_releases_knew_it(opened: OpenRepository) -> None:
    """The row itself: none like it is taken any more."""
    head = opened.store.head(opened.keys.key_of(b"reports", is_directory=True)).result()
    file = opened.known.get(b"reports/q1.txt")
    assert file is not None
    opened.known.put(
        replace(
            file, path=b"reports", mode=stat.S_IFDIR | 0o755, size=0, key=head.entry.key,
            etag=head.entry.etag, crc64=None,
        )
    )  # fmt: skip
    opened.known.flush()
    with opened.known.transaction():
        opened.known.database.execute(
            "UPDATE files SET size = ? WHERE path = ?", (head.entry.size, b"reports")
        )


@keeps_both
@pytest.mark.parametrize("prefer", [None, "files"])
def test_an_object_in_the_place_of_a_directory_is_never_emptied(
    server: StoreServer, library: Path, prefix: str, prefer: str | None
) -> None:
    put(server, prefix, **{"reports/": b"<html>index</html>", "reports/q1.txt": b"q1"})
    problems = run(library, server, bring, url(prefix))
    assert [name for name, _ in problems] == ["reports"]
    assert "which no directory can have" in problems[0][1]
    for _ in range(2):
        (library / "reports").chmod(0o700)
        report = do_export(library, server, prefix, prefer=prefer)
        assert [name for name, _ in report.problems] == ["reports"]
        assert body(server, prefix, "reports/") == b"<html>index</html>"
    # What an older release has taken for the object of the directory, it does not empty either.
    run(library, server, _as_older_releases_knew_it, url(prefix))
    checked = run(library, server, verify, url(prefix))
    assert [name for name, _ in checked.problems] == ["reports"]
    (library / "reports").chmod(0o750)
    do_export(library, server, prefix, prefer=prefer)
    assert body(server, prefix, "reports/") == b"<html>index</html>"


@keeps_both
@pytest.mark.parametrize("below", ["name/file", "name/"])
def test_a_file_and_a_directory_of_one_name_are_named(
    server: StoreServer, library: Path, prefix: str, below: str
) -> None:
    put(
        server,
        prefix,
        **{"name": b"a file", "name!": b"between them", below: b"" if below[-1] == "/" else b"f"},
    )
    for _ in range(2):
        problems = run(library, server, bring, url(prefix))
        assert [name for name, _ in problems] == ["name"]
        assert "file and a directory" in problems[0][1]
    assert (library / "name").is_dir()
    assert (library / "name!").read_bytes() == b"between them"
    # No export makes an object of the directory, where the bucket has none yet.
    left = [name for name, _ in do_export(library, server, prefix).problems]
    assert left == ([] if below == "name/" else ["name"])
    assert body(server, prefix, "name") == b"a file"


def test_damaged_bytes_are_refused_where_the_store_has_no_crc(
    server: StoreServer, library: Path, prefix: str, liar: LyingStore
) -> None:
    put(server, prefix, damaged=b"d" * 5000, good=b"g" * 5000)

    def damage(answer: Answer) -> None:
        without_crc(answer)
        if answer.method == "GET" and answer.path.endswith("/damaged"):
            answer.body = answer.body.replace(b"d", b"e", 1)

    liar.lie = damage
    problems = run(library, through(liar, server), bring, url(prefix))
    assert [name for name, _ in problems] == ["damaged"]
    assert "damaged" in problems[0][1]
    assert (library / "good").read_bytes() == b"g" * 5000
    assert not (library / "damaged").exists() or not any((library / "damaged").read_bytes())


def test_what_came_damaged_once_is_fetched_again_before_its_object_is_blamed(
    server: StoreServer, library: Path, prefix: str, liar: LyingStore
) -> None:
    put(server, prefix, damaged=b"d" * 5000)
    once = iter([b"e"])

    def damage(answer: Answer) -> None:
        if answer.method == "GET" and answer.path.endswith("/damaged"):
            answer.body = answer.body.replace(b"d", next(once, b"d"), 1)

    liar.lie = damage
    assert run(library, through(liar, server), bring, url(prefix)) == []
    assert (library / "damaged").read_bytes() == b"d" * 5000


def test_a_file_that_arrived_damaged_is_not_taken_for_sent(
    server: StoreServer, library: Path, prefix: str, liar: LyingStore
) -> None:
    (library / "file").write_bytes(b"content")
    other = '"9a0364b9e99bb480dd25e1f0284c8554"'

    def damage(answer: Answer) -> None:
        without_crc(answer)
        if answer.path.endswith("/file") and answer.status == 200:
            answer.headers = {
                **{k: v for k, v in answer.headers.items() if k.lower() != "etag"},
                "ETag": other,
            }

    liar.lie = damage
    report = do_export(library, through(liar, server), prefix)
    assert [name for name, _ in report.problems] == ["file"]
    assert "damaged" in report.problems[0][1]
    liar.lie = without_crc
    assert run(library, through(liar, server), lambda each: each.known.get(b"file"), url(prefix)) is None


def test_an_object_whose_answer_was_lost_is_looked_up(
    server: StoreServer, library: Path, prefix: str, liar: LyingStore
) -> None:
    (library / "file").write_bytes(b"c" * (17 << 20))
    lost = 0

    def lose(answer: Answer) -> None:
        nonlocal lost
        if answer.method == "POST" and "/file?uploadId" in answer.path:
            # S3 has forgotten the upload when it is asked again.
            gone = b"<Error><Code>NoSuchUpload</Code><Message>gone</Message></Error>"
            answer.status, answer.body = (404, gone) if lost else (503, b"")
            lost += 1

    liar.lie = lose
    report = do_export(library, through(liar, server), prefix)
    assert (lost, report.problems) == (2, [])
    assert run(library, server, verify, url(prefix)).problems == []
    sent = [path for method, path in liar.asked if method == "PUT" and "/file?partNumber=1&" in path]
    assert len(sent) == 1


@pytest.mark.parametrize(
    "killed_at",
    [
        pytest.param("/file?", id="file"),
        pytest.param("/parts?", id="trial-of-the-store", marks=pytest.mark.thorough),
    ],
)
def test_uploads_that_a_kill_leaves_are_aborted_and_no_others(
    server: StoreServer, library: Path, prefix: str, liar: LyingStore, killed_at: str, tmp_path: Path
) -> None:
    (library / "file").write_bytes(b"c" * (17 << 20))
    client = server.client()
    client.create_multipart_upload(Bucket=BUCKET, Key=f"{prefix}/file")

    def uploads() -> int:
        found = client.list_multipart_uploads(Bucket=BUCKET, Prefix=f"{prefix}/")
        return len(found.get("Uploads", ()))

    held = threading.Event()
    part = f"{killed_at}partNumber"
    liar.lie = lambda answer: held.wait(60) if part in answer.path else None  # type: ignore[assignment]
    export_again: list[str | Path] = [
        GRIDWRIGHT, "repo", "export", "--directory", library, "--bucket", url(prefix), "--endpoint"
    ]  # fmt: skip
    environment = {**os.environ, **server.environment}
    process = subprocess.Popen(
        [*export_again, liar.endpoint_url],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(
            lambda: any(part in path for _, path in liar.asked) or None,
            seconds=20, what="a part that was sent", last=lambda: liar.asked,
        )  # fmt: skip
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        held.set()
    assert uploads() == 2
    client.delete_object(Bucket=BUCKET, Key=f"{prefix}/.gridwright/lease")
    # Another store with a bucket of this name knows nothing of the upload, which is not forgotten for that.
    with store_server(tmp_path / "another", server.kind) as another:
        ended = subprocess.run(
            [*export_again, another.endpoint_url], env=environment, check=False, timeout=60
        )
    assert ended.returncode == 0
    assert uploads() == 2
    ended = subprocess.run([*export_again, liar.endpoint_url], env=environment, check=False, timeout=60)
    assert ended.returncode == 0
    assert uploads() == 1
    assert run(library, server, verify, url(prefix)).problems == []


def test_a_store_whose_dates_are_late_has_no_other_objects(
    server: StoreServer, library: Path, prefix: str, liar: LyingStore
) -> None:
    (library / "file").write_bytes(b"content")

    def late(answer: Answer) -> None:
        if answer.method == "PUT":
            answer.headers = {name: each for name, each in answer.headers.items() if name.lower() != "date"}
            answer.headers["Date"] = formatdate(time.time() - 4, usegmt=True)

    liar.lie = late
    assert do_export(library, through(liar, server), prefix).problems == []
    assert run(library, server, repository_status, url(prefix)).changed_objects == 0
    (library / "file").chmod(0o600)
    report = do_export(library, server, prefix)
    assert (report.problems, report.done[Action.ATTRIBUTES].count) == ([], 1)
    if server.kind == "versitygw":
        return  # A copy of an object onto itself leaves its date as it was.
    # Another one's attributes are seen all the same.
    client, key = server.client(), f"{prefix}/file"
    time.sleep(2.1)
    client.copy_object(
        Bucket=BUCKET, Key=key, CopySource={"Bucket": BUCKET, "Key": key}, MetadataDirective="REPLACE",
        Metadata={"file-permissions": "0100640"},
    )  # fmt: skip
    assert run(library, server, repository_status, url(prefix)).changed_objects == 1
