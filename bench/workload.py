"""What the workload's harness costs per launch, and the CPU/real ratio of this machine by streams.

python bench/workload.py harness DIRECTORY            # launches of /bin/true, beside a plain loop
python bench/workload.py ratios DIRECTORY             # the quick matrix at 1, 2, 4 and 8 streams
python bench/workload.py jobs GRID.YAML               # launches of /bin/true as jobs of a grid's scheduler
python bench/workload.py harness DIRECTORY --publish  # also puts the table into docs/performance.md
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from tables import machine, markdown, publish, spread

GRIDWRIGHT = str(Path(sys.executable).parent / "gridwright")
SPEC = """\
name: bench
filesystems:
  disk: {{type: local, path: {path}}}
libraries:
  data: {{filesystem: disk}}
  work: {{filesystem: disk}}
  util: {{filesystem: disk}}
"""


def grid(directory: Path) -> Path:
    """Write a grid spec for a directory, with its three libraries."""
    for name in ("data", "work", "util"):
        (directory / name).mkdir(exist_ok=True)
    file = directory / "grid.yaml"
    file.write_text(SPEC.format(path=directory.absolute()))
    return file


def run(spec: Path, *flags: str) -> tuple[dict[str, Any], float]:
    """Run the workload; returns its document and the CPU seconds of all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [GRIDWRIGHT, "workload", str(spec), "--runs", str(spec.parent / "runs"), "--json", *flags]
    done = subprocess.run(command, check=True, capture_output=True, timeout=3600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout), cpu


def plain_loop(count: int) -> list[float]:
    """Start /bin/true one after another; returns the seconds of each."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        times.append(time.perf_counter() - start)
    return times


def harness(spec: Path, rounds: int) -> str:
    """Time from launch to launch, its parts, and the harness's CPU time, of launches that do nothing."""
    count = 300
    matrix = spec.parent / "null.yaml"
    matrix.write_text(f"name: 'null'\nstreams:\n  - [{', '.join(['{command: [/bin/true]}'] * count)}]\n")
    period, inside, between, cpu, plain = [], [], [], [], []
    empty = spec.parent / "one.yaml"
    empty.write_text("name: one\nstreams:\n  - [{command: [/bin/true]}]\n")
    for _ in range(rounds):
        document, used = run(spec, "--matrix", str(matrix))
        _, base = run(spec, "--matrix", str(empty))
        real = sum(launch["real_s"] for launch in document["launches"])
        wall = document["summary"]["wall_s"]
        period.append(wall / count * 1000)
        inside.append(real / count * 1000)
        between.append((wall - real) / count * 1000)
        cpu.append((used - base) / (count - 1) * 1000)
        plain.append(median(plain_loop(count)) * 1000)
    rows = [
        ["from one launch to the next", spread(period, 1)],
        ["– of which the launch's own real time", spread(inside, 1)],  # noqa: RUF001 - a dash in a table
        ["– of which the harness between launches", spread(between, 1)],  # noqa: RUF001
        ["CPU time of harness and launch", spread(cpu, 1)],
        ["the same program started by posix_spawn", spread(plain, 1)],
    ]
    head = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {count} launches, {rounds} rounds; median "
    return "\n".join([f"{head}(minimum to maximum).", "", markdown(["per launch of /bin/true", "ms"], rows)])


def jobs(spec: Path, rounds: int) -> str:
    """What a launch costs that is a job of a scheduler: one stream of launches that do nothing."""
    count = 20
    between, queued, seen = [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        matrix = Path(scratch) / "null.yaml"
        matrix.write_text(f"name: 'null'\nstreams:\n  - [{', '.join(['{command: [/bin/true]}'] * count)}]\n")
        for _ in range(rounds):
            document, _ = run(spec, "--matrix", str(matrix), "--runs", scratch)
            total = document["summary"]
            between.append(total["harness_s_mean"] * 1000)
            queued.append(total["queued_s_mean"] * 1000)
            seen.append((total["harness_s_mean"] - total["queued_s_mean"]) * 1000)
    rows = [
        ["from the end of a launch to the start of the next", spread(between, 0)],
        ["– of which from handing the job in to its launch", spread(queued, 0)],  # noqa: RUF001
        ["– of which from the end until the next is submitted", spread(seen, 0)],  # noqa: RUF001
    ]
    head = (
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; one stream of {count} launches, {rounds} rounds; median "
    )
    return "\n".join([f"{head}(minimum to maximum).", "", markdown(["per launch of /bin/true", "ms"], rows)])


def ratios(spec: Path, scale: str, streams: Sequence[int]) -> str:
    """The figures of the published tables for each number of streams."""
    rows = []
    run(spec, "--scale", scale, "--matrix", "quick")
    for count in streams:
        document, _ = run(spec, "--scale", scale, "--matrix", "quick", "--streams", str(count))
        total = document["summary"]
        rows.append(
            [
                str(count),
                str(total["launches"]),
                f"{total['real_s'] / 60:.1f}",
                f"{total['user_s'] / 60:.1f}",
                f"{total['system_s'] / 60:.1f}",
                f"{total['ratio_mean']:.2f}",
                f"{total['ratio_stdev']:.2f}",
                f"{total['ratio_min']:.2f} to {total['ratio_max']:.2f}",
                f"{total['ratio_of_sums']:.2f}",
                f"{total['wall_s']:.0f}",
                ", ".join(f"{cause} {share:.0%}" for cause, share in _largest(total["shares"])),
            ]
        )
    head = [
        "streams",
        "launches",
        "real min",
        "user min",
        "system min",
        "CPU/real mean",
        "stdev",
        "range",
        "of sums",
        "wall s",
        "real time by cause",
    ]
    first = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; matrix quick, scale {scale}, one run each."
    return "\n".join([first, "", markdown(head, rows)])


def _largest(shares: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda item: -item[1])[:3]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["harness", "ratios", "jobs"])
    parser.add_argument(
        "directory", type=Path, help="on the disk to use, with 1.5 GB free; for jobs, the grid spec"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", default="small")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    args = parser.parse_args()
    if args.what == "jobs":
        print(jobs(args.directory, args.rounds))
        return
    with tempfile.TemporaryDirectory(dir=args.directory, prefix="gridwright-bench-") as made:
        spec = grid(Path(made))
        if args.what == "harness":
            text = harness(spec, args.rounds)
        else:
            text = ratios(spec, args.scale, args.streams)
    print(text)
    if args.publish:
        publish(f"workload-{args.what}", text)


if __name__ == "__main__":
    main()
