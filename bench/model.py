"""What the model's simulation costs, beside SimGrid, and how it grows.

python bench/model.py simgrid            # the same scenario in both, in alternation
python bench/model.py growth             # 10, 100 and 1000 nodes: seconds, memory, per n log n
python bench/model.py growth --publish   # also puts the table into docs/performance.md

SimGrid is Debian's python3-simgrid, driven by the program the tests use (tests/support/simgrid_oracle.py);
only its Engine.run() is timed. The model's time is that of the whole call from Python.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from math import log
from pathlib import Path
from statistics import median
from typing import Any

from gridwright.model.simulate import TOLERANCE, SimulationOutcome, simulate
from model_scenarios import LAUNCHES, STREAMS, document, grid
from tables import machine, markdown, publish, spread

ORACLE = Path(__file__).parent.parent / "tests" / "support" / "simgrid_oracle.py"
REPEATED = 3
"""How often the model runs for each run of SimGrid: it takes milliseconds, and a process that just ended
leaves cold caches behind."""


def ask_simgrid(asked: dict[str, Any]) -> dict[str, Any]:
    """Run a scenario in SimGrid."""
    done = subprocess.run(
        ["/usr/bin/python3", "-W", "ignore", str(ORACLE)],
        input=json.dumps(asked) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    if "failed" in answer:
        raise SystemExit(f"SimGrid failed: {done.stderr[-2000:]}")
    return answer


def largest_difference(outcome: SimulationOutcome, ends: Sequence[Sequence[float]]) -> float:
    """Largest part by which a launch's end differs; `ends` has the phases' ends by stream."""
    ours = iter(outcome.launches)
    worst = 0.0
    for phases in ends:
        per_launch = len(phases) // LAUNCHES
        for end_s in phases[per_launch - 1 :: per_launch]:
            worst = max(worst, abs(next(ours).end_s - end_s) / end_s)
    return worst


def beside_simgrid(sizes: Sequence[int], rounds: int) -> str:
    """Both simulate the same grids, in turns."""
    rows = []
    for nodes in sizes:
        scenario = grid(nodes)
        asked = document(scenario)
        times: dict[str, list[float]] = {"simgrid": [], "exact": [], "default": []}
        worst = {"exact": 0.0, "default": 0.0}
        for _ in range(rounds):
            answer = ask_simgrid(asked)
            times["simgrid"].append(answer["seconds"])
            for name, tolerance in (("exact", 0.0), ("default", TOLERANCE)):
                for _ in range(REPEATED):
                    start = time.perf_counter()
                    outcome = simulate(scenario, tolerance=tolerance)
                    times[name].append(time.perf_counter() - start)
                worst[name] = max(worst[name], largest_difference(outcome, answer["ends"]))
        theirs = median(times["simgrid"])
        rows += [
            [
                f"{nodes} nodes, {len(outcome.launches)} launches, tolerance {tolerance:g}",
                spread(times["simgrid"], 2),
                spread(times[name], 3),
                f"{theirs / median(times[name]):,.0f}",
                f"{worst[name]:.4%}",
            ]
            for name, tolerance in (("exact", 0.0), ("default", TOLERANCE))
        ]
    package = ["dpkg-query", "-W", "-f=${Version}", "python3-simgrid"]
    version = subprocess.run(package, capture_output=True, text=True, check=True, timeout=30).stdout
    head = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; SimGrid {version}; {rounds} rounds in alternation; "
    table = ["scenario", "SimGrid s", "Gridwright s", "times faster", "largest difference of a launch's end"]
    return "\n".join([f"{head}median (minimum to maximum).", "", markdown(table, rows)])


def one(nodes: int) -> dict[str, float]:
    """Simulate a grid once in this process."""
    scenario = grid(nodes)
    start = time.perf_counter()
    outcome = simulate(scenario, watch=(0, 1))
    return {
        "seconds": time.perf_counter() - start,
        "launches": len(outcome.launches),
        "events": outcome.events,
        "solutions": outcome.solutions,
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def child(nodes: int) -> dict[str, float]:
    """The same in a process of its own, for its memory."""
    command = [sys.executable, __file__, "one", "--nodes", str(nodes)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def growth(sizes: Sequence[int], rounds: int) -> str:
    """Time and memory at growing sizes; the sizes take turns."""
    measured: dict[int, list[dict[str, float]]] = {nodes: [] for nodes in sizes}
    for _ in range(rounds):
        for nodes in sizes:
            measured[nodes].append(child(nodes))
    rows = []
    first = 0.0
    for nodes, runs in measured.items():
        seconds = [run["seconds"] for run in runs]
        launches = runs[0]["launches"]
        share = median(seconds) / (launches * log(launches))
        first = first or share
        rows.append(
            [
                f"{nodes} nodes of {STREAMS} streams",
                f"{launches:,.0f}",
                f"{runs[0]['events']:,.0f}",
                f"{runs[0]['solutions']:,.0f}",
                spread(seconds, 2),
                f"{share / first:.2f}",
                f"{max(run['memory_bytes'] for run in runs) / 1e6:,.0f}",
            ]
        )
    head = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; tolerance {TOLERANCE:g}; {rounds} rounds; "
    table = [
        "scenario",
        "launches n",
        "activities",
        "common solutions",
        "s",
        "s per n log n, of the first",
        "peak memory MB",
    ]
    return "\n".join([f"{head}median (minimum to maximum).", "", markdown(table, rows)])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["simgrid", "growth", "one"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nodes", type=int, nargs="+", help="numbers of nodes")
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    args = parser.parse_args()
    if args.what == "one":
        print(json.dumps(one(args.nodes[0])))
        return
    if args.what == "simgrid":
        text = beside_simgrid(args.nodes or [2, 10, 30], args.rounds)
    else:
        text = growth(args.nodes or [10, 100, 1000], args.rounds)
    print(text)
    if args.publish:
        publish(f"model-{args.what}", text)


if __name__ == "__main__":
    main()
