"""Makes the examples of the guides: runs their commands, most of them on a lab, and shows what they print.

    python bench/guides.py                       # all of them; needs root, takes some minutes
    python bench/guides.py --only spec wrong     # some
    python bench/guides.py --publish             # also puts them into the guides in docs/

The faults are real: nodes are powered off, disks are slowed down, files change behind the back of a test.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gridwright.atomic import write_atomically
from throttled import throttled_disk  # type: ignore[import-not-found]

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
"""On a disk: a directory of the system's for files in passing may be in memory."""
GUIDES = (ROOT / "docs" / "first-grid.md", ROOT / "docs" / "bad-result.md")
LIMIT_S = 540
WIDTH = 100
"""Columns of the terminal that the commands see."""
PATIENCE_S = 30.0
"""How long a fault waits for the phase that it is to meet."""
CUT = "[...]"
_TABLES_BUT_FIRST = [("data: metadata", "verdict:"), (".*All 19 launches", "Not shown:")]
_OTHERS = ("  work", "  util")
"""How lines of a spec begin that name the other libraries."""
_LOOP = "while :; do :; done"
_NOISE = [("warning disturbed: ", "run:|verdict:|Tests ")]
"""Who else is busy on the machine that makes the examples is of no use to a reader."""
_LOOPS = os.cpu_count() or 1
_QUIET = {"GRIDWRIGHT_ALLOW_DISTURBED": "1"}
"""A lab's nodes disturb each other, as they are all this machine."""

SPEC_THAT_HURTS = """\
name: risky
provider: local
filesystems:
  disk: {type: local, path: /dev/shm/grid}
libraries:
  data: {filesystem: disk, requires: 100 MB/s/core}
  work: {filesystem: disk, requires: 5 GB/s/core}
"""
SPEC_UNFIT = """\
name: trial
provider: lab
nodes:
  compute: {count: 2}
filesystems:
  shared: {type: local, path: /usr}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: ssh}
"""
SPEC_TOO_SMALL = """\
name: small
provider: aws
region: us-east-1
nodes:
  compute: {instance: m5n.4xlarge, count: 4}
filesystems:
  fsx: {type: fsx-lustre, path: /fsx, capacity: 4800 GiB, throughput: 125 MB/s/TiB}
libraries:
  data: {filesystem: fsx, requires: 100 MB/s/core, capacity: 6 TiB}
  work: {filesystem: fsx, requires: 100 MB/s/core}
requirements: {cores: 64, budget: 5 USD/h}
"""
SPEC_SLOW = """\
name: slow
filesystems:
  disk: {type: local, path: ./disk}
libraries: {data: {}, work: {}, util: {}}
workload: {requires: {ratio: 0.9}}
"""
MATRIX = "name: two-sorts\nstreams:\n  - [sort, sort]\n  - [summary, summary]\n"
SAS_LOG = """\
1                                The SAS System         09:10 Monday, November 16, 2026

NOTE: PROCEDURE SORT used (Total process time):
      real time           4:00.31
      user cpu time       1:10.20
      system cpu time     20.11 seconds
      memory              1049601.00k
NOTE: PROCEDURE MEANS used (Total process time):
      real time           1:12.08
      user cpu time       1:02.50
      system cpu time     4.02 seconds
      memory              20480.00k
"""


