"""Carries commands of the administration out, each with its limit of time, and waits for what they begin."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gridwright.filesystems.scale.administration.observed import ObservedCluster, observe
from gridwright.filesystems.scale.administration.order import BIN, STANZAS, ScaleCommand

LOOK_S = 120.0
"""Of a command that looks; they ask all nodes."""
ACTIVE_S = 600.0
"""How long the daemon may take to become active: it takes quorum and recovers logs first."""
PAUSE_S = 5.0
_NOTHING_THERE = 1
"""Exit status of commands that list, where a node is in no cluster, or nothing of the kind is there."""
_MOST = 2000
"""Characters of an error that are told."""


class ScaleError(Exception):
    """What did not succeed, in words for administrators."""


class Administration:
    """The commands of one node."""

    def __init__(
        self,
        directory: Path = Path(BIN),
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`directory` has the commands."""
        self._directory = directory
        self._pause = pause
        self._clock = clock

    def observe(self) -> ObservedCluster:
        """The cluster as it is. Raises ScaleError."""
        return observe(self._ask)

    def carry_out(self, command: ScaleCommand) -> None:
        """Run one; the file of stanzas is the command's own. Raises ScaleError."""
        with tempfile.NamedTemporaryFile("w", suffix=".stanza", prefix="gridwright-") as file:
            file.write(command.stanzas)
            file.flush()
            words = [file.name if each == STANZAS else each for each in command.argv[1:]]
            status, _, error = self._run(command.name, words, command.limit_s)
        if status:
            raise ScaleError(f"{command.name} failed ({command.why}): {error.strip()[-_MOST:]}")

    def wait_until_active(self, nodes: Sequence[str], limit_s: float = ACTIVE_S) -> None:
        """Wait until the daemons of these nodes work. Raises ScaleError with those that do not in time."""
        end = self._clock() + limit_s
        while True:
            there = self.observe()
            lacking = [f"{name} is {there.nodes[name].state}" for name in nodes if name not in there.active]
            if not lacking:
                return
            if self._clock() >= end:
                raise ScaleError(
                    f"not active after {limit_s:.0f} s: {', '.join(lacking)}; see mmfs.log.latest"
                )
            self._pause(PAUSE_S)

    def _ask(self, name: str, *words: str) -> str | None:
        status, printed, error = self._run(name, words, LOOK_S)
        if status not in (0, _NOTHING_THERE):
            raise ScaleError(f"{name} failed: {error.strip()[-_MOST:]}")
        return printed if status == 0 else None

    def _run(self, name: str, words: Sequence[str], limit_s: float) -> tuple[int, str, str]:
        try:
            done = subprocess.run(
                [str(self._directory / name), *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit_s,
                check=False,
                text=True,
                errors="replace",
            )
        except FileNotFoundError:
            raise ScaleError(
                f"{self._directory / name} is not there: install the site's packages first"
            ) from None
        except subprocess.TimeoutExpired:
            raise ScaleError(f"{name} has not ended within {limit_s:.0f} s") from None
        return done.returncode, done.stdout, done.stderr
