"""The actions that who runs Gridwright needs, each with what it is held to and who calls it.

`data/operator-actions.csv`: `for` is the types of resources, without AWS::, that CloudFormation calls it for
in the caller's name, or gridwright, which calls it by itself. `source` is `handlers` where the schema of the
type lists it (cfn-lint 1.58.0, 2026-11-23), `call` where a test sees the call, or AWS's own page. What the
schemas list beyond these, for properties that no template has, is listed with its reason beside the test.
"""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

GRIDWRIGHT = "gridwright"
"""Calls it by itself, of every grid; with a word behind it, of grids that have what the word says."""


class Scope(StrEnum):
    """What a permission is held to."""

    STACK = "stack"
    """The grid's stacks, by name."""
    LOOK = "look"
    """The region: reading that knows no narrower resource."""
    MAKE = "make"
    """The region: what is not there yet has no tag to know it by."""
    NEW = "new"
    """What is born with the grid's tag, and has none before."""
    TAGGING = "tagging"
    """Tags that EC2 gives a resource in the call that makes it, the grid's own among them."""
    OWN = "own"
    """What has the grid's tag."""
    GROUP = "group"
    """The grid's Auto Scaling groups, by name."""
    SCHEDULES = "schedules"
    """The grid's group of schedules, by name."""
    SCHEDULE = "schedule"
    """Schedules in that group."""
    PASS_SCHEDULE = "pass-schedule"  # noqa: S105 - handing a role to EventBridge Scheduler
    """The role of these schedules, handed to EventBridge Scheduler alone."""
    ALARM = "alarm"
    """The grid's alarms, by name."""
    DASHBOARD = "dashboard"
    """The grid's dashboard, by name."""
    BUDGET = "budget"
    """The grid's budget, by name."""
    TABLE = "table"
    """The table of claims."""
    BUCKET = "bucket"
    """The grid's bucket."""
    OBJECTS = "objects"
    """What is in it."""
    ROLE = "role"
    """The roles of the grid's machines, by name."""
    BOUNDED_ROLE = "bounded-role"
    """The same, and only with the permissions boundary of the spec where it has one."""
    BOUNDARY = "boundary"
    """The same, and nothing where the spec has no boundary."""
    PROFILE = "profile"
    """The instance profiles of the grid's machines, by name."""
    PASS = "pass"  # noqa: S105 - handing a role to a machine
    """The roles of the grid's machines, handed to EC2 alone."""
    LINKED_ROLE = "linked-role"
    """Roles of services that the grid uses."""
    LINK_ROLE = "link-role"
    """The role by which FSx for Lustre reaches a linked bucket."""
    LINKED_BUCKET = "linked-bucket"
    """Buckets that the spec links."""
    LINKED_OBJECTS = "linked-objects"
    """What is in them below the linked prefixes."""
    KEY = "key"
    """The spec's KMS key."""
    GRANT = "grant"
    """The spec's KMS key, for services of AWS alone."""
    TOPIC = "topic"
    """The spec's SNS topic."""
    HOSTED_ZONE = "hosted-zone"
    """The spec's hosted zone."""
    DNS_CHANGE = "dns-change"
    """Changes of hosted zones, to be waited for."""
    USERS_SECRET = "users-secret"  # noqa: S105 - whose it is
    """The secret of the spec's directory of users."""
    KEY_PAIR = "key-pair"
    """Parameters of Systems Manager that hold private keys of key pairs, which EC2 names by their IDs."""
    PARAMETER = "parameter"
    """Parameters of Systems Manager that name images of the grid."""


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """One row."""

    action: str
    scope: Scope
    callers: frozenset[str]
    """Types of resources, or gridwright."""
    source: str


@cache
def operator_actions() -> tuple[OperatorAction, ...]:
    """All rows, in their order."""
    text = files("gridwright.providers.aws").joinpath("data", "operator-actions.csv").read_text("utf-8")
    return tuple(
        OperatorAction(row["action"], Scope(row["scope"]), frozenset(row["for"].split()), row["source"])
        for row in csv.DictReader(text.splitlines())
    )


def needed(types: Collection[str], has: Collection[str] = ()) -> dict[Scope, list[str]]:
    """Actions by scope for templates with resources of these types; one that a pattern covers is left out.

    `has` are words for what the grid has that Gridwright looks at by itself: network, gateway, address of its
    own, or vpc, reservation and dns of the site's.
    """
    own = (f"{GRIDWRIGHT}:{each}" for each in has)
    callers = {GRIDWRIGHT, *own, *(each.removeprefix("AWS::") for each in types)}
    found: dict[Scope, dict[str, None]] = {}
    for each in operator_actions():
        if each.callers & callers:
            found.setdefault(each.scope, {})[each.action] = None
    return {scope: _narrowed(list(found[scope])) for scope in Scope if scope in found}


def _narrowed(actions: list[str]) -> list[str]:
    patterns = [each for each in actions if "*" in each]
    covered = (each for each in actions if "*" not in each)
    return patterns + [each for each in covered if not any(fnmatchcase(each, one) for one in patterns)]
