"""Launch profiles: what each test computes, reads and writes, in which order. A JSON document.

`gridwright workload FILE --profile OUT` writes one; `gridwright predict FILE --workload M --profile
OUT` has the launches run on a grid that may not exist yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gridwright.atomic import write_atomically
from gridwright.errors import GridwrightError, Problem, environment_error, input_error, nearest
from gridwright.handed_files import parsed_json, read_within
from gridwright.refusals import refusal
from gridwright.runs.launch_record import TestClass
from gridwright.runs.records import HostFacts
from gridwright.spec.model import LibraryName

SCHEMA: Final = 1
KIND: Final = "gridwright launch profiles"
_MAX_BYTES = 64 << 20

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=0)]


IoSource = Literal["devices", "calls", "estimated", "waiting"]
"""What the I/O of an imported job rests on: bytes that devices moved, or that its calls asked for, an
estimate from its wait; or a wait that what was counted does not explain."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PhaseProfile(_Strict):
    """A part of a launch that does its work side by side; the phases of a launch follow each other."""

    seconds: Seconds
    """As measured where it was recorded."""
    cpu_s: Seconds
    """Core-seconds, user and system."""
    threads: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """How many cores it uses at once, as far as they are free and no library holds it up."""
    io_wait_s: Seconds = 0.0
    """Of `seconds`, waiting for the libraries."""
    read_bytes: dict[LibraryName, Bytes] = Field(default_factory=dict)
    """As the test asked for them, cached or not."""
    written_bytes: dict[LibraryName, Bytes] = Field(default_factory=dict)
    cached_bytes: dict[LibraryName, Bytes] | None = None
    """Of `read_bytes`, what the page cache served; None if that is not known."""
    fixed: bool = False
    """Whether it stays what it is with more data: the start of the program."""


