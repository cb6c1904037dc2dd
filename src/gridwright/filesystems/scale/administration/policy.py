"""The policy of a file system: what it should have, and what is there of the grid's and of others.

Rules that others wrote are never removed: where there are any, the policy is left as it is, and what lacks is
told. Nodes run this with Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

OWN = "gridwright-"
"""Begins the names of rules that are the grid's."""
_HEAD = "/* By Gridwright, from the grid spec. It changes rules whose names begin with gridwright-. */\n"
_TOKEN = re.compile(r"/\*.*?\*/|'(?:[^']|'')*'|\s+|\w+|.", re.DOTALL)
"""A comment, a text, space, a word or anything else (IBM Storage Scale, policy rules: syntax)."""


def policy_text(rules: Sequence[str]) -> str:
    """The file that mmchpolicy reads."""
    return _HEAD + "".join(f"{rule}\n" for rule in rules)


def statements(text: str) -> tuple[str, ...]:
    """Rules of a policy, without comments and with single spaces.

    What stands before the first one, such as macros, is a statement, too, where there is a rule at all: of a
    file system without a policy a sentence is printed that says so.
    """
    found: list[str] = []
    current: list[str] = []
    has_rule = False
    for token in _TOKEN.findall(text):
        if token.startswith("/*"):
            continue
        if token.upper() == "RULE":
            has_rule = True
            found.append("".join(current).strip())
            current = []
        current.append(" " if token.isspace() else token)
    found.append("".join(current).strip())
    if not has_rule:
        return ()
    # Comments leave two spaces behind; those of a text between quotes are its own.
    return tuple(_single_spaced(each) for each in found if each)


def _single_spaced(statement: str) -> str:
    parts = re.split(r"('(?:[^']|'')*')", statement)
    return "".join(part if part.startswith("'") else re.sub(r"\s+", " ", part) for part in parts).strip()


def is_own(statement: str) -> bool:
    """Whether a rule is the grid's."""
    return re.match(rf"RULE '{OWN}", statement, re.IGNORECASE) is not None


def pools_named(rules: Sequence[str]) -> frozenset[str]:
    """Pools that rules put files in, or take them from."""
    return frozenset(name for rule in rules for name in re.findall(r"POOL '([^']+)'", rule))


class PolicyDifference:
    """What an installed policy has otherwise than it should."""

    def __init__(self, desired: Sequence[str], installed: str) -> None:
        """`installed` is what `mmlspolicy DEVICE -L` printed."""
        there, should = statements(installed), statements(policy_text(desired))
        own = tuple(each for each in there if is_own(each))
        self.others = tuple(each for each in there if not is_own(each))
        self.lacking = tuple(each for each in should if each not in own)
        self.outdated = tuple(each for each in own if each not in should)

    @property
    def differs(self) -> bool:
        """Whether anything is to be changed, by the grid or by hand."""
        return bool(self.lacking or self.outdated)
