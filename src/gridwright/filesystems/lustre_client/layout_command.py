"""Gives directories a layout by `lfs setstripe`, after checking what it would refuse or quietly change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gridwright.errors import ExitStatus, GridwrightError, environment_error
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import ALL, Component, FileLayout, LayoutProblem
from gridwright.filesystems.layout_text import layout_options
from gridwright.filesystems.lustre_client.layout import LIMIT_S, read_layout
from gridwright.units import format_bytes

STRIPE_STEP = 64 * 1024
"""Stripe sizes and ends of components are multiples of it (LOV_MIN_STRIPE_SIZE; lfs-setstripe(1))."""
LARGEST_STRIPE = 4 * 2**30 - STRIPE_STEP
"""The stripe size has 32 bits (lfs-setstripe(1))."""
MOST_STRIPES = 2000
"""LOV_MAX_STRIPE_COUNT; lfs refuses 2001 (recorded with 2.17)."""
LARGEST_ON_METADATA_SERVER = 2**30
"""The upper limit of lod.*.dom_stripesize, whose default is 1 MiB (Lustre manual, Data on MDT)."""
_POOL = r"[A-Za-z0-9_-]{1,15}"
"""Names of pools have at most 15 characters (LOV_MAXPOOLNAME)."""


def plain(stripe_count: int = 1, stripe_bytes: int | None = None, pool: str | None = None) -> FileLayout:
    """Every file over `stripe_count` targets, from its first byte; -1 is all."""
    return FileLayout((Component(stripe_count=stripe_count, stripe_bytes=stripe_bytes, pool=pool),))


def progressive(
    *parts: tuple[int | None, int], stripe_bytes: int | None = None, pool: str | None = None
) -> FileLayout:
    """Files that are striped wider as they grow, out of `(end in bytes, stripe count)` for each part.

    None is the end of the file: with `progressive((64 * 2**20, 1), (None, -1))` small files are on one
    target, and what lies beyond 64 MiB on all.
    """
    components: list[Component] = []
    start = 0
    for end, count in parts:
        components.append(
            Component(start=start, end=end, stripe_count=count, stripe_bytes=stripe_bytes, pool=pool)
        )
        start = end or start
    return FileLayout(tuple(components))


ADVISED = progressive((64 * 2**20, 1), (4 * 2**30, 4), (None, ALL))
"""For libraries whose files are of all sizes: a small file costs one object, a large one has all targets.

Ends and counts follow the example of the Lustre manual (Progressive File Layout); tables of an analytics
grid are read whole, so from some GiB on only more targets make them faster.
"""


def set_layout_command(layout: FileLayout, path: str) -> list[str]:
    """The command that gives a directory `layout`. Raises GridwrightError with all that is wrong with it."""
    problems = layout_problems(layout)
    if problems:
        raise GridwrightError(*(each.problem for each in problems), status=ExitStatus.INPUT)
    return ["lfs", "setstripe", *layout_options(layout), path]


def apply_layout(run: Run, directory: str, layout: FileLayout) -> FileLayout:
    """Give a directory a layout, which files made from now on get, and return what it has then.

    More stripes than there are targets are no error: a file gets as many as there are. Raises
    GridwrightError: status INPUT for a layout that cannot be, ENVIRONMENT where it was refused or nothing
    answers.
    """
    answer = run(set_layout_command(layout, directory), timeout_s=LIMIT_S)
    if answer.status != 0:
        said = answer.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1][:200] if said else f"exit status {answer.status}"
        raise environment_error(
            f"the layout of {directory} was not set: {reason}",
            where=directory,
            remedy="a pool has to exist (lfs pool_list), and the directory be yours and on Lustre",
        )
    return read_layout(run, directory)


def layout_problems(layout: FileLayout) -> list[LayoutProblem]:
    """All that is wrong with a layout, whichever servers are to have it."""
    return list(_problems(layout))


def _problems(layout: FileLayout) -> Iterator[LayoutProblem]:
    if not layout.components:
        yield LayoutProblem("a layout has no component", "give it one")
    for place, each in enumerate(layout.components):
        yield from _component_problems(each, place)
    yield from _order_problems(layout.components)


def _component_problems(each: Component, place: int) -> Iterator[LayoutProblem]:
    if each.on_metadata_server:
        if place > 0 or each.end is None or each.end > LARGEST_ON_METADATA_SERVER:
            yield LayoutProblem(
                "data on the metadata server have to begin a layout, and end by "
                f"{format_bytes(LARGEST_ON_METADATA_SERVER)}",
                "make it the first component, with an end such as 1 MiB",
                place,
                "where",
            )
    elif each.stripe_count != ALL and not 1 <= each.stripe_count <= MOST_STRIPES:
        yield LayoutProblem(
            f"a stripe count of {each.stripe_count}",
            f"write 1 to {MOST_STRIPES}, or -1 for all targets",
            place,
            "stripes",
        )
    size = each.stripe_bytes
    if size is not None and (size % STRIPE_STEP or not STRIPE_STEP <= size <= LARGEST_STRIPE):
        yield LayoutProblem(
            f"a stripe size of {format_bytes(size)}",
            f"write a multiple of {format_bytes(STRIPE_STEP)} below 4 GiB, such as 4 MiB",
            place,
            "stripe_size",
        )
    if each.pool is not None and not re.fullmatch(_POOL, each.pool, re.ASCII):
        yield LayoutProblem(
            "a pool's name has 1 to 15 letters, digits, - and _",
            "see lfs pool_list for names without that of the file system",
            place,
            "pool",
        )


def _order_problems(components: Sequence[Component]) -> Iterator[LayoutProblem]:
    last = 0
    for place, each in enumerate(components):
        if each.end is None:
            if place + 1 < len(components):
                yield LayoutProblem(
                    "it has no end, and another one follows", "end it where that begins", place, "until"
                )
            return
        if each.end <= last or each.end % STRIPE_STEP:
            end = f"{each.end} bytes" if each.end % STRIPE_STEP else format_bytes(each.end)
            above = f" above {format_bytes(last)}" if last else ""
            yield LayoutProblem(
                f"it ends at {end}",
                f"write a multiple of {format_bytes(STRIPE_STEP)}{above}",
                place,
                "until",
            )
        last = max(last, each.end)
    if components:
        yield LayoutProblem(
            f"it ends at {format_bytes(last)}: longer files cannot be written",
            "let the last component have no end",
            len(components) - 1,
            "until",
        )
