"""The layout that a grid spec states for the files of a library on Lustre."""

from __future__ import annotations

from gridwright.filesystems.layout import ALL, Component, FileLayout
from gridwright.spec.library import LayoutPart


def stated_layout(parts: list[LayoutPart] | None, stripe_count: int | None) -> FileLayout | None:
    """The layout of a library, else that of the stripe count; None where the model chooses."""
    if parts is None and stripe_count is not None:
        return FileLayout((Component(stripe_count=stripe_count),))
    if not parts:
        return None
    components: list[Component] = []
    start = 0
    for part in parts:
        end = None if part.until is None else int(part.until)
        on_mdt = part.where == "mdt"
        components.append(
            Component(
                start=start,
                end=end,
                stripe_count=0 if on_mdt else ALL if part.stripes is None else part.stripes,
                stripe_bytes=None if part.stripe_size is None else int(part.stripe_size),
                pool=part.pool,
                on_metadata_server=on_mdt,
            )
        )
        start = end or start
    return FileLayout(tuple(components))
