"""The layout of a test's files: set on its scratch directory before files are made, read back from one.

Whoever has the kinds of file systems does that: the worker where one node is tested, else the coordinator, by
commands that one node runs for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from gridwright.errors import Finding
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import layout_text
from gridwright.iotest.tried_layout import TriedLayout
from gridwright.messages import plain
from gridwright.runs.iotest_events import LayoutSeen
from gridwright.runs.phase_record import ActualLayout
from gridwright.units import format_bytes

if TYPE_CHECKING:
    from gridwright.filesystems.kind import Layouts
    from gridwright.iotest.engine import StreamPlan


def lay_out(test: TriedLayout | None, run: Run, directory: str) -> None:
    """Give the scratch directory the chosen layout; one that has the library's is only looked at.

    So a file system that tells or takes no layout ends the test before files are written. Raises
    GridwrightError as `Layouts.set_layout` and `layout` do.
    """
    if test is None:
        return
    if test.chosen:
        _layouts(test).set_layout(None, run, directory, test.layout)
    else:
        _layouts(test).layout(None, run, directory)


def seen(
    test: TriedLayout, run: Run, files: Sequence[StreamPlan], library: str
) -> Iterator[LayoutSeen | Finding]:
    """The layout that the first file of a test really has, and what is to be said of it.

    Raises GridwrightError (status ENVIRONMENT) where it is not told.
    """
    path = files[0].path
    file_bytes = max(file.base + file.file_bytes for file in files if file.path == path)
    layout = _layouts(test).layout(None, run, path)
    first = [component for component in layout.components if component.mirror == layout.components[0].mirror]
    reached = [each for each in first if each.start < max(1, file_bytes)]
    # What lies behind the end of the file has no part in its rate, and would make two alike look different.
    shown = replace(layout, components=tuple(reached))
    yield LayoutSeen(
        layout=ActualLayout(
            chosen=test.chosen,
            text=layout_text(shown),
            file_bytes=file_bytes,
            components=plain(layout.components),
        )
    )
    short = [
        (asked.stripe_count, got.stripe_count)
        for asked, got in zip(test.layout.components, reached, strict=False)
        if 0 < got.stripe_count < asked.stripe_count
    ]
    if test.chosen and short:
        asked, got = short[0]
        yield Finding(
            "warning",
            "layout-narrower",
            f"library {library}: files have {got} {'stripe' if got == 1 else 'stripes'} where the layout "
            f"asks for {asked}: there are no more targets, or the others take no new files",
            "choose as many stripes as there are targets; gridwright doctor tells which take no new files",
        )
    if test.chosen and len(reached) < len(first):
        yield Finding(
            "warning",
            "layout-not-reached",
            f"library {library}: files of {format_bytes(file_bytes)} end in part {len(reached)} of "
            f"{len(first)} of their layout, so that the rest of it was not tested",
            "give a larger --size, or more --seconds",
        )


def _layouts(test: TriedLayout) -> Layouts[Any]:
    # Imported here: nodes have this module, and no kinds.
    from gridwright.filesystems import kind_named

    return cast("Layouts[Any]", kind_named(test.kind))
