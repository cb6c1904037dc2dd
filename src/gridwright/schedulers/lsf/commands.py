"""The commands of LSF on the head node: their environment, their JSON, and what their messages mean."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error
from gridwright.schedulers.batch.system import Answered, BatchTools
from gridwright.schedulers.head_node import HeadNode, check_run
from gridwright.schedulers.lsf.section import LsfSection

_AWAY = (
    "lsf is down",
    "cannot connect to lsf",
    "failed in an lsf library call",
    "lim is down",
    "batch daemon not responding",
    "cannot locate master",
    "unable to contact",
)
"""What LSF's commands say while mbatchd or LIM do not answer; they try again by themselves and wait."""
_UNCLEAR = ("communication time out", "connection reset", "bad data", "error in receiving")
NO_JOBS = ("no unfinished job found", "no job found", "no matching job found")
_OURS = (
    "LSB_BJOBS_FORMAT",
    "LSB_BHOSTS_FORMAT",
    "LSB_BQUEUES_FORMAT",
    "LSB_DEFAULTQUEUE",
    "LSB_DEFAULTPROJECT",
)
"""Variables of the caller's that would change what the commands print."""


def tools(section: LsfSection, head: HeadNode) -> BatchTools:
    """The commands, as the section finds them. Raises as `check_run`."""
    environment = {name: value for name, value in os.environ.items() if name not in _OURS}
    environment |= {"LC_ALL": "C", "LSB_NTRIES": "3", "LSB_DISPLAY_YEAR": "Y"}
    prefix: Sequence[str] = ()
    if section.profile is not None:
        instead = "source it in the shell that runs gridwright, without `profile`"
        check_run(head, section.profile, instead, section.owner)
        prefix = ("/bin/sh", "-c", '. "$0" && exec "$@"', str(section.profile))
    return BatchTools(head, "LSF", environment, meaning, prefix)


def meaning(said: str) -> Answered:
    """Whether a message says that mbatchd was not reached, or that it is not clear, or something else."""
    folded = said.lower()
    if any(each in folded for each in _UNCLEAR):
        return Answered.UNCLEAR
    return Answered.AWAY if any(each in folded for each in _AWAY) else Answered.YES


def says(answer: CommandOutput, texts: Sequence[str] = NO_JOBS) -> bool:
    """Whether a command printed one of some texts; by default that there are no such jobs."""
    printed = (answer.stdout + answer.stderr).decode(errors="replace").lower()
    return any(each in printed for each in texts)


def records(
    tools: BatchTools, command: Sequence[str], *, allowed: Callable[[CommandOutput], bool] = lambda _: False
) -> list[dict[str, str]]:
    """The records that a command prints with -o FIELDS -json, by the names of fields in capitals.

    Raises GridwrightError (ENVIRONMENT) where it is no such JSON.
    """
    printed = tools.query(command, allowed=lambda answer: says(answer) or allowed(answer))
    text = printed.decode("utf-8", errors="replace")
    begin = text.find("{")
    if begin < 0:
        if not text.strip() or any(each in text.lower() for each in NO_JOBS):
            return []
        raise _unreadable(command, text)
    try:
        # Control characters stand in its strings as they are.
        found = json.JSONDecoder(strict=False).raw_decode(text[begin:])[0]["RECORDS"]
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(command, str(error)) from error
    return [
        {str(name): str(value) for name, value in each.items()}
        for each in found
        if isinstance(each, dict) and "ERROR" not in each
    ]


def _unreadable(command: Sequence[str], why: str) -> Exception:
    return environment_error(
        f"what {command[0]} prints cannot be read as JSON: {why.strip()[:200]}",
        remedy=f"run {command[0]} -o FIELDS -json by hand; LSF has it since 10.1 with Fix Pack 2",
    )


def plain_node(text: str) -> str | None:
    """The first host of an allocation: hostA of `hostA:hostA` and of `4*hostA`; None for no host."""
    first = re.sub(r"^\d+\*", "", text.partition(":")[0].strip())
    return None if first in ("", "-") else first
