"""How long the planner takes over the whole catalogue; the aim is 2 s at most.

python bench/plan.py             # 10 rounds
python bench/plan.py --publish   # also puts the table into docs/performance.md
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gridwright.catalog import load_catalog
from gridwright.plan.needs import read_needs
from gridwright.plan.search import plan, search
from gridwright.spec import load_spec
from tables import machine, markdown, publish, spread

EXAMPLE = Path(__file__).parent.parent / "examples" / "requirements-64-cores.yaml"


def seconds(work: Callable[[], object]) -> float:
    """Time one run."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """Time the search, the plan with its designs, and the whole command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="how often; the median counts")
    parser.add_argument("--publish", action="store_true", help="put the table into docs/performance.md")
    arguments = parser.parse_args()
    spec = load_spec(EXAMPLE)
    candidates = len(search(read_needs(spec), load_catalog()).candidates)
    command = [str(Path(sys.executable).with_name("gridwright")), "plan", str(EXAMPLE), "--json"]
    works: dict[str, Callable[[], object]] = {
        f"search: {candidates:,} candidates costed": lambda: search(read_needs(spec), load_catalog()),
        "plan: designs predicted, neighbours, front": lambda: plan(spec),
        "the command `gridwright plan --json`": lambda: subprocess.run(
            command, capture_output=True, check=True
        ),
    }
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(arguments.rounds):
        for name, work in works.items():
            found[name].append(seconds(work))
    rows = [[name, spread(values, 2)] for name, values in found.items()]
    text = "\n\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {arguments.rounds} rounds, examples/{EXAMPLE.name}.",
            markdown(["", "seconds, median (min to max)"], rows),
        ]
    )
    sys.stdout.write(text + "\n")
    if arguments.publish:
        publish("plan", text)


if __name__ == "__main__":
    main()
