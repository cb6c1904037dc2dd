"""Where what tests build or fetch once is kept: outside of the checkout."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """The directory, there or not."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gridwright"
