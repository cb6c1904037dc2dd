"""The tuning table: what nodes are set to, and why; read by doctor and by the Ansible roles alike.

The rows are in tuning.yaml, and those that a kind of file system has in its package. A formula is a Jinja
expression, so that Ansible and the doctor work it out alike; it may use `memory_bytes`, `memory_kib`, `cores`
(physical ones) and `cpus` (logical ones).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gridwright.filesystems import all_kinds
from gridwright.setup.ansible.tuned_values import worked_out

Kind = Literal[
    "sysctl",
    "sysfs",
    "tuned",
    "limit",
    "block",
    "mount",
    "lustre-client",
    "lustre-server",
    "scale",
    "service",
]
Role = Literal["compute", "storage", "head"]
Compare = Literal["equal", "at-least", "at-most", "one-of", "absent"]
"""How what is found is judged; `one-of` and `absent` (a mount option) where several are right."""
Medium = Literal["nvme", "ssd", "rotational"]
Value = int | str | list[int | str]
_HEAD = "gridwright_tuning:\n"
"""What stands before the rows in each file."""


class TuningRow(BaseModel):
    """One setting. `key` is what its kind calls it: `vm.dirty_ratio`, a path below /sys, a mount option."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")
    """Name of the check of the doctor, as `silence` has it."""
    kind: Kind
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
    """Block rows: the file beside `key` that says how far a disk can go; it then asks for no more."""

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


@cache
def tuning_rows() -> tuple[TuningRow, ...]:
    """All rows, in the order of the file."""
    return tuple(TuningRow.model_validate(row) for row in _table()["gridwright_tuning"])


@cache
def not_set() -> tuple[NotSet, ...]:
    """What the papers set and we do not, in the order of the file."""
    return tuple(NotSet.model_validate(row) for row in _table()["gridwright_not_set"])


def tuning_text() -> str:
    """The whole table as one file: rows for all nodes, those of kinds of file systems, what is not set."""
    own = resources.files("gridwright.setup")
    # Two kinds may have one table.
    tables = dict.fromkeys(text for _, kind in all_kinds() if (text := kind.tuning_table()))
    rows = [text.partition(_HEAD)[2].rstrip("\n") for text in tables]
    first, last = (own.joinpath(name).read_text("utf-8") for name in ("tuning.yaml", "not_set.yaml"))
    return "\n\n".join([first.rstrip("\n"), *rows, last])


def _table() -> Mapping[str, Sequence[Mapping[str, object]]]:
    from ruamel.yaml import YAML

    table: Mapping[str, Sequence[Mapping[str, object]]] = YAML(typ="safe").load(tuning_text())
    return table


def wanted(row: TuningRow, size: NodeSize) -> Value:
    """The value of a row on a node of some size."""
    if row.value is not None:
        return row.value
    value: Value = worked_out(
        row.formula or "", memory_bytes=size.memory_bytes, cores=size.cores, cpus=size.cpus
    )
    return value
