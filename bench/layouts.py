"""Layouts of many files: the native scan beside `find -printf`, and beside a process for each file.

python bench/layouts.py             # 1,000,000 files on /dev/shm, 3 rounds in alternation
python bench/layouts.py --publish   # also puts the table into docs/performance.md

Each file has an attribute as a Lustre of two targets gives to a file with two stripes, under the name
`trusted.lov` (as root) or `user.lov`. All contenders see the same tree, whose names and attributes are in
memory: what is measured is the client's work for each file, not the metadata server's, which bounds a real
scan. `find` prints size and name and reads no layout: it is the least that a walk takes. `stat` runs once for
each file of a sample: the least that a process for each file, such as `lfs getstripe`, would take. Processor
time is told, too, since rates are those of a machine that others may use meanwhile.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from gridwright.filesystems.lustre_client.attribute import scan
from tables import machine, markdown, publish, spread

ATTRIBUTE = bytes.fromhex(
    "d00bd10b0100000002000000000000000104000002000000000040000200ffff0004008002000000030000000000000000000000"
    "00000000000400400200000002000000000000000000000001000000"
)
"""As recorded on Lustre 2.17.0."""
A_DIRECTORY = 1000
SAMPLE = 500
TIMEOUT_S = 600


def make(tree: Path, files: int, name: str) -> list[Path]:
    """A tree of empty files with the attribute; some of them."""
    made: list[Path] = []
    for number in range(files):
        directory = tree / str(number // A_DIRECTORY)
        if number % A_DIRECTORY == 0:
            directory.mkdir()
        path = directory / str(number)
        path.touch()
        os.setxattr(path, name, ATTRIBUTE)
        if number % max(1, files // SAMPLE) == 0:
            made.append(path)
    return made


def by_scan(tree: Path, files: int, name: str, threads: int) -> float:
    """Files per second."""
    began = time.perf_counter()
    found = scan([tree], seconds=TIMEOUT_S, attributes=[name], threads=threads)
    seconds = time.perf_counter() - began
    if (found.files.files, found.classes[0].files, found.complete) != (files, files, True):
        raise RuntimeError(f"the scan saw {found.files.files} files")
    return files / seconds


def by_find(tree: Path, files: int) -> float:
    """Files per second of a walk that reads no layout."""
    began = time.perf_counter()
    done = subprocess.run(
        ["find", str(tree), "-type", "f", "-printf", "%s %p\\n"],
        capture_output=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    seconds = time.perf_counter() - began
    if done.stdout.count(b"\n") != files:
        raise RuntimeError("find saw other files")
    return files / seconds


def by_process(sample: Sequence[Path]) -> float:
    """Files per second with a process for each."""
    began = time.perf_counter()
    for path in sample:
        subprocess.run(["stat", "-c", "%s", str(path)], capture_output=True, check=True, timeout=TIMEOUT_S)
    return len(sample) / (time.perf_counter() - began)


def cpu_s() -> float:
    """Processor time of this process and of those that it has waited for, in seconds."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(files: int, directory: Path, rounds: int) -> str:
    """The table."""
    name = "trusted.lov" if os.geteuid() == 0 else "user.lov"
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        tree = Path(scratch)
        sample = make(tree, files, name)
        ways: dict[str, tuple[Callable[[], float], int]] = {
            "scan, 2 threads": (lambda: by_scan(tree, files, name, 2), files),
            "find -printf": (lambda: by_find(tree, files), files),
            "scan, 1 thread": (lambda: by_scan(tree, files, name, 1), files),
            "stat for each file": (lambda: by_process(sample), len(sample)),
        }
        rates: dict[str, list[float]] = {way: [] for way in ways}
        cpu_us: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, (run, number) in ways.items():
                before = cpu_s()
                rates[way].append(run())
                cpu_us[way].append((cpu_s() - before) / number * 1e6)
    best = median(rates["scan, 2 threads"])
    rows = [
        [way, spread(rates[way]), f"{best / median(rates[way]):.2f}", f"{min(cpu_us[way]):.2f}"]
        for way in ways
    ]
    head = ["way", "files per second", "scan of 2 threads is so many times as fast", "CPU µs per file, least"]
    when = datetime.now(tz=UTC).date()
    return f"{when}, {machine()}; {files:,} files in {directory}, {rounds} rounds.\n\n{markdown(head, rows)}"


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--publish", action="store_true")
    chosen = parser.parse_args()
    text = measure(chosen.files, chosen.directory, chosen.rounds)
    print(text)
    if chosen.publish:
        publish("layouts", text)


if __name__ == "__main__":
    main()
