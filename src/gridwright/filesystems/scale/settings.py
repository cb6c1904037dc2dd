"""Rows of the tuning table that name attributes of Spectrum Scale's configuration."""

from __future__ import annotations

import re

from gridwright.filesystems.tuning_kind import TuningKind


def _command(key: str) -> list[str]:
    return ["/usr/lpp/mmfs/bin/mmlsconfig", key]


def _value(printed: str, key: str) -> str | None:
    """Out of `pagepool 4294967296` (the mmlsconfig command)."""
    found = re.search(rf"^{re.escape(key)}\s+(\S+)", printed, re.MULTILINE)
    return found[1] if found else None


TUNING_KIND = TuningKind(
    name="scale", words="mmlsconfig", command=_command, value=_value, role="spectrum_scale_client"
)
