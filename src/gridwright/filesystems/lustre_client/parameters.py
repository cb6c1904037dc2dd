"""Reading Lustre parameters: `lctl get_param` with exact needed names, and what it prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from gridwright.errors import environment_error
from gridwright.filesystems.health import Run

LIMIT_S = 10.0
"""For `lctl get_param`: it answers from memory at once; what asks a server that is gone takes its timeout."""
UNLIMITED = 2**64 - 1
"""How Lustre prints that there is no limit."""
_NOT_FOUND = 127
_DEVICE_NAME = re.compile(r"[a-z]+(?:-[a-z]+)?\.[^\s=]+\.[a-z_]+=")
"""The line of a parameter of a device, whoever asked for it."""
_NAME = re.compile(r"([A-Za-z][^\s=]*)=(.*)")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters by name; what was not there or could not be read is absent."""

    values: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """The value without blanks around it."""
        value = self.values.get(name)
        return None if value is None else value.strip()

    def number(self, name: str) -> int | None:
        """A whole number; None where it is absent, unlimited, or no number."""
        return whole_number(self.values.get(name, ""))

    def matching(self, pattern: str) -> Iterator[tuple[str, str]]:
        """Name and value of all whose name the pattern (fnmatch) fits."""
        return ((name, value) for name, value in self.values.items() if fnmatchcase(name, pattern))


def whole_number(text: str) -> int | None:
    """A number of at most 64 bits; None for no number and for `unlimited`."""
    found = re.fullmatch(r"\s*([0-9]{1,20})\s*", text)
    number = int(found[1]) if found else None
    return None if number is None or number >= UNLIMITED else number


def read_parameters(run: Run, names: Sequence[str], *, timeout_s: float = LIMIT_S) -> Parameters:
    """Ask for parameters by name, each exact up to the name of the device.

    Status 2 is usual: a name that this node or release does not have is no reason to lose the others.
    Raises GridwrightError (status ENVIRONMENT) where lctl is not there or does not answer in time.
    """
    answer = run(["lctl", "get_param", *names], timeout_s=timeout_s)
    if answer.status == _NOT_FOUND:
        raise environment_error(
            "lctl is not there", remedy="install the Lustre client of your servers' release"
        )
    return parse_parameters(answer.stdout.decode(errors="replace"), names)


def parse_parameters(text: str, names: Sequence[str]) -> Parameters:
    """What `lctl get_param NAMES` printed: `name=value`, or `name=` and the value on lines of its own.

    A line begins a parameter only if its name was asked for, since values (job names) can hold anything.
    """
    values: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        found = _NAME.match(line)
        if found and any(fnmatchcase(found[1], pattern) for pattern in names):
            lines = values.setdefault(found[1], [])
            lines.clear()
            lines += [found[2]] if found[2] else []
        elif _DEVICE_NAME.match(line):
            lines = None
        elif lines is not None:
            lines.append(line)
    return Parameters({name: "\n".join(lines) for name, lines in values.items()})


def is_root(run: Run) -> bool:
    """Whether commands run as root there.

    To others lctl prints counters whose last digit is cut, and imports that are empty, with no complaint.
    """
    return run(["id", "-u"], timeout_s=LIMIT_S).stdout.strip() == b"0"
