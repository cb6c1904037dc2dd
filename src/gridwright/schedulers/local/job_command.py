"""The command of a job as it is started: where its standard streams are files, a small program opens them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gridwright.schedulers.local.identifiers import NO_INDEX, JobKey
from gridwright.schedulers.local.job_row import JobRow
from gridwright.schedulers.output_paths import filled

_OPENS = """
import os, sys
names, command = sys.argv[1:4], sys.argv[4:]
try:
    if names[0]:
        os.dup2(os.open(names[0], os.O_RDONLY), 0)
    for number in (1, 2):
        if names[number]:
            os.dup2(os.open(names[number], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), number)
    if names[1] and not names[2]:
        os.dup2(1, 2)
    os.execvp(command[0], command)
except OSError as error:
    what = error.filename or command[0]
    print(f"gridwright: cannot be started: {what}: {error.strerror}", file=sys.stderr)
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""
"""No shell: one would drop variables whose names it cannot hold. It becomes the command itself."""


def stream_files(row: JobRow, key: JobKey) -> list[str]:
    """The files of standard input, output and error; an empty text where there is none of its own."""
    values = {
        "job": str(key),
        "index": "" if key.element == NO_INDEX else str(key.element),
        "name": os.fsdecode(row.name),
    }
    paths = (row.options.stdin, row.options.stdout, row.options.stderr)
    return [filled(path, values) if path else "" for path in paths]


def job_command(row: JobRow, key: JobKey) -> Sequence[bytes]:
    """Program and arguments to start."""
    files = stream_files(row, key)
    if not any(files):
        return row.command
    opens = [sys.executable, "-I", "-S", "-c", _OPENS, *files]
    return [*map(os.fsencode, opens), *row.command]
