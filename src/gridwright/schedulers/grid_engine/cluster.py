"""Reads the queues and nodes of a Grid Engine, with qhost and qconf."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from gridwright.schedulers.batch.system import BatchFacts, BatchQueue
from gridwright.schedulers.batch.tools import BatchTools
from gridwright.schedulers.grid_engine.xml_answer import parse_answer, text_of
from gridwright.schedulers.job import NodeState

_FACTORS = {
    "": 1,
    "k": 1000,
    "K": 1024,
    "m": 1000**2,
    "M": 1024**2,
    "g": 1000**3,
    "G": 1024**3,
    "t": 1000**4,
    "T": 1024**4,
}
"""Of sizes (sge_types(1), memory_specifier)."""
_HOSTS = 'for host do qconf -se "$host"; done'
_DOWN = {
    "u": "it does not answer",
    "d": "it is disabled (qmod -d)",
    "D": "its calendar has it disabled",
    "E": "its queue is in error (qmod -c clears that)",
    "c": "its configuration is ambiguous",
    "o": "its queue is no longer configured for it",
    "s": "it is suspended",
    "S": "another queue suspends it",
    "C": "its calendar suspends it",
    "a": "its load is over the threshold of its queue",
    "A": "its load is over the threshold of its queue",
}
"""States of a queue on a node in which it starts no job (qstat(1)), the gravest first."""


@dataclass(frozen=True, slots=True)
class Complex:
    """A resource that jobs can ask for."""

    name: str
    consumable: str
    """NO, YES for each slot, JOB for the whole job."""


def read_complexes(tools: BatchTools) -> dict[str, Complex]:
    """The resources that jobs can ask for, by name and by shortcut. Raises GridwrightError (ENVIRONMENT)."""
    found = {}
    for line in tools.query(["qconf", "-sc"]).decode(errors="replace").splitlines():
        cells = line.split()
        if len(cells) == 8 and not line.startswith("#"):
            found[cells[0]] = found[cells[1]] = Complex(cells[0], cells[5])
    return found


def read_environments(tools: BatchTools) -> list[str]:
    """The names of parallel environments."""
    printed = tools.query(
        ["qconf", "-spl"], allowed=lambda answer: b"no parallel env" in answer.stderr.lower()
    )
    return printed.decode(errors="replace").split()


def read_facts(tools: BatchTools, memory: str, wanted: Sequence[str]) -> BatchFacts:
    """Queues and nodes as they are now. Raises GridwrightError (ENVIRONMENT).

    `wanted` are queues, the first of which that is there is the default; `memory` is the complex of memory.
    """
    hosts = parse_answer(tools.query(["qhost", "-q", "-F", "-xml"]), "qhost")
    names = [name for each in hosts.iter("host") if (name := each.get("name", "")) not in ("", "global")]
    totals = _totals(tools, names, memory)
    nodes = {}
    members: dict[str, list[str]] = {}
    working: set[str] = set()
    for host in hosts.iter("host"):
        name = host.get("name", "")
        queues = _queues(host)
        if not queues:
            continue  # A host for administration, which runs no jobs.
        nodes[name] = _node(name, host, queues, memory, totals.get(name))
        for queue, values in queues.items():
            members.setdefault(queue, []).append(name)
            if not _trouble(values.get("state_string", "")):
                working.add(queue)
    limits = _limits(tools)
    found = {
        name: BatchQueue(name=name, up=name in working, nodes=members.get(name, []), longest_s=limit)
        for name, limit in limits.items()
    }
    return BatchFacts(
        queues=found, nodes=nodes, default_queue=next((each for each in wanted if each in found), None)
    )


def _totals(tools: BatchTools, names: Sequence[str], memory: str) -> dict[str, int]:
    """Memory of nodes as they were configured with it, in bytes; not of those that were not."""
    if not names:
        return {}
    printed = tools.query(["/bin/sh", "-c", _HOSTS, "hosts", *names]).decode(errors="replace")
    found = {}
    name = ""
    for line in printed.splitlines():
        key, _, rest = line.strip().partition(" ")
        if key == "hostname":
            name = rest.strip()
        elif key == "complex_values":
            values = dict(each.strip().partition("=")[::2] for each in rest.split(","))
            if memory in values:
                found[name] = size(values[memory])
    return found


def _queues(host: ElementTree.Element) -> dict[str, dict[str, str]]:
    """The queues of a node, each with its values."""
    return {
        queue.get("name", ""): {each.get("name", ""): each.text or "" for each in queue.iter("queuevalue")}
        for queue in host.iter("queue")
    }


def _trouble(letters: str) -> str | None:
    """Why a queue starts no job on a node; None where it does."""
    return next((words for letter, words in _DOWN.items() if letter in letters), None)


def _node(
    name: str,
    host: ElementTree.Element,
    queues: Mapping[str, Mapping[str, str]],
    memory: str,
    total: int | None,
) -> NodeState:
    values = {each.get("name", ""): each.text or "" for each in host.iter("resourcevalue")}
    values = {each.get("name", ""): each.text or "" for each in host.iter("hostvalue")} | values
    letters = [each.get("state_string", "") for each in queues.values()]
    troubles = [_trouble(each) for each in letters]
    used = sum(_count(each.get("slots_used", "")) for each in queues.values())
    if "slots" in values:
        free = _count(values["slots"])
        cores = free + used
    else:
        cores = max(_count(each.get("slots", "")) for each in queues.values())
        free = max(0, cores - used)
    if total is None:
        total, left = size(values.get("mem_total", "")), size(values.get("mem_free", ""))
    else:
        left = size(values.get(memory, ""))
    up = None in troubles
    return NodeState(
        name=name,
        up=up,
        state="".join(sorted(set("".join(letters)))) or "ok",
        cores=cores,
        memory_bytes=total,
        free_cores=max(0, free),
        free_memory_bytes=max(0, left),
        reason=None if up else troubles[0],
    )


def _limits(tools: BatchTools) -> dict[str, float | None]:
    """All queues, with the longest time that their jobs run: of nodes that differ, the longest of all."""
    printed = tools.query(["qconf", "-sq", "*"], allowed=lambda answer: b"No cluster queue" in answer.stderr)
    found: dict[str, float | None] = {}
    name = ""
    for line in printed.decode(errors="replace").splitlines():
        key, _, rest = line.partition(" ")
        if key == "qname":
            name = rest.strip()
            found[name] = None
        elif key == "h_rt":
            limits = [seconds(each.strip(" []").rpartition("=")[2]) for each in rest.split(",")]
            found[name] = None if None in limits else max(each for each in limits if each is not None)
    return found


def seconds(text: str) -> float | None:
    """A time such as 3600, 24:00:00 or INFINITY, which is None."""
    if not re.fullmatch(r"[0-9:]+", text):
        return None
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part or 0)
    return float(total)


def size(text: str) -> int:
    """A size such as 2G or 23.541G in bytes; 0 where it is none."""
    found = re.fullmatch(r"([0-9.]+)([kKmMgGtT]?)", text.strip())
    return int(float(found[1]) * _FACTORS[found[2]]) if found else 0


def _count(text: str) -> int:
    found = re.match(r"[0-9.]+", text.strip())
    return int(float(found[0])) if found else 0


__all__ = ["Complex", "read_complexes", "read_environments", "read_facts", "seconds", "size", "text_of"]
