"""Layouts on a command line: the options of `lfs setstripe`, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems import all_kinds
from gridwright.filesystems.capabilities import Layouts
from gridwright.filesystems.layout import ALL, Component, FileLayout
from gridwright.filesystems.layout_text import layout_text, read_layout_text
from gridwright.filesystems.lustre_client.layout_command import ADVISED, plain, set_layout_command

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("4", plain(4)),
        ("-1", plain(ALL)),
        ("-c 8 -S 4M -p flash", plain(8, 4 * MIB, "flash")),
        ("-E 64M -c 1 -E 4G -c 4 -E -1 -c -1", ADVISED),
        ("-E 64MiB -c 1 -E 4096M -c 4 -E eof -c -1", ADVISED),
        (
            "-E 1M -L mdt -E -1 -C 16",
            FileLayout(
                (
                    Component(end=MIB, stripe_count=0, on_metadata_server=True),
                    Component(start=MIB, stripe_count=16, overstriped=True),
                )
            ),
        ),
    ],
)
def test_what_a_user_of_lfs_writes_is_read(text: str, layout: FileLayout) -> None:
    assert read_layout_text(text) == layout


def test_what_is_written_is_what_lfs_is_given() -> None:
    written = layout_text(ADVISED).split()
    given_to_lfs = set_layout_command(ADVISED, "/lake")[2:-1]
    sizes = {"64M": str(64 * MIB), "4G": str(4 * GIB)}
    assert [sizes.get(word, word) for word in written] == given_to_lfs


STRIPING = st.fixed_dictionaries(
    {
        "stripe_count": st.integers(1, 2000) | st.just(ALL),
        "stripe_bytes": st.none() | st.integers(1, 65_000).map(lambda steps: steps * 65_536),
        "pool": st.none() | st.from_regex(r"[a-z][a-z0-9_-]{0,14}", fullmatch=True),
        "overstriped": st.booleans(),
    }
)


@given(st.lists(STRIPING, min_size=1, max_size=5), st.data())
def test_a_layout_that_is_written_is_read_as_it_was(
    parts: list[dict[str, object]], data: st.DataObject
) -> None:
    steps = data.draw(st.lists(st.integers(1, 1 << 20), min_size=len(parts), max_size=len(parts)))
    components, start = [], 0
    for number, (part, step) in enumerate(zip(parts, steps, strict=True)):
        end = None if number == len(parts) - 1 else start + step * 65_536
        components.append(Component(start=start, end=end, **part))  # type: ignore[arg-type]
        start = end or start
    layout = FileLayout(tuple(components))
    assert read_layout_text(layout_text(layout)) == layout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it says nothing"),
        ("wide", "wide is none of -E, -c, -C, -S, -p, -L"),
        ("-c", "-c has no value"),
        ("-c four", "-c four is no stripe count"),
        ("-S 4Q -c 1", "-S 4Q is no size"),
        ("-E 1G -E -1 -c 4", "each part needs -c, -C or -L mdt"),
        ("-c 1 -E 1G -c 4", "what comes before the first -E belongs to no part"),
        ("-L ost", "-L ost is not mdt"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, says: str) -> None:
    with pytest.raises(GridwrightError) as refused:
        read_layout_text(text, "--layout")
    assert refused.value.status == ExitStatus.INPUT
    assert any(says in problem.what for problem in refused.value.problems)


def test_kinds_with_layouts_answer_for_them_and_others_do_not() -> None:
    with_layouts = {name for name, kind in all_kinds() if isinstance(kind, Layouts)}
    assert with_layouts == {name for name, kind in all_kinds() if kind.spec_model.takes_layouts}
    assert len(with_layouts) > 1
