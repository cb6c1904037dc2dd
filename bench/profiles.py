"""The mixed workload predicted for a disk of a known rate, beside what it then took. Needs root.

python bench/profiles.py DIRECTORY            # about 25 minutes; needs 20 GB there
python bench/profiles.py DIRECTORY --publish  # also puts the table into docs/performance.md

Each test is profiled with one stream at the disk's full speed. Then the disk is throttled, iotest measures
what it gives, runs of 2, 4 and 8 streams are predicted from that and from the profiles, and last
they are run. The predictions are printed before the runs begin. The machine must have nothing else to
do: what others compute meanwhile is in no profile and no prediction.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gridwright.filesystems.resources import Operation, Resource, Route, Use
from gridwright.model.grid import GridModel, grid_model
from gridwright.model.workload import Replay, WorkloadMatrix, simulate_workload
from gridwright.model.workload_figures import WorkloadPrediction
from gridwright.runs.host import host_facts
from gridwright.runs.profiles import load_profiles
from gridwright.spec import load_spec
from gridwright.workload.matrix import Matrix, load_matrix
from tables import machine, markdown, publish
from throttled import ThrottledDisk, kept_cold, throttled_disk  # type: ignore[import-not-found]
from workload import GRIDWRIGHT, grid, run  # type: ignore[import-not-found]

DISK_BYTES = 18 << 30
LONG_S = 7200


@dataclass(frozen=True, slots=True)
class Pair:
    """One number of streams: what was predicted, what was measured, what passed the device meanwhile."""

    streams: int
    predicted: WorkloadPrediction
    measured: dict[str, Any]
    device_read: int
    device_written: int


def own_matrix(directory: Path, most_streams: int) -> Matrix:
    """The streams of quick, with a copy of the data for each stream.

    Two launches that read one file at a time would have one of them served by the page cache.
    """
    streams = load_matrix("quick").streams
    file = directory / "bench.yaml"
    lines = [f"  - [{', '.join(entry.label for entry in stream)}]" for stream in streams]
    file.write_text("\n".join(["name: bench", f"copies: {most_streams}", "streams:", *lines]) + "\n")
    return load_matrix(str(file))


def make_data(spec: Path, matrix: Path, scale: str, streams: int) -> None:
    """Have the data made for all streams; the launches themselves are ended after a second each."""
    flags = ["--matrix", str(matrix), "--scale", scale, "--streams", str(streams), "--time-limit", "1s"]
    subprocess.run(
        [GRIDWRIGHT, "workload", str(spec), "--runs", str(spec.parent / "runs"), *flags],
        check=False,
        capture_output=True,
        timeout=LONG_S,
    )


def capacities(spec: Path) -> dict[str, float]:
    """What iotest measures of the disk: write and read alone, and both at once, in bytes/s."""
    flags = ["--directory", str(spec.parent / "work"), "--phases", "write,read,mixed", "--seconds", "10s"]
    done = subprocess.run(
        [GRIDWRIGHT, "iotest", *flags, "--runs", str(spec.parent / "runs"), "--json"],
        check=True,
        capture_output=True,
        timeout=LONG_S,
    )
    phases = json.loads(done.stdout)["libraries"][0]["phases"]
    found = {phase["op"]: phase["rate_last_bytes_per_s"] for phase in phases}
    # The mixed phase ends with its slower direction: its rate is that of both while both went on.
    (mixed,) = (phase for phase in phases if phase["op"] == "mixed")
    return found | {"mixed": mixed["read_bytes_per_s"] + mixed["write_bytes_per_s"]}


def measured_grid(spec: Path, measured: dict[str, float]) -> GridModel:
    """A grid of this one machine on a disk of the measured rates: each direction's, and both together."""
    both = Resource("disk", "both directions", "node", measured["mixed"], "iotest, mixed")
    ways: dict[Operation, Route] = {}
    for operation in ("read", "write"):
        alone = Resource(f"disk.{operation}", operation, "node", measured[operation], f"iotest, {operation}")
        ways[operation] = Route((Use(alone), Use(both)))
    host = host_facts()
    model = grid_model(load_spec(spec))
    group = replace(
        model.alike,
        nodes=1,
        cores_per_node=host.physical_cores,
        memory_bytes_per_node=host.memory_bytes,
        routes=dict.fromkeys(("data", "work", "util"), ways),
    )
    return replace(model, groups=(group,), unknown={})


def predictions(
    model: GridModel, matrix: Matrix, profiles: Path, streams: Sequence[int]
) -> dict[int, WorkloadPrediction]:
    """Predict a run of each number of streams."""
    found = {}
    for count in streams:
        plan = tuple(tuple(entry.label for entry in each) for each in matrix.with_streams(count).streams)
        found[count] = simulate_workload(
            model, WorkloadMatrix(matrix.name, plan), load_profiles(profiles), Replay(tolerance=0.0)
        )
        print(f"{count} streams: predicted {found[count].real_s:.0f} s in all", flush=True)
    return found


