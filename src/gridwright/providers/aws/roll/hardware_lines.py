"""Files by which slurm.conf says of each node what it is at the moment, while nodes are replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.node_programs.drain.node_lines import retain_hardware
from gridwright.node_programs.scratch.commands import Ended, run
from gridwright.node_programs.scratch.problems import ScratchError, Trouble

_RESTART = ("systemctl", "restart", "slurmctld")
"""It reads the hardware of nodes only when it starts (scontrol reconfigure of 22.05.8); jobs go on."""
_LIMIT_S = 90.0


@dataclass(frozen=True)
class HardwareLines:
    """`there` is what slurmctld has, `wanted` what it is to have when all nodes are replaced."""

    there: Path | None
    wanted: Path
    runner: Callable[[Sequence[str], float], Ended] = run

    def keep(self, file: Path, held: Collection[str]) -> None:
        """Remember a file that is about to be installed, and have it say of held nodes what they still are.

        Raises ScratchError. The playbook installs the file then; it may run more than once.
        """
        beside = file.with_name(f"{file.name}.wanted")
        try:
            text = (beside if beside.exists() else file).read_text(encoding="utf-8")
            _write(beside, text)
            _write(self.wanted, text)
            _write(file, self._retain_held(text, held))
        except OSError as error:
            raise ScratchError(
                Trouble(f"{error.filename}: {error.strerror}", "run the playbook again")
            ) from None

    def bring(self, held: Collection[str]) -> bool:
        """Have slurmctld know nodes that are replaced as what they are now; whether anything was new.

        Raises ScratchError.
        """
        if self.there is None or not self.wanted.exists() or not self.there.exists():
            return False
        try:
            text = self._retain_held(self.wanted.read_text(encoding="utf-8"), held)
            if text == self.there.read_text(encoding="utf-8"):
                return False
            _write(self.there, text)
        except OSError as error:
            raise ScratchError(
                Trouble(f"{error.filename}: {error.strerror}", "mend it; the next run goes on")
            ) from None
        ended = self.runner(_RESTART, _LIMIT_S)
        if not ended.well:
            raise ScratchError(
                Trouble(str(ended), "see why slurmctld does not start: journalctl -u slurmctld")
            )
        return True

    def _retain_held(self, text: str, held: Collection[str]) -> str:
        if self.there is None or not self.there.exists():
            return text
        try:
            return retain_hardware(text, self.there.read_text(encoding="utf-8"), held)
        except ValueError as error:
            remedy = "correct it, or move it away and run the playbook again"
            raise ScratchError(Trouble(f"{self.there}: {error}", remedy)) from None


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
