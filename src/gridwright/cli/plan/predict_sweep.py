"""`gridwright predict --workload --sweep`: how many jobs a grid would carry at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gridwright.cli.output import LazyResult, Output, plain
from gridwright.cli.output_file import write_output
from gridwright.errors import ExitStatus
from gridwright.model.grid import GridModel
from gridwright.model.workload import Replay, SimulatedSteps, WorkloadMatrix
from gridwright.runs.profiles import Profiles
from gridwright.runs.stream_sweep import StreamSweep, SweepOf
from gridwright.workload.matrix import MAX_STREAMS, sweep_rule
from gridwright.workload.options import needs_of


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
        from gridwright.report.stream_sweep.page import sweep_page

        write_output(html, sweep_page(record))

    def text() -> str:
        from gridwright.report.terminal.stream_sweep import sweep_text

        return sweep_text(record)

    output.show(LazyResult(document=lambda: plain(record), text=text))
    if html is not None:
        output.note(f"page: {html}")
    return ExitStatus.DONE if record.carries else ExitStatus.MISSED
