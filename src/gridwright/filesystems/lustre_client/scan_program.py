"""Scans directories on a node that mounts them, and prints what it found as one JSON document."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright import bounded
from gridwright.filesystems.lustre_client.attribute import (
    ATTRIBUTES,
    Scanned,
    StoredLayout,
    decode_attribute,
    scan,
)
from gridwright.messages import encode

ANSWER_S = 4.0
"""For a scan to end after its time, and for the sums of its threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryScan:
    """A directory's own layout, which new files get, and what lies in it."""

    default: StoredLayout | None
    """None where it has none of its own, or none is told."""
    scanned: Scanned


def default_of(path: str, attributes: Sequence[str] = ATTRIBUTES) -> StoredLayout | None:
    """The layout that a file has, or that a directory gives to new files; None where none is told."""
    for name in attributes:
        try:
            return decode_attribute(os.getxattr(path, name))
        except (OSError, ValueError):
            continue
    return None


def look(
    directory: str, seconds: float, attributes: Sequence[str] = ATTRIBUTES, keep: int = 64
) -> LibraryScan:
    """Scan a directory. What hangs is named in the scan; nothing more is asked of it then."""
    scanned = scan([Path(directory)], seconds=seconds, attributes=attributes, keep=keep)
    default = None if scanned.hanging else default_of(directory, attributes)
    return LibraryScan(default=default, scanned=scanned)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--attribute", action="append")
    chosen = parser.parse_args(arguments)
    # A thread that hangs in the kernel keeps its process: that is a child, which is left behind.
    found = bounded.call_bounded(
        lambda: look(chosen.directory, chosen.seconds, chosen.attribute or ATTRIBUTES),
        chosen.seconds + ANSWER_S,
    )
    sys.stdout.buffer.write(encode(found))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
