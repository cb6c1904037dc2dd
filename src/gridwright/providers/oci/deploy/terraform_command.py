"""Runs tofu or terraform: its output goes to a log that is read meanwhile, and an order to stop is passed on.

The tool writes into a file and not into a pipe of ours: where Gridwright is killed, the tool goes on, ends
what it has begun, and writes its state. A broken pipe would kill it, with resources that no state knows.

What tofu and terraform print with -json: one JSON object a line (Terraform, machine-readable UI).

Lines of other kinds, such as those of a crash, are kept as they are: they say why when nothing else does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from gridwright.commands import CommandOutput, CommandPlace, kill_group, run_bounded
from gridwright.errors import GridwrightError, environment_error
from gridwright.own_directories import hold_settings_of_home
from gridwright.providers.caller import Caller
from gridwright.providers.oci.session import reason_remedy

MOST_TOLD = 8
"""Problems of a failure that are told; the log has all."""
MOST_TEXT = 400
"""Characters of a problem that are told."""
_DONE, _FAILED = "apply_complete", "apply_errored"


@dataclass
class TerraformLines:
    """What was read of a run so far."""

    done: int = 0
    """Resources that were made, changed or removed."""
    problems: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)

    def take(self, lines: Iterable[str]) -> None:
        """Read on."""
        for line in lines:
            if text := line.strip():
                self._take(text)

    def _take(self, text: str) -> None:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self.plain.append(text)
            return
        self.done += found.get("type") == _DONE
        diagnostic = found.get("diagnostic")
        if isinstance(diagnostic, dict) and diagnostic.get("severity") == "error":
            self.problems.append(_diagnostic_text(diagnostic))

    @property
    def why(self) -> str:
        """The problems on one line, or the last words where there are none."""
        told = list(dict.fromkeys(self.problems)) or self.plain[-MOST_TOLD:]
        more = len(told) - MOST_TOLD
        return "; ".join(told[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")


def _diagnostic_text(diagnostic: dict[str, Any]) -> str:
    parts = (diagnostic.get("address"), diagnostic.get("summary"), diagnostic.get("detail"))
    text = ": ".join(" ".join(str(each).split()) for each in parts if each)
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 3]}..."


LEAST = (1, 5, 0)
"""What the rendered roots ask for (terraform/root.py)."""
ASK_S = 60.0
"""How long a question to the tool takes at most."""
POLL_S = 0.2
SAY_S = 20.0
"""How often it is said how far an apply is."""
STOPPING_S = 3600.0
"""After an order to stop: what was begun is ended first. Bare metal takes longest, some tens of minutes."""
KILLING_S = 30.0
"""After a second order: the tool ends at once, and writes what it knows."""
_OURS = re.compile(r"TF_CLI_ARGS(?:_.*)?|TF_WORKSPACE|TF_DATA_DIR")
"""Variables that change what a command does or which state it has: the plan is to be that of the spec."""
_LOCKED = re.compile(r"Error acquiring the state lock|Error locking state")
MEND = "mend what it says, then run the same command: it goes on from there"
_STALE = "Saved plan is stale"


@dataclass(frozen=True)
class TerraformCommand:
    """One of the two tools; both take the same words."""

    name: str
    caller: Caller
    login: Mapping[str, str] = field(default_factory=dict)
    poll_s: float = POLL_S

    def check(self) -> None:
        """Raise GridwrightError where it is not here, or too old."""
        remedy = (
            f"install {self.name} {'.'.join(map(str, LEAST))} or later, or write deploy: resource-manager"
        )
        if shutil.which(self.name) is None:
            raise environment_error(f"{self.name} is not on this machine", where="oci.deploy", remedy=remedy)
        found = self._version()
        if found < LEAST:
            version = ".".join(map(str, found))
            raise environment_error(f"{self.name} {version} is too old", where="oci.deploy", remedy=remedy)

    def _version(self) -> tuple[int, ...]:
        answer = run_bounded(
            [self.name, "version", "-json"], environment=self._environment(), timeout_s=ASK_S
        )
        try:
            text = str(json.loads(answer.stdout)["terraform_version"])
            return tuple(int(each) for each in text.partition("-")[0].split("."))
        except (ValueError, KeyError, TypeError):
            raise environment_error(
                f"{self.name} does not say its version",
                where=shutil.which(self.name),
                remedy=f"run {self.name} version -json by hand",
            ) from None

    def ask(self, directory: Path, *words: str) -> CommandOutput:
        """A question that changes nothing. Raises GridwrightError where it takes too long."""
        at = CommandPlace(directory=str(directory))
        return run_bounded(
            [self.name, *words],
            environment=self._environment(),
            timeout_s=ASK_S,
            name=self._title(words),
            at=at,
        )

    def run(
        self,
        directory: Path,
        words: Sequence[str],
        *,
        timeout_s: float,
        what: str,
        total: int = 0,
        keeps: Sequence[int] = (),
    ) -> None:
        """Run a command to its end, and say how far it is of `total` resources.

        `what` begins what is said. `keeps` are descriptors that the tool keeps open as long as it runs.
        Raises GridwrightError with what it says; KeyboardInterrupt after an order to stop, once it has ended.
        """
        log = directory / f"{words[0]}.log"
        read = TerraformLines()
        with log.open("wb") as output, log.open("rb") as lines:
            process = subprocess.Popen(
                [self.name, *words],
                cwd=directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # The terminal's Ctrl-C reaches Gridwright alone, which passes it on.
                start_new_session=True,
                pass_fds=tuple(keeps),
            )
            in_time = _TerraformRun(self, process, lines, read, what, total).wait(timeout_s)
        if self.caller.stop.is_set() and process.returncode != 0:
            raise KeyboardInterrupt
        if not in_time:
            raise environment_error(
                f"{what}: {self._title(words)} had not ended after {timeout_s / 60:.0f} min: it was stopped",
                where=str(log),
                remedy="see in its log what it waited for, then run the same command: it goes on from there",
            )
        if process.returncode != 0:
            raise self._failed(what, words, read, log)

    def _failed(self, what: str, words: Sequence[str], read: TerraformLines, log: Path) -> GridwrightError:
        why = read.why or "it says nothing"
        if _LOCKED.search(why):
            remedy = (
                "wait for whoever holds the lock; where nobody does any more, run "
                f"{self.name} -chdir={log.parent} force-unlock ID, with the ID from {log}"
            )
        elif _STALE in why:
            remedy = "somebody has changed the state meanwhile: run the same command again, and read its plan"
        else:
            remedy = reason_remedy(why) or MEND
        return environment_error(f"{what}: {self._title(words)} failed: {why}", where=str(log), remedy=remedy)

    def _title(self, words: Sequence[str]) -> str:
        return f"{self.name} {words[0]}"

    def _environment(self) -> dict[str, str]:
        hold_settings_of_home()
        kept = {name: value for name, value in os.environ.items() if not _OURS.fullmatch(name)}
        return {
            **kept, **self.login, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1",
            "LC_ALL": "C.UTF-8",
        }  # fmt: skip


@dataclass
class _TerraformRun:
    """One run that is waited for."""

    command: TerraformCommand
    process: subprocess.Popen[bytes]
    lines: BinaryIO
    read: TerraformLines
    what: str
    total: int
    rest: bytes = b""
    said: float = field(default_factory=time.monotonic)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; whether that was in its time, or after an order to stop."""
        caller = self.command.caller
        try:
            in_time = self._has_ended(time.monotonic() + timeout_s)
            if self.process.poll() is None:
                if caller.stop.is_set():
                    caller.say(f"{self.what}: {self.command.name} ends what it has begun, and stops then")
                # Not to its group: the tool itself tells its plugins.
                self.process.send_signal(signal.SIGINT)
                self._end(STOPPING_S)
        except BaseException:
            # A second order to stop.
            self.process.send_signal(signal.SIGINT)
            self._end(KILLING_S)
            raise
        return in_time

    def _has_ended(self, deadline: float) -> bool:
        stop = self.command.caller.stop
        while self.process.poll() is None and not stop.is_set() and time.monotonic() < deadline:
            stop.wait(self.command.poll_s)
            self._look()
        self._look()
        return self.process.poll() is not None or stop.is_set()

    def _end(self, seconds: float) -> None:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            kill_group(self.process)
        self._look()

    def _look(self) -> None:
        *whole, self.rest = (self.rest + self.lines.read()).split(b"\n")
        if self.process.poll() is not None:
            *whole, self.rest = [*whole, *(self.rest + self.lines.read()).split(b"\n"), b""]
        self.read.take(each.decode("utf-8", "replace") for each in whole)
        if self.total and self.read.done and time.monotonic() - self.said > SAY_S:
            self.said = time.monotonic()
            self.command.caller.say(f"{self.what}: {self.read.done} of {self.total} changes are done")
