"""Which files an archive (HSM) knows, as `lfs hsm_state` tells it.

No recording shows that a client is told `trusted.hsm`, so these are asked for the few files that matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gridwright.filesystems.health import Run

LIMIT_S = 60.0
"""For some tens of files."""
RELEASED = 0x4
"""HS_RELEASED of lustre_user.h: the bytes are in the archive only."""


def archive_states(run: Run, paths: Sequence[str], *, timeout_s: float = LIMIT_S) -> Mapping[str, int]:
    """Flags of each path; of what is gone, or of which nothing is told, there is none.

    Raises GridwrightError (status ENVIRONMENT) where nothing answers.
    """
    asked = set(paths)
    text = run(["lfs", "hsm_state", *paths], timeout_s=timeout_s).stdout.decode(errors="surrogateescape")
    found: dict[str, int] = {}
    for line in text.splitlines():
        path, colon, rest = line.rpartition(": (0x")
        flags = re.match(r"([0-9a-f]{1,8})\)", rest)
        if colon and path in asked and flags:
            found[path] = int(flags[1], 16)
    return found
