"""The layout of a library's directory, as recorded, against what the spec states."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.filesystems import kind_of
from gridwright.filesystems.directory_layout import directory_findings, stated_wish
from gridwright.filesystems.layout_wish import LayoutWish
from gridwright.filesystems.local.model import LocalFileSystem
from gridwright.filesystems.lustre.model import LustreFileSystem
from gridwright.filesystems.lustre_client.layout_command import plain
from gridwright.spec.library import Library
from tests.fixtures.lustre_node import printed
from tests.support.lustre_files import Lfs

PROGRESSIVE = [{"until": "64 MiB", "stripes": 1}, {"stripes": -1}]
RUN = Lfs(layouts={"/l/data": printed("221-getstripe-d-yaml-dir3")})


def found(layout: Any) -> list[str]:
    lustre = LustreFileSystem.model_validate({"type": "lustre", "path": "/l", "source": "h@tcp:/l"})
    library = Library.model_validate({"filesystem": "shared", **({"layout": layout} if layout else {})})
    return [
        f"{each.name}: {each.text} {each.remedy}"
        for each in directory_findings(
            kind_of(lustre), lustre, RUN, "/l/data", stated_wish(kind_of(lustre), lustre, "data", library)
        )
    ]


@pytest.mark.parametrize("layout", [PROGRESSIVE, None], ids=["as stated", "none stated"])
def test_a_directory_that_is_as_the_spec_has_it_is_no_finding(layout: Any) -> None:
    assert found(layout) == []


def test_a_directory_that_gives_another_layout_is_told_with_the_command_that_sets_it() -> None:
    (told,) = found([{"until": "64 MiB", "stripes": 1}, {"stripes": 4}])
    assert told.startswith(
        "directory-layout-differs: new files in /l/data get 1 OST (stripes of 4 MiB) until 64 MiB, "
    )
    assert "the spec states 1 OST until 64 MiB, then 4" in told
    assert "gridwright layout set grid.yaml data" in told


def test_what_somebody_has_set_where_the_model_chooses_is_information() -> None:
    lustre = LustreFileSystem.model_validate({"type": "lustre", "path": "/l", "source": "h@tcp:/l"})
    wish = LayoutWish(library="data", layout=plain(4), stated=False)
    (told,) = directory_findings(kind_of(lustre), lustre, RUN, "/l/data", wish)
    assert told.level == "info"
    assert "the model chooses 4 OSTs" in told.text


def test_a_kind_without_layouts_has_nothing_to_differ() -> None:
    local = LocalFileSystem.model_validate({"type": "local", "path": "/s"})
    wish = LayoutWish(library="data", layout=plain(4))
    assert directory_findings(kind_of(local), local, RUN, "/s", wish) == []
