"""What unevenly full targets cost the libraries of a grid: new files go to the emptier ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gridwright.errors import Finding
from gridwright.filesystems.allocation import TargetSpace, fullest_and_emptiest, met_in_half, spread
from gridwright.model.grid import GridModel
from gridwright.units import format_rate


def uneven_findings(
    model: GridModel, space: Mapping[str, tuple[TargetSpace, ...]]
) -> Iterator[tuple[str, Finding]]:
    """For each library whose streams lose by it, its name and what they lose, with one stream per core.

    `space` has the free space of the targets of file systems, as it is now. Where the model knows what a
    target delivers it is told in MB/s, else as a part of what all deliver.
    """
    for name, choice in model.layouts.items():
        filesystem = model.libraries[name].filesystem
        targets = space.get(filesystem, ())
        ends = fullest_and_emptiest(targets)
        if ends is None:
            continue
        stripes, streams, count = choice.layout.components[-1].stripe_count, model.cores, len(targets)
        apart, alike = (spread(streams, count, stripes, each).floor for each in (targets, None))
        if apart >= alike:
            continue
        least, most = ends
        rates = model.contributions[filesystem].target_bytes_per_s
        whole = count * min(rates.values()) if rates else None
        one = f"{streams} stream{'s'[: streams != 1]}"
        yield (
            name,
            Finding(
                "warning",
                "targets-unbalanced",
                f"{least.name} has {100 * least.free_part:.0f} % free against "
                f"{100 * most.free_part:.0f} % of {most.name}: large new files of {one} meet "
                f"{met_in_half(streams, targets, stripes)} of {count} OSTs, and what they get in 95 % of "
                f"placements falls from {_rate_text(alike, whole)} to {_rate_text(apart, whole)}",
                "Stripe large files over more targets; gridwright layout rebalance --dry-run says which "
                "to move",
            ),
        )


def _rate_text(part: float, whole: float | None) -> str:
    return f"{100 * part:.0f} % of what all OSTs deliver" if whole is None else format_rate(part * whole)
