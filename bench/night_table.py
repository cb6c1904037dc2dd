"""A site's table of 1,000 jobs of one night, of a fixed seed, as `requirements: {jobs: night.csv}` reads it.

It is made, not recorded: two thirds of the jobs are steps of flows (a load, then what reads it, one after the
other), the others run whenever somebody scheduled them, in as many streams as they overlap. No two jobs are
alike, which is the worst that a planner meets.

python bench/night_table.py night.csv
"""

from __future__ import annotations

import csv
import heapq
import sys
from dataclasses import dataclass
from math import log
from pathlib import Path
from random import Random

JOBS = 1000
SEED = 15
FLOWS = 24
IN_FLOWS = 2 / 3
EVENING = 1_795_550_400
"""The night begins at 20:00 UTC of 2026-11-24."""
HOUR_S = 3600.0
MEDIAN_S, SPREAD = 240.0, 1.1
"""Of real time: half of the jobs take less than four minutes, one in forty more than half an hour."""
SHORTEST_S, LONGEST_S = 5.0, 7200.0
THREADS, OF_100 = (1, 2, 4, 8), (70, 15, 10, 5)
"""Threads of a job, and how many of a hundred jobs have so many."""
COMPUTING = 0.15
"""The part of the jobs that hardly read or write."""
RATE = (20e6, 150e6)
"""Bytes per second that a job moves while it does not compute."""
WRITTEN = (0.1, 0.6)
"""The part of these that it writes."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A job; times in seconds, sizes in bytes."""

    name: str
    stream: int
    started: float
    real_s: float
    cpu_s: float
    cores: int
    read_bytes: int
    written_bytes: int


def night(jobs: int = JOBS, seed: int = SEED) -> list[TableRow]:
    """The jobs of the night, in the order of their start."""
    random = Random(seed)  # noqa: S311 - no secret
    flows = max(1, min(FLOWS, jobs // 4))
    steps = round(jobs * IN_FLOWS)
    long = [random.uniform(0.3, 1.7) for _ in range(flows)]
    found = []
    for flow in range(flows):
        now = EVENING + random.uniform(0.0, 3.0) * HOUR_S
        first, last = (round(steps * sum(long[:n]) / sum(long)) for n in (flow, flow + 1))
        for step in range(last - first):
            found.append(_row(f"flow{flow + 1:02}_{step + 1:02}", flow + 1, now, random))
            now += found[-1].real_s
    free: list[tuple[float, int]] = []
    streams = flows
    for now in sorted(EVENING + random.uniform(0.0, 8.0) * HOUR_S for _ in range(jobs - len(found))):
        if free and free[0][0] <= now:
            stream = heapq.heappop(free)[1]
        else:
            streams += 1
            stream = streams
        found.append(_row(f"job{len(found) + 1:04}", stream, now, random))
        heapq.heappush(free, (now + found[-1].real_s, stream))
    return sorted(found, key=lambda each: each.started)


def _row(name: str, stream: int, started: float, random: Random) -> TableRow:
    real = min(max(random.lognormvariate(log(MEDIAN_S), SPREAD), SHORTEST_S), LONGEST_S)
    (threads,) = random.choices(THREADS, OF_100)
    computes = random.uniform(0.9, 0.98) if random.random() < COMPUTING else random.uniform(0.25, 0.85)
    moved = real * (1.0 - computes) * random.uniform(*RATE)
    written = moved * random.uniform(*WRITTEN)
    # With several threads a job computes as many seconds in each second, while it computes at all.
    cpu = real * computes * (1 + (threads - 1) * random.uniform(0.4, 0.9))
    return TableRow(
        name, stream, round(started, 1), round(real, 2), round(cpu, 2), threads,
        round(moved - written), round(written),
    )  # fmt: skip


def write_table(path: Path, jobs: int = JOBS, seed: int = SEED) -> None:
    """Write the night as a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        columns = TableRow.__slots__
        writer.writerow(columns)
        writer.writerows([getattr(row, name) for name in columns] for row in night(jobs, seed))


if __name__ == "__main__":
    write_table(Path(sys.argv[1]))
