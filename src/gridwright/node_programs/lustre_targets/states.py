"""What is written down of a volume, where it outlives machines."""

from __future__ import annotations

NEW = "new"
"""The volume was found, and nothing was written to it."""
FORMATTING = "formatting"
"""It was proven blank, and is about to be formatted; nothing was ever stored on it."""
FORMATTED = "formatted"
"""It holds a target, and may hold data: it is never formatted again."""
STATES = (NEW, FORMATTING, FORMATTED)
