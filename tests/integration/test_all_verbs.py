"""Every verb where stdout is full, and on a terminal of 80 columns in ISO-8859-1: one line, no traceback.

Each call runs in a fork of the test: all that is asked of a process of its own is its streams.
"""

from __future__ import annotations

import fcntl
import os
import pkgutil
import pty
import struct
import termios
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import gridwright
from gridwright.cli import main
from gridwright.errors import ExitStatus
from tests.support import forked

EXAMPLES = Path(__file__).parents[2] / "examples"
REQUIREMENTS, AWS = EXAMPLES / "requirements-64-cores.yaml", EXAMPLES / "aws-fsx.yaml"
SPEC = """\
name: demo
filesystems: {disk: {type: local, path: ./disk, delivers: {write: 1 GB/s, read: 1 GB/s}}}
silence: {shared-disks: "größer wird es nicht: 日本"}
"""
CALLS = {
    "init": "made-{stdout}.yaml",
    "check": "grid.yaml",
    "schema": "",
    "plan": f"{REQUIREMENTS}",
    "predict": f"{AWS} --explain",
    "catalog list": "--provider oci",
    "catalog show": "m5n.8xlarge",
    "catalog qualify": "",
    "catalog refresh": "--nonsense",
    "render": "grid.yaml --out rendered-{stdout}",
    "up": "grid.yaml",
    "setup": "nowhere.yaml",
    "status": "grid.yaml",
    "stop": "grid.yaml",
    "start": "grid.yaml",
    "down": "grid.yaml --yes",
    "lab exec": "--grid grid.yaml compute1 -- true",
    "lab power-off": "--grid grid.yaml compute1",
    "lab power-on": "--grid grid.yaml compute1",
    "lab partition": "--grid grid.yaml compute1",
    "lab heal": "--grid grid.yaml compute1",
    "node claim": "--config nowhere.json",
    "node scratch": "--config nowhere.json --dry-run",
    "node history": "--directory grid.yaml",
    "layout set": "grid.yaml",
    "layout rebalance": "grid.yaml --dry-run",
    "doctor": "grid.yaml --all",
    "iotest": "--directory disk --size 64KiB --streams 1 --phases write",
    "workload run": "grid.yaml --matrix one.yaml --scale tiny",
    "workload import": "nowhere.log",
    "workload profile": "last profiles-{stdout}.json",
    "workload replay": "nowhere.json",
    "workload clean": "grid.yaml",
    "prove": "small.yaml --skip doctor --skip workload --seconds 0.1 --phases write",
    "runs list": "",
    "runs show": "last",
    "runs compare": "last last",
    "runs rm": "no-such-run",
    "runs prune": "--keep 100",
    "report": "last",
    "repo status": "",
    "repo export": "--directory disk",
    "repo import": "--bucket s3://site-sas",
    "repo release": "",
    "repo ls": "archive",
    "repo trash": "archive",
    "repo verify": "archive",
    "repo duplicate": "--to elsewhere",
    "repo serve": "archive --directory disk --units",
    "submit": "--grid grid.yaml -- echo hello",
    "jobs": "--grid grid.yaml",
    "wait": "--grid grid.yaml 1",
    "logs": "--grid grid.yaml 1",
    "cancel": "--grid grid.yaml 1",
    "explain": "--grid grid.yaml 1",
    "usage": "--grid grid.yaml --since 1d",
    "top": "--once --interval 0.1s",
    "exporter": "--listen 192.0.2.7",
    "console": "--listen 192.0.2.7",
    "explain-slow": "--interval 1s",
    "watch": "--once",
    "layout show": "small.yaml",
    "layout check": "small.yaml",
    "completion": "bash",
    "help": "iotest",
}
"""Of each verb, arguments with which it ends soon."""
ALLOWED = {*ExitStatus} - {ExitStatus.INTERRUPTED}
IMPORTED = "report", "runs", "iotest", "workload", "prove", "catalog"
"""Rooms whose imports all calls share, since each takes seconds to import."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with grid specs, a matrix and a run."""
    for room in pkgutil.iter_modules(gridwright.__path__, "gridwright."):
        if room.name.removeprefix("gridwright.") in IMPORTED:
            for module in pkgutil.walk_packages(import_module(room.name).__path__, f"{room.name}."):
                import_module(module.name)
    here = tmp_path_factory.mktemp("verbs")
    (here / "grid.yaml").write_text(SPEC, "utf-8")
    (here / "small.yaml").write_text(f"{SPEC}libraries: {{data: {{filesystem: disk}}}}\n", "utf-8")
    (here / "one.yaml").write_text("name: one\nstreams: [[{command: ['true']}]]\n")
    with Path(os.devnull).open("wb") as nowhere:
        run = ["workload", "run", *CALLS["workload run"].split()]
        assert called(run, here, nowhere.fileno())[0] == 0
    return here


def verbs(command: Any, name: str = "") -> Iterator[str]:
    below = getattr(command, "commands", {})
    for verb in below:
        yield from verbs(below[verb], f"{name} {verb}".strip())
    if not below:
        yield name


def called(arguments: list[str], place: Path, stdout: int) -> tuple[int, str]:
    """Exit status and stderr of a call whose stdout is given, in ISO-8859-1."""
    errors = place / "stderr"
    environment = {"GRIDWRIGHT_RUNS": "runs", "XDG_STATE_HOME": str(place / "state"), "TERM": "xterm"}
    status = forked.called(
        arguments, place, stdout=stdout, errors=errors, encoding="latin-1", environment=environment
    )
    return status, errors.read_text("latin-1")


def on_terminal(arguments: list[str], place: Path) -> tuple[int, str, str]:
    """Exit status, what was printed and stderr of a call on a terminal of 80 columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = place / "shown"
    # Read while it runs: a terminal holds few lines.
    reader = os.fork()
    if reader == 0:
        os.close(follower)
        _copy(leader, os.open(shown, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    os.close(leader)
    status, errors = called(arguments, place, follower)
    os.close(follower)
    os.waitpid(reader, 0)
    return status, shown.read_text("latin-1"), errors


def _copy(source: int, target: int) -> None:
    try:
        while data := os.read(source, 1 << 16):
            os.write(target, data)
    except OSError:
        pass
    finally:
        os._exit(0)


def test_every_verb_is_called() -> None:
    assert set(CALLS) == set(verbs(get_command(main.app)))


@pytest.mark.parametrize("verb", CALLS)
def test_a_verb_prints_or_says_in_one_line_why_not(verb: str, place: Path) -> None:
    def arguments(stdout: str) -> list[str]:
        return [*verb.split(), *CALLS[verb].format(stdout=stdout).split()]

    status, shown, errors = on_terminal(arguments("terminal"), place)
    assert "Traceback" not in errors, errors
    assert status in ALLOWED, errors
    assert shown.strip() or errors.strip() or verb == "wait"
    with Path("/dev/full").open("wb") as full:
        on_full, said = called(arguments("full"), place, full.fileno())
    assert "Traceback" not in said, said
    if status in (ExitStatus.DONE, ExitStatus.MISSED) and shown:
        assert on_full == ExitStatus.ENVIRONMENT, said
        assert said.splitlines()[-1] == "error: stdout: cannot be written: No space left on device"
    else:
        assert on_full == status, said
