"""How long the planner takes over the whole catalogue.

The aim is 2 s at most for a search, and 30 s of CPU for a plan for a deadline with a night of 1,000 jobs,
whether cores and rates are stated or not.

python bench/plan.py             # 10 rounds, 3 of plans for a deadline
python bench/plan.py --publish   # also puts the table into docs/performance.md
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from gridwright.catalog import load_catalog
from gridwright.plan.needs import Needs, read_needs
from gridwright.plan.search import plan_grids, search
from gridwright.spec import load_spec
from night_table import JOBS, write_table  # type: ignore[import-not-found]  # it lies beside this file
from tables import machine, markdown, publish, spread

EXAMPLE = Path(__file__).parent.parent / "examples" / "requirements-64-cores.yaml"
CORES = (64, 500)
NIGHT = EXAMPLE.with_name("requirements-night.yaml")
WITHIN = "8h"
"""What is asked of the night of 1,000 jobs: its longest stream took 6.5 hours."""
NIGHT_ROUNDS = 3


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Time one run: seconds by the clock, and of CPU, children included."""
    started, before = time.perf_counter(), sum(os.times()[:4])
    work()
    return time.perf_counter() - started, sum(os.times()[:4]) - before


def _searched(needs: Needs) -> int:
    return len(search(needs, load_catalog()).candidates)


def works(directory: Path) -> dict[str, Callable[[], object]]:
    """What is timed: the search, the plan with its designs, and the whole command, of each size."""
    found: dict[str, Callable[[], object]] = {}
    for cores in CORES:
        file = directory / f"{cores}.yaml"
        file.write_text(EXAMPLE.read_text("utf-8").replace("cores: 64", f"cores: {cores}"), "utf-8")
        spec = load_spec(file)
        needs, catalog = read_needs(spec), load_catalog()
        if needs.requirements.cores != cores:
            raise SystemExit(f"{EXAMPLE} has no line `cores: 64` any more")
        candidates = len(search(needs, catalog).candidates)
        command = [str(Path(sys.executable).with_name("gridwright")), "plan", str(file), "--json"]
        found |= {
            f"{cores} cores, search: {candidates:,} candidates costed": (partial(_searched, needs)),
            f"{cores} cores, plan: designs predicted, neighbours, front": partial(plan_grids, spec),
            f"{cores} cores, the command `gridwright plan --json`": (
                partial(subprocess.run, command, capture_output=True, check=True)
            ),
        }
    return found


def nights(directory: Path) -> dict[str, Callable[[], object]]:
    """Plans for a deadline as commands: of a matrix and of a table of jobs, with floors and without."""
    write_table(directory / "night.csv")
    example = NIGHT.read_text("utf-8")
    table = example.replace("jobs: mixed-30", "jobs: night.csv").replace("within: 3h", f"within: {WITHIN}")
    if table.count("night.csv") != 1 or WITHIN not in table:
        raise SystemExit(f"{NIGHT} has other jobs than mixed-30, or another time than 3h")
    found: dict[str, Callable[[], object]] = {}
    for what, text in (("mixed-30 within 3 h", example), (f"{JOBS:,} jobs within {WITHIN}", table)):
        free = re.sub(r"requires: [^,]*, ", "", re.sub(r"(?m)^  cores: .*\n", "", text))
        for floors, of in (("8 cores and rates stated", text), ("nothing stated but room", free)):
            file = directory / f"night{len(found)}.yaml"
            file.write_text(of, "utf-8")
            command = [str(Path(sys.executable).with_name("gridwright")), "plan", str(file), "--json"]
            found[f"{what}, {floors}: the command"] = partial(
                subprocess.run, command, capture_output=True, check=True
            )
    return found


def main() -> None:
    """Time them round by round, and print or publish the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="how often; the median counts")
    parser.add_argument("--publish", action="store_true", help="put the table into docs/performance.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        timed, nightly = works(Path(directory)), nights(Path(directory))
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in (*timed, *nightly)}
        for number in range(arguments.rounds):
            for name, work in (timed | nightly if number < NIGHT_ROUNDS else timed).items():
                found[name].append(seconds(work))
    rows = [
        [name, *(spread([each[column] for each in values], 2) for column in (0, 1))]
        for name, values in found.items()
    ]
    text = "\n\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {arguments.rounds} rounds, of plans for a deadline "
            f"{min(NIGHT_ROUNDS, arguments.rounds)}; examples/{EXAMPLE.name}, the same with more cores, and "
            f"examples/{NIGHT.name} with its own jobs and with those of `bench/night_table.py`.",
            markdown(["", "seconds, median (min to max)", "of CPU"], rows),
        ]
    )
    sys.stdout.write(text + "\n")
    if arguments.publish:
        publish("plan", text)


if __name__ == "__main__":
    main()
