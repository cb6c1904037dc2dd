"""How long loading the catalogue takes, in an interpreter that has imported it; the aim is 50 ms at most.

python bench/catalogue.py             # 30 rounds
python bench/catalogue.py --publish   # also puts the table into docs/performance.md
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from gridwright.catalog import Catalog, load_catalog
from tables import machine, markdown, publish, spread

IMPORT = "import time; t = time.perf_counter(); import gridwright.catalog; print(time.perf_counter() - t)"


def every_type() -> Catalog:
    """Load it and make every instance type, as the planner does."""
    catalog = load_catalog()
    for instance in catalog.instances.values():
        if not instance.cores:
            raise SystemExit(f"{instance.name} has no cores")
    return catalog


def every_price() -> Catalog:
    """Load it, make every instance type, and look up the prices of one region."""
    catalog = every_type()
    for instance in catalog.instances.values():
        catalog.prices.price(instance, "us-east-1" if instance.provider == "aws" else "us-ashburn-1")
    return catalog


def milliseconds(work: Callable[[], object]) -> float:
    """Time one run."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def import_milliseconds() -> float:
    """Time the import alone, in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True)
    return float(done.stdout) * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    args = parser.parse_args()
    works: dict[str, Callable[[], object]] = {
        "`load_catalog()`": load_catalog,
        "and every instance type made": every_type,
        "and every price of one region": every_price,
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(args.rounds):
        for name, work in works.items():
            times[name].append(milliseconds(work))
    imports = [import_milliseconds() for _ in range(args.rounds // 3 or 1)]
    rows = [[name, spread(runs, 1)] for name, runs in times.items()]
    rows.append(["`import gridwright.catalog`, new interpreter", spread(imports, 1)])
    count = len(load_catalog().instances)
    text = "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {count} instance types; {args.rounds} rounds; "
            "median (minimum to maximum).",
            "",
            markdown(["what", "ms"], rows),
        ]
    )
    print(text)
    if args.publish:
        publish("catalogue", text)


if __name__ == "__main__":
    main()
