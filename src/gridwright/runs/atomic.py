"""Writes a file so that a reader, or a crash, sees either the old one or the whole new one."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Write to a temporary name beside `path`, flush to disk, and rename. Raises OSError.

    `mode` is what the umask takes from.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
