"""Finding what was changed in a tree: Gridwright's scan beside `find -newerct`, one after the other.

    python bench/changes.py --files 1000000 --changed 1000 --rounds 5 --place /a/local/disk
    python bench/changes.py --publish   # also puts the table into docs/performance.md

Each round asks for the same changes with each tool in turn; the table has medians of millions of names per
minute. `walk` is the native walk alone; `scan` compares each name with what is known of it, as an export
does, and finds changes that `find` cannot: renamed, deleted, and with times set back. `python` is a walk by
os.scandir and os.stat in one thread.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.unit.repository.test_many_objects import ListedStore

from gridwright.repository.keys import RESERVED
from gridwright.repository.known import Known
from gridwright.repository.known_file import KnownFile
from gridwright.repository.scan import find_changes
from gridwright.repository.settings import OpenRepository, RepositoryReport, RepositorySettings
from gridwright.repository.state_directory import VARIABLE
from gridwright.repository.walking import walk_below
from tables import machine, markdown, publish, spread

BELOW = 1000


def make_tree(root: Path, count: int) -> None:
    """Empty files, a thousand to a directory."""
    for place in range(count):
        if place % BELOW == 0:
            below = root / f"part-{place // BELOW // 100}" / f"day-{place // BELOW}"
            below.mkdir(parents=True)
        (below / f"rows-{place}.sas7bdat").touch()


def walked(root: Path) -> int:
    """Names that the walk tells."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        return sum(len(files) for files, _ in walk_below(descriptor))
    finally:
        os.close(descriptor)


def learn(root: Path) -> None:
    """Know the tree as it is, as after an export."""
    known = Known(root)
    descriptor = os.open(root, os.O_RDONLY)
    for files, _ in walk_below(descriptor):
        for each in files:
            known.put(
                KnownFile(
                    each.path, each.st_mode, each.st_uid, each.st_gid, each.st_size, each.st_blocks,
                    each.st_atime_ns, each.st_mtime_ns, each.st_ctime_ns, each.st_ino, each.st_nlink,
                    os.fsdecode(each.path), "etag", None, None, None, None, None, False,
                )
            )  # fmt: skip
    os.close(descriptor)
    known.close()


def scanned(root: Path) -> int:
    """Changes that a scan finds."""
    store = ListedStore(0)
    opened = OpenRepository.open(RepositorySettings("bench", root, "s3://bench"), store)  # type: ignore[arg-type]
    try:
        found = find_changes(opened, [], RepositoryReport("bench", "export"), deletions=True)
        return sum(count for count, _ in found.values())
    finally:
        opened.close()


def found_by_find(root: Path, since: Path) -> int:
    """Changes that find names; `since` is newer than all that is unchanged."""
    words = ["find", str(root), "-type", "f", "-newercm", str(since), "-not", "-path", "*/.gridwright/*"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return done.stdout.count(b"\n")


def walked_by_python(root: Path) -> int:
    """Names, by os.scandir and os.stat."""
    count, waiting = 0, [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for each in entries:
                each.stat(follow_symlinks=False)
                count += 1
                if each.is_dir(follow_symlinks=False):
                    waiting.append(each.path)
    return count


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--changed", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--place", type=Path, default=None)
    parser.add_argument("--kind", default="ext4", help="what file system that is, for the table")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="changes-", dir=options.place))
    state = tempfile.mkdtemp(prefix="changes-state-")
    os.environ[VARIABLE] = state
    try:
        make_tree(root, options.files)
        learn(root)
        since = root / RESERVED / "since"
        since.parent.mkdir(exist_ok=True)
        since.touch()
        every = max(1, options.files // options.changed)
        for place in range(0, options.files, every):
            day = place // BELOW
            (root / f"part-{day // 100}" / f"day-{day}" / f"rows-{place}.sas7bdat").write_bytes(b"changed")
        ways: dict[str, Callable[[], int]] = {
            "walk": lambda: walked(root),
            "scan": lambda: scanned(root),
            "find -newercm": lambda: found_by_find(root, since),
            "python": lambda: walked_by_python(root),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        told = {name: way() for name, way in ways.items()}
        for _ in range(options.rounds):
            for name, way in ways.items():
                begun = time.monotonic()
                way()
                rates[name].append(options.files / (time.monotonic() - begun) * 60 / 1e6)
    finally:
        shutil.rmtree(state)
        shutil.rmtree(root)
    rows = [[name, f"{told[name]:,}", spread(some, 1)] for name, some in rates.items()]
    text = (
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {options.files:,} empty files on "
        f"{options.kind}, in memory, {options.rounds} rounds.\n\n"
        + markdown(["way", "tells", "million names per minute"], rows)
    )
    print(text)
    if options.publish:
        publish("changes", text)


if __name__ == "__main__":
    main()
