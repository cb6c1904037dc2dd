"""What tofu and terraform print with -json: one JSON object a line (Terraform, machine-readable UI).

Lines of other kinds, such as those of a crash, are kept as they are: they say why when nothing else does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MOST_TOLD = 8
"""Problems of a failure that are told; the log has all."""
MOST_TEXT = 400
"""Characters of a problem that are told."""
_DONE, _FAILED = "apply_complete", "apply_errored"


@dataclass
class TerraformLines:
    """What was read of a run so far."""

    done: int = 0
    """Resources that were made, changed or removed."""
    problems: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)

    def take(self, lines: Iterable[str]) -> None:
        """Read on."""
        for line in lines:
            if text := line.strip():
                self._take(text)

    def _take(self, text: str) -> None:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self.plain.append(text)
            return
        self.done += found.get("type") == _DONE
        diagnostic = found.get("diagnostic")
        if isinstance(diagnostic, dict) and diagnostic.get("severity") == "error":
            self.problems.append(_told(diagnostic))

    @property
    def why(self) -> str:
        """The problems on one line, or the last words where there are none."""
        told = list(dict.fromkeys(self.problems)) or self.plain[-MOST_TOLD:]
        more = len(told) - MOST_TOLD
        return "; ".join(told[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")


def _told(diagnostic: dict[str, Any]) -> str:
    parts = (diagnostic.get("address"), diagnostic.get("summary"), diagnostic.get("detail"))
    text = ": ".join(" ".join(str(each).split()) for each in parts if each)
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 3]}..."
