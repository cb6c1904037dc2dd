"""How many jobs this machine carries at once: predicted from one stream and iotest, then measured.

python bench/sweep.py DIRECTORY            # about 15 minutes on a quiet machine of two cores
python bench/sweep.py DIRECTORY --publish  # also puts the table into docs/performance.md

Launches are profiled with one stream, iotest measures the disk, `predict --sweep` says what follows from
both, and last `workload --sweep` measures. The prediction is printed before the sweep begins. With
--allow-disturbed steps are judged whatever else the machine does, and the text says so: what others compute
meanwhile is in no prediction.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tables import machine, markdown, publish
from workload import GRIDWRIGHT, grid  # type: ignore[import-not-found]

LONG_S = 4 * 3600
MATRIX = """\
name: few
streams: [[sort, summary, reg, join, lookup, transpose]]
"""


def document(runs: Path, *command: str) -> dict[str, Any]:
    """The JSON document of a command. Raises SystemExit where it does not end well."""
    done = subprocess.run(
        [GRIDWRIGHT, *command, "--runs", str(runs), "--json"],
        capture_output=True,
        timeout=LONG_S,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"gridwright {' '.join(command)}: {done.stderr.decode(errors='replace')}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def both(directory: Path, scale: str, flags: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The predicted sweep and the measured one."""
    spec, matrix, profiles = str(grid(directory)), directory / "few.yaml", str(directory / "profiles.json")
    matrix.write_text(MATRIX)
    runs = directory / "runs"
    chosen = ["--matrix", str(matrix), "--scale", scale, *flags]
    document(runs, "workload", spec, *chosen, "--streams", "1", "--profile", profiles)
    document(runs, "iotest", spec, "--phases", "write,read", "--seconds", "5s", *flags)
    asked = ["--workload", str(matrix), "--profile", profiles, "--calibrate", "last"]
    predicted = document(runs, "predict", spec, *asked, "--sweep")
    print(f"predicted: {predicted['answer']}", flush=True)
    measured = document(runs, "workload", spec, *chosen, "--sweep")
    print(f"measured: {measured['answer']}", flush=True)
    return predicted, measured


def report(scale: str, predicted: dict[str, Any], measured: dict[str, Any]) -> str:
    """Both curves beside each other, in Markdown."""
    curves = [{point["streams"]: point for point in each["curve"]} for each in (predicted, measured)]
    rows = [
        [
            str(streams),
            *(_cell(curve.get(streams), key) for key in ("ratio", "launches_per_hour") for curve in curves),
        ]
        for streams in sorted({*curves[0], *curves[1]})
    ]
    rows.append(["carries", *(_carried(each) for each in (predicted, measured)), "", ""])
    rows.append(
        ["binds beyond that", *(str(each["binds"] or "n/a") for each in (predicted, measured)), "", ""]
    )
    titles = ["streams", "CPU/real predicted", "measured", "launches/h predicted", "measured"]
    head = (
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; scale {scale}, {len(measured['steps'])} steps measured."
    )
    said = f"Predicted: {predicted['answer']}\nMeasured: {measured['answer']}"
    return "\n".join([head, "", markdown(titles, rows), "", said])


def _carried(sweep: dict[str, Any]) -> str:
    if sweep["carries"] is None:
        return "not proven"
    return f"{'at least ' if sweep['at_least'] else ''}{sweep['carries']}"


def _cell(point: dict[str, Any] | None, key: str) -> str:
    value = point and point[key]
    if value is None:
        return ""
    return f"{value:.2f}" if key == "ratio" else f"{value:,.0f}"


def main() -> None:
    """Predict, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--scale", default="tiny")
    parser.add_argument("--allow-disturbed", action="store_true")
    parser.add_argument("--publish", action="store_true")
    args = parser.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    flags = ["--allow-disturbed"] if args.allow_disturbed else []
    text = report(args.scale, *both(args.directory, args.scale, flags))
    print(text)
    if args.publish:
        publish("sweep", text)


if __name__ == "__main__":
    main()
