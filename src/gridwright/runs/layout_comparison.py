"""The same test in two layouts of files, side by side: that of the library, and a chosen one.

Each repeat tests both, one right after the other, in turns: first the library's own, then the chosen one, and
the other way round in the next repeat. So what drifts over the test falls on both alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gridwright.messages import LEFT_OUT, Extensible
from gridwright.runs.phase_record import ActualLayout, Op, PhaseRecord

METHOD = (
    "Ratio: geometric mean of the ratios of the pairs, chosen by default. Its 95 % interval: Student's t of "
    "their logarithms, for each operation by itself."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutFigure(Extensible):
    """One operation in both layouts; null where too few pairs count.

    A pair counts where both its tests do: whole, not from a cache, and not disturbed.
    """

    of: Op
    figure: str
    """The key of the figure in the record of a phase: `per_core_bytes_per_s`, or `ops_per_s`."""
    ran: int
    """How many pairs were begun."""
    default: list[float]
    """Of each pair that counts, in their order, in the library's own layout."""
    chosen: list[float]
    default_median: float | None
    chosen_median: float | None
    ratio: float | None
    """Chosen by default: above 1 the chosen layout is faster."""
    low: float | None
    high: float | None
    """The 95 % interval of the ratio."""
    lowest: float | None
    highest: float | None
    """The smallest and the largest ratio of one pair."""
    differs: bool | None
    """Whether 1 lies outside the interval; null where nothing can be told."""
    least_change: float | None
    """The least change, as a part of the default, that so many pairs of this spread tell, 4 times of 5."""
    verdict: str
    """What that says, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutComparison(Extensible):
    """A chosen layout beside the library's own."""

    name: str
    """As it was asked for."""
    text: str
    """The chosen layout in the words of `lfs setstripe`."""
    method: str = METHOD
    default_found: ActualLayout | None = None
    """What a file of the test really had, as its file system told; null before one was asked."""
    chosen_found: ActualLayout | None = None
    figures: list[LayoutFigure] = field(default_factory=list, metadata=LEFT_OUT)
    phases: list[PhaseRecord] = field(default_factory=list)
    """Those in the chosen layout; those in the library's own are the phases of the library."""

    @property
    def alike(self) -> bool:
        """Whether files had the same layout on both sides, so that nothing was compared."""
        default, chosen = self.default_found, self.chosen_found
        return default is not None and chosen is not None and default.text == chosen.text
