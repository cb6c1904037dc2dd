"""The command in a fork of the test, whose imports it has: for what is asked of words and streams alone.

Where the environment decides (a locale, a limit, PATH), `tests.support.command` starts the real command.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from gridwright.cli import main
from gridwright.cli.start import YOUNG

STUCK_S = 120


def called(
    arguments: list[str],
    place: Path,
    *,
    stdout: int,
    errors: Path,
    encoding: str = "utf-8",
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> int:
    """Exit status of a call in a directory; stdout is a descriptor, stderr a file, both in an encoding.

    A call that hangs is an exception after two minutes. `before` is called first in the child.
    """
    child = os.fork()
    if child == 0:
        _call(arguments, place, stdout, errors, encoding, environment or {}, before)
    signal.alarm(STUCK_S)
    try:
        _, ended = os.waitpid(child, 0)
    finally:
        signal.alarm(0)
    return os.waitstatus_to_exitcode(ended)


def _call(
    arguments: list[str],
    place: Path,
    stdout: int,
    errors: Path,
    encoding: str,
    environment: Mapping[str, str],
    before: Callable[[], None] | None,
) -> None:
    status = 70
    try:
        # A look for cycles among all that the test has would copy its pages.
        gc.freeze()
        gc.set_threshold(YOUNG)
        os.setsid()
        os.chdir(place)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stdout, 1)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.environ |= environment
        raw = (io.FileIO(number, "w", closefd=False) for number in (1, 2))
        sys.stdout, sys.stderr = (io.TextIOWrapper(each, encoding=encoding) for each in raw)
        sys.argv = ["gridwright", *arguments]
        if before:
            before()
        main.run()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)
