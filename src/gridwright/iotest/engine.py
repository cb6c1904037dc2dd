"""The native I/O engine with types: the one module that imports `gridwright._native` for I/O."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from gridwright import __version__, _native
from gridwright.iotest.options import IotestOptions
from gridwright.iotest.outcome import Outcome, Role
from gridwright.messages import decode

FLUSH_WITHIN_S = 4.0
"""A stream that is so far ahead of its disk makes an fsync inside the time of a phase that ends by time."""

if __version__ != _native.VERSION:
    raise ImportError(
        f"gridwright {__version__} found its native part in version {_native.VERSION}: run `make install`"
    )


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """One stream: `role` is write, read or metadata; `file` is the number stamped into its data.

    `file_bytes` is where a writer goes back to the start of its file, or the size a reader finds. Of
    a `shared` file the stream has the part that begins at `base`; others may have the other parts.
    """

    role: Role
    path: str
    file: int
    file_bytes: int
    base: int = 0
    shared: bool = False


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """One phase as the engine runs it; sizes in bytes, times in seconds."""

    streams: tuple[StreamPlan, ...]
    seed: int
    bytes_per_stream: int | None
    seconds: float | None
    max_files: int = 0


class Sample(NamedTuple):
    """What all streams had done `elapsed_s` after the start of the phase."""

    elapsed_s: float
    read_bytes: int
    written_bytes: int
    operations: int


class Phase:
    """A phase that runs in native threads."""

    def __init__(self, plan: PhasePlan, options: IotestOptions, *, held: bool = False) -> None:
        """Start it; one that is `held` prepares and waits for `open`. Raises OSError without threads."""
        config = {
            "engine": options.engine,
            "block_bytes": options.block_bytes,
            "queue_depth": options.depth,
            "bytes_per_stream": plan.bytes_per_stream,
            "seconds": plan.seconds,
            "flush_within_s": flush_within_s(plan, options),
            "sample_s": options.sample_s,
            "seed": plan.seed,
            "verify": options.verify,
            "max_files": plan.max_files,
            "no_io_uring": options.no_io_uring,
            "null": asdict(options.null) if options.null else None,
            "held": held,
            "streams": [asdict(replace(stream, path=_bytes_text(stream.path))) for stream in plan.streams],
        }
        self._native = _native.Phase(json.dumps(config))
        self._seen = 0

    def wait(self, seconds: float) -> bool:
        """Wait until all streams have ended, or `seconds` are over; say whether they have."""
        return bool(self._native.wait(seconds))

    def armed(self) -> bool:
        """Whether all streams of a phase that is held are prepared."""
        return bool(self._native.armed())

    def open(self) -> None:
        """Let the streams of a phase that is held go, all at once."""
        self._native.open()

    def progress(self) -> Sample:
        """What has been done so far."""
        return Sample(*self._native.progress())

    def syncing(self) -> bool:
        """Whether a stream is in its closing fsync."""
        return bool(self._native.syncing())

    def unwritten_pages(self) -> int | None:
        """Pages of files in their closing fsync that are not written yet; None where no kernel tells."""
        return self._native.unwritten_pages()

    def new_samples(self) -> Sequence[Sample]:
        """Samples taken since the last call, one per `sample_s` and one at the end."""
        samples = [Sample(*sample) for sample in self._native.samples(self._seen)]
        self._seen += len(samples)
        return samples

    def finish(self) -> None:
        """End the phase as if its time were up: what was written is made durable."""
        self._native.finish()

    def stop(self, *, discard: bool) -> None:
        """Stop at once; with `discard`, files still being flushed are emptied."""
        self._native.stop(discard)

    def result(self) -> Outcome:
        """What was measured; the phase must have ended."""
        outcome = decode(self._native.result(), Outcome)
        failure, mismatch = outcome.failure, outcome.mismatch
        return replace(
            outcome,
            streams=[replace(stream, path=_path_text(stream.path)) for stream in outcome.streams],
            failure=failure and replace(failure, path=_path_text(failure.path)),
            mismatch=mismatch and replace(mismatch, path=_path_text(mismatch.path)),
        )


def flush_within_s(plan: PhasePlan, options: IotestOptions) -> float | None:
    """About how long a closing fsync may take; None where it is not bounded, or memory holds nothing."""
    by_time = plan.seconds is not None and plan.bytes_per_stream is None and options.until_steady_s is None
    return FLUSH_WITHIN_S if options.engine == "buffered" and by_time else None


def _bytes_text(path: str) -> str:
    """A path as the engine takes it: one character for each byte, whatever the locale makes of them."""
    return os.fsencode(path).decode("latin-1")


def _path_text(text: str) -> str:
    """A path of the engine as Python has it."""
    return os.fsdecode(text.encode("latin-1"))
