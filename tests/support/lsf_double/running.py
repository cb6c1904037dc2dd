"""Starts the double, with its commands in a directory for PATH, and ends it with all that it started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.command import wait_until

COMMANDS = ("bacct", "bsub", "bjobs", "bhist", "bhosts", "bkill", "bqueues", "lshosts", "lsload")


@contextmanager
def lsf_double(directory: Path, **environment: str) -> Iterator[Path]:
    """The directory of its commands, while it runs."""
    directory.mkdir()
    program = f"#!{sys.executable} -ES\n" + Path(__file__).with_name("client.py").read_text()
    for name in COMMANDS:
        (directory / name).write_text(program)
        (directory / name).chmod(0o755)
    log = directory / "mbatchd.log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "tests.support.lsf_double.daemon", directory],
            env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        _wait(directory, log)
        yield directory
    finally:
        daemon.send_signal(signal.SIGKILL)
        daemon.wait(10)
        assert "Traceback" not in log.read_text(), log.read_text()
        shutil.rmtree(directory)


def _wait(directory: Path, log: Path) -> None:
    socket = directory / "mbatchd.sock"
    wait_until(lambda: socket.exists() or None, seconds=10, what="the double of LSF", last=log.read_text)
