"""Quotes a command for the login shell of another machine, which may be sh, bash, csh, tcsh or fish."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_READS = 'eval "$(printf %b "$0")"'
# Within single quotes csh reads an exclamation mark and the end of a line its own way, fish a backslash.
_READ_OTHERWISE = "\\\n!"
_CODES = str.maketrans({char: f"\\0{ord(char):03o}" for char in f"{_READ_OTHERWISE}'"})


def for_remote_shell(command: Sequence[str]) -> str:
    """One text that every login shell reads as these words."""
    text = shlex.join(command)
    if not any(char in text for char in _READ_OTHERWISE):
        return text
    return shlex.join(["sh", "-c", _READS, text.translate(_CODES)])
