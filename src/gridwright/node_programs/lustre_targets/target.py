"""Targets that a machine is to serve, as its file says them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.node_programs.scratch.json_reader import JsonReader

KINDS = ("mgt", "mdt", "ost")
"""In the order in which they are mounted: who registers needs the management server."""
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

    def text(self, given: Mapping[str, Any], key: str, pattern: str, wanted: str, where: str = "") -> str:
        """A text of that form."""
        data = given.get(key)
        if not isinstance(data, str) or not re.fullmatch(pattern, data, re.ASCII):
            self.wrong(f"{where}.{key}".lstrip("."), data, wanted)
            return "wrong"
        return data
