"""What the block of a launch's reads and writes changes: CPU and real time of I/O tests by block size.

python bench/blocks.py DIRECTORY            # in a directory of the disk to be measured
python bench/blocks.py DIRECTORY --publish  # also puts the table into docs/performance.md

Block sizes take turns, round after round, so that what else the machine does meets all of them. Other
programs are measured as disturbance, and the table says how many launches they disturbed.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tables import machine, markdown, publish, spread
from workload import grid, run  # type: ignore[import-not-found]

TESTS = ("append", "merge", "convert", "sort")
BLOCKS = ("64KiB", "1MiB", "4MiB")


def measure(directory: Path, scale: str, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """The launches of all rounds, by block size."""
    spec = grid(directory)
    matrix = directory / "blocks.yaml"
    matrix.write_text(json.dumps({"name": "blocks", "streams": [list(TESTS)]}))
    found: dict[str, list[dict[str, Any]]] = {block: [] for block in BLOCKS}
    for _ in range(rounds):
        for block in BLOCKS:
            document, _cpu = run(spec, "--matrix", str(matrix), "--scale", scale, "--block", block)
            found[block] += document["launches"]
    return found


def rows(launches: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    """A row for each test and block size, with what the table of one size moved at once."""
    found = []
    for test in TESTS:
        for block in BLOCKS:
            of_test = [each for each in launches[block] if each["test"] == test]
            moved = [each["libraries"][name] for each in of_test for name in ("data", "work")]
            size = sum(each["read_bytes"] + each["written_bytes"] for each in moved)
            calls = sum(each["read_calls"] + each["write_calls"] for each in moved)
            found.append(
                [
                    test,
                    block.replace("KiB", " KiB").replace("MiB", " MiB"),
                    f"{size / calls / 1024:,.0f}",
                    spread([each["user_s"] for each in of_test], 2),
                    spread([each["system_s"] for each in of_test], 2),
                    spread([each["real_s"] for each in of_test], 1),
                ]
            )
    return found


def main() -> None:
    """Measure, print, and publish if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--scale", default="small")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--publish", action="store_true")
    asked = parser.parse_args()
    launches = measure(asked.directory, asked.scale, asked.rounds)
    every = [each for group in launches.values() for each in group]
    disturbed = sum(each["disturbed"] for each in every)
    head = ("test", "block", "KiB a call", "user s", "system s", "real s")
    text = (
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; scale {asked.scale}, one stream, {asked.rounds} rounds; "
        f"median (minimum to maximum); other programs disturbed {disturbed} of {len(every)} launches.\n\n"
        + markdown(head, rows(launches))
    )
    print(text)
    if asked.publish:
        publish("workload-blocks", text)


if __name__ == "__main__":
    main()
