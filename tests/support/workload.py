"""Grids and matrices of the tests' own: commands that need no data, and what they left."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.support.command import Command, Ended, Running, wait_until

LIBRARIES = ("data", "work", "util")
Line = Sequence[str]


class Grid:
    """A grid of one disk below a directory, and matrices for it."""

    def __init__(self, place: Path, command: Command) -> None:
        self.command = command
        self.disk = place / "disk"
        for name in LIBRARIES:
            (self.disk / name).mkdir(parents=True, exist_ok=True)
        self.spec = self.write_spec(place, dict.fromkeys(LIBRARIES, self.disk))
        self._place = place
        self._matrices = 0

    @staticmethod
    def write_spec(place: Path, roots: dict[str, Path], name: str = "grid") -> Path:
        """A spec whose libraries lie in directories of their own name below `roots`."""
        lines = [f"name: {name}", "filesystems:"]
        lines += [f"  {each}: {{type: local, path: {json.dumps(str(root))}}}" for each, root in roots.items()]
        lines += ["libraries:", *(f"  {each}: {{filesystem: {each}}}" for each in roots)]
        file = place / f"{name}.yaml"
        file.write_text("\n".join(lines) + "\n")
        return file

    def library(self, name: str) -> Path:
        return self.disk / name

    def matrix(self, *streams: Sequence[Line | dict[str, Any]]) -> Path:
        """A matrix file; a launch is a command line, or all fields of an entry."""
        self._matrices += 1
        entries = [
            [each if isinstance(each, dict) else {"command": list(each)} for each in stream]
            for stream in streams
        ]
        file = self._place / f"matrix-{self._matrices}.yaml"
        # JSON is YAML; a matrix that a person writes looks otherwise and means the same.
        file.write_text(json.dumps({"name": "own", "streams": entries}))
        return file

    def arguments(self, *streams: Sequence[Line | dict[str, Any]], flags: Sequence[str] = ()) -> list[str]:
        return ["workload", str(self.spec), "--matrix", str(self.matrix(*streams)), "--json", *flags]

    def run(self, *streams: Sequence[Line | dict[str, Any]], flags: Sequence[str] = ()) -> Ended:
        """Run the workload to its end."""
        return self.command(*self.arguments(*streams, flags=flags))

    def start(self, *streams: Sequence[Line | dict[str, Any]], flags: Sequence[str] = ()) -> Running:
        return self.command.start(*self.arguments(*streams, flags=flags))

    def left(self) -> list[Path]:
        """What there is in work and util."""
        return [path for name in ("work", "util") for path in self.library(name).iterdir()]

    def wait_until_clean(self, seconds: float = 10.0) -> None:
        wait_until(
            lambda: True if not self.left() else None, seconds=seconds, what="empty libraries", last=self.left
        )


def sh(script: str, **fields: Any) -> dict[str, Any]:
    """An entry of a matrix that runs a shell script."""
    return {"command": ["sh", "-c", script]} | fields


def wait_for(file: Path, seconds: float = 30.0) -> str:
    """The text of a file that a launch writes."""

    def look() -> str | None:
        text = file.read_text() if file.exists() else ""
        return text if text.endswith("\n") else None

    return wait_until(look, seconds=seconds, what=str(file), last=file.exists)


def running(token: str) -> list[psutil.Process]:
    """Processes that have a token on their command line, and are not the tests'."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if token in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def wait_until_gone(token: str, seconds: float = 5.0) -> None:
    """No process of a launch may outlive it for long."""
    began = time.monotonic()
    wait_until(
        lambda: True if not running(token) else None,
        seconds=seconds,
        what=f"the end of all processes of {token}",
        last=lambda: (time.monotonic() - began, running(token)),
    )
