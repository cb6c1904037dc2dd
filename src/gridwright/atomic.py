"""Writes a file so that a reader, or a crash, sees either the old one or the whole new one."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from gridwright.trusted import open_place

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_atomically(
    path: Path | str,
    content: str | bytes,
    mode: int = 0o666,
    *,
    directory: int | None = None,
    replaces: bool = True,
) -> None:
    """Write to a temporary name beside `path`, flush to disk, and rename. Raises OSError.

    `path` is one name in the open `directory`, where that is given. Others may write to the directory, such
    as that of a run that somebody handed over: a link that stands at `path` is replaced, none that is another
    user's is followed, and the temporary name is not known before. `mode` is what the umask
    takes from. FileExistsError where `path` is there and not to be replaced.
    """
    data = memoryview(content.encode() if isinstance(content, str) else content)
    path = Path(path)
    temporary = f".{path.name[:100]}.{secrets.randbelow(10**18)}.part"
    opened = open_place(path.parent) if directory is None else os.dup(directory)
    try:
        descriptor = os.open(temporary, _NEW, mode, dir_fd=opened)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if replaces:
                os.rename(temporary, path.name, src_dir_fd=opened, dst_dir_fd=opened)
            else:
                # A link fails where a rename would replace a file that appeared meanwhile.
                os.link(temporary, path.name, src_dir_fd=opened, dst_dir_fd=opened)
                os.unlink(temporary, dir_fd=opened)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=opened)
            raise
        os.fsync(opened)
    finally:
        os.close(opened)
