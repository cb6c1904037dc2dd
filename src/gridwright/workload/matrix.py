"""A matrix: which tests run, in which streams, how it grows with the grid, and what a sweep makes of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from gridwright.errors import input_error, nearest
from gridwright.runs.records import interference_of_launches
from gridwright.runs.stream_sweep import SweepRule, SweepStep, rotations
from gridwright.runs.workload_judge import WorkloadNeeds, ratio_of
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.units import Bytes
from gridwright.workload.launches.traffic import BLOCK_BYTES
from gridwright.workload.programs.program import TEST_NAMES
from gridwright.yamltext.fields import Duration, FieldError, Size
from gridwright.yamltext.load import parse, read_file
from gridwright.yamltext.source import FileFormat, show
from gridwright.yamltext.structure import Section

BUILT_IN = ("quick", "mixed-30", "mixed-20")
MAX_STREAMS = 4096
MATRIX = FileFormat(
    name="matrix",
    levels="six",
    beginning="Begin with name: and streams:, as in gridwright help workload",
    instead_of_nothing="Begin with name: and streams:, as in gridwright help workload",
)
MIN_BLOCK, MAX_BLOCK = 4096, 64 << 20
BLOCKS = "give a multiple of 4 KiB from 4 KiB to 64 MiB, such as 64KiB"
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
_NAMES = "letters, digits, dots, - and _, at most 63"

_Item = TypeVar("_Item")
# Strict models take no list for a tuple, and YAML has only lists.
_List = Annotated[tuple[_Item, ...], Strict(False)]


def _seconds(value: object) -> object:
    return float(value) if type(value) is int else value


def _some(value: tuple[_Item, ...]) -> tuple[_Item, ...]:
    # Not min_length: that also complains of a list whose items are wrong.
    if not value:
        raise FieldError("the list is empty", "give it an entry, or remove it")
    return value


def wrong_block(size: int) -> str:
    """What is wrong with a block size in bytes; nothing if it is right."""
    right = MIN_BLOCK <= size <= MAX_BLOCK and size % MIN_BLOCK == 0
    return "" if right else f"{int(size)} bytes is no block size for the workload"


def _block(size: Bytes) -> Bytes:
    if wrong := wrong_block(size):
        raise FieldError(wrong, BLOCKS)
    return size


class MatrixEntry(Section):
    """One launch of a stream: a test by name, or a command of the user's own.

    `memory` in bytes, `time_limit` in seconds; None means as the scale has it.
    """

    test: str | None = Field(default=None, description="The name of a test.")
    command: Annotated[_List[str], AfterValidator(_some)] | None = Field(
        default=None, description="The program and its arguments, each a text; put numbers in quotes."
    )
    name: str | None = Field(default=None, pattern=_NAME, description=f"A name for the command: {_NAMES}.")
    cores: int | None = Field(default=None, ge=1, le=1024, description="How many cores it may use.")
    memory: Annotated[Size, Field(ge=1 << 20)] | None = Field(
        default=None, description="The memory that it may use, such as 2 GiB."
    )
    time_limit: Annotated[Duration, BeforeValidator(_seconds)] | None = Field(
        default=None, description="How long it may run, such as 2h."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> MatrixEntry:
        if (self.test is None) == (self.command is None):
            raise FieldError(
                "a launch is either `test: NAME` or `command: [PROGRAM, ARGUMENT, ...]`",
                "write one of the two",
            )
        if self.test is not None and self.test not in TEST_NAMES:
            near = nearest(self.test, TEST_NAMES)
            hint = f"did you mean {near}? " if near else ""
            raise FieldError(f"no test is named {show(self.test)}", f"{hint}Tests: {', '.join(TEST_NAMES)}")
        if self.test is not None and self.name is not None:
            raise FieldError("`name` goes with `command`: a test has its own", "remove the name")
        return self

    @property
    def label(self) -> str:
        """The name of the test, or of the command."""
        return self.name or self.test or Path((self.command or ("command",))[0]).name


def _entry(value: object) -> object:
    return {"test": value} if isinstance(value, str) else value


Launches = Annotated[_List[Annotated[MatrixEntry, BeforeValidator(_entry)]], AfterValidator(_some)]


class Matrix(Section):
    """Streams of launches that run back to back; streams run at once.

    `copies` is how many copies of the data there are: stream n reads copy n modulo that. `block` is
    what a call reads or writes of a file, in bytes.
    """

    name: str = Field(pattern=_NAME, description=f"The name of the matrix: {_NAMES}.")
    description: str = Field(default="", description="What it is for.")
    source: str = Field(default="", description="Where it comes from.")
    copies: int = Field(default=1, ge=1, le=64, description="How many copies of the data there are.")
    block: Annotated[Size, AfterValidator(_block)] = Field(
        default=Bytes(BLOCK_BYTES), description="What a call reads or writes of the data, such as 64 KiB."
    )
    streams: Annotated[_List[Launches], AfterValidator(_some), Field(max_length=MAX_STREAMS)] = Field(
        description="Lists of launches that run back to back; the lists run at once."
    )

    def with_streams(self, count: int) -> Matrix:
        """The matrix with another number of streams.

        With more, its streams are repeated in turn, their launches with them; with fewer, those
        beyond go to the end of the first ones in turn, so that every launch still runs.
        """
        have = len(self.streams)
        if count >= have:
            streams = tuple(self.streams[number % have] for number in range(count))
        else:
            streams = tuple(
                tuple(entry for stream in self.streams[first::count] for entry in stream)
                for first in range(count)
            )
        return self.model_copy(update={"streams": streams})

    def swept(self, count: int) -> Matrix:
        """So many streams that each run all launches of the matrix, for a step of a sweep."""
        launches = [entry for stream in self.streams for entry in stream]
        return self.model_copy(update={"streams": rotations(launches, count)})

    @property
    def has_tests(self) -> bool:
        """Whether a test is among its launches, and not only commands."""
        return any(entry.test is not None for stream in self.streams for entry in stream)

    @property
    def launches(self) -> int:
        """How many launches it has."""
        return sum(len(stream) for stream in self.streams)


def load_matrix(name: str, flag: str = "--matrix") -> Matrix:
    """Load a matrix that comes with Gridwright by name, or a file. Raises GridwrightError."""
    if name in BUILT_IN:
        resource = files("gridwright.workload").joinpath("matrices", f"{name}.yaml")
        return parse_matrix(resource.read_text(encoding="utf-8"), f"{name}.yaml")
    path = Path(name)
    if os.sep not in name and path.suffix not in {".yaml", ".yml"}:
        near = nearest(name, BUILT_IN)
        raise input_error(
            f"no matrix is named {show(name)}",
            where=flag,
            remedy=f"{f'did you mean {near}? ' if near else ''}use {', '.join(BUILT_IN)}, or a YAML file",
        )
    content = read_file(path, MATRIX, lambda _: "give --matrix a file, or one of the built-in names")
    return parse_matrix(content, name)


def parse_matrix(text: str | bytes, source_name: str) -> Matrix:
    """Read a matrix from text. Raises GridwrightError that carries every problem with its place."""
    return parse(Matrix, MATRIX, text, source_name)[0]


def sweep_rule(
    needs: WorkloadNeeds,
    launches: Iterable[str],
    *,
    most: int,
    within_s: float | None = None,
    agree: int = 2,
    allow_disturbed: bool = False,
) -> SweepRule:
    """What ends a sweep of launches of these names on a grid.

    Ratios that are required of other tests are left out, and so is the real time of the matrix: each stream
    runs it once more.
    """
    known = frozenset(launches)
    return SweepRule(
        ratio=needs.ratio,
        tests={test: ratio for test, ratio in needs.tests.items() if test in known},
        most=most,
        within_s=within_s,
        agree=agree,
        allow_disturbed=allow_disturbed,
    )


def measured_step(record: WorkloadRecord, rule: SweepRule, *, attempt: int, run: str) -> SweepStep:
    """What a run of the workload amounts to as a step; `run` is its directory in that of the sweep."""
    whole = [launch for launch in record.launches if launch.ok]
    failed = [launch for launch in record.launches if not launch.ok]
    tests = {test: ratio_of(x for x in whole if x.test == test) for test in rule.tests}
    return SweepStep(
        streams=record.streams,
        attempt=attempt,
        run=run,
        status=record.status,
        launches=len(record.launches),
        failed=len(failed),
        failure=failed[0].reason if failed else None,
        short_of_memory=any(launch.bound_by == "memory" for launch in failed),
        wall_s=record.summary.wall_s,
        real_s_mean=record.summary.real_s / len(whole) if record.summary.real_s and whole else None,
        between_s_mean=record.summary.harness_s_mean,
        queued_s_mean=record.summary.queued_s_mean,
        ratio=ratio_of(whole),
        tests={test: ratio for test, ratio in tests.items() if ratio is not None},
        shares=dict(record.summary.shares),
        disturbed=interference_of_launches(record.launches) or None,
    )
