"""Tests one library, in the worker: makes the scratch directory, runs the phases, cleans up."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gridwright.errors import Finding, Level, Problem
from gridwright.filesystems.mounts import MountFacts, describe_mount
from gridwright.iotest import failures, figures, sweep
from gridwright.iotest.drive import Driven, Emit, Stalled, drive
from gridwright.iotest.engine import PhasePlan, StreamPlan
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.scratch import FileSet, Scratch, leftovers, remove_stale
from gridwright.iotest.space import SpacePlan, plan_space
from gridwright.units import format_bytes


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
        self, target: LibraryTarget, options: IotestOptions, *, emit: Emit, stop: threading.Event
    ) -> None:
        self._target = target
        self._options = options
        self._emit = emit
        self._stop = stop
        self._path = Path(target.path)
        self._streams = options.streams if options.streams is not None else target.cores
        self._seed = options.seed if options.seed is not None else secrets.randbits(62)
        self._mount: MountFacts
        self._space: SpacePlan
        self._scratch: Scratch | None = None
        self._readable: list[StreamPlan] = []

    def run(self) -> None:
        """Run all phases. Raises LibraryFailed and WrongData after cleaning up."""
        try:
            self._open()
            phases = self._prepare()
            if self._options.sweep:
                self._sweep(phases)
                phases = [op for op in phases if op not in sweep.SWEPT]
            for op in phases:
                if self._stop.is_set():
                    break
                self._phase(op, self._streams)
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
        self._emit({"event": "library", "streams": self._streams, "device": None} | self._target.to_message())
        if not self._path.is_dir():
            self._path.stat()
            raise NotADirectoryError(20, "not a directory", str(self._path))
        self._mount = describe_mount(self._path)
        self._emit({"event": "device", "device": self._mount.to_record()})
        if self._mount.memory_backed:
            self._find(
                "warning",
                "memory-backed",
                f"library {self._target.library} lies on {self._mount.filesystem_type}, memory: "
                "reads are marked cached and do not count, and its files are gone after a restart",
                "test a directory on a disk or a parallel file system",
            )
        if self._mount.served_over_network:
            self._find(
                "info",
                "server-cache",
                f"{self._mount.filesystem_type} has caches in its servers, which no client can see or empty",
                "make all files together larger than the servers' memory: raise --size or --streams",
            )

    def _prepare(self) -> list[str]:
        """Tidy up after earlier runs, plan sizes, find files to read; returns the phases to run."""
        for leftover in remove_stale(self._path):
            self._find(
                "info",
                "stale-removed",
                f"a killed test had left {leftover.directory} ({format_bytes(leftover.bytes)}): removed",
                "nothing to do",
            )
        phases = list(self._options.phases)
        needs_files = {"read", "mixed"} & set(phases) and "write" not in phases
        if needs_files and not self._use_kept():
            phases.insert(0, "write")
            self._find(
                "info",
                "laid-out",
                "there was no kept set of files to read, so they were written first",
                "keep the files of a run with --keep to read them again",
            )
        streams = sweep.counts(self._target.cores)[-1] if self._options.sweep else self._streams
        if phases != ["read"]:
            self._space = plan_space(
                self._path, self._mount, self._options, library=self._target.library, streams=max(2, streams)
            )
            self._scratch = self._make_scratch()
            self._emit({"event": "scratch", "path": str(self._scratch.directory)})
        return phases

    def _make_scratch(self) -> Scratch:
        try:
            return Scratch.create(self._path)
        except OSError as error:
            # The library is what the user knows; the directory in it was never there.
            error.filename = str(self._path)
            raise

    def _use_kept(self) -> bool:
        """Take the newest kept set of files to read; says whether there is one."""
        found = ((left, left.kept) for left in leftovers(self._path) if left.kept)
        kept, files = next(found, (None, None))
        if kept is None or files is None:
            return False
        block = self._options.block_bytes
        self._seed = files.seed
        self._readable = [
            StreamPlan("read", str(kept.directory / f"stream-{number}.dat"), number, size // block * block)
            for number, size in enumerate(files.file_bytes)
            if size >= block
        ]
        self._find(
            "info",
            "kept-set",
            f"reading the {len(self._readable)} files kept in {kept.directory} ({format_bytes(kept.bytes)})",
            f"remove them when you no longer need them: rm -r {kept.directory}",
        )
        return True

    def _sweep(self, phases: list[str]) -> None:
        rates: dict[str, list[tuple[int, float | None]]] = {}
        for streams in sweep.counts(self._target.cores):
            for op in sweep.SWEPT:
                if op in phases and not self._stop.is_set():
                    result = self._phase(op, streams)
                    rates.setdefault(op, []).append((streams, result["rate_last_bytes_per_s"]))
        for op, points in rates.items():
            self._emit({"event": "sweep"} | sweep.summarise(op, points, self._target))

    def _phase(self, op: str, streams: int) -> dict[str, Any]:
        """Run one phase and emit its record."""
        plan = self._plan(op, streams)
        used = figures.planned(
            self._options,
            streams=len(plan.streams),
            seed=plan.seed,
            file_bytes=max((stream.file_bytes for stream in plan.streams), default=None),
        )
        head = {
            "op": op,
            "started": time.time(),
            "asked": figures.asked(self._options, self._target),
            "used": used,
        }
        self._emit({"event": "phase", "limit_s": plan.seconds, "limit_bytes": plan.bytes_per_stream} | head)
        driven = self._drive(op, plan)
        outcome = driven.outcome
        record = (
            head
            | {"used": figures.used(used, outcome)}
            | figures.phase_figures(
                op,
                outcome,
                target=self._target,
                memory_backed=self._mount.memory_backed,
                steady=driven.steady,
            )
            | {"steady": asdict(driven.steady) if driven.steady else None}
        )
        self._emit({"event": "result", "phase": record})
        self._after(op, plan, outcome, record)
        return record

    def _drive(self, op: str, plan: PhasePlan) -> Driven:
        try:
            return drive(op, plan, self._options, device=self._mount.device, emit=self._emit, stop=self._stop)
        except Stalled as stalled:
            raise LibraryFailed(
                Problem(
                    what=(
                        f"library {self._target.library}: the file system does not answer: no byte moved for "
                        f"{stalled.seconds:.0f} s in phase {op}"
                    ),
                    where=self._target.path,
                    remedy="check the mount and its servers (`mount`, `dmesg`); the test may have left files",
                ),
                hung=stalled.hung,
            ) from stalled

    def _after(self, op: str, plan: PhasePlan, outcome: dict[str, Any], record: dict[str, Any]) -> None:
        if outcome["failure"]:
            failure = outcome["failure"]
            place = "" if failure["offset"] is None else f" at byte {failure['offset']}"
            raise LibraryFailed(
                failures.problem(
                    failure["errno"],
                    library=self._target.library,
                    path=failure["path"],
                    doing=f"{failure['op']}{place}",
                    message=failure["message"],
                    direct=self._options.engine == "direct",
                )
            )
        if outcome["mismatch"]:
            wrong = outcome["mismatch"]
            self._find(
                "error",
                "wrong-data",
                f"{wrong['path']}: {wrong['length']} bytes from offset {wrong['offset']} are not what was "
                "written",
                "do not trust this file system with data before you know the cause; `dmesg` may name it",
            )
            raise WrongData
        if record["cached"]:
            self._cached(op, record["cached_fraction"])
        if op == "write":
            self._remember(plan, outcome)

    def _cached(self, op: str, fraction: float) -> None:
        self._find(
            "warning",
            "cached",
            f"library {self._target.library}, phase {op}: {fraction:.0%} of the pages read were in the page "
            "cache, so the figure is the memory's and does not count",
            "use --engine direct, or a --size of more than the memory divided by the streams",
        )

    def _remember(self, plan: PhasePlan, outcome: dict[str, Any]) -> None:
        """What was written can be read: whole blocks of every file that holds any."""
        block = self._options.block_bytes
        self._readable = [
            StreamPlan("read", stream.path, stream.file, size)
            for stream, done in zip(plan.streams, outcome["streams"], strict=True)
            if (size := done["file_bytes"] // block * block) > 0
        ]

    def _plan(self, op: str, streams: int) -> PhasePlan:
        if op == "write":
            plans = [self._writer(number) for number in range(streams)]
        elif op == "read":
            plans = self._readers(streams)
        elif op == "mixed":
            # Half the streams write while half read: it takes two.
            half = max(1, streams // 2)
            readers = self._readers(max(1, streams - half))
            writers = [self._mixed_writer(number) for number in range(half)]
            plans = readers + writers
        else:
            plans = [self._metadata(number) for number in range(streams)]
        size = self._options.size_bytes
        block = self._options.block_bytes
        return PhasePlan(
            streams=tuple(plans),
            seed=self._seed,
            bytes_per_stream=-(-size // block) * block if size and op != "metadata" else None,
            seconds=self._seconds(op),
            max_files=self._space.small_files if op == "metadata" else 0,
        )

    def _seconds(self, op: str) -> float | None:
        if op == "metadata" and self._options.limit_seconds is None:
            return 10.0
        if op in {"mixed", "metadata"} and self._options.until_steady_s is not None:
            return 10.0
        return self._options.limit_seconds

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

    def _fresh(self) -> Scratch:
        if self._scratch is None:
            raise RuntimeError("a phase that writes was planned without a scratch directory")
        return self._scratch

    def _writer(self, number: int) -> StreamPlan:
        return StreamPlan("write", self._fresh().stream_file(number), number, self._space.file_bytes)

    def _mixed_writer(self, number: int) -> StreamPlan:
        path = self._fresh().mixed_file(number)
        return StreamPlan("write", path, number + 1_000_000, self._space.file_bytes)

    def _metadata(self, number: int) -> StreamPlan:
        return StreamPlan("metadata", self._fresh().metadata_directory(number), number, 0)

    def _close(self) -> None:
        """Keep the files if asked to and whole, else remove the scratch directory."""
        scratch, self._scratch = self._scratch, None
        if scratch is None:
            return
        try:
            if self._options.keep and self._readable and not self._stop.is_set():
                self._keep(scratch)
            else:
                scratch.remove(lambda: self._emit({"event": "removing"}))
        except OSError as error:
            raise self._failed(error, "removing the test's files") from error

    def _keep(self, scratch: Scratch) -> None:
        sizes = tuple(stream.file_bytes for stream in self._readable)
        scratch.keep(FileSet(self._seed, self._options.block_bytes, sizes))
        self._find(
            "info",
            "kept-set",
            f"kept {len(sizes)} files ({format_bytes(sum(sizes))}) in {scratch.directory}",
            f"read them with --phases read; remove them with: rm -r {scratch.directory}",
        )

    def _failed(self, error: OSError, doing: str) -> LibraryFailed:
        return LibraryFailed(
            failures.of_os_error(error, library=self._target.library, path=self._target.path, doing=doing)
        )

    def _find(self, level: Level, name: str, text: str, remedy: str) -> None:
        self._emit({"event": "finding"} | asdict(Finding(level, name, text, remedy)))
