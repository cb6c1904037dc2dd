"""What ssh says where it does not get to a machine, in words that tell what to do."""

from __future__ import annotations

import re

_REFUSED = "Host key verification failed"
_CHANGED = re.compile(r"has changed|differs from the key for the IP address")
"""ssh says it of a key that it knew another one of, and nothing like it at a first contact (sshconnect.c)."""
_REVOKED = "marked as revoked"
_LINE = re.compile(r"^Offending .*key (?:in|for IP in) (.+):(\d+)\s*$", re.MULTILINE)
_UNKNOWN = re.compile(r"^No \S+ host key is known for (\S+) and", re.MULTILINE)
_OPEN_KEY = re.compile(r"^Permissions (\S+) for '(.+)' are too open\.", re.MULTILINE)
_NO_REASON = re.compile(
    r"Warning: Permanently added |Disconnected from |Connection closed by UNKNOWN |Killed by signal |\*\* "
)
"""Lines that may be the last and tell no reason: a first contact that went well, and that it is over."""


def why_no_ssh(stderr: str) -> str:
    """The reason, on one line; empty where ssh said nothing."""
    if _REFUSED in stderr:
        return _of_host_key(stderr)
    if "Permission denied" in stderr and (key := _OPEN_KEY.search(stderr)):
        return f"it does not use the key {key[2]}, which others may read (mode {key[1]}): chmod 600 it"
    lines = [line for line in stderr.strip().splitlines() if line and not _NO_REASON.match(line)]
    return lines[-1].strip() if lines else ""


def _of_host_key(stderr: str) -> str:
    if _REVOKED in stderr:
        return "its host key is revoked (RevokedHostKeys of ssh_config): whoever answers is not to be trusted"
    if not _CHANGED.search(stderr):
        host = _UNKNOWN.search(stderr)
        by_hand = f"ssh {host[1] if host else 'HOST'}"
        return f"its host key is not known here: compare it with the machine's, then take it once: {by_hand}"
    line = _LINE.search(stderr)
    kept = f"; if it was replaced, remove line {line[2]} of {line[1]}" if line else ""
    return f"its host key is not the one that it had before: it may be another machine in its place{kept}"
