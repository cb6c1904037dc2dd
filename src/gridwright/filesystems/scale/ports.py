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
