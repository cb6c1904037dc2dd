"""Runs Gridwright in the guest as forks of one interpreter, which has imported what commands before have.

A program of its own: a line of stdin has what to run, a line of stdout says how it ended. The guest is
emulated: the start of an interpreter and the imports of a command take it ten to thirty seconds. Started with
the word `scripts` it imports nothing, and runs scripts of sh: a session of ssh takes the guest a second.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, BinaryIO

ROOMS = ("gridwright.", "boto")
"""So begin modules that are imported once; they import others."""
FIRST = ("gridwright.cli.data", "gridwright.repository", "gridwright.layouts", "gridwright.doctor", "boto3")
SCRIPTS = sys.argv[1:] == ["scripts"]
GONE_S = 10.0
"""How long a command that was killed may take to be gone; one whose file system does not answer stays."""
KILLED = 124
"""As timeout(1) ends."""


def serve() -> str | None:
    """Fork a command for each line, and return in it: the script that it is to run; None is Gridwright."""
    for line in sys.stdin:
        request = json.loads(line)
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            pid = os.fork()
            if not pid:
                _become(request, files)
                return str(request["script"]) if request["script"] else None
            status = _end_of(pid, request["seconds"])
            out, err, imported = (_content(each) for each in files)
        print(json.dumps({"status": status, "out": out, "err": err}), flush=True)  # noqa: T201 - the answer
        _import(imported.split())
    raise SystemExit


def _content(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode(errors="backslashreplace")


def _become(request: dict[str, Any], files: Sequence[BinaryIO]) -> None:
    """Turn into a process of that environment and those words; the last file gets what it has imported."""
    os.setsid()
    with tempfile.TemporaryFile() as given:
        given.write(request["given"].encode("latin-1"))
        given.seek(0)
        os.dup2(given.fileno(), 0)
    out, err, imported = (os.dup(each.fileno()) for each in files)
    os.dup2(out, 1)
    os.dup2(err, 2)
    if request["background"]:
        _leave_behind(request["background"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if SCRIPTS:
        os.execvp("sh", ["sh", "-c", request["script"]])  # noqa: S606 - it is one
    sys.argv = ["gridwright", *request["arguments"]]
    here = os.getpid()

    def tell() -> None:
        if os.getpid() == here:
            new = [each for each in sys.modules if each.startswith(ROOMS)]
            os.write(imported, "\n".join(new).encode())

    atexit.register(tell)


def _leave_behind(name: str) -> None:
    """Go on as a process of the same group that nobody waits for, with its output in a file of the name."""
    log = os.open(f"/tmp/{name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    if os.fork():
        Path(f"/tmp/{name}.pid").write_text(f"{os.getpid()}\n")
        os._exit(0)


def _end_of(pid: int, seconds: float) -> int:
    ended = os.pidfd_open(pid)
    try:
        if select.select([ended], [], [], seconds)[0]:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        select.select([ended], [], [], GONE_S)
        return KILLED
    finally:
        os.close(ended)


def _import(names: Sequence[str]) -> None:
    """Import what a command has imported, so that the next one need not."""
    for name in names:
        import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork would have no such thread"
    gc.freeze()


def import_rooms() -> None:
    """Import what most commands of these tests import, which would do it first, and this process then."""
    _import(["gridwright.cli.main", *FIRST])
    for room in FIRST[:-1]:
        _import([each.name for each in walk_packages(import_module(room).__path__, f"{room}.")])


if __name__ == "__main__":
    if not SCRIPTS:
        import_rooms()
    if (script := serve()) is None:
        from gridwright.cli.start import run

        run()
    else:
        exec(script, {"__name__": "__main__"})  # noqa: S102 - of a test
