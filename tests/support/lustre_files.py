"""A node that answers questions about the layouts of files on Lustre."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error


@dataclass
class Lfs:
    """Answers lfs, find and lctl; keeps what it was asked."""

    layouts: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    blocks: Mapping[str, int] = field(default_factory=dict)
    """What files take, in blocks of 512 bytes, where it is less than their size."""
    targets: int = 2
    refuses: CommandOutput | None = None
    search_status: int = 0
    asked: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        self.asked.append(command)
        if self.refuses is not None:
            return self.refuses
        match list(command):
            case ["lfs", "getstripe", "-d", "--yaml", path]:
                if path not in self.layouts:
                    raise environment_error("lfs has not answered for 10 s")
                return CommandOutput(0, self.layouts[path].encode(), b"")
            case ["lctl", "get_param", name]:
                return CommandOutput(0, f"{name.replace('*', 'x')}={self.targets}\n".encode(), b"")
            case ["timeout", _, "stdbuf", "-oL", "find", _, *_]:
                rows = "".join(
                    f"{size} {self.blocks.get(path, size // 512)} {path}\n"
                    for path, size in self.files.items()
                )
                return CommandOutput(self.search_status, rows.encode(), b"")
            case [_, "-P", "-m", module, *_] if module.endswith(".scan_program"):
                return CommandOutput(1, b"", b"No module named gridwright")
            case ["cat", "/proc/mounts"] | ["lfs", "setstripe", *_]:
                return CommandOutput(0, b"", b"")
        raise AssertionError(command)
