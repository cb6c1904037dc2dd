"""Tests one library, in the worker: makes the scratch directory, sets its layout, runs phases, cleans up.

Whoever has the kinds of file systems does that: the worker where one node is tested, else the coordinator,
by commands that one node runs for it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gridwright.commands import CommandStopped, run_here
from gridwright.errors import Finding, Problem
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import layout_text
from gridwright.filesystems.mounts import LibraryMount
from gridwright.interference.presence import Presence
from gridwright.interference.watch import LoadWatch
from gridwright.iotest.drive import ClientView, Driven, Live, Stalled, drive
from gridwright.iotest.engine import PhasePlan, StreamPlan
from gridwright.iotest.library_facts import (
    announce,
    cached_finding,
    describe_library,
    host_cache_findings,
    host_files,
    os_error_problem,
    outcome_problem,
    reading_set_finding,
    retained_set_finding,
    stalled_problem,
    tidied,
    watch_over,
    with_load,
    written_first_finding,
    wrong_data,
)
from gridwright.iotest.messages import Emit, phase_progress, sample_taken
from gridwright.iotest.options import IotestOptions, LibraryTarget, TriedLayout
from gridwright.iotest.outcome import (
    CACHED_LIMIT,
    Outcome,
    make_phase_record,
    phase_limits,
    planned_use,
    requested_settings,
)
from gridwright.iotest.scratch import FileSet, Scratch, leftovers
from gridwright.iotest.steadiness import burst_finding, falling_finding, stall_finding, stalls_of, with_levels
from gridwright.iotest.stream_plan import (
    SWEPT,
    Place,
    SpacePlan,
    plan_space,
    readable,
    shared_name,
    stream_counts,
    summarise_sweep,
)
from gridwright.messages import plain, shared_fields
from gridwright.runs.iotest_events import (
    DeviceDetected,
    LayoutSeen,
    LibraryBegun,
    PhaseBegun,
    PhaseDone,
    Progress,
    RemovalBegun,
    ScratchMade,
)
from gridwright.runs.phase_record import ActualLayout, Op, PhaseRecord
from gridwright.runs.samples import Measured
from gridwright.units import format_bytes

if TYPE_CHECKING:
    from gridwright.filesystems.kind import Layouts
    from gridwright.iotest.engine import StreamPlan


def lay_out(test: TriedLayout | None, run: Run, directory: str) -> None:
    """Give the scratch directory the chosen layout; one that has the library's is only looked at.

    So a file system that tells or takes no layout ends the test before files are written. Raises
    GridwrightError as `Layouts.set_layout` and `layout` do.
    """
    if test is None:
        return
    if test.chosen:
        _layouts(test).set_layout(None, run, directory, test.layout)
    else:
        _layouts(test).layout(None, run, directory)


def seen(
    test: TriedLayout, run: Run, files: Sequence[StreamPlan], library: str
) -> Iterator[LayoutSeen | Finding]:
    """The layout that the first file of a test really has, and what is to be said of it.

    Raises GridwrightError (status ENVIRONMENT) where it is not told.
    """
    path = files[0].path
    file_bytes = max(file.base + file.file_bytes for file in files if file.path == path)
    layout = _layouts(test).layout(None, run, path)
    first = [component for component in layout.components if component.mirror == layout.components[0].mirror]
    reached = [each for each in first if each.start < max(1, file_bytes)]
    # What lies behind the end of the file has no part in its rate, and would make two alike look different.
    shown = replace(layout, components=tuple(reached))
    yield LayoutSeen(
        layout=ActualLayout(
            chosen=test.chosen,
            text=layout_text(shown),
            file_bytes=file_bytes,
            components=plain(layout.components),
        )
    )
    short = [
        (asked.stripe_count, got.stripe_count)
        for asked, got in zip(test.layout.components, reached, strict=False)
        if 0 < got.stripe_count < asked.stripe_count
    ]
    if test.chosen and short:
        asked, got = short[0]
        yield Finding(
            "warning",
            "layout-narrower",
            f"library {library}: files have {got} {'stripe' if got == 1 else 'stripes'} where the layout "
            f"asks for {asked}: there are no more targets, or the others take no new files",
            "choose as many stripes as there are targets; gridwright doctor tells which take no new files",
        )
    if test.chosen and len(reached) < len(first):
        yield Finding(
            "warning",
            "layout-not-reached",
            f"library {library}: files of {format_bytes(file_bytes)} end in part {len(reached)} of "
            f"{len(first)} of their layout, so that the rest of it was not tested",
            "give a larger --size, or more --seconds",
        )


def _layouts(test: TriedLayout) -> Layouts[Any]:
    # Imported here: nodes have this module, and no kinds.
    from gridwright.filesystems import kind_named

    return cast("Layouts[Any]", kind_named(test.kind))


class LibraryFailed(Exception):
    """The library cannot be tested any further; carries what to tell the user."""

    def __init__(self, problem: Problem, *, hung: bool = False) -> None:
        super().__init__(problem.what)
        self.problem = problem
        self.hung = hung


class WrongData(Exception):
    """Verification found bytes that are not those written."""


class LibraryTest:
    """One library's test; emits events, see `gridwright.iotest.worker`."""

    def __init__(
        self,
        target: LibraryTarget,
        options: IotestOptions,
        *,
        emit: Emit,
        stop: threading.Event,
        run: str = "",
    ) -> None:
        self._target = target
        self._options = options
        self._emit = emit
        self._stop = stop
        self._run = run
        self._path = Path(target.path)
        self._streams = options.streams if options.streams is not None else target.cores
        self._seed = options.seed if options.seed is not None else secrets.randbits(62)
        self._mount: LibraryMount
        self._client: ClientView
        self._space: SpacePlan
        self._scratch: Scratch | None = None
        self._presence = Presence()
        self._watch: LoadWatch
        self._readable: list[StreamPlan] = []
        self._shared: dict[str, str] = {}
        """The file that streams share, by the operation that writes it."""
        self._phases = 0
        self._layout = target.layout
        self._layout_seen = False
        self._asks = partial(run_here, stop=stop.is_set)

    def run(self) -> None:
        """Run all phases. Raises LibraryFailed and WrongData after cleaning up."""
        try:
            self._open()
            phases = self._prepare()
            if self._options.sweep:
                self._sweep(phases)
                phases = [op for op in phases if op not in SWEPT]
            for op in phases:
                if self._stop.is_set():
                    break
                self._phase(op, self._streams)
        except CommandStopped:
            # Told by the order to stop itself.
            pass
        except OSError as error:
            raise self._failed(error, "preparing the test") from error
        except LibraryFailed as failed:
            if failed.hung:
                self._scratch = None
            raise
        finally:
            self._close()

    def _open(self) -> None:
        """Look at the directory and at what lies below."""
        fields = shared_fields(self._target, LibraryBegun)
        fields["layout"] = self._layout.requested if self._layout else None
        self._emit(LibraryBegun(streams=self._streams, **fields))
        self._mount, remarks = describe_library(self._target)
        self._client = ClientView.of(self._mount)
        self._emit(DeviceDetected(device=self._mount.to_record()))
        for remark in remarks:
            self._emit(remark)

    def _prepare(self) -> list[Op]:
        """Tidy up after earlier runs, plan sizes, find files to read; returns the phases to run."""
        for finding in tidied(self._target):
            self._emit(finding)
        phases = list(self._options.phases)
        needs_files = {"read", "mixed"} & set(phases) and "write" not in phases
        if needs_files and not self._reuse_file_set():
            phases.insert(0, "write")
            self._emit(written_first_finding())
        streams = stream_counts(self._target.cores)[-1] if self._options.sweep else self._streams
        if phases != ["read"]:
            self._space = plan_space(
                self._path, self._mount, self._options, library=self._target.library, streams=max(2, streams)
            )
            self._scratch = self._make_scratch()
            self._emit(ScratchMade(path=str(self._scratch.directory)))
            lay_out(self._layout, self._asks, str(self._scratch.directory))
        directory = self._scratch.directory if self._scratch else None
        announce(self._presence, self._path, directory, run=self._run, token=secrets.token_hex(8))
        self._watch = watch_over(self._mount, self._presence)
        return phases

    def _make_scratch(self) -> Scratch:
        try:
            return Scratch.create(self._path)
        except OSError as error:
            # The library is what the user knows; the directory in it was never there.
            error.filename = str(self._path)
            raise

    def _reuse_file_set(self) -> bool:
        """Take the newest kept set of files to read; says whether there is one."""
        found = ((left, left.kept) for left in leftovers(self._path) if left.kept)
        kept, files = next(found, (None, None))
        if kept is None or files is None or self._options.shared_file:
            return False
        self._seed = files.seed
        place = Place(str(kept.directory))
        self._readable = place.reused_readers(files.file_bytes, self._options.block_bytes, files.first_file)
        self._emit(reading_set_finding(len(self._readable), kept.directory, kept.bytes))
        return True

    def _sweep(self, phases: list[Op]) -> None:
        rates: dict[Op, list[tuple[int, float | None]]] = {}
        for streams in stream_counts(self._target.cores):
            for op in SWEPT:
                if op in phases and not self._stop.is_set():
                    result = self._phase(op, streams)
                    rates.setdefault(op, []).append((streams, result.rate_last_bytes_per_s))
        for op, points in rates.items():
            self._emit(summarise_sweep(op, points, self._target))

    def _phase(self, op: Op, streams: int) -> PhaseRecord:
        """Run one phase and emit its record."""
        plan = self._plan(op, streams)
        begun = PhaseBegun(
            limit_s=plan.seconds,
            limit_bytes=plan.bytes_per_stream,
            op=op,
            started=time.time(),
            asked=requested_settings(self._options, self._streams),
            used=planned_use(
                self._options,
                streams=len(plan.streams),
                seed=plan.seed,
                file_bytes=max((stream.file_bytes for stream in plan.streams), default=None),
            ),
        )
        self._emit(begun)
        in_memory = self._held_by_host(op)
        driven = self._drive(op, plan)
        outcome = driven.outcome
        for stall in stalls_of(outcome):
            self._emit(
                stall_finding(
                    stall, library=self._target.library, op=op, streams=len(plan.streams), node=None
                )
            )
        record = make_phase_record(
            begun,
            outcome,
            cores=self._target.total_cores,
            memory_backed=self._mount.memory_backed,
            steady=driven.steady,
        )
        record = with_levels(with_load(record, driven.load), plan.seconds, driven.history)
        record = replace(record, cached=record.cached or in_memory)
        self._emit(PhaseDone(phase=record))
        self._after(op, plan, outcome, record)
        return record

    def _held_by_host(self, op: str) -> bool:
        """Whether host files of loop devices are in memory when a phase begins to read; tells of each."""
        files = host_files(self._mount.device) if op in {"read", "mixed"} else []
        findings = list(host_cache_findings(self._target.library, op, files))
        for finding in findings:
            self._emit(finding)
        return bool(findings)

    def _drive(self, op: str, plan: PhasePlan) -> Driven:
        try:
            return drive(
                plan,
                self._options,
                device=self._mount.device,
                watch=self._watch,
                client=self._client,
                live=self._live(op),
                stop=self._stop,
            )
        except Stalled as stalled:
            raise LibraryFailed(
                stalled_problem(
                    stalled.seconds,
                    library=self._target.library,
                    path=self._target.path,
                    op=op,
                    detail=self._client.unreached(),
                    left=str(self._scratch.directory) if self._scratch else None,
                ),
                hung=stalled.hung,
            ) from stalled

    def _live(self, op: str) -> Live:
        """Tell what is measured meanwhile."""

        def tell(live: Measured | Progress) -> None:
            if isinstance(live, Measured):
                self._emit(sample_taken(op, time.time(), live))
            else:
                self._emit(phase_progress(op, live))

        return tell

    def _after(self, op: str, plan: PhasePlan, outcome: Outcome, record: PhaseRecord) -> None:
        if outcome.failure:
            raise LibraryFailed(
                outcome_problem(
                    outcome.failure,
                    library=self._target.library,
                    direct=self._options.engine == "direct",
                )
            )
        if outcome.mismatch:
            self._emit(wrong_data(outcome.mismatch))
            raise WrongData
        if record.cached and (record.cached_fraction or 0.0) > CACHED_LIMIT:
            self._emit(cached_finding(self._target.library, op, record.cached_fraction or 0.0))
        for finding_of in (burst_finding, falling_finding):
            for finding in finding_of(self._target.library, record):
                self._emit(finding)
        if op == "write":
            self._remember(plan, outcome)
            self._see_layout()

    def _see_layout(self) -> None:
        """Ask once which layout the files got."""
        if self._layout is None or self._layout_seen or not self._readable:
            return
        self._layout_seen = True
        for told in seen(self._layout, self._asks, self._readable, self._target.library):
            self._emit(told)

    def _remember(self, plan: PhasePlan, outcome: Outcome) -> None:
        """What was written can be read."""
        self._readable = readable(plan.streams, outcome, self._options.block_bytes)

    def _plan(self, op: str, streams: int) -> PhasePlan:
        if op == "write":
            plans = self._place(op).writers(streams, self._space.file_bytes)
        elif op == "read":
            plans = self._readers(streams)
        elif op == "mixed":
            # Half the streams write while half read: it takes two.
            half = max(1, streams // 2)
            readers = self._readers(max(1, streams - half))
            plans = readers + self._place(op).mixed_writers(half, self._space.file_bytes)
        else:
            plans = self._place().metadata(streams)
        seconds, per_stream = phase_limits(self._options, op)
        return PhasePlan(
            streams=tuple(plans),
            seed=self._seed,
            bytes_per_stream=per_stream,
            seconds=seconds,
            max_files=self._space.small_files if op == "metadata" else 0,
        )

    def _readers(self, streams: int) -> list[StreamPlan]:
        if not self._readable:
            raise LibraryFailed(
                Problem(
                    what=f"library {self._target.library}: there is not one whole block to read",
                    where=self._target.path,
                    remedy="give the write phase more time (--seconds) or a --size",
                )
            )
        return self._readable[:streams]

    def _place(self, op: str | None = None) -> Place:
        """Where streams write; what they share is made for each phase."""
        if self._scratch is None:
            raise RuntimeError("a phase that writes was planned without a scratch directory")
        directory = str(self._scratch.directory)
        if op is None or not self._options.shared_file:
            return Place(directory)
        self._phases += 1
        name = shared_name(self._phases)
        self._scratch.make_shared(name, instead_of=self._shared.get(op))
        self._shared[op] = name
        return Place(directory, shared=f"{directory}/{name}")

    def _close(self) -> None:
        """Keep the files if asked to and whole, else remove the scratch directory."""
        self._presence.end(kept=self._options.keep)
        scratch, self._scratch = self._scratch, None
        if scratch is None:
            return
        try:
            if self._options.keep and self._readable and not self._stop.is_set():
                self._keep(scratch)
            else:
                scratch.remove(lambda: self._emit(RemovalBegun()))
        except OSError as error:
            raise self._failed(error, "removing the test's files") from error

    def _keep(self, scratch: Scratch) -> None:
        sizes = tuple(stream.file_bytes for stream in self._readable)
        scratch.retain(FileSet(self._seed, self._options.block_bytes, sizes))
        self._emit(retained_set_finding(len(sizes), scratch.directory, sum(sizes)))

    def _failed(self, error: OSError, doing: str) -> LibraryFailed:
        return LibraryFailed(
            os_error_problem(error, library=self._target.library, path=self._target.path, doing=doing)
        )
