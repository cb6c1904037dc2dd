"""Ctrl-C, SIGTERM and SIGHUP end the command at once and without a traceback, before it has begun too."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus
from tests.support.command import Command, wait_until
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import StoreServer

ENTRY = "from gridwright.cli.start import run; run()"
"""What the installed command does."""
START = [sys.executable, "-P", "-c", ENTRY]
OBEDIENT = ["env", "--default-signal=HUP,INT", *START]
"""The same, where those who run the tests ignore orders, as under nohup."""
ORDERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
READS = """\
import sys
started = set(sys.modules)
import _signal
kept, _signal.signal = _signal.signal, lambda *_: sys.exit(" ".join(set(sys.modules) - started))
"""
SLOW_TYPER = """\
import sys, time
print("importing", file=sys.stderr, flush=True)
time.sleep(60)
"""


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def test_nothing_else_is_imported_before_the_handlers_of_signals() -> None:
    """Each module takes time, in which Ctrl-C prints a traceback."""
    command = [sys.executable, "-P", "-c", READS + ENTRY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    ours = {"gridwright", "gridwright.cli", "gridwright.cli.start"}
    # What is compiled into the interpreter is there at once.
    assert set(done.stderr.split()) - {"__future__", *sys.builtin_module_names} == ours


def test_at_any_moment_of_its_start() -> None:
    """While Python itself starts, its own handler speaks: of modules behind ours there is never a word."""
    command = ["env", "--default-signal=INT", *START, "--version"]
    for moment in range(20):
        order = ORDERS[moment % 2]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            time.sleep(0.015 * moment)
            process.send_signal(order)
            status, said = ended(process)
        assert re.findall(r"gridwright/(?!cli/start|__init__|cli/__init__)\S+", said) == []
        if not said:
            assert status in (ExitStatus.DONE, ExitStatus.INTERRUPTED, -order)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.name)
def test_while_modules_are_imported(tmp_path: Path, order: signal.Signals) -> None:
    (tmp_path / "typer.py").write_text(SLOW_TYPER)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [*OBEDIENT, "--version"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "importing\n"
        process.send_signal(order)
        assert ended(process) == (ExitStatus.INTERRUPTED, "")


def _waits_for_data(pid: int) -> bool:
    """Whether a process sleeps in poll(2), which is 7 in /proc/PID/syscall on x86-64."""
    return Path(f"/proc/{pid}/syscall").read_text().startswith("7 ")


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.name)
def test_while_a_verb_waits(tmp_path: Path, order: signal.Signals) -> None:
    os.mkfifo(tmp_path / "grid.yaml")
    command = [*OBEDIENT, "check", str(tmp_path / "grid.yaml")]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process,
        (tmp_path / "grid.yaml").open("wb"),
    ):
        wait_until(
            lambda: True if _waits_for_data(process.pid) else None,
            seconds=60,
            what="reading",
            last=process.poll,
        )
        process.send_signal(order)
        assert ended(process) == (ExitStatus.INTERRUPTED, "")


def test_what_the_caller_ignores_is_no_order(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "grid.yaml")
    command = ["nohup", *START, "check", str(tmp_path / "grid.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        with (tmp_path / "grid.yaml").open("wb") as spec:
            process.send_signal(signal.SIGHUP)
            spec.write(b"filesystems:\n  disk: {type: local, path: /d}\n")
        assert ended(process)[0] == ExitStatus.DONE


@pytest.mark.parametrize("order", [signal.SIGINT, signal.SIGTERM])
def test_while_a_store_takes_no_file(
    gridwright: Command, library: Path, server: StoreServer, url: str, order: signal.Signals
) -> None:
    """The lease is given back by the store, too, which answers nobody any more."""
    for place in range(200):
        (library / f"file{place}").write_bytes(b"x" * 1000)
    is_over, begun = threading.Event(), threading.Event()

    def hangs(answer: Answer) -> None:
        if "/file" in answer.path or begun.is_set():
            begun.set()
            is_over.wait(60)

    command = ("repo", "export", "--bucket", url, "--directory", library)
    with LyingStore(server.endpoint_url) as liar:
        liar.instead = hangs
        environment = {**server.environment, "AWS_ENDPOINT_URL": liar.endpoint_url}
        try:
            with gridwright.start(*command, environment=environment) as running:
                assert begun.wait(60)
                running.signal(order)
                since_s = time.monotonic()
                ended = running.end()
                took_s = time.monotonic() - since_s
        finally:
            is_over.set()
    assert ended.status == ExitStatus.INTERRUPTED, ended.text
    assert "Traceback" not in ended.err
    # Two ways to wait, of half a second each, on a machine that does other things.
    assert took_s < 10
