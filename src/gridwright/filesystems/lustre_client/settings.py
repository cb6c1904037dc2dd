"""Rows of the tuning table that name parameters of Lustre, of clients and of servers."""

from __future__ import annotations

from gridwright.filesystems.tuning_kind import TuningKind


def _command(key: str) -> list[str]:
    return ["lctl", "get_param", key]


def values(printed: str, key: str = "") -> str | None:
    """Out of `osc.scratch-OST0000-osc-ffff.max_dirty_mb=256` a line each, different values with commas.

    Connections of a metadata server to its targets have limits of their own, and are left out. Without root
    some come back empty.
    """
    rows = [line.partition("=") for line in printed.splitlines()]
    found = {value.strip() for name, _, value in rows if value.strip() and "-osc-MDT" not in name}
    return ", ".join(sorted(found)) or None


TUNING_KINDS = tuple(
    TuningKind(name=name, words="lctl", command=_command, value=values, role=role)
    for name, role in (("lustre-client", "lustre_client"), ("lustre-server", "lustre_server"))
)
"""Servers are set by the role of a provider that makes them."""
