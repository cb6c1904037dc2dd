"""Rows of the tuning table that name parameters of Lustre, of clients and of servers."""

from __future__ import annotations

import re

from gridwright.filesystems.tuning_kind import TuningKind

_SERVERS_LIMIT = {"mdc.*.max_mod_rpcs_in_flight": "mdc.*.import"}
"""Parameters that a server limits, and where the client keeps what it was told when it connected."""


def _command(key: str) -> list[str]:
    return ["lctl", "get_param", key, *filter(None, [_SERVERS_LIMIT.get(key)])]


def bound(printed: str, name: str) -> str | None:
    """The lowest limit of that name among connections, out of `       max_mod_rpcs: 8` of their imports."""
    found = re.findall(rf"^\s+{re.escape(name)}:\s*(\d{{1,9}})\s*$", printed, re.MULTILINE)
    return min(found, key=int, default=None)


def values(printed: str, key: str = "") -> str | None:
    """Out of `osc.scratch-OST0000-osc-ffff.max_dirty_mb=256` a line each, different values with commas.

    Connections of a metadata server to its targets have limits of their own, and are left out. Without root
    some come back empty.
    """
    wanted = key.rpartition(".")[2]
    rows = [line.partition("=") for line in printed.splitlines()]
    found = {
        value.strip()
        for name, _, value in rows
        if value.strip() and "-osc-MDT" not in name and name.endswith(wanted)
    }
    return ", ".join(sorted(found)) or None


TUNING_KINDS = tuple(
    TuningKind(name=name, words="lctl", command=_command, value=values, bound=bound, role=role)
    for name, role in (("lustre-client", "lustre_client"), ("lustre-server", "lustre_server"))
)
"""Servers are set by the role of a provider that makes them."""
