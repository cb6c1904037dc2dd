"""Jobs of the double: what was asked for, what stands of them, and the conditions that they wait for."""

from __future__ import annotations

import pwd
import re
import time
from dataclasses import dataclass, field


class Refused(Exception):
    """What LSF refuses, with its message."""


@dataclass
class Element:
    """A job, or one element of an array."""

    number: int
    index: int
    """0 where it is no array."""
    name: str
    description: str
    queue: str
    command: str
    slots: int = 1
    memory: int = 0
    memory_limit: int | None = None
    minutes: int | None = None
    hosts: tuple[str, ...] = ()
    exclusive: bool = False
    rerunnable: bool = False
    condition: str = ""
    orphan: bool = False
    begin: float = 0.0
    project: str = "default"
    environment: dict[str, str] = field(default_factory=dict)
    output: str = "/dev/null"
    directory: str = "/"
    stat: str = "PEND"
    host: str = ""
    pid: int = 0
    submitted: float = field(default_factory=time.time)
    started: float = 0.0
    finished: float = 0.0
    code: int = 0
    reason: str = ""
    pending: str = "New job is waiting for scheduling;"
    kill_at: list[tuple[float, int]] = field(default_factory=list)
    term: str = ""
    uid: int = 0
    """Who handed it in, and runs it."""

    @property
    def id(self) -> str:
        return f"{self.number}[{self.index}]" if self.index else str(self.number)

    @property
    def user(self) -> str:
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    @property
    def ended(self) -> bool:
        return self.stat in ("DONE", "EXIT")


Jobs = dict[int, list[Element]]


def parse_index_list(text: str, most: int) -> list[int]:
    """The elements of an index list: 1-10, 1-9:2, 3. An index is from 1."""
    found: list[int] = []
    for part in text.split(","):
        span = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part.strip())
        if span is None or int(span[1]) < 1:
            raise Refused("Bad job array index list. Job not submitted.")
        found += range(int(span[1]), int(span[2] or span[1]) + 1, int(span[3] or 1))
    if not found or max(found) > most:
        raise Refused("Job array index too large. Job not submitted.")
    return found


def check_condition(text: str, jobs: Jobs) -> None:
    """Refuse a dependency expression that is malformed, or whose jobs LSF cannot find."""
    rest = re.sub(r"(done|ended|exit|started)\(\d+(\[(\d+|\*)\])?\)", "J", text)
    if not re.fullmatch(r"[J&|!()\s]+", rest) or "J" not in rest:
        raise Refused("Bad dependency condition. Job not submitted.")
    try:
        compile(_python(rest.replace("J", "True")), "condition", "eval")
    except SyntaxError:
        raise Refused("Bad dependency condition. Job not submitted.") from None
    for number, index in re.findall(r"\((\d+)(?:\[(\d+|\*)\])?\)", text):
        elements = jobs.get(int(number), [])
        if not elements or (index.isdigit() and int(index) not in [each.index for each in elements]):
            raise Refused(f"{number}: No matching job found. Job not submitted.")


def _python(text: str) -> str:
    return text.replace("&&", " and ").replace("||", " or ").replace("!", " not ").strip()


def holds(text: str, jobs: Jobs, index: int) -> bool | None:
    """Whether a condition is met; None where it can never be any more."""
    values: list[bool | None] = []

    def value(found: re.Match[str]) -> str:
        elements = jobs[int(found[2])]
        if found[3] == "*":
            elements = [each for each in elements if each.index == index]
        elif found[3]:
            elements = [each for each in elements if each.index == int(found[3])]
        wanted = {"done": ("DONE",), "exit": ("EXIT",), "ended": ("DONE", "EXIT")}[found[1]]
        met = all(each.stat in wanted for each in elements)
        never = any(each.ended and each.stat not in wanted for each in elements)
        values.append(None if never else met)
        return str(met)

    expression = re.sub(r"(done|ended|exit)\((\d+)(?:\[(\d+|\*)\])?\)", value, text)
    met = bool(eval(_python(expression), {"__builtins__": {}}))  # noqa: S307 - only True, False, and, or, not
    return None if not met and None in values and "||" not in text else met
