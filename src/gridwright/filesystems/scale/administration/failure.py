"""What does not succeed. Nodes run this with Python 3.9."""

from __future__ import annotations


class ScaleError(Exception):
    """What did not succeed, in words for administrators."""
