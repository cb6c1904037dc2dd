"""A file that a user names may be a pipe: it is read while somebody writes, and no wait is endless."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gridwright import handed_files
from gridwright.cli.main import app
from gridwright.handed_files import read_named
from gridwright.repository.changelog.changes import RegisteredUsers
from tests.support.forked import called

SPEC = (
    "name: g\nprovider: local\nfilesystems: {disk: {type: local, path: /tmp}}\n"
    "libraries: {work: {filesystem: disk}}\n"
)
PLACED = {
    "catalog qualify file": "catalog qualify PIPE",
    "check file": "check PIPE",
    "console --certificate": "console --certificate PIPE --key PIPE --live",
    "console --key": "console --certificate key --key PIPE --live",
    "console --token-file": "console --token-file PIPE --live",
    "explain-slow --play": "explain-slow --play PIPE",
    "exporter --certificate": "exporter --certificate PIPE --key key",
    "exporter --key": "exporter --certificate key --key PIPE",
    "exporter --token-file": "exporter --token-file PIPE",
    "node claim --config": "node claim --config PIPE --dry-run",
    "node scratch --config": "node scratch --config PIPE --dry-run",
    "jobs --grid": "jobs --grid PIPE",
    "predict --free-space": "predict --free-space PIPE",
    "predict --profile": "predict --workload quick --profile PIPE",
    "predict --workload": "predict --workload PIPE",
    "prove --matrix": "prove --matrix PIPE",
    "repo duplicate --to": "repo duplicate x --to PIPE --directory . --bucket s3://bucket",
    "setup --inventory": "setup --inventory PIPE",
    "setup --private-key": "setup --private-key PIPE",
    "setup --variables": "setup --variables PIPE",
    "submit --flow": "submit --flow PIPE",
    "top --play": "top --once --play PIPE",
    "watch --secret-file": "watch --secret-file PIPE --webhook http://127.0.0.1:9/",
    "workload import logs": "workload import PIPE",
    "workload replay profiles": "workload replay PIPE",
    "workload run --matrix": "workload run --matrix PIPE",
}
"""What takes a file to read, and a command line that reads it."""
ELSEWHERE = {
    "layout set --layout": "a layout",
    "repo export --changelog": "an export whose file cannot be read looks at all files, see below",
    "repo status --changelog": "read by the same code as an export's",
    "submit --stdin": "the job reads it, and may wait for it",
    "submit --stdout": "the job writes it",
    "submit --stderr": "the job writes it",
    **dict.fromkeys(
        ("plan --write", "plan --html", "predict --html", "catalog refresh --out", "workload run --profile"),
        "is written, under a name of its own first",
    ),
    **dict.fromkeys(
        ("workload profile out", "report --out", "usage --chart", "top --record", "exporter --rules"),
        "is written, under a name of its own first",
    ),
    **dict.fromkeys(
        ("predict --calibrate", "workload profile run", "runs show run", "runs rm run", "report run"),
        "a directory",
    ),
    **dict.fromkeys(
        (
            *("node history --directory", "node history --library", "exporter --directory"),
            *("layout show paths", "layout rebalance what"),
            *(f"repo {verb} paths" for verb in ("export", "import", "ls", "release", "verify")),
        ),
        "a directory, or a file of a library, whose status alone is looked at or which is opened below it",
    ),
}
SAID = ("nobody wrote to it", "no regular file", "holds no secret", "this is no file")


def files_of(command: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Each flag and argument that takes a file or a directory, and the first words of its help."""
    for verb, each in getattr(command, "commands", {}).items():
        yield from files_of(each, f"{name} {verb}".strip())
    if not hasattr(command, "commands"):
        for each in command.params:
            metavar = each.metavar or ""
            words = ("FILE", "PATH", "LOG", "PROFILES", "RUN", "OUT")
            if any(word in metavar for word in words):
                yield f"{name} {each.opts[0]}", each.help or ""


FILES = dict(files_of(get_command(app)))


def said(line: str, place: Path) -> tuple[int, str]:
    """Status and words of a command whose pipes are silent for a short time only."""
    words = line.replace("PIPE", "./pipe").split()
    errors = place / "errors"
    with (place / "output").open("wb") as output:
        status = called(
            words,
            place,
            stdout=output.fileno(),
            errors=errors,
            environment={"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"},
            before=lambda: setattr(handed_files, "SILENT_S", 0.5),
        )
    return status, (place / "output").read_text() + errors.read_text()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "grid.yaml").write_text(SPEC)
    (tmp_path / "key").write_text("no key")
    (tmp_path / "key").chmod(0o600)
    os.mkfifo(tmp_path / "pipe", 0o600)
    return tmp_path


def test_every_file_that_commands_take_is_in_a_table() -> None:
    """Grid specs have one loader: `check` and `jobs --grid` stand for all commands that take one."""
    told = {name for name, help_ in FILES.items() if not help_.startswith(("The grid spec", "A grid spec"))}
    assert len(told) > 40
    assert told - {"init file"} == (PLACED.keys() | ELSEWHERE.keys()) & told
    assert (PLACED.keys() | ELSEWHERE.keys()) <= FILES.keys()


@pytest.mark.parametrize("name", PLACED)
def test_a_pipe_that_nobody_writes_to_is_refused(name: str, place: Path) -> None:
    status, text = said(PLACED[name], place)
    assert status in (2, 3), text
    assert any(each in text for each in SAID), text
    assert "Traceback" not in text


def test_an_interrupt_ends_the_wait(place: Path) -> None:
    program = Path(sys.executable).with_name("gridwright")
    with subprocess.Popen([program, "check", "pipe"], cwd=place, stderr=subprocess.PIPE) as command:
        writer = os.open(place / "pipe", os.O_WRONLY)  # Returns when it is open there.
        started = time.monotonic()
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=60)
        os.close(writer)
    assert command.returncode == 130
    assert time.monotonic() - started < handed_files.SILENT_S


def test_a_pipe_with_a_writer_is_read_to_its_end(place: Path) -> None:
    program = Path(sys.executable).with_name("gridwright")
    done = subprocess.run(
        ["bash", "-c", f'"{program}" check <(head -2 grid.yaml; sleep 0.5; tail -n +3 grid.yaml)'],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "valid" in done.stdout) == (0, True), done.stderr
    with (place / "grid.yaml").open() as spec:
        piped = subprocess.run([program, "check", "/dev/stdin"], stdin=spec, check=False)
    assert piped.returncode == 0


def test_a_pipe_is_bounded_in_time_and_size(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handed_files, "SILENT_S", 0.2)
    with pytest.raises(TimeoutError, match="nobody wrote to it"):
        read_named(place / "pipe", 10)
    with pytest.raises(TimeoutError):
        RegisteredUsers.read(place / "pipe")
    writer = threading.Thread(target=lambda: (place / "pipe").write_text("rows"))
    monkeypatch.setattr(handed_files, "SILENT_S", 30.0)
    writer.start()
    assert read_named(place / "pipe", 10) == b"rows"
    writer.join()
    assert len(read_named(Path("/dev/zero"), 1000)) == 1001
    with pytest.raises(IsADirectoryError):
        read_named(place, 10)
