"""How many examples a property test tries: few in `make test`, all in `make test-thorough`."""

from __future__ import annotations

import hypothesis

QUICK, THOROUGH = 25, 200
"""Examples of a property test that says nothing itself."""


def register() -> None:
    """Declare the profiles `quick` and `thorough`.

    Neither has a deadline: how long an example takes says more about what else the
    machine does than about the code.
    """
    hypothesis.settings.register_profile("quick", deadline=None, max_examples=QUICK)
    hypothesis.settings.register_profile("thorough", deadline=None, max_examples=THOROUGH)


def examples(thorough: int) -> int:
    """Examples of a property test that tries `thorough` of them in the profile `thorough`."""
    profile = hypothesis.settings.default
    assert profile is not None
    return max(10, thorough * profile.max_examples // THOROUGH)
