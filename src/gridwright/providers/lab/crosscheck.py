"""Rules between fields of a lab: what it cannot have.

Works on plain data: whatever has the wrong type is passed over here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.providers.controller import CONTROLLER
from gridwright.providers.lab.section import STORAGE
from gridwright.spec.filesystem import FILESYSTEMS, filesystem_kind_in
from gridwright.spec.scheduler import scheduler_kind_in
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.together import KEY, Refused


def lab_problems(data: Mapping[str, Any]) -> Iterator[Refused]:
    """Problems between fields of a lab: a path and what is wrong there."""
    for name, filesystem in _mapping(data, "filesystems").items():
        kind = filesystem_kind_in(filesystem)
        if kind is not None and not kind.can_be_in_a_lab:
            can = [other for other, each in FILESYSTEMS.kinds() if each.can_be_in_a_lab]
            yield (
                ("filesystems", name, "type"),
                FieldError(
                    f"a lab cannot have file system {filesystem['type']}",
                    f"write {', or '.join(reversed(can))}",
                ),
            )
    for section, name in ((each, name) for each in ("nodes", "machines") for name in _mapping(data, each)):
        if name in (CONTROLLER, STORAGE):
            yield (
                (section, name, KEY),
                FieldError(
                    f"{name} is the name of a node that every lab has",
                    "give the group another name, such as compute",
                ),
            )
    if "ad" in _mapping(data, "users"):
        yield (
            ("users", "ad", KEY),
            FieldError("nodes of a lab join no domain", "remove it, or name a directory with ldap:"),
        )
    scheduler = scheduler_kind_in(data)
    if scheduler is None:
        return
    for place, problem in scheduler.lab_problems(_mapping(data, "scheduler")):
        yield ("scheduler", *place), problem
    if scheduler.spec_model.runs_on_one_machine:
        path = ("scheduler", "type") if "type" in _mapping(data, "scheduler") else ("scheduler",)
        yield (
            path,
            FieldError(
                "the local scheduler is for one machine, and a lab has several nodes", "write {type: slurm}"
            ),
        )


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}
