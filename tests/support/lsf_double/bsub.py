"""bsub of the double: reads its options as the command reference of LSF 10.1 has them."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence

from tests.support.lsf_double.jobs import Element, Jobs, Refused, check_condition, parse_index_list

_VALUES = frozenset(
    ("-J", "-Jd", "-o", "-oo", "-e", "-eo", "-cwd", "-env", "-n", "-R", "-M", "-q", "-W", "-m", "-w", "-P")
) | frozenset(("-U", "-u", "-b", "-sla", "-gpu", "-i", "-app", "-g", "-sp"))
_BARE = frozenset(("-x", "-r", "-rn", "-ti", "-B", "-N", "-H", "-K", "-I"))
_REFUSED_TOGETHER = (("-r", "-rn"), ("-K", "-I"))
_UNITS = {
    "": 1,
    "K": 1,
    "KB": 1,
    "M": 1024,
    "MB": 1024,
    "G": 1024**2,
    "GB": 1024**2,
    "T": 1024**3,
    "TB": 1024**3,
}
"""In KB, the default of LSF_UNIT_FOR_LIMITS."""
MOST_ELEMENTS = 1000
"""MAX_JOB_ARRAY_SIZE of lsb.params, by default."""


def read_options(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Options with their values, and the words of the command."""
    given: dict[str, list[str]] = {}
    words = list(arguments)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in _BARE:
            given.setdefault(option, []).append("")
        elif option in _VALUES:
            if not words:
                raise Refused(f"{option}: option requires an argument. Job not submitted.")
            given.setdefault(option, []).append(words.pop(0))
        else:
            raise Refused(f"{option}: Illegal option. Job not submitted.")
    for option, values in given.items():
        if len(values) > 1 and option != "-R":
            raise Refused(f"{option}: option is given more than once. Job not submitted.")
    for first, second in _REFUSED_TOGETHER:
        if first in given and second in given:
            raise Refused(f"{first} and {second} cannot be used together. Job not submitted.")
    if not words:
        raise Refused("No command is specified. Job not submitted.")
    return given, words


def submitted(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    number: int,
    jobs: Jobs,
    queues: Mapping[str, Sequence[str]],
    hosts: Sequence[str],
) -> list[Element]:
    """The jobs that a call of bsub asks for. Raises Refused."""
    options, words = read_options(arguments)

    def one(option: str) -> str | None:
        return options[option][0] if option in options else None

    queue = one("-q") or next(iter(queues))
    if queue not in queues:
        raise Refused(f"{queue}: No such queue. Job not submitted.")
    wanted = tuple((one("-m") or "").split())
    for each in wanted:
        if each.rstrip("!+0123456789") not in {*hosts, *(host.rstrip("0123456789") for host in hosts)}:
            raise Refused(f"{each}: Bad host name, host group name or cluster name. Job not submitted.")
    if (condition := one("-w")) is not None:
        check_condition(condition, jobs)
    elif "-ti" in options:
        raise Refused("-ti: Use only with the -w option. Job not submitted.")
    name, indices = _name(one("-J") or "")
    memory = _requirements(options.get("-R", []))
    element = Element(
        number=number,
        index=0,
        name=name or " ".join(words),
        description=one("-Jd") or "",
        queue=queue,
        # Words are one line of a shell, as they stand.
        command=" ".join(words),
        slots=_slots(one("-n")),
        memory=memory,
        memory_limit=_limit(one("-M")),
        minutes=_minutes(one("-W")),
        hosts=wanted,
        exclusive="-x" in options,
        rerunnable="-r" in options,
        condition=condition or "",
        orphan="-ti" in options,
        begin=_begin(one("-b")),
        project=one("-P") or "default",
        environment=_environment(one("-env"), environment),
        output=one("-o") or one("-oo") or os.devnull,
        directory=one("-cwd") or environment.get("PWD", "/"),
    )
    shlex.split(element.command)
    return [_copy(element, index) for index in indices] if indices else [element]


def _copy(element: Element, index: int) -> Element:
    values = {name: getattr(element, name) for name in element.__dataclass_fields__}
    return Element(**values | {"index": index, "kill_at": []})


def _name(text: str) -> tuple[str, list[int]]:
    if "[" not in text and "]" not in text:
        return text, []
    found = re.fullmatch(r"([^\[\]]*)\[([^\[\]]*)\](?:%(\d+))?", text)
    if found is None or not found[1]:
        raise Refused("Bad job name or job array index list. Job not submitted.")
    return found[1], parse_index_list(found[2], MOST_ELEMENTS)


def _slots(text: str | None) -> int:
    if text is None:
        return 1
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)?", text):
        raise Refused(f"{text}: Bad argument for option -n. Job not submitted.")
    return int(text.partition(",")[0])


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"([1-9]\d*)([KMGT]B?)?!?", text)
    if found is None:
        raise Refused(f"{text}: Bad MEMLIMIT specification. Job not submitted.")
    return int(found[1]) * _UNITS[found[2] or ""] * 1024


def _minutes(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"(?:(\d+):)?(\d+)(?:/\S+)?", text)
    if found is None or not int(found[1] or 0) * 60 + int(found[2]):
        raise Refused(f"{text}: Bad RUNLIMIT specification. Job not submitted.")
    return int(found[1] or 0) * 60 + int(found[2])


def _begin(text: str | None) -> float:
    if text is None:
        return 0.0
    fields = text.split(":")
    if not 2 <= len(fields) <= 5 or not all(each.isdigit() for each in fields):
        raise Refused(f"{text}: Bad time specification. Job not submitted.")
    now = time.localtime()
    whole = [*[str(each) for each in now[:3]][: 5 - len(fields)], *fields]
    return time.mktime(time.strptime(":".join(whole), "%Y:%m:%d:%H:%M"))


def _requirements(texts: Sequence[str]) -> int:
    """Memory in bytes that resource requirements reserve."""
    memory = 0
    for text in texts:
        rest = text
        while rest.strip():
            found = re.match(r"\s*(select|order|rusage|span|same|cu|affinity)\[([^\[\]]*)\]", rest)
            if found is None:
                raise Refused("Bad resource requirement syntax. Job not submitted.")
            if found[1] == "rusage":
                memory = _reserved(found[2]) or memory
            rest = rest[found.end() :]
    return memory


def _reserved(text: str) -> int:
    memory = 0
    for part in re.split(r"[:,]", text):
        found = re.fullmatch(r"\s*([A-Za-z_]\w*)=([0-9.]+)([KMGT]B?)?\s*", part)
        if found is None:
            raise Refused("Bad resource requirement syntax. Job not submitted.")
        if found[1] == "mem":
            # Without a unit rusage is in MB.
            memory = int(float(found[2]) * _UNITS[found[3] or "MB"]) * 1024
    return memory


def _environment(text: str | None, caller: Mapping[str, str]) -> dict[str, str]:
    plain = {name: caller[name] for name in ("HOME", "USER", "LOGNAME", "SHELL") if name in caller}
    if text is None or text == "all":
        return dict(caller)
    if text == "none":
        return plain
    raise Refused(f"{text}: Bad environment specification. Job not submitted.")
