"""`gridwright predict --day | --without | --sensitivity | --sweep`: what if load, parts or inputs change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gridwright.cli.output import LazyResult, Output, plain
from gridwright.cli.output_file import write_output
from gridwright.errors import ExitStatus
from gridwright.model.day import load_day
from gridwright.model.day import predict_day as walk_day
from gridwright.model.degraded import EACH, degraded_grid, find_failure_domains, single_failures
from gridwright.model.grid import GridModel
from gridwright.model.sensitivity import sensitivity
from gridwright.model.workload import Replay, SimulatedSteps, WorkloadMatrix
from gridwright.runs.profiles import Profiles
from gridwright.runs.stream_sweep import StreamSweep, SweepOf
from gridwright.workload.matrix import MAX_STREAMS, sweep_rule
from gridwright.workload.options import needs_of


def predict_day(model: GridModel, curve: str, streams: int | None, output: Output) -> ExitStatus:
    """Print when a grid serves this load and when not; exit status 1 where it does not all day.

    Raises GridwrightError.
    """
    found = walk_day(model, load_day(curve), streams)

    def text() -> str:
        from gridwright.report.terminal.prediction import day_text

        return day_text(found)

    output.show(LazyResult(document=lambda: asdict(found), text=text))
    return ExitStatus.DONE if found.holds else ExitStatus.MISSED


def predict_without(
    model: GridModel, names: Sequence[str], streams: int | None, output: Output
) -> ExitStatus:
    """Print what is left without the parts of these names, and the table of one of each dead.

    Exit status 1 where the requirements do not hold any more; with `each` alone the table judges nothing.
    Raises GridwrightError.
    """
    parts = find_failure_domains(model, [name for name in names if name != EACH])
    left = degraded_grid(model, parts, streams) if parts else None
    grids = single_failures(model, streams)

    def text() -> str:
        from gridwright.report.terminal.prediction import without_text

        return without_text(model.name, left, grids)

    def document() -> dict[str, object]:
        return {
            "grid": model.name,
            "without": None if left is None else asdict(left),
            "one_of_each_dead": [asdict(row) for row in grids],
        }

    output.show(LazyResult(document=document, text=text))
    return ExitStatus.MISSED if left is not None and left.holds is False else ExitStatus.DONE


def predict_sensitivity(model: GridModel, percent: float, streams: int | None, output: Output) -> ExitStatus:
    """Print what each input moves when it changes by so many percent. Raises GridwrightError."""
    found = sensitivity(model, percent / 100, streams)

    def text() -> str:
        from gridwright.report.terminal.prediction import sensitivity_text

        return sensitivity_text(found)

    output.show(LazyResult(document=lambda: asdict(found), text=text))
    return ExitStatus.DONE


@dataclass(frozen=True, slots=True)
class Simulated:
    """What is simulated; `where` names the profiles in errors."""

    model: GridModel
    matrix: WorkloadMatrix
    profiles: Profiles
    replay: Replay
    where: str


def predict_sweep(of: Simulated, output: Output, *, up_to: int | None, html: Path | None) -> ExitStatus:
    """Sweep the simulated workload and print the answer. Raises GridwrightError."""
    launches = [test for stream in of.matrix.streams for test in stream]
    # A simulation has no noise: one step says all.
    rule = sweep_rule(needs_of(of.model.spec), launches, most=up_to or MAX_STREAMS, agree=1)
    steps = SimulatedSteps(of.model, of.matrix.name, launches, of.profiles, of.replay, rule, of.where)
    scale = of.replay.scale or of.profiles.scale
    sweep = StreamSweep(
        SweepOf(command="predict", grid=of.model.name, matrix=of.matrix.name, scale=scale), rule
    )
    sweep.run(steps.measure)
    sweep.findings, sweep.assumptions = steps.findings_of(sweep.record().carries)
    record = sweep.record()
    if html is not None:
        from gridwright.report.stream_sweep import sweep_page

        write_output(html, sweep_page(record))

    def text() -> str:
        from gridwright.report.terminal.run import sweep_text

        return sweep_text(record)

    output.show(LazyResult(document=lambda: plain(record), text=text))
    if html is not None:
        output.note(f"page: {html}")
    return ExitStatus.DONE if record.carries else ExitStatus.MISSED
