"""Ports of Spectrum Scale (IBM Storage Scale, firewall recommendations; facts oci-scale of 2026-11-22)."""

from __future__ import annotations

from gridwright.services.ports import Ports

FIRST_COMMAND, LAST_COMMAND = 61000, 61999
"""tscCmdPortRange: beyond the ports of outgoing connections (tuning.yaml, scale-command-ports)."""
CLUSTER_PORTS = (
    Ports("ScaleDaemon", 1191, 1191),
    Ports("ScaleCommands", FIRST_COMMAND, LAST_COMMAND),
    Ports("ScaleRemoteShell", 22, 22),
)
"""Among all nodes of a cluster: the daemon, its commands, and the shell that these start elsewhere."""
NFS_PORTS = tuple(
    Ports(f"ScaleNfs{what}{protocol.capitalize()}", first, last, protocol)
    for what, first, last in (
        ("Files", 2049, 2049),
        ("Portmapper", 111, 111),
        ("Status", 32765, 32765),
        ("Mounts", 32767, 32769),
    )
    for protocol in ("tcp", "udp")
)
"""What clients of CES reach on its servers: statd has 32765; mountd, rquotad and lockd the last three."""
