"""The field `layout` of a library: three ways to write it, each read and written again as it stands."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.filesystems.layout import FileLayout
from gridwright.filesystems.library_directories import layout_in_spec
from gridwright.spec.load import parse_spec
from gridwright.spec.model import GridSpec

PARTS = "[{until: 64 KiB, where: mdt}, {until: 1 GiB, stripes: 1, pool: flash}, {stripes: -1}]"


def spec(layout: str, more: str = "", filesystem: str = "lustre, source: 10.0.0.1@tcp:/s") -> GridSpec:
    text = f"""
    filesystems:
      shared: {{type: {filesystem}, path: /shared{more}}}
    libraries:
      data: {{layout: {layout}}}
    """
    return parse_spec(textwrap.dedent(text).encode(), "grid.yaml", base=Path("/"))


def stated(made: GridSpec) -> FileLayout | None:
    filesystem = made.filesystems["shared"]
    return layout_in_spec(filesystem, "data", made.libraries["data"]).layout


@pytest.mark.parametrize("written", ["auto", "4", "-1", "[{until: 1 GiB, stripes: 1}, {stripes: -1}]", PARTS])
def test_a_layout_is_written_again_as_it_stands(written: str) -> None:
    once = spec(written).model_dump(mode="json")["libraries"]["data"]["layout"]
    assert spec(str(once)).model_dump(mode="json")["libraries"]["data"]["layout"] == once
    assert isinstance(once, {"a": str, "[": list}.get(written[0], int))


def test_parts_follow_each_other() -> None:
    layout = stated(spec(PARTS))
    assert layout is not None
    mdt, one, rest = layout.components
    assert (mdt.start, mdt.end, mdt.on_metadata_server, mdt.stripe_count) == (0, 2**16, True, 0)
    assert (one.start, one.end, one.stripe_count, one.pool) == (2**16, 2**30, 1, "flash")
    assert (rest.start, rest.end, rest.stripe_count) == (2**30, None, -1)


def test_a_library_goes_before_its_file_system() -> None:
    assert stated(spec("auto", ", stripe_count: 4")) is None
    layout = stated(spec("2", ", stripe_count: 4"))
    assert layout is not None
    assert [each.stripe_count for each in layout.components] == [2]


@pytest.mark.parametrize("wrong", ["[]", "aut", "1.5", "true", "2001", "-2", "{stripes: 1, pool: a.b}"])
def test_what_is_no_layout_is_refused(wrong: str) -> None:
    with pytest.raises(GridwrightError):
        spec(wrong)


def test_only_kinds_with_layouts_take_one() -> None:
    with pytest.raises(GridwrightError, match="no layout that one chooses"):
        spec("4", filesystem="nfs, server: a, export: /b")
