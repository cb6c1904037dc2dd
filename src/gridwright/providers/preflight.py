"""Whether a grid could be made, looked at before anything is made: what `up --check` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gridwright.errors import ExitStatus, Finding, GridwrightError, Problem


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A limit, what is used of it by others, and what the grid needs in all."""

    name: str
    code: str
    """As the provider calls it, such as ec2/L-1216C47A."""
    unit: str
    limit: float
    used: float
    needed: float

    @property
    def is_enough(self) -> bool:
        """Whether what is left is enough."""
        return self.used + self.needed <= self.limit


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was found; nothing was made or changed."""

    grid: str
    provider: str
    facts: Mapping[str, str]
    """What was looked at, in words: the account, the zone."""
    figures: tuple[QuotaUse, ...]
    findings: tuple[Finding, ...]

    @property
    def is_fit(self) -> bool:
        """Whether nothing was found that the making of the grid fails of."""
        return not self.problems()

    def problems(self) -> list[Problem]:
        """What the making of the grid fails of."""
        return [
            Problem(f"{each.name}: {each.text}", remedy=each.remedy)
            for each in self.findings
            if each.level == "error"
        ]

    def refuse(self) -> None:
        """Raise GridwrightError (ENVIRONMENT) with all that the making of the grid fails of."""
        if found := self.problems():
            raise GridwrightError(*found, status=ExitStatus.ENVIRONMENT)

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "provider": self.provider,
            "check": True,
            "fit": self.is_fit,
            "facts": dict(self.facts),
            "quotas": [{**asdict(each), "enough": each.is_enough} for each in self.figures],
            "findings": [asdict(each) for each in self.findings],
        }

    def text(self) -> str:
        """Facts, figures, findings, and the verdict."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for name, value in self.facts.items():
            yield f"{name}: {value}"
        for each in self.figures:
            left = f"{each.used:g} of {each.limit:g} {each.unit} used by others, {each.needed:g} needed"
            yield f"{each.name}: {left}{'' if each.is_enough else ', which is too much'}"
        for one in self.findings:
            yield f"\n{one}"
        errors = len(self.problems())
        verdict = f"{errors} error{'s'[: errors != 1]}, it cannot be made" if errors else "nothing against it"
        yield f"\ngrid {self.grid}: {verdict}; nothing was made"
