"""Holds what a node has mounted against what it must have: pure, from the texts that were read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gridwright.node_programs.health.configuration import ExpectedMount, HealthConfiguration
from gridwright.node_programs.health.looking import READ_ONLY, Glance
from gridwright.node_programs.scratch.disks import Mount

_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a node, in words by the path.

    `certain` is what the kernel's own table says. `unsure` is what a slow or failing answer says, which a
    server that fails over gives too, so that one alone proves nothing.
    """

    certain: Mapping[str, str]
    unsure: Mapping[str, str]


def node_verdict(
    configuration: HealthConfiguration, table: Sequence[Mount], glances: Mapping[str, Glance]
) -> Verdict:
    """Everything that is wrong, each path once and with the weightiest."""
    certain = {
        mount.path: wrong
        for mount in configuration.mounts
        if (wrong := mount_problem(mount, table)) is not None
    }
    answers = {path: wrong for path, wrong in _answers(glances) if path not in certain}
    unsure = {
        path: wrong for path, wrong in answers.items() if not _may_be_read_only(path, wrong, configuration)
    }
    return Verdict(certain, unsure)


def mount_problem(expected: ExpectedMount, table: Sequence[Mount]) -> str | None:
    """What is wrong with a mount by the kernel's table; None where it is as it must be."""
    path = expected.path
    if expected.source is None:
        # Any mount of the type that the path lies on.
        holder = _holder(path, table)
        if holder is not None and holder.type in expected.types:
            return None
        return f"{path} is not mounted as {expected.types[0]}"
    # Of several mounts on one point the last is on top.
    there = [mount for mount in table if mount.point == path]
    if not there:
        return f"{path} is not mounted"
    if there[-1].type not in expected.types:
        return f"{path} is a mount of {there[-1].type}, not {expected.types[0]}"
    if not is_same_source(expected.source, there[-1].source):
        return f"{path} is mounted from {there[-1].source}, not {expected.source}"
    return None


def is_same_source(expected: str, found: str) -> bool:
    """Whether two names can mean the same file system.

    The part behind the servers must agree. A server has many names: one is another one only where both are
    written as addresses, and none of them agree.
    """
    if expected == found:
        return True
    (hosts, path), (found_hosts, found_path) = _parts(expected), _parts(found)
    if path != found_path:
        return False
    addresses, others = set(_ADDRESS.findall(hosts)), set(_ADDRESS.findall(found_hosts))
    return not addresses or not others or bool(addresses & others)


def _parts(source: str) -> tuple[str, str]:
    """Servers and path of `10.0.0.1@tcp:/shared`; a slash at the end of the path says nothing."""
    hosts, _, path = source.rpartition(":")
    return hosts, path.rstrip("/")


def _holder(path: str, table: Sequence[Mount]) -> Mount | None:
    holding = [
        mount
        for mount in table
        if mount.point in ("/", path) or path.startswith(mount.point.rstrip("/") + "/")
    ]
    # Of mounts on one point the last is on top.
    return max(reversed(holding), key=lambda each: len(each.point), default=None)


def _may_be_read_only(path: str, wrong: str, configuration: HealthConfiguration) -> bool:
    """Whether it is one that jobs only read from, for all that is known: a site may mount data so."""
    return wrong.endswith(READ_ONLY) and path not in configuration.directories


def _answers(glances: Mapping[str, Glance]) -> Iterator[tuple[str, str]]:
    for path, glance in glances.items():
        if glance.left is not None:
            yield path, f"{path} hangs"
        elif glance.wrong:
            yield path, f"{path} {glance.wrong}"
