"""A judge of calls against IAM policies: whether a statement allows an action on a resource in a context.

Of what IAM knows, only what Gridwright's policies are made of; anything else is an error, never a "yes".
Words are those of the IAM User Guide, "policy evaluation logic" and "condition operators".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Asked:
    """What IAM is asked: one action on one resource, with all that is known about it."""

    action: str
    resource: str
    context: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values of condition keys; a key that is not there is one that the call does not have."""

    def __str__(self) -> str:
        return f"{self.action} on {self.resource} with {dict(self.context)}"


def is_allowed(statements: Iterable[Mapping[str, Any]], asked: Asked) -> bool:
    """Whether one statement allows it, and none denies it."""
    effects = {each["Effect"] for each in statements if _fits(each, asked)}
    return effects == {"Allow"}


def actions_of(statements: Iterable[Mapping[str, Any]]) -> set[str]:
    """Everything that is allowed somewhere, as it is written."""
    return {action for each in statements if each["Effect"] == "Allow" for action in _several(each["Action"])}


def _fits(statement: Mapping[str, Any], asked: Asked) -> bool:
    unknown = set(statement) - {"Sid", "Effect", "Action", "Resource", "Condition"}
    if unknown:
        raise NotImplementedError(f"this judge does not know {unknown} of a statement")
    return (
        any(_like(asked.action.lower(), each.lower()) for each in _several(statement["Action"]))
        and any(_like(asked.resource, _filled(each, asked)) for each in _several(statement["Resource"]))
        and all(
            _holds(operator, key, _several(values), asked)
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
    )


def _holds(operator: str, key: str, wanted: list[str], asked: Asked) -> bool:
    if operator == "Null":
        return all(_OPERATORS["Bool"](str(key not in asked.context), each) for each in wanted)
    quantifier, _, name = operator.rpartition(":")
    compare = _OPERATORS[name]
    given = asked.context.get(key)
    if given is None:
        # A key that is not there fails, but for ForAllValues, which has nothing to compare then.
        return quantifier == "ForAllValues"
    hits = [any(compare(value, _filled(each, asked)) for each in wanted) for value in given]
    if quantifier == "ForAllValues":
        return all(hits)
    if quantifier == "" and len(given) != 1:
        raise ValueError(f"{key} has {len(given)} values, and {operator} compares one")
    return any(hits)


def _like(text: str, pattern: str) -> bool:
    return _compiled(pattern).fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = ({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in pattern)
    return re.compile("".join(parts), re.DOTALL)


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda value, wanted: value == wanted,
    "StringLike": _like,
    "ArnLike": _like,
    "Bool": lambda value, wanted: value.lower() == wanted.lower(),
}


def _filled(text: str, asked: Asked) -> str:
    """A pattern with its policy variables; one without a single plain value matches nothing."""

    def value(found: re.Match[str]) -> str:
        values = asked.context.get(found[1], ())
        return values[0] if len(values) == 1 and not set("*?") & set(values[0]) else "\0"

    return re.sub(r"\$\{([^}]+)\}", value, text)


def _several(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