class Place:
    """A directory with its runs, and the commands that are shown."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shown: list[str] = []

    def write(self, name: str, text: str, *, show: bool = False) -> None:
        """Write a file that the commands read; show it as `cat` does where the reader needs it."""
        (self.directory / name).write_text(text)
        if show:
            self.shown.append(f"$ cat {name}\n{text.rstrip()}")

    def run(self, command: str, *, cuts: Sequence[tuple[str, str]] = (), shown: str | None = None) -> str:
        """Run a command as a user would, and show it with what it prints: its progress where that is all.

        A cut leaves out lines, from one that matches its first part up to one that matches its second.
        """
        environment = {**os.environ, **_QUIET, "COLUMNS": str(WIDTH), "LC_ALL": "C.UTF-8"}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        environment["XDG_STATE_HOME"] = str(self.directory / "state")
        if command.endswith("# not allowed"):
            command = command.removesuffix("# not allowed").rstrip()
            environment.pop("GRIDWRIGHT_ALLOW_DISTURBED")
        done = subprocess.run(
            shlex.split(command),
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        print(f"$ {command}\n{done.stderr}{done.stdout}[{done.returncode}]\n", file=sys.stderr, flush=True)
        text = "\n".join([f"$ {shown or command}", *self._lines(done.stdout or done.stderr, cuts)])
        self.shown.append(text if done.returncode == 0 else f"{text}\n$ echo $?\n{done.returncode}")
        return done.stdout

    def quietly(self, command: str) -> None:
        """Run a command that the example does not show; it has to succeed."""
        shown = list(self.shown)
        self.run(command)
        self.shown = shown

    @contextlib.contextmanager
    def meanwhile(self, *commands: tuple[float, str]) -> Iterator[None]:
        """Run commands while others run, each so many seconds after the one before."""
        ended = threading.Event()

        def act() -> None:
            for after, command in commands:
                if ended.wait(after):
                    return
                subprocess.run(
                    [Path(sys.executable).parent / "gridwright", *shlex.split(command)],
                    cwd=self.directory,
                    check=False,
                    timeout=PATIENCE_S * 2,
                )

        thread = threading.Thread(target=act)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _lines(self, printed: str, cuts: Sequence[tuple[str, str]]) -> list[str]:
        """What a reader is shown: no place of this machine, and no more than matters."""
        noise = () if "--allow-disturbed judges" in printed else _NOISE
        printed = printed.replace(f"{self.directory}/", "").replace(str(self.directory), "/home/me/grid")
        lines: list[str] = []
        until: str | None = None
        for line in printed.rstrip().splitlines():
            if until is not None and re.match(until, line):
                until = None
            if until is None:
                until = next((end for start, end in [*cuts, *noise] if re.match(start, line)), None)
                lines.append(line.rstrip() if until is None else CUT)
        return lines


def first(place: Place) -> None:
    """The first day, in an empty directory."""
    place.run("gridwright init")
    place.run("gridwright check")
    place.run("gridwright prove --seconds 2s --scale tiny", cuts=_TABLES_BUT_FIRST)
    place.run("gridwright runs list")


def lab_up(place: Place) -> None:
    """A grid of seven nodes."""
    place.run("gridwright init --provider lab lab.yaml")
    place.run("gridwright up lab.yaml")
    place.run("gridwright lab exec --grid lab.yaml controller -- sinfo")
    place.run("gridwright doctor lab.yaml", cuts=[("info ", r"\d+ checks on")])


def lab_proof(place: Place) -> None:
    """A throughput test on all nodes, and a job."""
    place.run("gridwright iotest lab.yaml --seconds 2s", cuts=[("work by node", "run:")])
    number = place.run("gridwright submit --grid lab.yaml --directory /mnt/grid/work -- hostname").split()[-1]
    place.run(f"gridwright wait --grid lab.yaml {number}")
    place.run(f"gridwright logs --grid lab.yaml {number}")


def lab_broken(place: Place) -> None:
    """A node that is powered off, and comes back."""
    place.run("gridwright lab power-off --grid lab.yaml compute2")
    place.run("gridwright doctor lab.yaml --only node-silent")
    place.run("gridwright lab power-on --grid lab.yaml compute2")


def lab_down(place: Place) -> None:
    """Nothing is left."""
    place.run("gridwright down lab.yaml")


def slow(place: Place) -> None:
    """All storage nodes drop off the network for some seconds."""
    cut = [(8.0 if n == 1 else 0.0, f"lab partition --grid lab.yaml storage{n}") for n in (1, 2, 3)]
    heal = [(8.0 if n == 1 else 0.0, f"lab heal --grid lab.yaml storage{n}") for n in (1, 2, 3)]
    with place.meanwhile(*cut, *heal):
        there = "gridwright iotest --directory /mnt/grid/data --phases write --seconds 25s --engine direct"
        place.run(f"gridwright lab exec --grid lab.yaml compute1 -- {there}")


def memory(place: Place) -> None:
    """A library in memory."""
    with tempfile.TemporaryDirectory(prefix="grid-", dir="/dev/shm") as there:
        command = f"gridwright iotest --directory {there} --size 64MiB --phases write,read"
        place.run(command, shown=command.replace(there, "/dev/shm/grid"))


def disturbed(place: Place) -> None:
    """Other programs keep the cores busy."""
    (place.directory / "here").mkdir()
    others = [subprocess.Popen(["/bin/sh", "-c", _LOOP]) for _ in range(_LOOPS)]
    try:
        command = "gridwright iotest --directory here --requires 1MB/s/core --seconds 4s --phases write"
        place.run(f"{command} # not allowed", shown=command)
    finally:
        for each in others:
            each.kill()
            each.wait()


def lost(place: Place) -> None:
    """A node is powered off in the middle of a test."""
    whole = (place.directory / "lab.yaml").read_text()
    place.write("data.yaml", "\n".join(line for line in whole.splitlines() if line[:6] not in _OTHERS))
    with place.meanwhile((9.0, "lab power-off --grid lab.yaml compute2")):
        place.run("gridwright iotest data.yaml --seconds 15s --phases write")
    place.quietly("gridwright lab power-on --grid lab.yaml compute2")


def wrong(place: Place) -> None:
    """Somebody writes into a file that was kept."""
    (place.directory / "there").mkdir()
    test = "gridwright iotest --directory there --streams 1 --size 32MiB"
    place.run(f"{test} --phases write --keep")
    kept = max((place.directory / "there").glob("**/*"), key=lambda path: path.stat().st_size)
    name = kept.relative_to(place.directory)
    place.run(f"dd if=/dev/urandom of={name} bs=1 count=5 seek=7000000 conv=notrunc status=none")
    place.run(f"{test} --phases read --verify")


def ratio(place: Place) -> None:
    """A disk of 20 MB/s below a workload."""
    place.write("slow.yaml", SPEC_SLOW)
    place.write("two-sorts.yaml", MATRIX)
    (place.directory / "image").mkdir()
    with throttled_disk(place.directory / "image", 4 << 30) as disk:
        (place.directory / "disk").symlink_to(disk.mount_point)
        for library in ("data", "work", "util"):
            (disk.mount_point / library).mkdir()
        command = "gridwright workload slow.yaml --matrix two-sorts.yaml --scale small"
        place.quietly(command)
        disk.limit(20_000_000)
        place.run(command)
        (place.directory / "disk").unlink()


def doctor(place: Place) -> None:
    """A node whose mount is gone."""
    place.run("gridwright lab exec --grid lab.yaml compute3 -- umount -l /mnt/grid")
    place.run("gridwright doctor lab.yaml --nodes compute3", cuts=[("error master", r"\d+ checks on")])
    place.quietly("gridwright lab power-off --grid lab.yaml compute3")
    place.quietly("gridwright lab power-on --grid lab.yaml compute3")


def server(place: Place) -> None:
    """A storage node that is powered off."""
    place.run("gridwright lab power-off --grid lab.yaml storage2")
    place.run("gridwright status lab.yaml")
    place.quietly("gridwright lab power-on --grid lab.yaml storage2")


def spec(place: Place) -> None:
    """A spec that is valid and will hurt."""
    place.write("risky.yaml", SPEC_THAT_HURTS, show=True)
    place.run("gridwright check risky.yaml")


def unfit(place: Place) -> None:
    """A lab that this machine cannot have."""
    place.write("lab.yaml", SPEC_UNFIT, show=True)
    place.run("gridwright up lab.yaml --check", cuts=[("machine:", "nodes:"), ("free memory:", "$")])


def prediction(place: Place) -> None:
    """A file system that is too small for what is required."""
    place.write("small.yaml", SPEC_TOO_SMALL, show=True)
    place.run("gridwright predict small.yaml")


def imported(place: Place) -> None:
    """A log that was cut."""
    place.write("nightly.log", SAS_LOG)
    place.run("gridwright workload import nightly.log")


_ON_LAB: dict[str, Callable[[Place], None]] = {
    "lab-up": lab_up,
    "lab-proof": lab_proof,
    "lab-broken": lab_broken,
    "slow": slow,
    "lost": lost,
    "doctor": doctor,
    "server": server,
    "lab-down": lab_down,
}
"""In this order: the first makes the lab of all others, and the last takes it down."""
_ALONE: dict[str, Callable[[Place], None]] = {
    "first": first,
    "memory": memory,
    "disturbed": disturbed,
    "wrong": wrong,
    "ratio": ratio,
    "spec": spec,
    "unfit": unfit,
    "prediction": prediction,
    "import": imported,
}


def made(wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name and text of each example."""
    for name in [each for each in wanted if each in _ALONE]:
        with tempfile.TemporaryDirectory(prefix="guide-", dir=BUILD) as directory:
            place = Place(Path(directory))
            _ALONE[name](place)
            yield name, "\n\n".join(place.shown)
    on_lab = [each for each in _ON_LAB if each in wanted]
    if not on_lab:
        return
    with tempfile.TemporaryDirectory(prefix="guide-", dir=BUILD) as directory:
        try:
            for name in dict.fromkeys(["lab-up", *on_lab]):
                place = Place(Path(directory))
                _ON_LAB[name](place)
                yield name, "\n\n".join(place.shown)
        finally:
            Place(Path(directory)).run("gridwright down lab.yaml")


def publish(name: str, text: str) -> None:
    """Put an example between its markers in the guide that has them."""
    start, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    for guide in GUIDES:
        before, found, rest = guide.read_text().partition(start)
        if found:
            after = rest.partition(end)[2]
            write_atomically(guide, f"{before}{start}\n```text\n{text}\n```\n{end}{after}")


def main() -> None:
    """Make the examples, and print or publish them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*_ALONE, *_ON_LAB]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--publish", action="store_true", help="put them into the guides")
    args = parser.parse_args()
    BUILD.mkdir(exist_ok=True)
    for name, text in made(args.only):
        print(f"== {name}\n{text}\n", flush=True)
        if args.publish:
            publish(name, text)


if __name__ == "__main__":
    main()
