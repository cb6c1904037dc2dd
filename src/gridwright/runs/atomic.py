"""Writes a file so that a reader, or a crash, sees either the old one or the whole new one."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_atomically(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Write to a temporary name beside `path`, flush to disk, and rename. Raises OSError.

    Others may write to the directory, such as that of a run that somebody handed over: a link that stands at
    `path` is replaced, none is followed, and the temporary name is not known before. `mode` is what the umask
    takes from.
    """
    data = memoryview(content.encode() if isinstance(content, str) else content)
    temporary = f".{path.name}.{secrets.randbelow(10**18)}.part"
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = os.open(temporary, _NEW, mode, dir_fd=directory)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            raise
        os.fsync(directory)
    finally:
        os.close(directory)
