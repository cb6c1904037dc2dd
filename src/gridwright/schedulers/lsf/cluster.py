"""Reads the queues and nodes of an LSF, with bqueues, bhosts, lshosts and lsload."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gridwright.schedulers.batch.system import BatchFacts, BatchQueue
from gridwright.schedulers.batch.tools import BatchTools
from gridwright.schedulers.job import NodeState
from gridwright.schedulers.lsf.commands import records

_STATUS = {
    "unavail": "it is down, or its daemons are not reached",
    "unreach": "its sbatchd is not reached",
    "unlicensed": "LSF has no licence for it",
    "closed_adm": "an administrator has closed it",
    "closed_lock": "it is locked",
    "closed_wind": "its dispatch window is closed",
    "closed_ego": "EGO has taken it",
    "closed_lim": "its LIM does not answer",
    "closed_rc": "it is being given back to the cloud",
}
"""Statuses of hosts that take no job (bhosts); closed_full and closed_busy open by themselves."""
_FACTORS = {"": 1024**2, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def read_facts(tools: BatchTools, default: str | None) -> BatchFacts:
    """Queues and nodes as they are now. Raises GridwrightError (ENVIRONMENT)."""
    largest = _column(tools, ["lshosts", "-w"], "maxmem")
    free = _column(tools, ["lsload", "-w"], "mem")
    nodes = {
        each["HOST_NAME"]: _node(each, largest, free)
        for each in records(tools, ["bhosts", "-o", "host_name status max njobs", "-json"])
        if each.get("HOST_NAME")
    }
    hosts, limits = _long(tools)
    queues = {}
    for each in records(tools, ["bqueues", "-o", "queue_name status", "-json"]):
        name = each.get("QUEUE_NAME", "")
        named = [one for one in hosts.get(name, []) if one in nodes]
        queues[name] = BatchQueue(
            name=name,
            up=each.get("STATUS", "") == "Open:Active",
            # Groups of hosts, and all, are not looked into: the queue may have any.
            nodes=named if named and len(named) == len(hosts.get(name, [])) else list(nodes),
            longest_s=limits.get(name),
        )
    return BatchFacts(queues=queues, nodes=nodes, default_queue=default)


def _node(each: Mapping[str, str], largest: Mapping[str, str], free: Mapping[str, str]) -> NodeState:
    name, status = each["HOST_NAME"], each.get("STATUS", "").lower()
    cores, used = _count(each.get("MAX", "")), _count(each.get("NJOBS", ""))
    reason = _STATUS.get(status)
    up = reason is None and (status in ("ok", "closed") or status.startswith("closed_"))
    return NodeState(
        name=name,
        up=up,
        state=status,
        cores=cores,
        memory_bytes=_size(largest.get(name, "")),
        free_cores=max(0, cores - used) if up else 0,
        free_memory_bytes=_size(free.get(name, "")),
        reason=reason if up or reason else f"LSF says {status}",
    )


def _column(tools: BatchTools, command: list[str], name: str) -> dict[str, str]:
    """A column of a table by host; none where the host has no value, or is down."""
    lines = tools.query(command).decode(errors="replace").splitlines()
    if not lines or name not in lines[0].split():
        return {}
    at = lines[0].split().index(name)
    cells = [line.split() for line in lines[1:]]
    return {each[0]: each[at] for each in cells if len(each) > at}


def _long(tools: BatchTools) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Hosts and the longest run time in seconds of each queue, from bqueues -l."""
    hosts: dict[str, list[str]] = {}
    limits: dict[str, float] = {}
    name, limit_next, maximum = "", False, True
    for line in tools.query(["bqueues", "-l"]).decode(errors="replace").splitlines():
        if found := re.match(r"QUEUE:\s*(\S+)", line):
            name, maximum = found[1], True
        elif "DEFAULT LIMITS" in line:
            maximum = False
        elif "MAXIMUM LIMITS" in line:
            maximum = True
        elif line.split()[:1] == ["RUNLIMIT"]:
            limit_next = True
        elif limit_next:
            limit_next = False
            if maximum and (found := re.match(r"\s*([0-9.]+) min", line)):
                limits[name] = float(found[1]) * 60
        elif found := re.match(r"HOSTS:\s*(.*)", line):
            hosts[name] = found[1].split()
    return hosts, limits


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _size(text: str) -> int:
    """A size such as 23.5G in bytes; without a unit it is in MB; 0 where there is none."""
    found = re.fullmatch(r"([0-9.]+)([KMGT]?)B?", text)
    return int(float(found[1]) * _FACTORS[found[2]]) if found else 0
