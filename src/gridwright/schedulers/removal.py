"""Removes private directories of jobs and launches, whatever those have put into them."""

from __future__ import annotations

import contextlib
import os
import shutil


def remove_tree(directory: str | bytes | os.PathLike[str]) -> bool:
    """Remove a directory with all in it, also what was made unwritable; returns whether it is gone."""
    path = os.fsdecode(directory)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114 - os.walk gives strings
        for place, names, _ in os.walk(path):
            for each in (place, *(os.path.join(place, name) for name in names)):  # noqa: PTH118
                with contextlib.suppress(OSError):
                    if not os.path.islink(each):  # noqa: PTH114
                        os.chmod(each, 0o700)  # noqa: PTH101
        shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)
