"""Does the short, evicted read tell the truth? Beside the papers' way: files larger than memory.

    python bench/honesty.py             # under a memory cgroup of 8 GiB where one can be made
    python bench/honesty.py --publish   # also puts the table into docs/performance.md

The papers avoid the page cache by reading files larger than memory, which takes long on nodes
with much of it. Gridwright evicts its files, measures what stayed, and reads for some seconds. Both
are run in alternation on the same disk, in processes of their own under the same memory limit
(without a limit, the long read uses twice the free memory).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, cast

import psutil

from gridwright.filesystems.mounts import describe_mount
from gridwright.iotest.engine import Phase, PhasePlan, StreamPlan
from gridwright.iotest.options import IotestOptions
from gridwright.iotest.outcome import Role
from gridwright.machine import physical_cores
from gridwright.units import Bytes, format_bytes
from tables import machine, markdown, publish, spread

BLOCK = 64 * 1024
LARGER = 2
"""The papers' way reads this many times the memory."""


@contextmanager
def memory_limit(limit: int) -> Iterator[Path | None]:
    """A memory cgroup (v1 or v2) for children to join; None where none can be made."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    name = f"gridwright-honesty-{os.getpid()}"
    group: Path | None = None
    try:
        if (v1 / "cgroup.procs").exists():
            group, knob = v1 / name, "memory.limit_in_bytes"
        else:
            group, knob = v2 / name, "memory.max"
        group.mkdir()
        (group / knob).write_text(str(int(limit)))
    except OSError:
        if group is not None:
            with contextlib.suppress(OSError):
                group.rmdir()
        group = None
    try:
        yield group
    finally:
        if group is not None:
            time.sleep(0.2)
            with contextlib.suppress(OSError):
                group.rmdir()


def run_phase(op: Role, directory: str, file_bytes: int, seconds: float | None) -> dict[str, Any]:
    """Run one phase of our engine in this process."""
    streams = tuple(
        StreamPlan(op, f"{directory}/{number}", number, file_bytes) for number in range(physical_cores())
    )
    size = None if seconds else file_bytes
    plan = PhasePlan(streams, seed=1, bytes_per_stream=size, seconds=seconds)
    start = time.perf_counter()
    phase = Phase(plan, IotestOptions(block_bytes=BLOCK))
    while not phase.wait(1.0):
        pass
    outcome = phase.result()
    if outcome.failure:
        raise SystemExit(str(outcome.failure))
    return {
        "rate": outcome.bytes / (outcome.seconds_last or 0.0),
        "took": time.perf_counter() - start,
        "seconds": outcome.seconds_last,
    }


def plain_read(directory: str, file_bytes: int) -> dict[str, Any]:
    """The papers' way: one dd per stream reads its whole file, nothing is evicted."""
    blocks = file_bytes // BLOCK
    start = time.perf_counter()
    readers = [
        subprocess.Popen(
            ["dd", f"if={directory}/{n}", "of=/dev/null", f"bs={BLOCK}", f"count={blocks}", "status=none"]
        )
        for n in range(physical_cores())
    ]
    for reader in readers:
        if reader.wait(3600):
            raise SystemExit("dd failed")
    took = time.perf_counter() - start
    return {"rate": file_bytes * len(readers) / took, "took": took, "seconds": took}


def device_read(path: Path) -> int:
    """Bytes read so far from the disk below `path`, by its own counter."""
    device = describe_mount(path).device
    if device is None:
        raise SystemExit(f"{path} lies on no disk of this machine")
    return int(psutil.disk_io_counters(perdisk=True)[device].read_bytes)


def in_group(group: Path | None, *arguments: str) -> dict[str, Any]:
    """Run one of the above in a process of its own, inside the memory limit."""
    command = [sys.executable, __file__, "--child", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if group is not None:
        (group / "cgroup.procs").write_text(str(process.pid))
    out, _ = process.communicate("go\n", timeout=3600)
    if process.returncode:
        raise SystemExit(process.returncode)
    result: dict[str, Any] = json.loads(out)
    return result


def child(arguments: list[str]) -> None:
    """Wait until the parent has put us under the limit, then run what it asks for."""
    sys.stdin.readline()
    way, directory, size, seconds = arguments
    if way == "plain":
        result = plain_read(directory, int(size))
    else:
        result = run_phase(cast("Role", way), directory, int(size), float(seconds) or None)
    print(json.dumps(result))


def compare(args: argparse.Namespace, group: Path | None, memory: int) -> str:
    """Alternate both ways on the same files; the papers' time includes writing files that large."""
    streams = physical_cores()
    large = memory * LARGER // streams // BLOCK * BLOCK
    rows: dict[str, list[dict[str, Any]]] = {"short": [], "papers": []}
    with tempfile.TemporaryDirectory(prefix="gridwright-honesty-", dir=args.disk) as directory:
        wrote = in_group(group, "write", directory, str(large), "0")
        for number in range(args.rounds):
            ways = ["short", "papers"] if number % 2 == 0 else ["papers", "short"]
            for way in ways:
                asked = (
                    ("read", str(large), str(args.seconds)) if way == "short" else ("plain", str(large), "0")
                )
                before = device_read(args.disk)
                result = in_group(group, asked[0], directory, *asked[1:])
                moved = result["rate"] * result["seconds"]
                result["from_disk"] = (device_read(args.disk) - before) / moved
                rows[way].append(result)
                print(f"round {number + 1}/{args.rounds} {way} {rows[way][-1]}", file=sys.stderr)
    ratio = median(a["rate"] / b["rate"] for a, b in zip(rows["short"], rows["papers"], strict=True))
    writing = {"short": args.seconds, "papers": wrote["took"]}
    verdict = {way: median(run["took"] for run in runs) + writing[way] for way, runs in rows.items()}
    names = {"short": "Gridwright: evicted, short", "papers": "papers: twice the memory"}
    table = markdown(
        ["way", "read MB/s", "read from the disk, %", "seconds to a verdict (write + read)"],
        [
            [
                names[way],
                spread([run["rate"] / 1e6 for run in runs]),
                spread([run["from_disk"] * 100 for run in runs]),
                f"{verdict[way]:.0f}",
            ]
            for way, runs in rows.items()
        ],
    )
    limit = f"memory limit {Bytes(memory)}" if group else f"no memory limit, {format_bytes(memory)} free"
    return "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {limit}; {streams} streams, {args.rounds} rounds.",
            "",
            table,
            "",
            f"Ratio of the rates (short / papers), median of the rounds: {ratio:.2f}; of the times to a "
            f"verdict: {verdict['short'] / verdict['papers']:.2f}.",
        ]
    )


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
        return
    build = Path(__file__).parent.parent / "build"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--disk", type=Path, default=build, help="a directory on the disk to measure")
    parser.add_argument("--memory", type=Bytes.parse, default=Bytes.parse("8GiB"), help="the memory limit")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of the short read")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    args = parser.parse_args()
    build.mkdir(exist_ok=True)
    with memory_limit(args.memory) as group:
        memory = int(args.memory) if group else psutil.virtual_memory().available
        text = compare(args, group, memory)
    print(text)
    if args.publish:
        publish("honesty", text)


if __name__ == "__main__":
    main()