class LaunchProfile(_Strict):
    """One test: the figures of its median launch, all of one and the same launch."""

    class_: TestClass = Field(alias="class")
    launches: Annotated[int, Field(ge=1)]
    """How many the median was taken of."""
    real_s: Seconds
    user_s: Seconds
    system_s: Seconds
    cores: Annotated[int, Field(ge=1)]
    """Threads it was allowed."""
    peak_memory_bytes: Bytes | None = None
    cached_fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Of all bytes read, what the page cache served; None if that is not known."""
    io: IoSource | None = None
    """Of a job that was imported; None where its phases were measured."""
    phases: Annotated[list[PhaseProfile], Field(min_length=1)]

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @property
    def cpu_s(self) -> float:
        """Core-seconds of all phases."""
        return sum(phase.cpu_s for phase in self.phases)


class Profiles(_Strict):
    """The document: profiles by test, and where they come from."""

    kind: Literal["gridwright launch profiles"] = KIND
    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    recorded: str
    """When the run began, ISO 8601 in UTC."""
    run: str
    matrix: str | None = None
    scale: str | None = None
    seed: int | None = None
    """Imported jobs have none of these three."""
    streams: int
    """Streams of that run on its one node."""
    data_bytes: dict[str, int] = Field(default_factory=dict)
    """One copy of the data set at each scale, in bytes."""
    host: HostFacts
    software: dict[str, str]
    launch_streams: list[list[str]] | None = None
    """Of imported jobs: which followed each other, in streams that ran at once."""
    profiles: dict[str, LaunchProfile] = Field(min_length=1)

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def of(self, tests: Iterable[str], *, where: str = "the profiles") -> Mapping[str, LaunchProfile]:
        """The profiles of these tests. Raises GridwrightError that names every test without one."""
        required = list(dict.fromkeys(tests))
        problems = [_absent(test, self.profiles, where) for test in required if test not in self.profiles]
        if problems:
            raise GridwrightError(*problems)
        return {test: self.profiles[test] for test in required}

    def scaled_by(self, scale: str | None, *, where: str = "the profiles") -> float:
        """How many times larger the data set of a scale is than the recorded one.

        Raises GridwrightError if the document does not say how large one of both is.
        """
        if scale is None or scale == self.scale:
            return 1.0
        here, there = self.data_bytes.get(self.scale or ""), self.data_bytes.get(scale)
        if here and there:
            return there / here
        known = list(self.data_bytes) if here else [name for name in [self.scale] if name]
        near = nearest(scale, known)
        raise input_error(
            f"the size of the data at scale {scale!r} is not known from the recorded scale {self.scale!r}",
            where=where,
            remedy=f"{f'did you mean {near}? ' if near else ''}known: {', '.join(known) or 'none'}",
        )


def streams_of(profiles: Profiles, count: int | None, *, where: str) -> tuple[tuple[str, ...], ...]:
    """The launches of each stream as the jobs ran, or as many streams as are asked for.

    With more streams they are repeated in turn; with fewer, those beyond go to the end of the first ones.
    Raises GridwrightError if the profiles are not those of imported jobs.
    """
    streams = profiles.launch_streams
    if not streams:
        raise input_error(
            "these profiles do not tell which launches follow each other: they are none of imported jobs",
            where=where,
            remedy="name a matrix, and these with --profile: --workload mixed-30 --profile FILE",
        )
    if count is None:
        return tuple(map(tuple, streams))
    if count >= len(streams):
        return tuple(tuple(streams[number % len(streams)]) for number in range(count))
    return tuple(tuple(name for one in streams[first::count] for name in one) for first in range(count))


def _absent(test: str, known: Iterable[str], where: str) -> Problem:
    names = sorted(known)
    near = nearest(test, names)
    return Problem(
        what=f"there is no profile of {test!r}",
        where=where,
        remedy=f"{f'the nearest is {near}; ' if near else ''}profiles: {', '.join(names)}; record it with "
        "`gridwright workload FILE --matrix M --profile OUT`",
    )


def save_profiles(path: Path, profiles: Profiles) -> None:
    """Write the document. Raises GridwrightError if it cannot be written."""
    try:
        write_atomically(path, profiles.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n")
    except OSError as error:
        raise environment_error(
            f"the profiles cannot be written: {error.strerror}",
            where=str(path),
            remedy="the run has all they are made of: name another file with "
            "`gridwright workload profile RUN OUT`",
        ) from error


def load_profiles(path: Path) -> Profiles:
    """Read a document. Raises GridwrightError that says what is wrong with it."""
    try:
        content = read_within(path, _MAX_BYTES)
    except OSError as error:
        why = refusal(path, error, "name a file that `gridwright workload FILE --profile OUT` wrote")
        raise input_error(f"cannot be read: {why.reason}", where=str(path), remedy=why.remedy) from error
    except ValueError as error:
        raise _other_file(str(path), str(error)) from None
    return parse_profiles(content, str(path))


def parse_profiles(content: bytes, where: str) -> Profiles:
    """Read a document from its bytes; `where` names it in errors. Raises GridwrightError."""
    try:
        document = parsed_json(content)
    except ValueError as error:
        raise _other_file(where, f"is no JSON: {error}") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise _other_file(where, f"is no document of the kind {KIND!r}")
    schema = document.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise input_error(
            f"was written by a newer release: its schema is {schema}, and this one reads {SCHEMA}",
            where=where,
            remedy="update Gridwright here, or record the profiles with this release",
        )
    try:
        return Profiles.model_validate(document)
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise GridwrightError(*(_wrong(where, dict(detail)) for detail in details)) from None


def _other_file(where: str, what: str) -> GridwrightError:
    return input_error(
        what, where=where, remedy="name a file that `gridwright workload FILE --profile OUT` wrote"
    )


def _wrong(where: str, detail: dict[str, Any]) -> Problem:
    field = ".".join(str(part) for part in detail["loc"])
    given = "" if detail["type"] == "missing" else f", and {str(detail['input'])[:40]!r} is given"
    return Problem(
        what=f"{str(detail['msg'])[:1].lower()}{str(detail['msg'])[1:]}{given}",
        where=where,
        field=field,
        remedy="record the profiles anew, or undo what was changed in the file",
    )
