"""`gridwright workload --sweep`: raises the streams until the grid carries no more, and says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gridwright.cli.arguments import Reader, typed_command
from gridwright.cli.interrupt import stop_on_signals
from gridwright.cli.output import LazyResult, Output, plain
from gridwright.cli.prove.workload_running import carry_out
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    import threading

    from gridwright.runs.directory import RunDirectory
    from gridwright.runs.stream_sweep import StreamSweep, StreamSweepRecord, SweepStep
    from gridwright.spec import GridSpec
    from gridwright.workload.options import WorkloadOptions
    from gridwright.workload.session import OnGrid

WITHIN_S = 2 * 3600.0


class SweepFlags(Protocol):
    """The flags that have to do with a sweep, as they were typed."""

    @property
    def sweep(self) -> bool: ...  # noqa: D102 - a flag
    @property
    def up_to(self) -> int | None: ...  # noqa: D102
    @property
    def within(self) -> str | None: ...  # noqa: D102
    @property
    def streams(self) -> int | None: ...  # noqa: D102
    @property
    def keep(self) -> bool: ...  # noqa: D102
    @property
    def repeat(self) -> int: ...  # noqa: D102
    @property
    def profile(self) -> Path | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class SweepLimits:
    """How far a sweep may go: streams, and seconds."""

    most: int
    within_s: float


def read_sweep_limits(flags: SweepFlags, reader: Reader) -> SweepLimits | None:
    """The limits of a sweep, None where none is asked for; what does not go together is noted in `reader`."""
    from gridwright.workload.matrix import MAX_STREAMS

    if not flags.sweep:
        for flag, value in (("--up-to", flags.up_to), ("--within", flags.within)):
            if value is not None:
                reader.problem("this limits a sweep, and there is none", flag, "add --sweep")
        return None
    if flags.streams is not None:
        what = "a sweep chooses the streams itself"
        reader.problem(what, "--streams", "leave it out; --up-to N has it try no more streams")
    if flags.keep:
        reader.problem("each step would leave its directories", "--keep", "leave it out, or use --streams N")
    if flags.repeat != 1:
        what = "a sweep runs each number of streams that decides several times itself"
        reader.problem(what, "--repeat", "leave it out, or use --streams N --repeat N")
    if flags.profile is not None:
        reader.problem(
            "profiles are those of one run, and a sweep has many",
            "--profile",
            "leave it out; `gridwright workload profile RUN/steps/STEP` writes those of a step",
        )
    most = flags.up_to if flags.up_to is not None else MAX_STREAMS
    if not 1 <= most <= MAX_STREAMS:
        reader.problem(f"{most} is out of range", "--up-to", f"from 1 to {MAX_STREAMS}")
    within = reader.seconds("--within", flags.within)
    if within is not None and not 1 <= within <= 30 * 86400:
        reader.problem(f"{within:g} is out of range", "--within", "from 1 s to 30 days, such as 30m")
    return SweepLimits(most, WITHIN_S if within is None else within)


def run_sweep(
    runs: Path,
    options: WorkloadOptions,
    limits: SweepLimits,
    spec: GridSpec,
    libraries: Mapping[str, Path],
    place: OnGrid | None,
    *,
    json: bool,
) -> ExitStatus:
    """Sweep, record every step in a run directory of its own, and print the answer."""
    from gridwright.runs.directory import RunDirectory
    from gridwright.runs.stream_sweep import StreamSweep, SweepOf
    from gridwright.workload.matrix import sweep_rule
    from gridwright.workload.options import needs_of

    rule = sweep_rule(
        needs_of(spec),
        (entry.label for stream in options.matrix.streams for entry in stream),
        most=limits.most,
        within_s=limits.within_s,
        allow_disturbed=options.allow_disturbed,
    )
    run = RunDirectory.of_spec(runs, spec, command=typed_command(), what=["workload", "sweep"])
    of = SweepOf(
        command="workload",
        grid=spec.name,
        run=str(run.path),
        matrix=options.matrix.name,
        scale=options.scale.name,
    )
    sweep = StreamSweep(of, rule)
    say(f"sweep: {rule.words()}")
    with stop_on_signals() as stop:
        steps = _Steps(sweep, run, options, spec, libraries, place, stop)
        record, report = _carried_out(sweep, run, steps, stop)
    return _shown(record, run, report, steps.ended, json=json)


def _carried_out(
    sweep: StreamSweep, run: RunDirectory, steps: _Steps, stop: threading.Event
) -> tuple[StreamSweepRecord, Path]:
    from gridwright.report.page import write_report
    from gridwright.runs.stream_sweep import write_sweep

    def save() -> None:
        write_sweep(run.path, sweep.record())

    save()
    sweep.run(steps.measure, tell=save, stopped=stop.is_set)
    save()
    record = sweep.record()
    run.finish(record.status)
    return record, write_report(run.path)


def _shown(
    record: StreamSweepRecord, run: RunDirectory, report: Path, last: ExitStatus, *, json: bool
) -> ExitStatus:
    """Print the answer; returns the exit status, `last` being that of the last step."""

    def text() -> str:
        from gridwright.report.terminal.stream_sweep import sweep_text

        return f"{sweep_text(record)}run: {run.path}\nreport: {report}"

    Output("workload", json=json).show(LazyResult(document=lambda: plain(record), text=text))
    return _status(record, last)


def _status(record: StreamSweepRecord, last: ExitStatus) -> ExitStatus:
    """How the last step ended, where it did not end well; missed where nothing is carried, or proven."""
    if record.ended_by == "interrupted":
        return ExitStatus.INTERRUPTED
    if record.ended_by == "failed":
        return last
    return ExitStatus.MISSED if not record.carries or record.ended_by == "disturbed" else ExitStatus.DONE


class _Steps:
    """Runs the steps of a sweep; `ended` is how the last one ended."""

    def __init__(
        self,
        sweep: StreamSweep,
        run: RunDirectory,
        options: WorkloadOptions,
        spec: GridSpec,
        libraries: Mapping[str, Path],
        place: OnGrid | None,
        stop: threading.Event,
    ) -> None:
        self._sweep = sweep
        self._run = run
        self._options = options
        self._spec = spec
        self._libraries = libraries
        self._place = place
        self._stop = stop
        self.ended = ExitStatus.DONE

    def measure(self, streams: int, attempt: int) -> SweepStep:
        """Run the workload with so many streams, and write its own report."""
        from dataclasses import replace

        from gridwright.report.page import write_report
        from gridwright.runs.directory import RunDirectory
        from gridwright.runs.stream_sweep import STEPS, streams_text
        from gridwright.workload.matrix import measured_step

        again = f", run {attempt}" if attempt > 1 else ""
        named = streams_text(streams)
        say(f"sweep: step {len(self._sweep.steps) + 1}: {named}{again}")
        options = replace(self._options, matrix=self._options.matrix.swept(streams))
        step = RunDirectory.of_spec(
            self._run.path / STEPS,
            self._spec,
            command=typed_command(),
            what=["workload"],
            name=f"{streams}-streams",
        )
        self.ended, result = carry_out(step, options, self._spec, self._libraries, self._place, self._stop)
        # Those of each step differ in their figures alone; who disturbed it stands with the step.
        known = {"disturbed", *(finding.name for finding in self._sweep.findings)}
        self._sweep.findings += [finding for finding in result.findings if finding.name not in known]
        write_report(step.path)
        relative = str(step.path.relative_to(self._run.path))
        measured = measured_step(result, self._sweep.rule, attempt=attempt, run=relative)
        ratio = "not measured" if measured.ratio is None else f"{measured.ratio:.2f}"
        say(f"sweep: {named}: CPU/real {ratio}, {measured.wall_s or 0.0:.1f} s")
        return measured
