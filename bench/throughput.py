"""Gridwright's engines beside fio and dd: same directory, same files, in alternation.

    python bench/io.py                  # the disk under ./build, and /dev/shm where overhead counts
    python bench/io.py --publish        # also puts the table into docs/performance.md

Every round runs every tool once, in a random order. Files are removed, the disk is synced and memory is
touched between runs; files to be read are evicted by posix_fadvise first.
A rate is all bytes over the time until the last stream's closing fsync; the making of data is inside
Gridwright's time here, as it is inside fio's. CPU seconds are the kernel's account of the whole
process (getrusage, workers of io_uring included), less what fio takes to start and do a single block.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import cast

import psutil

from gridwright.iotest.engine import Phase, PhasePlan, StreamPlan
from gridwright.iotest.options import IotestOptions
from gridwright.iotest.outcome import Role
from gridwright.machine import physical_cores
from gridwright.units import Bytes
from tables import machine, markdown, publish, spread, version

TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Load:
    """What every tool does: `streams` files of `file_bytes` each in `directory`."""

    directory: Path
    streams: int
    file_bytes: int
    block_bytes: int
    depth: int

    @property
    def total(self) -> int:
        return self.streams * self.file_bytes


@dataclass(frozen=True, slots=True)
class Figure:
    """One run of one tool: bytes/s, and CPU seconds per 10^9 bytes."""

    rate: float
    cpu_per_gb: float


def cpu_seconds(who: int) -> float:
    """User and system time so far of this process or of its children."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def gridwright(load: Load, op: str, *, direct: bool) -> Figure:
    """Run our engine in this process."""
    options = IotestOptions(
        engine="direct" if direct else "buffered",
        queue_depth=load.depth if direct else None,
        block_bytes=load.block_bytes,
    )
    streams = tuple(
        StreamPlan(cast("Role", op), str(load.directory / f"gridwright-{number}"), number, load.file_bytes)
        for number in range(load.streams)
    )
    before = cpu_seconds(resource.RUSAGE_SELF)
    phase = Phase(PhasePlan(streams, seed=1, bytes_per_stream=load.file_bytes, seconds=None), options)
    while not phase.wait(1.0):
        pass
    outcome = phase.result()
    if outcome.failure:
        raise SystemExit(f"gridwright: {outcome.failure}")
    cpu = cpu_seconds(resource.RUSAGE_SELF) - before
    return Figure(load.total / (outcome.wall_s or 0.0), cpu / (load.total / 1e9))


def fio(load: Load, op: str, *, direct: bool) -> Figure:
    """Run fio with psync, or with io_uring on O_DIRECT; its file layout is written by its own write run."""
    command = [
        "fio",
        "--name=fio",
        f"--directory={load.directory}",
        f"--rw={op}",
        f"--bs={int(load.block_bytes)}",
        f"--size={int(load.file_bytes)}",
        f"--numjobs={load.streams}",
        f"--ioengine={'io_uring' if direct else 'psync'}",
        f"--direct={int(direct)}",
        f"--iodepth={load.depth if direct else 1}",
        "--end_fsync=1",
        # As Gridwright does it: direct writes go to space allocated before, others do not.
        f"--fallocate={'native' if direct else 'none'}",
        "--group_reporting",
        "--output-format=json",
    ]
    before = cpu_seconds(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    cpu = cpu_seconds(resource.RUSAGE_CHILDREN) - before
    runtime_ms = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0][op]["runtime"]
    if load.file_bytes > load.block_bytes:
        idle = replace(load, file_bytes=load.block_bytes, directory=load.directory / "idle")
        idle.directory.mkdir(exist_ok=True)
        cpu -= fio(idle, op, direct=direct).cpu_per_gb * idle.total / 1e9
        shutil.rmtree(idle.directory)
    return Figure(load.total / max(runtime_ms / 1000, 1e-3), cpu / (load.total / 1e9))


