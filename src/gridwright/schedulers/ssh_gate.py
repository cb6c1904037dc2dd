"""A service in front of the first machine that ssh reaches, such as one that opens ports for a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Passage:
    """A way through a gate, for a time."""

    user: str
    """Whom ssh logs in as at the gate."""
    host: str
    """Where the gate is."""
    target: str
    """The address behind it that this passage leads to, and no other."""
    port: int
    settles_until: float
    """By time.monotonic(): until then the gate may still refuse, as it has only just been told of it."""

    @property
    def words(self) -> tuple[str, ...]:
        """Options and address of an ssh that is connected with the port behind the gate."""
        # As words of their own, not as %h and %p: an ssh whose command this ends up in would fill those in.
        return ("-W", f"{self.target}:{self.port}", f"-oUser={self.user}", "--", self.host)


class SshGate(Protocol):
    """What gives passages. Whoever asks again gets the same one, as long as it lasts."""

    def passage(self) -> Passage:
        """One that lasts for a while still. Raises GridwrightError (ENVIRONMENT) where there is none."""

    def lost(self) -> None:
        """Hear that the last one leads nowhere: the next is looked for anew."""

    @property
    def advice(self) -> str:
        """What to do where ssh does not get through."""
