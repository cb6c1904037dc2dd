"""Runs the real command, and looks at what it printed and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import psutil

from tests.support.command_forks import Forked, forks

Found = TypeVar("Found")
PATIENCE = 3.0
REST = 3.0
"""A test rests so many times as long as its look took: looks take the time of what is waited for."""
"""Tests name what a quiet machine needs; with tests of labs beside them on two slow cores it takes longer."""

GRIDWRIGHT = str(Path(sys.executable).with_name("gridwright"))


def wait_until(
    look: Callable[[], Found | None], *, seconds: float, what: str, last: Callable[[], object]
) -> Found:
    """Return what `look` finds as soon as it finds it; fail with the last state seen.

    `seconds` are those of a quiet machine.
    """
    deadline = (began := time.monotonic()) + seconds * PATIENCE
    while began < deadline:
        if (found := look()) is not None:
            return found
        time.sleep(min(2.0, max(0.02, REST * (time.monotonic() - began))))
        began = time.monotonic()
    raise AssertionError(f"waited {seconds * PATIENCE:.0f} s for {what}; last seen: {last()}")


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout; nothing else may be there."""
        return json.loads(self.out)

    @property
    def findings(self) -> list[Any]:
        """Those of the document, but for the load of tests beside this one."""
        return [each for each in self.json["findings"] if each["name"] != "disturbed"]

    @property
    def text(self) -> str:
        """All of stderr on one line, as words: tests look for sentences, not for line breaks."""
        return " ".join(self.err.split())


class Running:
    """A command that runs, with its output in files so that no pipe ever fills up."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked, out: Path, err: Path) -> None:
        self.process = process
        self._out, self._err = out, err

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers():
            worker.kill()
        self.process.kill()
        self.process.wait(30)

    def says(self, text: str, seconds: float = 30.0) -> None:
        """Wait until stderr holds `text`, as long as the command may still write it."""

        def said() -> bool | None:
            ended = self.process.poll()
            if text in self._err.read_text():
                return True
            assert ended is None, f"ended with {ended} and never said {text!r}: {self._err.read_text()}"
            return None

        wait_until(said, seconds=seconds, what=f"{text!r} on stderr", last=self._err.read_text)

    def workers(self) -> list[psutil.Process]:
        """The processes that the command started; its forks, which look at what may hang, are none."""
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if "-m" in child.cmdline():
                        found.append(child)
        return found

    def worker(self) -> psutil.Process:
        """The process that touches the library."""
        return wait_until(
            lambda: next(iter(self.workers()), None), seconds=20, what="a worker", last=self._err.read_text
        )

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = 60.0) -> Ended:
        """Wait for its end, on a quiet machine for so many seconds."""
        status = self.process.wait(seconds * PATIENCE)
        return _ended(
            status,
            self._out.read_text(errors="surrogateescape"),
            self._err.read_text(errors="surrogateescape"),
        )


class Command:
    """The command `gridwright`, with its runs in a directory of the test's own."""

    def __init__(self, scratch: Path) -> None:
        self.runs = scratch / "runs"
        self._scratch = scratch
        self._count = 0

    def __call__(
        self,
        *arguments: str | Path,
        prefix: Sequence[str] = (),
        seconds: float = 90.0,
        cwd: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> Ended:
        """Run it to its end."""
        with self.start(*arguments, prefix=prefix, cwd=cwd, environment=environment) as running:
            return running.end(seconds)

    def start(
        self,
        *arguments: str | Path,
        prefix: Sequence[str] = (),
        cwd: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> Running:
        """Start it: as a fork, unless its start itself would differ or is to be seen."""
        self._count += 1
        out, err = (self._scratch / f"command-{self._count}.{end}" for end in ("out", "err"))
        words = [*prefix, GRIDWRIGHT, *map(str, arguments)]
        variables = os.environ | {"GRIDWRIGHT_RUNS": str(self.runs)} | (environment or {})
        with Path(os.devnull).open("rb") as nothing, out.open("wb") as out_file, err.open("wb") as err_file:
            files = (nothing, out_file, err_file)
            if not prefix and "GRIDWRIGHT_TESTS_START" not in variables and forks().can_have(variables):
                return Running(forks().start(words, cwd or Path.cwd(), variables, files), out, err)
            process = subprocess.Popen(
                words, stdin=files[0], stdout=files[1], stderr=files[2], cwd=cwd, env=variables
            )
        return Running(process, out, err)

    def only_run(self) -> Path:
        """The run directory, where there is one."""
        (run,) = self.runs.iterdir()
        return run


def _ended(status: int, out: str, err: str) -> Ended:
    assert "Traceback" not in err, err
    return Ended(status, out, err)
