"""What is wrong with a claim, in the words of `scratch.problems`."""

from __future__ import annotations

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.scratch.problems import Trouble


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
