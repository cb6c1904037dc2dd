"""The tuning table: what nodes are set to, and why; read by doctor and by the Ansible roles alike.

The rows are in tuning.yaml, and those that a kind of file system has in its package. A formula is a Jinja
expression, so that Ansible and the doctor work it out alike; it may use `memory_bytes`, `memory_kib`, `cores`
(physical ones) and `cpus` (logical ones).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.filesystems import all_kinds
from gridwright.filesystems.kind import ClientSettings, TuningKind
from gridwright.setup.ansible.tuned_values import worked_out
from gridwright.spec.model import GridSpec

KIND_WORDS: Mapping[str, str] = {
    "sysctl": "sysctl",
    "sysfs": "/sys/",
    "limit": "limit",
    "block": "queue",
    "mount": "mount option",
    "tuned": "tuned",
    "service": "service",
}
"""Kinds of rows that every table may have, which role base sets, and what stands before a key in messages.
Kinds of file systems bring others."""
Role = Literal["compute", "storage", "head"]
Compare = Literal["equal", "at-least", "at-most", "one-of", "absent"]
"""How what is found is judged; `one-of` and `absent` (a mount option) where several are right."""
Medium = Literal["nvme", "ssd", "rotational"]
Value = int | str | list[int | str]
_HEAD = "gridwright_tuning"
"""The key of the rows in each file."""


class TuningRow(BaseModel):
    """One setting. `key` is what its kind calls it: `vm.dirty_ratio`, a path below /sys, a mount option."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")
    """Name of the check of the doctor, as `silence` has it."""
    kind: str
    key: str
    value: Value | None = None
    formula: str | None = None
    compare: Compare = "equal"
    roles: list[Role]
    media: list[Medium] | None = None
    """Block rows: disks that it is for; None is all."""
    filesystems: list[str] | None = None
    """Only on nodes that have a file system of these types (as /proc/mounts names them) in use."""
    level: Literal["error", "warning", "info"] = "warning"
    reason: str
    source: str
    since: str | None = None
    """Kernel or release from which it holds, such as `Linux 4.13`."""
    until: str | None = None
    """Kernel or release in which it went."""
    absent: str | None = None
    """What is said where it is not there: what took its place."""
    corrected: str | None = None
    """Where a paper's value was not taken over: the value, and why it is wrong today."""
    bounded_by: str | None = None
    """What says how far the setting can go; no more is asked for then. Block rows: the file beside `key`.
    Rows of file systems: what the `bound` of their kind looks for."""
    unless: list[str] = Field(default_factory=list)
    """Mount rows: options of mounts that are not meant, as a server's of its own targets."""

    @model_validator(mode="after")
    def _one_value(self) -> TuningRow:
        if (self.value is None) == (self.formula is None):
            raise ValueError("a row has either a value or a formula")
        return self


class NotSet(BaseModel):
    """A setting of the papers that nodes do not get, with the reason for readers who compare."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    paper: str
    """The paper's value."""
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeSize:
    """What formulas scale with."""

    memory_bytes: int
    cores: int
    cpus: int


@dataclass(frozen=True, slots=True)
class _Tables:
    """All tables that can be read, and what is wrong with the others."""

    rows: Sequence[TuningRow]
    texts: Sequence[str]
    """Of kinds of file systems; two of them may have one table."""
    kinds: Mapping[str, TuningKind]
    """Kinds of rows that they bring, by name."""
    problems: Mapping[str, Sequence[str]]
    """By kind of file system."""


@cache
def tuning_rows() -> tuple[TuningRow, ...]:
    """All rows, in the order of the file; those of a broken extension are left out."""
    return tuple(_tables().rows)


@cache
def not_set() -> tuple[NotSet, ...]:
    """What the papers set and we do not, in the order of the file."""
    return tuple(NotSet.model_validate(row) for row in _loaded(_own("not_set.yaml"))["gridwright_not_set"])


def tuning_text() -> str:
    """The whole table as one file: rows for all nodes, those of kinds of file systems, what is not set."""
    rows = [textwrap.indent(textwrap.dedent(_below_head(text)), "  ") for text in _tables().texts]
    return "\n\n".join([_own("tuning.yaml").rstrip("\n"), *rows, _own("not_set.yaml")])