def dd(load: Load, op: str, *, direct: bool) -> Figure:
    """Run the loop of iotest.sh: one dd per stream at once; zeros in, as that script does it."""
    if direct:
        raise ValueError("iotest.sh knows no direct I/O")
    blocks = load.file_bytes // load.block_bytes
    files = [load.directory / f"dd-{number}" for number in range(load.streams)]
    common = [f"bs={int(load.block_bytes)}", f"count={blocks}", "status=none"]
    commands = [
        ["dd", "if=/dev/zero", f"of={file}", "conv=fsync", *common]
        if op == "write"
        else ["dd", f"if={file}", "of=/dev/null", *common]
        for file in files
    ]
    before = cpu_seconds(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    processes = [subprocess.Popen(command) for command in commands]
    for process in processes:
        if process.wait(TIMEOUT_S):
            raise SystemExit("dd failed")
    seconds = time.perf_counter() - start
    cpu = cpu_seconds(resource.RUSAGE_CHILDREN) - before
    return Figure(load.total / seconds, cpu / (load.total / 1e9))


Tool = Callable[..., Figure]
TOOLS: dict[str, tuple[Tool, bool]] = {
    "Gridwright buffered": (gridwright, False),
    "fio psync": (fio, False),
    "dd (iotest.sh)": (dd, False),
    "Gridwright direct": (gridwright, True),
    "fio io_uring": (fio, True),
}
PEERS = {
    "Gridwright buffered": ("fio psync", "dd (iotest.sh)"),
    "Gridwright direct": ("fio io_uring",),
}


def evict(directory: Path) -> None:
    """Flush and drop the pages of all files, so that no tool reads from memory."""
    for file in directory.iterdir():
        fd = os.open(file, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def touch_memory(size: int) -> None:
    """Touch and free memory for a page cache of `size` bytes.

    A virtual machine may have given free pages back to its host; the tool that happens to come next
    would pay for getting them again.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, min(size * 5 // 4, psutil.virtual_memory().available // 2), flags=flags).close()


@contextmanager
def fresh(parent: Path) -> Iterator[Path]:
    """A directory that is gone afterwards, with the disk at rest before and after."""
    with tempfile.TemporaryDirectory(prefix="gridwright-bench-", dir=parent) as name:
        os.sync()
        yield Path(name)
    os.sync()


def measure(parent: Path, args: argparse.Namespace) -> dict[tuple[str, str], list[Figure]]:
    """Run all tools `args.rounds` times; figures by tool and operation."""
    figures: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    shuffle = random.Random(1)  # noqa: S311 - an order of tools, not a secret
    for number in range(args.rounds):
        for name in shuffle.sample(list(TOOLS), len(TOOLS)):
            tool, direct = TOOLS[name]
            with fresh(parent) as directory:
                load = Load(directory, args.streams, args.size, args.block, args.depth)
                for op in ("write", "read"):
                    evict(directory)
                    touch_memory(load.total)
                    figures[name, op].append(tool(load, op, direct=direct))
            print(f"{parent} round {number + 1}/{args.rounds} {name}", file=sys.stderr)
    return figures


def table(figures: dict[tuple[str, str], list[Figure]]) -> str:
    """Medians with the spread; the ratio to each peer is the median of the rounds' ratios."""
    rows = []
    for name in TOOLS:
        for op in ("write", "read"):
            runs = figures[name, op]
            rows.append(
                [
                    name,
                    op,
                    spread([run.rate / 1e6 for run in runs]),
                    spread([run.cpu_per_gb for run in runs], 3),
                    "; ".join(ratio(runs, figures[peer, op], peer) for peer in PEERS.get(name, ())),
                ]
            )
    text: str = markdown(["tool", "op", "MB/s", "CPU s per GB", "ratio to peer: MB/s, CPU"], rows)
    return text


def ratio(ours: Sequence[Figure], theirs: Sequence[Figure], peer: str) -> str:
    """Medians of the paired ratios."""
    rate = median(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))
    cpu = median(a.cpu_per_gb / b.cpu_per_gb for a, b in zip(ours, theirs, strict=True))
    return f"{peer} {rate:.2f}, {cpu:.2f}"


def main() -> None:
    """Measure and print."""
    build = Path(__file__).parent.parent / "build"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--disk", type=Path, default=build, help="a directory on the disk to measure")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="a directory on a tmpfs")
    parser.add_argument("--streams", type=int, default=physical_cores())
    parser.add_argument("--size", type=Bytes.parse, default=Bytes.parse("2GiB"), help="bytes per stream")
    parser.add_argument("--block", type=Bytes.parse, default=Bytes.parse("64KiB"))
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    args = parser.parse_args()
    if shutil.which("fio") is None:
        raise SystemExit("fio is not installed: apt-get install fio")
    build.mkdir(exist_ok=True)
    parts = [
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {version('fio', '--version')}, "
        f"{version('dd', '--version')}; {args.streams} streams of {args.size}, blocks of {args.block}, "
        f"{args.depth} requests in flight for direct I/O, {args.rounds} rounds; median (minimum to maximum).",
    ]
    for title, parent in (("Disk", args.disk), ("Memory (tmpfs): only overhead counts", args.memory)):
        parts += ["", f"{title}:", "", table(measure(parent, args))]
    text = "\n".join(parts)
    print(text)
    if args.publish:
        publish("io", text)


if __name__ == "__main__":
    main()
