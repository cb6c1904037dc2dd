"""What ssh says where it does not get to a machine, in words that tell what to do."""

from __future__ import annotations

import re

_REFUSED = "Host key verification failed"
_CHANGED = "has changed"
"""ssh says it of a key that it knew another one of, and nothing like it at a first contact (sshconnect.c)."""
_LINE = re.compile(r"^Offending .* key in (.+):(\d+)\s*$", re.MULTILINE)


def why_no_ssh(stderr: str) -> str:
    """The reason, on one line; empty where ssh said nothing."""
    lines = stderr.strip().splitlines()
    if not lines or _REFUSED not in stderr:
        return lines[-1] if lines else ""
    if _CHANGED not in stderr:
        return "its host key is not known here: compare it with the machine's, then take it once: ssh HOST"
    line = _LINE.search(stderr)
    kept = f"; if it was replaced, remove line {line[2]} of {line[1]}" if line else ""
    return f"its host key is not the one that it had before: it may be another machine in its place{kept}"
