"""Data repository tasks of FSx: retries, reports of failed files, and what is said of paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.providers.aws.data_repository import (
    MOST_PATHS,
    Task,
    Tasks,
    export_request,
    failures_of,
    import_request,
    last_export,
    read_failures,
    release_request,
)
from gridwright.providers.aws.session import Cloud
from gridwright.providers.linked_repository import LONGEST_TURN_S, LONGEST_WAIT_S
from gridwright.spec.linked import LinkedDirectory
from gridwright.spec.repository import DirectoryLink, Schedule
from tests.support.fsx_service import FILE_SYSTEM, FsxService, fsx_service


def linked(directory: str = "/data/sales") -> LinkedDirectory:
    link = DirectoryLink(bucket="s3://sources/prod", directory=directory)
    hourly, never = Schedule("hourly"), Schedule("never")
    return LinkedDirectory("sales", "shared", link, hourly, never, None, Path("/shared"))


class Bucket:
    """A store with one object, or with none."""

    def __init__(self, text: bytes | None = None) -> None:
        self.text, self.asked = text, ""

    def put_object(self, **_: object) -> None:
        pass

    def get(self, key: str) -> bytes:
        from gridwright.repository.store import StoreError, StoreFault

        self.asked = key
        if self.text is None:
            raise StoreError(StoreFault.NOT_THERE, key)
        return self.text


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FsxService]:
    (tmp_path / "data/sales").mkdir(parents=True)
    (tmp_path / "data/sales/a").write_text("a", "utf-8")
    with fsx_service(tmp_path, "sources", "/data/sales", "prod", Bucket()) as served:
        for name, value in (
            ("AWS_ENDPOINT_URL_FSX", served.url),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ):
            monkeypatch.setenv(name, value)
        yield served


def tasks(said: list[str], waits: list[float]) -> Tasks:
    return Tasks(Cloud("us-east-1"), FILE_SYSTEM, said.append, waits.append, lambda: sum(waits))


def test_a_task_is_started_once_though_aws_throttles_and_another_works(service: FsxService) -> None:
    said: list[str] = []
    waits: list[float] = []
    service.throttled, service.busy = 2, 3
    done = tasks(said, waits).run(export_request(linked(), (), identity="one"))

    assert (done.state, done.succeeded, done.failed) == ("SUCCEEDED", 1, 0)
    assert len(service.tasks) == 1
    assert sum("waiting for another task" in each for each in said) == 1
    assert waits[:3] == [0.5, 1.0, 2.0]


def test_a_turn_that_never_comes_is_an_error_in_the_end(service: FsxService) -> None:
    service.busy = 10_000
    waits: list[float] = []
    # A clock that runs a hundred times as fast asks a hundredth as often.
    patient = Tasks(Cloud("us-east-1"), FILE_SYSTEM, wait=waits.append, clock=lambda: 100 * sum(waits))
    with pytest.raises(GridwrightError, match="another task works"):
        patient.run(export_request(linked(), (), identity="one"))
    assert LONGEST_TURN_S <= 100 * sum(waits) < LONGEST_TURN_S + 100 * LONGEST_WAIT_S
    assert service.tasks == []


def test_a_task_goes_on_where_nobody_can_follow_it(service: FsxService) -> None:
    said: list[str] = []
    service.is_held = True

    def vanish(_: float) -> None:
        service.tasks.clear()

    with pytest.raises(GridwrightError, match="knows nothing"):
        Tasks(Cloud("us-east-1"), FILE_SYSTEM, said.append, vanish).run(
            export_request(linked(), (), identity="one")
        )
    assert service.done("CancelDataRepositoryTask") == []
    assert any("goes on" in each for each in said)


def test_an_interrupt_while_it_is_followed_cancels_it(service: FsxService) -> None:
    service.is_held = True

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tasks(Cloud("us-east-1"), FILE_SYSTEM, wait=stop).run(
            release_request(linked(), (), 0, identity="one")
        )
    assert [each["Lifecycle"] for each in service.tasks] == ["CANCELED"]


def test_an_interrupt_before_the_answer_cancels_the_task_that_begins(
    service: FsxService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.is_held = True
    call, said = Cloud.call, list[str]()

    def cut_off(self: Cloud, *words: Any, **more: Any) -> Any:
        found = call(self, *words, **more)
        if not said:
            said.append("asked")
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Cloud, "call", cut_off)
    with pytest.raises(KeyboardInterrupt):
        Tasks(Cloud("us-east-1"), FILE_SYSTEM, said.append).run(
            release_request(linked(), (), 0, identity="one")
        )
    assert [each["Lifecycle"] for each in service.tasks] == ["CANCELED"]
    assert "cancelled" in said[-1]


def task(**values: Any) -> Task:
    moments: dict[str, Any] = {"created": 10.0, "started": 11.0, "ended": 12.0}
    counts: dict[str, Any] = {"total": 0, "succeeded": 0, "failed": 0}
    fields: dict[str, Any] = {
        "id": "task-1",
        "kind": "EXPORT_TO_REPOSITORY",
        "state": "SUCCEEDED",
        "paths": (),
        "report": "s3://b/prod/.gridwright/tasks",
        "failure": "",
    }
    return Task(**{**fields, **moments, **counts, **values})


def test_failed_files_are_those_of_the_report() -> None:
    bucket = Bucket(b'FilePath,FileStatus,ErrorCode\n"/data/a, b",FAILED,S3AccessDenied\n/data/c,FAILED,\n')
    found = failures_of(task(state="FAILED", failed=3), bucket)  # type: ignore[arg-type]

    assert bucket.asked == "prod/.gridwright/tasks/task-1/failures.csv"
    assert found[:2] == [("/data/a, b", "FAILED: S3AccessDenied"), ("/data/c", "FAILED")]
    assert "1 more files failed" in found[2][1]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"state": "FAILED", "failed": 2}, "2 files failed, and its report"),
        ({"state": "FAILED", "failed": 2, "report": None}, "made no report"),
        ({"state": "FAILED", "failure": "Path x is not valid."}, "Path x is not valid."),
        ({"state": "FAILED"}, "AWS does not say why"),
        ({"failed": 1}, "1 files failed"),
    ],
)
def test_what_failed_without_a_report_is_never_silent(values: dict[str, Any], says: str) -> None:
    assert any(says in why for _, why in failures_of(task(**values), Bucket()))  # type: ignore[arg-type]


@given(st.binary(max_size=200))
def test_no_report_is_too_odd(text: bytes) -> None:
    assert all("\n" not in name + why for name, why in read_failures(text))


def test_a_part_and_a_failure_are_no_whole_export() -> None:
    history = [
        task(paths=("data/sales/2026",), started=90.0),
        task(state="FAILED", started=80.0),
        task(failed=1, started=75.0),
        task(kind="RELEASE_DATA_FROM_FILESYSTEM", started=70.0),
        task(paths=("data/",), started=50.0),
        task(started=40.0),
    ]
    assert last_export(history, "data/sales") == 50.0
    assert last_export(history[:4], "data/sales") is None
    assert last_export(history, "") == 40.0


def test_paths_are_those_that_each_kind_of_task_takes() -> None:
    root = linked("/")

    assert export_request(linked(), (b"a/b",), identity="t")["Paths"] == ["data/sales/a/b"]
    assert "Paths" not in export_request(root, (), identity="t")
    assert import_request(linked(), (b"a",), identity="t")["Paths"] == ["s3://sources/prod/a"]
    assert import_request(linked(), (), identity="t")["Paths"] == ["s3://sources/prod"]
    release = release_request(root, (), 86_401, identity="t")
    assert release["Paths"] == ["/"]
    assert release["ReleaseConfiguration"]["DurationSinceLastAccess"]["Value"] == 2


@pytest.mark.parametrize("paths", [[b"a"] * (MOST_PATHS + 1), [b"\xff"]])
def test_paths_that_fsx_does_not_take_are_refused(paths: list[bytes]) -> None:
    with pytest.raises(GridwrightError):
        export_request(linked(), paths, identity="t")
