"""Data repository tasks of FSx: started once, followed to their end, and cancelled when the command is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.aws.session import Cloud, CloudError

BUSY = "DataRepositoryTaskExecuting"
"""Another task works on the file system (Amazon FSx API Reference, CreateDataRepositoryTask)."""
ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELED"})
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 15.0
LONGEST_TURN_S = 3600.0
"""How long a task waits for its turn behind others."""
_CANCEL_S = 0.8
"""An order to stop is obeyed within a second."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it stands. Times are seconds since 1970, None for what has not come."""

    id: str
    kind: str
    state: str
    created: float
    started: float | None
    ended: float | None
    paths: tuple[str, ...]
    total: int
    succeeded: int
    failed: int
    report: str | None
    """Where its reports are: s3://bucket/prefix."""
    failure: str

    @property
    def is_under_way(self) -> bool:
        """Whether it is not at its end."""
        return self.state not in ENDED


def task_of(found: Mapping[str, Any]) -> Task:
    """A task out of what AWS tells."""
    status = found.get("Status") or {}
    report = found.get("Report") or {}
    return Task(
        str(found["TaskId"]),
        str(found["Type"]),
        str(found["Lifecycle"]),
        found["CreationTime"].timestamp(),
        _seconds(found.get("StartTime")),
        _seconds(found.get("EndTime")),
        tuple(found.get("Paths") or ()),
        int(status.get("TotalCount") or 0),
        int(status.get("SucceededCount") or 0),
        int(status.get("FailedCount") or 0),
        report.get("Path") if report.get("Enabled") else None,
        str((found.get("FailureDetails") or {}).get("Message") or ""),
    )


def _seconds(moment: Any) -> float | None:  # noqa: ANN401 - a datetime of boto3, or nothing
    return None if moment is None else float(moment.timestamp())


@dataclass(slots=True)
class Tasks:
    """The tasks of one file system. Every method raises GridwrightError."""

    cloud: Cloud
    filesystem_id: str
    say: Callable[[str], None] = lambda _text: None
    """Takes one line of progress."""
    wait: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    requests: int = field(default=0, init=False)
    asked: Mapping[str, Any] = field(default_factory=dict, init=False)
    """The request for a task that AWS did not refuse."""

    def all(self) -> Iterator[Task]:
        """All that AWS still knows of, those that were made last first."""
        names = [{"Name": "file-system-id", "Values": [self.filesystem_id]}]
        self.requests += 1
        found = self.cloud.listed(
            "fsx", "describe_data_repository_tasks", "DataRepositoryTasks", Filters=names
        )
        yield from sorted(map(task_of, found), key=lambda task: task.created, reverse=True)

    def run(self, request: Mapping[str, Any]) -> Task:
        """Start a task, behind others if it must be, and follow it.

        An interrupt cancels it, also one that comes before AWS's answer to the request does. Where AWS
        answers no more, it goes on, and that is said.
        """
        task: Task | None = None
        try:
            task = self._start(request)
            self.say(f"{task.id}: {task.state.lower()}")
            return self._follow(task)
        except GridwrightError:
            if task is not None:
                self.say(f"{task.id}: AWS goes on with it; gridwright repo status tells how far it is")
            raise
        except BaseException:
            if task is not None or self.asked:
                self._cancel(task)
            raise

    def _start(self, request: Mapping[str, Any]) -> Task:
        begun, pause, is_told = self.clock(), FIRST_WAIT_S, False
        while True:
            self.asked = {**request, "FileSystemId": self.filesystem_id}
            try:
                return self._made()
            except CloudError as error:
                if error.code != BUSY:
                    raise
                self.asked = {}
                if self.clock() - begun >= LONGEST_TURN_S:
                    raise environment_error(
                        f"another task works on {self.filesystem_id} for an hour now",
                        remedy="look at it with gridwright repo status; run the same command when it ended",
                    ) from None
            if not is_told:
                self.say(f"waiting for another task of {self.filesystem_id}")
                is_told = True
            self.wait(pause)
            pause = min(2 * pause, LONGEST_WAIT_S)

    def _made(self) -> Task:
        """The task that was asked for: by its token AWS makes it once, however often it is asked."""
        self.requests += 1
        made = self.cloud.call("fsx", "create_data_repository_task", **self.asked)
        return task_of(made["DataRepositoryTask"])

    def _follow(self, task: Task) -> Task:
        pause, told = FIRST_WAIT_S, ""
        while task.is_under_way:
            task = self._look(task)
            progress = (
                f"{task.id}: {task.state.lower()}, {task.succeeded + task.failed} of {task.total} files"
            )
            if progress != told:
                self.say(progress + (f", {task.failed} failed" if task.failed else ""))
                told, pause = progress, FIRST_WAIT_S
            if task.is_under_way:
                self.wait(pause)
                pause = min(2 * pause, LONGEST_WAIT_S)
        return task

    def _look(self, task: Task) -> Task:
        self.requests += 1
        found = self.cloud.call("fsx", "describe_data_repository_tasks", TaskIds=[task.id])
        tasks = found.get("DataRepositoryTasks") or []
        if not tasks:
            raise environment_error(f"AWS knows nothing of task {task.id} any more")
        return task_of(tasks[0])

    def _cancel(self, task: Task | None) -> None:
        """Have AWS end it: what it did stays, and files under way are finished (CancelDataRepositoryTask)."""
        names = [task.id] if task else []

        def ask() -> None:
            with suppress(GridwrightError):
                if not names:
                    names.append(self._made().id)
                self.cloud.call("fsx", "cancel_data_repository_task", TaskId=names[0])
                done.set()

        done = threading.Event()
        threading.Thread(target=ask, daemon=True).start()
        if done.wait(_CANCEL_S):
            self.say(f"{names[0]}: cancelled; files that were done stay as they are")
        elif names:
            self.say(
                f"{names[0]}: AWS did not answer whether it is cancelled: "
                f"aws fsx cancel-data-repository-task --task-id {names[0]}"
            )
        else:
            self.say(
                f"AWS did not answer whether a task of {self.filesystem_id} began; "
                "gridwright repo status tells"
            )
