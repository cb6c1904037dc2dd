"""Runs the mixed workload once, or with --sweep with more and more streams until the grid carries no more."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from gridwright.cli.arguments import Reader, typed_command
from gridwright.cli.interrupt import stop_on_signals
from gridwright.cli.output import LazyResult, Output, plain
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, GridwrightError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from gridwright.errors import Finding
    from gridwright.runs.directory import RunDirectory
    from gridwright.runs.profiles import Profiles
    from gridwright.runs.records import RunRecord
    from gridwright.runs.stream_sweep import StreamSweep, StreamSweepRecord, SweepStep
    from gridwright.runs.workload_record import WorkloadRecord
    from gridwright.spec import GridSpec
    from gridwright.workload.matrix import Matrix
    from gridwright.workload.options import WorkloadOptions
    from gridwright.workload.session import OnGrid


def load_with_place(file: Path | None, matrix: Matrix | None) -> tuple[GridSpec, OnGrid | None]:
    """Load the spec of a grid to run a matrix on, and how to run it there; see on_grid."""
    from gridwright.cli.spec_file import load_placed, note_this_machine
    from gridwright.grid.grid import Grid
    from gridwright.workload.session import on_grid

    spec = load_placed(file)
    place = on_grid(Grid.open(spec), matrix)
    if place is None:
        note_this_machine(spec)
    return spec, place


def carry_out(
    run: RunDirectory,
    options: WorkloadOptions,
    spec: GridSpec,
    libraries: Mapping[str, Path],
    place: OnGrid | None,
    stop: threading.Event | None = None,
) -> tuple[ExitStatus, WorkloadRecord]:
    """Run the workload on the grid with its display; returns how it ended, and the record it left.

    `stop` is set by orders to stop; None has them looked for here.
    """
    from gridwright.cli.prove.progress import workload_display
    from gridwright.iotest.recorded import run_status
    from gridwright.workload.options import needs_of
    from gridwright.workload.session import run_workload

    display = workload_display()
    try:
        with nullcontext(stop) if stop else stop_on_signals() as stopped:
            ended = run_workload(
                run,
                options,
                libraries,
                observers=[display],
                stop=stopped,
                silenced=spec.silence,
                grid=place,
                needs=needs_of(spec),
            )
            result = run.finish(run_status(ended)).workload
    finally:
        display.close()
    if result is None:
        raise RuntimeError("a run of the workload left no record of it")
    return ended, result


def show_workload(
    run: RunDirectory,
    result: WorkloadRecord,
    *,
    json: bool,
    more: Mapping[str, object] | None = None,
    ending: Callable[[], str] = str,
) -> None:
    """Write the report of a run, and print its record.

    `more` are further keys of the JSON document, `ending` makes the text that stands below the tables.
    """
    from gridwright.report.page import write_report

    report = write_report(run.path)

    def text() -> str:
        from gridwright.report.terminal.run import workload_text

        return f"{workload_text(result)}{ending()}run: {run.path}\nreport: {report}"

    document = LazyResult(document=lambda: plain(result) | dict(more or {}), text=text)
    Output("workload", json=json).show(document)


def write_profiles(
    out: Path, run: RunRecord, workload: WorkloadRecord, *, rate: float | None = None
) -> tuple[Profiles, list[Finding]]:
    """Write the profiles of a run and say so on stderr. Raises GridwrightError."""
    from gridwright.runs.profiles import DEFAULT_RATE, profiles_of, save_profiles
    from gridwright.workload.datasets.catalogue import data_bytes

    profiles, findings = profiles_of(run, workload, data_bytes=data_bytes(), rate=rate or DEFAULT_RATE)
    save_profiles(out, profiles)
    say(f"profiles: {out} ({len(profiles.profiles)} tests, scale {profiles.scale})")
    for finding in findings:
        typer.echo(str(finding), err=True)
    return profiles, findings


def write_profiles_after_run(
    out: Path, run: RunRecord, workload: WorkloadRecord, status: ExitStatus
) -> ExitStatus:
    """Write the profiles of a run whose results are printed already.

    What goes wrong is said on stderr; returns the exit status, which was `status` so far.
    """
    try:
        write_profiles(out, run, workload)
    except GridwrightError as error:
        for problem in error.problems:
            typer.echo(f"error: {problem}", err=True)
        return error.status if status == ExitStatus.DONE else status
    return status


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
        from gridwright.report.terminal.run import sweep_text

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
