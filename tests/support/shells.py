"""Interactive shells on a terminal of their own: what is typed into them, and what they make of it."""

from __future__ import annotations

import os
import pty
import re
import select
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_COMMANDS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
_BEGIN = {
    "bash": "PS1=; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'",
    "zsh": "PS1=; unsetopt prompt_cr prompt_sp beep; unset zle_bracketed_paste",
}
_TO_THE_START = "\x01"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>()][A-Za-z0-9]?|\x07|\r")


class InteractiveShell:
    """A shell whose command line is typed at, with the emacs keys that all of them have."""

    def __init__(self, shell: str, directory: Path, path: Path, set_up: str) -> None:
        environment = {
            "PATH": f"{path}:{os.environ['PATH']}",
            "HOME": str(directory),
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
        }
        child, self._terminal = pty.fork()
        if child == 0:
            os.chdir(directory)
            os.execvpe(_COMMANDS[shell][0], _COMMANDS[shell], environment)  # noqa: S606
        self._child = child
        self._number = 0
        self.result(f"{_BEGIN[shell]}; {set_up}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._terminal)
        os.kill(self._child, 9)
        os.waitpid(self._child, 0)

    def result(self, line: str) -> str:
        """Run a line, and return all that appears until it is done."""
        self._number += 1
        self._type(f"{line}; echo 'done'-{self._number}\r")
        return self._until(f"done-{self._number}")

    def completed(self, typed: str) -> str:
        """What a command line becomes by a TAB: its words, each with a bar behind it."""
        self._number += 1
        self._type(f"{typed}\t")
        self._type(
            f"{_TO_THE_START}printf 'w{self._number}:'; printf '%s|' \x05; echo; echo 'done'-{self._number}\r"
        )
        seen = self._until(f"done-{self._number}")
        found = re.findall(rf"(?m)^.*?w{self._number}:(gridwright.*)\|$", seen)
        assert found, seen
        return str(found[-1])

    def _type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def _until(self, word: str, seconds: float = 30.0) -> str:
        deadline, seen = time.monotonic() + seconds, ""
        while not re.search(rf"(?m)^{word}$", seen):
            if not select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"waited {seconds} s for {word!r}; last seen: {seen!r}")
            seen = _CONTROL.sub("", seen + os.read(self._terminal, 65536).decode(errors="replace"))
        return seen
