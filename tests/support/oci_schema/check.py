"""Whether a root of Terraform has what the provider takes, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tests.support.oci_schema.read_bridge import FILE

META = frozenset({"//", "lifecycle", "depends_on", "count", "for_each", "provider"})
"""Arguments that every resource takes: they are Terraform's own, and none of the provider's."""
_TYPES: dict[str, Any] = {"string": str, "bool": bool, "number": (int, float), "map": Mapping}


@cache
def known() -> dict[str, Any]:
    """Arguments of each resource and data source."""
    found: dict[str, Any] = json.loads(FILE.read_text())["arguments"]
    return found


def problems(root: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a root, in words with the place of it."""
    for prefix, part in (("", "resource"), ("data.", "data")):
        for kind, named in root.get(part, {}).items():
            taken = known().get(prefix + kind)
            for name, given in named.items():
                if taken is None:
                    yield f"{prefix}{kind} is not known"
                else:
                    yield from _of_block(f"{prefix}{kind}.{name}", given, taken)


def _of_block(place: str, given: Mapping[str, Any], taken: Mapping[str, Any]) -> Iterator[str]:
    for name, argument in taken.items():
        if argument.get("required") and name not in given:
            yield f"{place} lacks {name}"
    for name, value in given.items():
        if name in META:
            continue
        if name not in taken:
            yield f"{place} has {name}, which nobody takes"
            continue
        yield from _of_value(f"{place}.{name}", value, taken[name])


def _of_value(place: str, value: Any, argument: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("${"):
        return
    # A block that occurs at most once is a list of one in JSON, and no list in the bridge.
    values = value if isinstance(value, list) else [value]
    if argument["type"] == "block":
        if not argument.get("list") and len(values) != 1:
            yield f"{place} occurs {len(values)} times"
        for each in values:
            yield from _of_block(place, each, argument["block"])
        return
    if argument.get("list") != isinstance(value, list) and (argument.get("list") or isinstance(value, list)):
        yield f"{place} is {'no list' if argument.get('list') else 'a list'}"
        return
    wanted = _TYPES[argument["type"]]
    for each in values:
        if isinstance(each, str) and each.startswith("${"):
            continue
        if not isinstance(each, wanted) or (isinstance(each, bool) and argument["type"] != "bool"):
            yield f"{place} is {each!r}, and no {argument['type']}"
