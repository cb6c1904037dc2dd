"""The file of a submission, as the head node writes it and nodes read it; and how a run has ended.

Text may hold any bytes: JSON has those that are no UTF-8 as lone surrogates, as `os.fsdecode` gives them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Optional

DOOMED = 76
"""Exit status of a job that did not begin, as one that it waited for did not end as it should."""
WHOLE = -1
"""The index of a job that is no array."""


@dataclass(frozen=True)
class Predecessor:
    """A job that this one waits for: where its runs stand, and which of its elements count."""

    identifier: str
    runs: str
    elements: list[int]
    type: str = "ok"
    """How they must have ended: ok, any, not-ok; each: the element of the same index must have completed."""


def part_of_a_name(value: str) -> str:
    """A value for a place in the name of a file: it leads to no other directory.

    Each slash becomes `_`, and so does each dot of a value that has nothing else.
    """
    return value.replace("/", "_") if value.strip(".") else "_" * len(value)


@dataclass(frozen=True)
class JobFile:
    """All that a node has to know of a submission."""

    command: list[str]
    directory: str
    environment: dict[str, str]
    log: str
    """Where it prints to; of an element, with `_INDEX` behind. `.log` follows."""
    runs: str
    """The directory of files that say what became of its jobs."""
    fence: str
    """A file that keeps it from beginning."""
    private: str
    """What the names of its private directories begin with."""
    work: str = ""
    util: str = ""
    keep: bool = False
    restart: bool = False
    elements: Optional[list[int]] = None  # noqa: UP045 - Python 3.9 evaluates it
    """Indices of an array in order: the batch system counts them from 1."""
    limit_bytes: Optional[int] = None  # noqa: UP045
    """Memory beyond which it is ended here; None where the batch system itself does that."""
    number_variable: str = "JOB_ID"
    """The variable that holds the batch system's number of the job."""
    position_variable: str = "SGE_TASK_ID"
    """The variable that holds which element of an array this is, from 1."""
    kept_prefixes: list[str] = field(default_factory=list)
    """What the names of variables begin with that the batch system gives its jobs, and that they keep."""
    after: list[Predecessor] = field(default_factory=list)
    name: str = ""
    input: str = ""
    """What it reads on its standard input; empty: nothing."""
    output: str = ""
    """Where it prints to instead of its log: {job}, {index} and {name} stand for what they say."""
    error: str = ""
    """Where its standard error goes; empty: where its output goes."""

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    def index(self, position: int) -> int:
        """The index of the element at a position, which counts from 1; WHOLE where it is no array."""
        return WHOLE if self.elements is None else self.elements[position - 1]


def read_job_file(path: str) -> JobFile:
    """Read it. Raises OSError, and ValueError or TypeError for a file of another kind."""
    values: dict[str, Any] = json.loads(Path(path).read_text(encoding="ascii"))
    values["after"] = [Predecessor(**each) for each in values["after"]]
    return JobFile(**values)


@dataclass(frozen=True)
class RunEnd:
    """How a run ended: with a status, by a signal, over its memory, or before it began."""

    status: Optional[int] = None  # noqa: UP045
    signal: Optional[int] = None  # noqa: UP045
    over_bytes: Optional[int] = None  # noqa: UP045
    """Memory that it used when it was ended for that."""
    doomed: str = ""
    """The job that it waited for and that did not end as it should: it has not begun."""
    unneeded: bool = False
    """Whether that should have failed."""
    node: str = ""
    started: Optional[float] = None  # noqa: UP045
    ended: float = 0.0
    user_s: float = 0.0
    system_s: float = 0.0
    most_bytes: int = 0
    """The most memory of any of its processes."""

    @property
    def completed(self) -> bool:
        """Whether it ended by itself with status 0."""
        return self.status == 0 and not self.doomed and self.over_bytes is None

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self)) + "\n"


def run_name(index: int, run: int) -> str:
    """What the names of a run's files begin with."""
    return f"{'job' if index == WHOLE else index}.{run}"


def read_end(path: Path) -> Optional[RunEnd]:  # noqa: UP045
    """Read how a run ended; None where it has not, or the file is not whole."""
    try:
        values = json.loads(path.read_text(encoding="ascii"))
        return RunEnd(**values)
    except (OSError, ValueError, TypeError):
        return None
