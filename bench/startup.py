"""How fast `gridwright --help` and a TAB answer, beside `python -c pass` and `python -c "import typer"`.

python bench/startup.py             # 20 rounds, in alternation
python bench/startup.py --publish   # also puts the table into docs/performance.md
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from tables import machine, markdown, publish, spread

GRIDWRIGHT = str(Path(sys.executable).parent / "gridwright")
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    'python -c "import typer"': [sys.executable, "-c", "import typer"],
    "gridwright --help": [GRIDWRIGHT, "--help"],
    "gridwright pro<TAB>": [GRIDWRIGHT, "completion", "bash", "--", "pro"],
    "gridwright prove --sk<TAB>": [GRIDWRIGHT, "completion", "bash", "--", "prove", "--sk"],
}


def seconds(command: list[str]) -> float:
    """Time one start."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return time.perf_counter() - start


def main() -> None:
    """Measure in alternation and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    args = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for command in COMMANDS.values():
        seconds(command)
    for _ in range(args.rounds):
        for name, command in COMMANDS.items():
            times[name].append(seconds(command))
    bases = [times[name] for name in list(COMMANDS)[:2]]
    rows = [
        [
            name,
            spread([t * 1000 for t in runs]),
            *(f"{median(a / b for a, b in zip(runs, base, strict=True)):.2f}" for base in bases),
        ]
        for name, runs in times.items()
    ]
    text = "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {args.rounds} rounds; median (minimum to maximum).",
            "",
            markdown(["command", "ms", "times `python -c pass`", "times `import typer`"], rows),
        ]
    )
    print(text)
    if args.publish:
        publish("startup", text)


if __name__ == "__main__":
    main()
