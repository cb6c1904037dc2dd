"""What is wrong with a claim, in the words of `scratch.problems`."""

from __future__ import annotations

from gridwright.node_programs.scratch.problems import ScratchError, Trouble


class ClaimError(ScratchError):
    """A claim that is refused or that failed, with everything that is wrong."""


class ManagementSilentError(ClaimError):
    """A target could not be registered, since no management server runs where it should."""


class LostError(ClaimError):
    """The slot has another owner now: the one before must stop."""

    def __init__(self, slot: str, instance: str) -> None:
        super().__init__(
            Trouble(
                f"{slot} does not belong to {instance} any more: its slot was claimed anew, so nothing "
                "further is done here, and nothing is unmounted",
                "look who has it: gridwright status; then terminate this instance, so that one machine is "
                f"{slot}",
            )
        )
