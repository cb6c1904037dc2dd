"""What a job can ask of its scheduler beyond cores, memory, time and queue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Options of a job. The defaults ask for nothing; text may hold any bytes, as `os.fsdecode` gives them.

    A scheduler declares on its section of the spec which of them it can do (`job_options`), and refuses a
    job with others: see `supported_options`.
    """

    account: str | None = None
    """Who pays: an account of Slurm, a project of Grid Engine or LSF."""
    qos: str | None = None
    """A quality of service: a set of limits and a priority that administrators have made."""
    reservation: str | None = None
    """A reservation of nodes, by its name."""
    licences: Sequence[str] = ()
    """Licences that it holds while it runs, each NAME or NAME:COUNT."""
    gres: Sequence[str] = ()
    """Generic resources of its node, each NAME[:TYPE][:COUNT], such as gpu:2."""
    constraint: str | None = None
    """Features that its node must have, in the scheduler's own language."""
    begin: float | None = None
    """It starts no sooner, in seconds since 1970."""
    nice: int = 0
    """How much later than alike jobs it is to start: above 0 later, below 0 sooner where that is allowed."""
    mail: str | None = None
    """Address that is told of its events."""
    mail_on: Sequence[str] = ("end", "fail")
    """Which events: begin, end, fail."""
    stdin: str | None = None
    """File that it reads as its standard input; None: nothing. A path of the node."""
    stdout: str | None = None
    """File that its standard output is appended to, instead of its log. A path of the node, in which
    {job} stands for the job's identifier, {index} for its index in an array, and {name} for its name."""
    stderr: str | None = None
    """The same for its standard error. None: where its standard output goes."""
    flow: str | None = None
    """The run of a flow that it belongs to, as NAME/RUN: kept with the job, and shown; no scheduler acts on
    it, and every one has it."""


_DEFAULTS = JobOptions()


def non_default_values(options: JobOptions) -> dict[str, Any]:
    """The options that differ from their defaults, by name."""
    return {name: value for name, value in asdict(options).items() if value != getattr(_DEFAULTS, name)}


def options_text(options: JobOptions) -> str:
    """As JSON, what differs from the defaults; bytes that are no UTF-8 are escaped, as lone surrogates."""
    return json.dumps(non_default_values(options))


@lru_cache(maxsize=256)
def read_options(text: str) -> JobOptions:
    """What `options_text` wrote."""
    return JobOptions(**json.loads(text))
