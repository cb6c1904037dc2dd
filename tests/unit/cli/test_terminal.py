"""Text of others commands no terminal: names, logs, specs and runs, on a real pseudo-terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import termios
import threading
import time
import tty
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.progress import Progress, TextColumn

from gridwright.cli.main import protect_streams
from gridwright.cli.work.jobs import _copy, _taker
from gridwright.foreign_text import opened, sealed, visible
from gridwright.monitor.frame import frame_of
from gridwright.monitor.job_sources import JobSources
from gridwright.monitor.live import _aligned
from gridwright.monitor.readings import NodeSamples, Snapshot
from gridwright.monitor.views import frame_text
from gridwright.report.table import columns_of, rows_table
from gridwright.report.terminal.frame import TerminalConsole, framed, text_of
from tests.support.as_user import MALLORY
from tests.support.examples import examples
from tests.support.forked import called
from tests.support.records import finished_run

CLIPBOARD = "\x1b]52;c;cm0gLXJmIH4K\x07"
HOSTILE = [
    CLIPBOARD,
    "\x1b]8;;javascript:alert(1)\x1b\\here\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H",
    "\x1b[8mhidden",
    "\x9b31m",
    "\x9d0;title\x9c",
    "safe\rerror: none",
    "abc\b\b\bxyz",
    "\x7f",
    "\u202etxt.exe",
    "\u2066a\u2069",
]
OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]*[AK])|\r\n|\r(?=\x1b\[)")
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def on_terminal(act: Callable[[int], object]) -> str:
    """What a terminal gets of what `act` writes to its descriptor."""
    master, slave = os.openpty()
    tty.setraw(slave, termios.TCSANOW)
    termios.tcsetwinsize(slave, (50, 150))
    found = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(master, 1 << 16):
                found.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        act(slave)
    finally:
        os.close(slave)
        reader.join()
        os.close(master)
    return found.decode()


def in_fork(act: Callable[[], object], stdout: int) -> None:
    """Act in a process whose stdout and stderr are a terminal, and are protected as the command has them."""
    child = os.fork()
    if child == 0:
        os.dup2(stdout, 1)
        os.dup2(stdout, 2)
        import sys

        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
        os.environ["TERM"] = "xterm-256color"
        protect_streams()
        try:
            act()
            sys.stdout.flush()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def foreign(text: str) -> str:
    """What is left of a text without the codes of our own."""
    return OURS.sub("", text)


@pytest.mark.parametrize("text", HOSTILE)
def test_errors_show_names_of_others_as_text_on_a_terminal_and_in_a_log(tmp_path: Path, text: str) -> None:
    name = f"a{text.replace('/', '')}.yaml"
    errors = tmp_path / "errors"
    shown = on_terminal(lambda slave: called(["check", name], tmp_path, stdout=slave, errors=errors))
    for found in (shown, errors.read_text()):
        assert not COMMANDS.search(found.replace("\n", ""))
    # Whole codes of colours and movements are left out where it is no terminal.
    assert visible(re.sub(r"\x1b\[[0-9]*[A-Za-z]", "", name)) in errors.read_text()


def hostile_run(directory: Path) -> Path:
    """A run that somebody else hands over, with all of it in each text."""
    path = finished_run(directory)
    for file in ("run.json", "iotest.json"):
        document = json.loads((path / file).read_text())
        if file == "run.json":
            document |= {"name": "".join(HOSTILE), "command": HOSTILE, "not_shown": "".join(HOSTILE)}
        for library in document.get("libraries", []):
            library["library"] = "[link=http://evil.example]data[/link][/nothing]" + "".join(HOSTILE)
        document["findings"] = [
            {
                "level": "warning",
                "name": "x" + CLIPBOARD,
                "text": "".join(HOSTILE),
                "remedy": "[/]" + CLIPBOARD,
            }
        ]
        (path / file).write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("verb", [["runs", "show"], ["report"], ["runs", "list", "--runs"]])
def test_a_run_of_somebody_else_commands_no_terminal(tmp_path: Path, verb: list[str]) -> None:
    path = hostile_run(tmp_path / "runs")
    given = str(path.parent if "--runs" in verb else path)
    errors = tmp_path / "errors"
    statuses: list[int] = []
    shown = on_terminal(
        lambda slave: statuses.append(
            called(
                [*verb, given], tmp_path, stdout=slave, errors=errors, environment={"TERM": "xterm-256color"}
            )
        )
    )
    assert statuses[0] in {0, 1}, errors.read_text()
    assert "Traceback" not in errors.read_text()
    assert not COMMANDS.search(foreign(shown).replace("\n", "")), shown
    assert "\x1b[8m" not in shown
    assert "\x1b]" not in shown


def test_what_programs_read_is_as_it_is(tmp_path: Path) -> None:
    path = hostile_run(tmp_path / "runs")
    with (tmp_path / "out").open("wb") as out:
        called(
            ["runs", "show", "--json", str(path)], tmp_path, stdout=out.fileno(), errors=tmp_path / "errors"
        )
    document = json.loads((tmp_path / "out").read_text())
    assert document["run"]["name"] == "".join(HOSTILE)


LOG = "".join(HOSTILE).encode() + b"\xff\x9b caf\xc3\xa9\nline\r\n"


def test_a_log_commands_no_terminal_and_goes_into_a_pipe_byte_for_byte(tmp_path: Path) -> None:
    def copy() -> None:
        _copy(io.BytesIO(LOG), _taker())

    shown = on_terminal(lambda slave: in_fork(copy, slave))
    assert not COMMANDS.search(shown.replace("\r\n", "").replace("\n", ""))
    assert r"\x1b]52;c;" in shown
    assert "\\xff\\x9b café\n" in shown
    with (tmp_path / "log").open("wb") as log:
        in_fork(copy, log.fileno())
    assert (tmp_path / "log").read_bytes() == LOG


def test_colours_and_bars_of_our_own_reach_the_terminal_and_none_of_others() -> None:
    def draw() -> None:
        console = TerminalConsole(stderr=True)
        with Progress(TextColumn("{task.description}", markup=False), console=console) as bar:
            bar.add_task(f"job {''.join(HOSTILE)}", total=1)
            console.print("".join(HOSTILE), style="red")

    shown = on_terminal(lambda slave: in_fork(draw, slave))
    assert "\x1b[31m" in shown
    assert "\x1b[?25l" in shown
    assert "\ue0ff" not in shown
    assert not COMMANDS.search(foreign(shown).replace("\n", "")), ascii(shown)


def test_cells_are_no_markup() -> None:
    rows = [["[link=http://evil.example]x[/link] :smile:"]]
    table = framed(rows_table("[/title]", columns_of(["[/head]"]), rows))
    console = TerminalConsole(width=80)
    with console.capture() as captured:
        console.print(table)
    assert "[link=http://evil.example]x[/link] :smile:" in captured.get()


@pytest.mark.root
def test_a_name_with_line_feeds_is_one_row_of_a_table() -> None:
    mark = f"4242-{os.getpid()}"  # Another run of this test may go on beside it.
    name = f"7 │ vm │ alice\n│ {mark} │ vm"
    running = subprocess.Popen(["sleep", "300"], user=MALLORY, group=MALLORY, env={"SLURM_JOB_ID": name})
    try:
        time.sleep(0.3)  # it gets its environment with the program that it becomes
        sources = JobSources()
        readings = [sources.readings(), sources.readings()]
    finally:
        running.kill()
        running.wait()
    first, last = (
        Snapshot("n1", "m", at, at, 1, 1, tuple(found))
        for at, found in zip((1.0, 2.0), readings, strict=True)
    )
    shown = frame_text(frame_of([NodeSamples("n1", first, last)]))
    (line,) = [each for each in shown.splitlines() if mark in each]
    assert f"7 │ vm │ alice\\n│ {mark} │ vm" in line
    assert "\n" not in _aligned(name, "left").plain
    assert "a\\nb" in text_of(rows_table("", columns_of(["name"]), [["a\nb"]]))


@settings(max_examples=examples(400))
@given(st.text() | st.lists(st.sampled_from([*HOSTILE, "\ue0ff", "\ue01b", "[31m", "a"])).map("".join))
def test_no_text_becomes_a_command_and_none_opens_a_seal(text: str) -> None:
    assert not COMMANDS.search(visible(text).replace("\n", "").replace("\r\n", "").replace("\r", ""))
    assert "\r" not in visible(text).replace("\r\n", "")
    assert opened(visible(text)) == visible(text)
    assert opened(sealed(text)) == text
    assert not COMMANDS.search(str(_aligned(text, "left")).replace("\n", ""))
