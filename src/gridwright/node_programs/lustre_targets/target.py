"""Targets that a machine is to serve, as its file says them."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.scratch.json_reader import JsonReader
from gridwright.node_programs.scratch.problems import WRONG_INPUT, Trouble

Paths = TypeVar("Paths")
KINDS = ("mgt", "mdt", "ost")
"""In the order in which they are mounted: who registers needs the management server."""
MACHINE = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""A name of a machine or a grid."""
NID = r"[0-9A-Za-z_.-]{1,253}@[a-z0-9]{1,15}"
_FSNAME = r"[A-Za-z0-9_-]{1,8}"
"""mkfs.lustre(8), --fsname."""
_MOST_INDEX = 0xFFFE
TARGET_KEYS = frozenset({"name", "kind", "index", "fsname", "with_mgt", "mount"})


@dataclass(frozen=True)
class DesiredTarget:
    """One target of a Lustre, on a volume of its own."""

    name: str
    """The tag of its volume, and the label of its file system: MGS, shared-MDT0000, shared-OST0003."""
    kind: str
    index: int
    fsname: str
    with_mgt: bool
    mount: Path

    @property
    def has_mgs(self) -> bool:
        """Whether the management server is on it."""
        return self.kind == "mgt" or self.with_mgt


def in_order(targets: list[DesiredTarget]) -> tuple[DesiredTarget, ...]:
    """As they are mounted: the one with the management server first, metadata before objects."""
    return tuple(sorted(targets, key=lambda each: (not each.has_mgs, KINDS.index(each.kind), each.index)))


def json_of(path: Path, absent: str, damaged: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """What a file holds. Raises ClaimError (status 2) with one of the two remedies."""
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "it is no regular file")  # A pipe might be waited for without end.
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ClaimError(Trouble(f"{path}: {error.strerror}", absent), status=WRONG_INPUT) from None
    except (ValueError, RecursionError) as error:
        raise ClaimError(Trouble(f"{path}: not JSON: {error}", damaged), status=WRONG_INPUT) from None


class TargetReader(JsonReader):
    """Reads files that name targets."""

    example = Path("/srv/gridwright/shared-OST0000")
    more: frozenset[str] = frozenset()
    """Keys that a target has beside its own."""

    def target(self, data: Any, where: str) -> DesiredTarget:  # noqa: ANN401 - whatever JSON holds
        """One target."""
        given = self.mapping(data, where, {*TARGET_KEYS, *self.more})
        kind = given.get("kind")
        if kind not in KINDS:
            self.wrong(f"{where}.kind", kind, ", ".join(KINDS))
            kind = "ost"
        index = given.get("index")
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index <= _MOST_INDEX:
            self.wrong(f"{where}.index", index, f"a whole number from 0 to {_MOST_INDEX}")
            index = 0
        with_mgt = given.get("with_mgt", False)
        if not isinstance(with_mgt, bool):
            self.wrong(f"{where}.with_mgt", with_mgt, "true or false")
        return DesiredTarget(
            name=self.text(given, "name", r"[A-Za-z0-9_-]{1,16}", "a label, such as shared-OST0000", where),
            kind=kind,
            index=index,
            fsname=self.text(
                given, "fsname", _FSNAME, "the name of a Lustre, of at most 8 characters", where
            ),
            with_mgt=with_mgt is True,
            mount=self.path(given.get("mount"), f"{where}.mount"),
        )

    def once(self, where: str, values: Sequence[str], desired: str) -> None:
        """No value is there twice."""
        for value in sorted({each for each in values if values.count(each) > 1}):
            self.wrong(where, value, desired)

    def directories(self, data: Any, kind: type[Paths]) -> Paths:  # noqa: ANN401
        """Paths of a system, a dataclass of them, where they are not where `kind` has them."""
        known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
        given = self.mapping(data, "directories", known)
        return kind(
            **{name: self.path(given[name], f"directories.{name}") for name in given if name in known}
        )

    def text(self, given: Mapping[str, Any], key: str, pattern: str, desired: str, where: str = "") -> str:
        """A text of that form."""
        data = given.get(key)
        if not isinstance(data, str) or not re.fullmatch(pattern, data, re.ASCII):
            self.wrong(f"{where}.{key}".lstrip("."), data, desired)
            return "wrong"
        return data
