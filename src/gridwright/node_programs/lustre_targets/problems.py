"""What is wrong with a claim of targets, in the words of `scratch.problems`."""

from __future__ import annotations

from gridwright.node_programs.scratch.problems import ScratchError


class ClaimError(ScratchError):
    """A claim that is refused or that failed, with everything that is wrong."""


class ManagementSilentError(ClaimError):
    """A target could not be registered, since no management server runs where it should."""
