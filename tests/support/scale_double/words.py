"""Options and stanzas that commands of the double are given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence


class Refused(Exception):
    """What a command says on stderr."""


def options_in(words: Sequence[str], valued: set[str], flags: set[str]) -> dict[str, str]:
    """Options by their name. Raises Refused for one that the command does not know."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word in valued:
            found[word] = next(rest)
        elif word in flags:
            found[word] = ""
        else:
            raise Refused(f"Incorrect option: {word}")
    return found


def stanzas_in(text: str) -> Iterator[dict[str, str]]:
    for stanza in text.split("%nsd:")[1:]:
        yield dict(re.findall(r"(\w+)=(\S+)", stanza))
