"""Answers the few commands by which kinds of file systems read counters, without a process for each sample.

`lctl get_param` reads files of /proc and /sys by patterns (lctl get_param is `lustre_param` of
lustre/utils/lustre_param.c); `cat` and `id -u` are what they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error

_TREES = ("proc/fs/lustre", "proc/sys/lnet", "sys/fs/lustre", "sys/kernel/debug/lustre")
"""Where Lustre has its parameters; each release has moved some of them."""


class InProcess:
    """A `Run` of this node that starts no process, and refuses what is no reading of counters."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        """Answer one of the commands. Raises GridwrightError (status ENVIRONMENT) for any other one."""
        match list(command):
            case ["cat", path]:
                return self._cat(path)
            case ["id", "-u"]:
                return CommandOutput(0, str(os.geteuid()).encode(), b"")
            case ["lctl", "get_param", *names]:
                text = b"".join(self._parameters(names))
                return CommandOutput(0 if text else 2, text, b"")
        raise environment_error(
            f"a sample starts no process, and {command[0]} would be one",
            remedy="the kind of this file system cannot be sampled",
        )

    def _cat(self, path: str) -> CommandOutput:
        try:
            return CommandOutput(0, (self._root / path.lstrip("/")).read_bytes(), b"")
        except OSError as error:
            return CommandOutput(1, b"", (error.strerror or "").encode())

    def _parameters(self, names: Sequence[str]) -> Iterator[bytes]:
        for tree in _TREES:
            for name in names:
                for path in sorted((self._root / tree).glob(name.replace(".", "/"))):
                    parameter = ".".join(path.relative_to(self._root / tree).parts)
                    value = path.read_bytes()
                    line = b"\n" if b"\n" in value.rstrip(b"\n") else b""
                    yield parameter.encode() + b"=" + line + value.rstrip(b"\n") + b"\n"
