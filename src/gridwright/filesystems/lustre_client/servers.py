"""Reads what a Lustre server reports of its targets: recovery, degraded arrays, refused writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.parameters import Parameters, read_parameters

RECOVERY_GOES_ON = frozenset({"RECOVERING", "WAITING", "WAITING_FOR_CLIENTS"})
"""Words of recovery_status while requests wait; INACTIVE is none since the start, COMPLETE is over."""


@dataclass(frozen=True, slots=True)
class Served:
    """A target as its server sees it."""

    target: str
    recovery: str
    """Word of recovery_status, such as COMPLETE; empty where it is not told."""
    recovery_left_s: int | None
    clients: str
    """How many of the clients are back, such as `0/1`; empty where it is not told."""
    flags: tuple[str, ...]
    """Such as `degraded`."""


def parameter_names(name: str) -> tuple[str, ...]:
    """The parameters that tell of the targets of file system `name` on a server."""
    flags = (f"obdfilter.{name}-OST*.{flag}" for flag in _FLAGS)
    allocation = (f"osp.{name}-OST*-osc-MDT*.{part}" for part in ("active", "max_create_count"))
    return (*flags, *allocation, f"obdfilter.{name}-OST*.recovery_status", f"mdt.{name}-MDT*.recovery_status")


def read_served(run: Run, name: str) -> list[Served]:
    """The targets of file system `name` that this node serves; none where it is no server.

    Takes root. Raises GridwrightError (status ENVIRONMENT) where lctl is not there or does not answer.
    """
    return parse_served(read_parameters(run, parameter_names(name)))


_FLAGS: Mapping[str, str] = {
    "degraded": "degraded",
    "readonly": "read-only",
    "no_create": "takes no new files",
}


def parse_served(told: Parameters) -> list[Served]:
    """The targets out of what was read."""
    found = []
    for name, status in told.values.items():
        device = re.fullmatch(r"((?:obdfilter|mdt)\.([^.]+))\.recovery_status", name)
        if device is None:
            continue
        flags = tuple(word for flag, word in _FLAGS.items() if told.text(f"{device[1]}.{flag}") == "1")
        left = re.search(r"^time_remaining:\s*(\d{1,9})", status, re.MULTILINE)
        clients = re.search(r"^(?:connected|completed)_clients:\s*(\d+/\d+)", status, re.MULTILINE)
        word = re.search(r"^\s*status:\s*([A-Z_]+)", status, re.MULTILINE)
        found.append(
            Served(
                device[2],
                word[1] if word else "",
                int(left[1]) if left else None,
                clients[1] if clients else "",
                flags,
            )
        )
    return sorted([*found, *_allocated(told)], key=lambda each: each.target)


def _allocated(told: Parameters) -> Iterator[Served]:
    """OSTs on which the MDS of this node places no files, by an administrator's word."""
    words = {"active": "deactivated on its MDS", "max_create_count": "max_create_count=0"}
    flags: dict[str, set[str]] = {}
    for name in told.values:
        device = re.fullmatch(
            r"osp\.([^.]+-OST[0-9a-f]{4})-osc-MDT[0-9a-f]{4}\.(active|max_create_count)", name
        )
        if device is not None and told.text(name) == "0":
            flags.setdefault(device[1], set()).add(words[device[2]])
    for target, there in flags.items():
        yield Served(target, "", None, "", tuple(sorted(there)))