def measure(disk: ThrottledDisk, spec: Path, flags: Sequence[str], predicted: WorkloadPrediction) -> Pair:
    """Run the workload as predicted."""
    before = disk.passed_bytes()
    document, _ = run(spec, *flags)
    after = disk.passed_bytes()
    streams, real = document["summary"]["streams"], document["summary"]["real_s"]
    print(f"{streams} streams: measured {real:.0f} s in all", flush=True)
    return Pair(streams, predicted, document, after[0] - before[0], after[1] - before[1])


def experiment(disk: ThrottledDisk, args: argparse.Namespace) -> tuple[dict[str, float], list[Pair]]:
    """Profile, throttle, measure the disk, predict, run."""
    spec = grid(disk.mount_point)
    matrix = own_matrix(disk.mount_point, max(args.streams))
    file = str(disk.mount_point / "bench.yaml")
    profiles = args.keep or disk.mount_point / "profiles.json"
    flags = ["--matrix", file, "--scale", args.scale]
    make_data(spec, Path(file), args.scale, max(args.streams))
    with kept_cold(disk.mount_point / "data"):
        run(spec, *flags, "--streams", "1", "--profile", str(profiles))
        disk.limit(args.rate * 1_000_000)
        measured = capacities(spec)
        print({op: f"{rate / 1e6:.1f} MB/s" for op, rate in measured.items()}, flush=True)
        found = predictions(measured_grid(spec, measured), matrix, profiles, args.streams)
        pairs = [
            measure(disk, spec, [*flags, "--streams", str(count)], found[count]) for count in args.streams
        ]
    return measured, pairs


def report(args: argparse.Namespace, measured: dict[str, float], pairs: Sequence[Pair]) -> str:
    """The tables in Markdown."""
    rates = ", ".join(f"{op} {rate / 1e6:.1f} MB/s" for op, rate in measured.items())
    head = (
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; scale {args.scale}, disk throttled to {args.rate} MB/s "
        f"each way, iotest: {rates}; one run each."
    )
    names = ["streams", "launches", "total real s", "", "error", "elapsed s", "", "error"]
    names += ["CPU/real mean", "", "of sums", "", "total CPU s", ""]
    rows = [["", "", *["predicted", "measured", ""] * 2, *["predicted", "measured"] * 3]]
    rows += [_row(pair) for pair in pairs]
    shares = [
        [
            str(pair.streams),
            _shares(pair.predicted.shares),
            _shares(pair.measured["summary"]["shares"]),
            f"{sum(_declared(pair, 'written')) / 1e9:.1f}, {pair.device_written / 1e9:.1f}",
            f"{sum(_declared(pair, 'read')) / 1e9:.1f}, {pair.device_read / 1e9:.1f}",
        ]
        for pair in pairs
    ]
    causes = ["streams", "real time by cause, predicted", "measured", "GB written: tests, disk", "GB read"]
    return "\n".join([head, "", markdown(names, rows), "", markdown(causes, shares)])


def _row(pair: Pair) -> list[str]:
    predicted, total = pair.predicted, pair.measured["summary"]
    return [
        str(pair.streams),
        str(total["launches"]),
        f"{predicted.real_s:.0f}",
        f"{total['real_s']:.0f}",
        f"{predicted.real_s / total['real_s'] - 1:+.1%}",
        f"{predicted.elapsed_s:.0f}",
        f"{total['wall_s']:.0f}",
        f"{predicted.elapsed_s / total['wall_s'] - 1:+.1%}",
        f"{predicted.ratio_mean:.2f}",
        f"{total['ratio_mean']:.2f}",
        f"{predicted.ratio_of_sums:.2f}",
        f"{total['ratio_of_sums']:.2f}",
        f"{predicted.cpu_s:.0f}",
        f"{total['user_s'] + total['system_s']:.0f}",
    ]


def _shares(shares: Any) -> str:  # noqa: ANN401 - a mapping of either kind
    largest = sorted(shares.items(), key=lambda item: -item[1])[:5]
    return ", ".join(f"{cause} {share:.0%}" for cause, share in largest)


def _declared(pair: Pair, way: str) -> list[int]:
    return [
        moved[f"{way}_bytes"]
        for launch in pair.measured["launches"]
        for moved in launch["libraries"].values()
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, help="on the disk to use; needs 20 GB")
    parser.add_argument("--rate", type=int, default=30, help="MB/s to throttle the disk to, each way")
    parser.add_argument("--scale", default="small")
    parser.add_argument("--streams", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--keep", type=Path, help="where to keep the profiles")
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=args.directory, prefix="gridwright-bench-") as made,
        throttled_disk(Path(made), DISK_BYTES) as disk,
    ):
        text = report(args, *experiment(disk, args))
    print(text)
    if args.publish:
        publish("profiles", text)


if __name__ == "__main__":
    main()
