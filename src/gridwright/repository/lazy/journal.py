"""Lines of the journal: what the processes of a served directory tell those who look after it."""

from __future__ import annotations

import sys


def log(text: str) -> None:
    """One line of the journal."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
