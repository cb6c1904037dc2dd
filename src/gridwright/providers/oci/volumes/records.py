"""Files in which iscsiadm keeps its records of targets.

iscsiadm writes them without a flush: a machine that loses its power soon after may find empty or cut ones. It
neither reads nor replaces nor removes those (status 6 of open-iscsi 2.1.8), and logins fail from then on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gridwright.providers.oci.volumes.attachments import Portal

PLACES = ("etc/iscsi/nodes", "var/lib/iscsi/nodes")
"""Where Debian and Ubuntu have them, and systems of the Red Hat family (iscsiadm(8), FILES)."""


def record_paths(root: Path) -> dict[tuple[str, Portal], Path]:
    """Files of records, whether iscsiadm can read them or not, by target and portal.

    Each is a file ADDRESS,PORT or a directory ADDRESS,PORT,GROUP, below a directory with the target's name.
    """
    found: dict[tuple[str, Portal], Path] = {}
    for place in PLACES:
        for path in sorted((root / place).glob("*/*,*")):
            address, port, *_ = path.name.split(",")
            if port.isdigit():
                found[path.parent.name, Portal(address, int(port))] = path
    return found


def flush_records(targets: Iterable[tuple[str, Portal]], root: Path) -> None:
    """Have the records of these targets on the disk before this returns."""
    there = record_paths(root)
    for path in (there[each] for each in targets if each in there):
        files = [each for each in path.iterdir() if each.is_file()] if path.is_dir() else [path]
        # What names a file has to be there as well as what is in it.
        for each in (*files, *({path} if path.is_dir() else ()), path.parent, path.parent.parent):
            _flush(each)


def _flush(path: Path) -> None:
    with suppress(FileNotFoundError):
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)