def brought_kinds() -> Mapping[str, TuningKind]:
    """Kinds of rows that kinds of file systems bring, by their name."""
    return _tables().kinds


def kind_words(kind: str) -> str:
    """What stands before a key of that kind in messages and documents."""
    return KIND_WORDS.get(kind) or brought_kinds()[kind].words


def refuse_broken_tables(spec: GridSpec) -> None:
    """Raise GridwrightError (ENVIRONMENT) with all that is wrong with tables of the spec's file systems."""
    problems = [
        Problem(
            f"the tuning table of file system type {kind} cannot be used: {what}",
            remedy="mend or update the package that brings it, see gridwright help extending",
        )
        for kind in dict.fromkeys(filesystem.type for filesystem in spec.filesystems.values())
        for what in _tables().problems.get(kind, ())
    ]
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.ENVIRONMENT)


@cache
def _tables() -> _Tables:
    rows = [TuningRow.model_validate(row) for row in _loaded(_own("tuning.yaml"))[_HEAD]]
    texts: list[str] = []
    kinds: dict[str, TuningKind] = {}
    problems: dict[str, Sequence[str]] = {}
    for filesystem, kind in all_kinds():
        if not isinstance(kind, ClientSettings):
            continue
        try:
            text, brought = (
                kind.tuning_table(),
                {tuning_kind.name: tuning_kind for tuning_kind in kind.tuning_kinds()},
            )
            if text in texts:
                continue
            wrong = list(_wrong_kinds(brought, kinds))
            own = _read(text, wrong)
            wrong += _wrong_rows(own, [*KIND_WORDS, *kinds, *brought], {row.name for row in rows})
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            problems[filesystem] = wrong
            continue
        kinds |= brought
        rows += own
        texts += [] if text is None else [text]
    return _Tables(rows, texts, kinds, problems)


def _read(text: str, wrong: list[str]) -> list[TuningRow]:
    """The rows of a table; what is wrong with others is added to `wrong`."""
    if not _below_head(text):
        wrong.append(f"it has no line {_HEAD}: with rows below it")
        return []
    rows = []
    for plain in _loaded(text)[_HEAD]:
        try:
            rows.append(TuningRow.model_validate(plain))
        except ValidationError as error:
            name = plain.get("name") if isinstance(plain, Mapping) else plain
            wrong += [
                ": ".join([f"row {name}", *filter(None, [".".join(map(str, each["loc"]))]), each["msg"]])
                for each in error.errors()
            ]
    return rows


def _wrong_kinds(brought: Mapping[str, TuningKind], known: Mapping[str, TuningKind]) -> Iterator[str]:
    for name, kind in brought.items():
        if name in KIND_WORDS or known.get(name, kind) is not kind:
            yield f"there is a kind of rows {name} already"


def _wrong_rows(rows: Iterable[TuningRow], kinds: Sequence[str], names: set[str]) -> Iterator[str]:
    for row in rows:
        if row.kind not in kinds:
            yield f"row {row.name}: {row.kind} is no kind of rows; there are {', '.join(kinds)}"
        if row.name in names:
            yield f"row {row.name}: there is a row of that name already"
        names.add(row.name)


def _below_head(text: str) -> str:
    """The lines of rows, as they stand."""
    return text.partition(f"{_HEAD}:\n")[2].rstrip("\n")


def _loaded(text: str) -> Mapping[str, Sequence[Any]]:
    # As the playbook reads it on nodes; Ansible brings it along.
    import yaml  # type: ignore[import-untyped]

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    table: Mapping[str, Sequence[Any]] = yaml.load(text, Loader=loader)  # noqa: S506 - it is a safe one
    return table


def _own(name: str) -> str:
    return resources.files("gridwright.setup").joinpath(name).read_text("utf-8")


def desired_value(row: TuningRow, size: NodeSize) -> Value:
    """The value of a row on a node of some size."""
    if row.value is not None:
        return row.value
    value: Value = worked_out(
        row.formula or "", memory_bytes=size.memory_bytes, cores=size.cores, cpus=size.cpus
    )
    return value
