"""What CloudFormation would do to the resources of a grid between two specs, by their schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import cfnlint  # type: ignore[import-untyped]

from gridwright.providers.aws.changes import Deployment, create_only, deployment, differences
from gridwright.providers.aws.rolling import fixed_machines, with_images
from gridwright.spec import parse_spec

SCHEMAS = Path(cfnlint.__file__).parent / "data" / "schemas"
ROLLED = {"AWS::AutoScaling::AutoScalingGroup": ("LaunchTemplate", "VPCZoneIdentifier")}
"""What machines are launched with: the head node replaces those that are there (`roll`)."""
RESTARTED = {"AWS::EC2::Instance": ("UserData", "EbsOptimized", "InstanceType")}
"""What stops and starts a machine on volumes (CloudFormation, AWS::EC2::Instance)."""

LATEST = "LatestVersionNumber"
"""Of a launch template: who reads it has another one; who names a version keeps it."""


@cache
def schema(kind: str) -> dict[str, Any]:
    """The schema of a type of resource."""
    index = json.loads((SCHEMAS / "providers" / "us-east-1.json").read_text())
    found: dict[str, Any] = json.loads((SCHEMAS / "resources" / f"{index[kind]}.json").read_text())
    return found


@lru_cache(maxsize=16)
def deployed(spec: str) -> Deployment:
    """What a spec is deployed as; one that is changed field by field is deployed once."""
    return deployment(parse_spec(spec))


def effects(old: str, new: str) -> dict[str, str]:
    """Resources of a grid that are replaced, rolled or restarted between two specs, by logical ID."""
    before, after = deployed(old), deployed(new)
    had, wanted = (
        {name: str(value.get("Default", "")) for name, value in each.grid.get("Parameters", {}).items()}
        for each in (before, after)
    )
    launched = with_images(after.layout, before.grid, had, wanted)
    grid = fixed_machines(after.spec, after.layout, launched, after.grid, ()).template
    found: dict[str, str] = {}
    for was, is_now in ((before.storage, after.storage), (launched, grid)):
        parameters = was.get("Parameters", {}), is_now.get("Parameters", {})
        found |= _of_stack(was["Resources"], is_now["Resources"], _others(*parameters))
    return found


def _others(old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    """Parameters that have another default, and so another value: up gives them what the spec names now."""
    return {name for name in old.keys() & new.keys() if old[name].get("Default") != new[name].get("Default")}


def _of_stack(old: Mapping[str, Any], new: Mapping[str, Any], others: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    moved = set(others)
    while True:
        known = len(moved)
        for name in old.keys() & new.keys():
            effect = _effect(old[name], new[name], moved)
            if effect:
                found[name] = effect
            if effect == "replace":
                moved.add(name)
            if _new_version(old[name], new[name], moved):
                moved.add(f"{name}.{LATEST}")
        if len(moved) == known:
            return found


def _effect(old: Mapping[str, Any], new: Mapping[str, Any], moved: set[str]) -> str | None:
    kind = new["Type"]
    differing = _differing(old, new, moved)
    rolled, restarted = ({*table.get(kind, ())} for table in (ROLLED, RESTARTED))
    if old["Type"] != kind or differing & (_fixed(kind) - rolled - restarted):
        return "replace"
    if differing & rolled:
        return "roll"
    return "restart" if differing & restarted else None


def _fixed(kind: str) -> set[str]:
    """Properties that only a new resource can have; what depends on values counts."""
    found = schema(kind)
    paths = [*found.get("createOnlyProperties", ()), *found.get("conditionalCreateOnlyProperties", ())]
    names = {each.removeprefix("/properties/").partition("/")[0] for each in paths}
    # What only the template reference says is in Gridwright's own list.
    return names | create_only().get(kind, frozenset())


def _new_version(old: Mapping[str, Any], new: Mapping[str, Any], moved: set[str]) -> bool:
    """Whether it is a launch template whose latest version would be another one."""
    return new["Type"] == "AWS::EC2::LaunchTemplate" and "LaunchTemplateData" in _differing(old, new, moved)


def _differing(old: Mapping[str, Any], new: Mapping[str, Any], moved: set[str]) -> set[str]:
    """Properties of a resource that are not as they were, or are made from something that is not."""
    was, is_now = old.get("Properties", {}), new.get("Properties", {})
    changed = {name for name in was.keys() | is_now.keys() if was.get(name) != is_now.get(name)}
    changed |= {*differences(was, is_now)}
    return changed | {name for name, value in is_now.items() if _refers(value, moved)}


def _refers(value: Any, moved: set[str]) -> bool:
    """Whether a value is made from something that became another."""
    if isinstance(value, Mapping):
        if set(value) == {"Ref"}:
            return value["Ref"] in moved
        if set(value) == {"Fn::GetAtt"}:
            name, attribute = value["Fn::GetAtt"]
            return name in moved or f"{name}.{attribute}" in moved
        if set(value) == {"Fn::Sub"}:
            text = value["Fn::Sub"]
            return any(f"${{{name}}}" in str(text) for name in moved)
        return any(_refers(each, moved) for each in value.values())
    return isinstance(value, list) and any(_refers(each, moved) for each in value)
