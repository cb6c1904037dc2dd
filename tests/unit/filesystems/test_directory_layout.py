"""The layout of a library's directory, as recorded, against what the spec states."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.filesystems.desired_layout import DesiredLayout
from gridwright.filesystems.directory_layout import directory_findings, layout_in_spec
from gridwright.filesystems.layout import Component, FileLayout
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
        for each in directory_findings(lustre, RUN, "/l/data", layout_in_spec(lustre, "data", library))
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
    wish = DesiredLayout(library="data", layout=plain(4), stated=False)
    (told,) = directory_findings(lustre, RUN, "/l/data", wish)
    assert told.level == "info"
    assert "the model chooses 4 OSTs" in told.text


def test_a_layout_of_the_model_is_no_wider_than_the_targets_that_are_there() -> None:
    """What lfs df prints on a Lustre of two OSTs, of which a spec without servers says nothing."""
    lustre = LustreFileSystem.model_validate({"type": "lustre", "path": "/l", "source": "h@tcp:/l"})
    parts = (
        Component(end=2**26, stripe_count=1), Component(start=2**26, end=2**32, stripe_count=4),
        Component(start=2**32, stripe_count=-1),
    )  # fmt: skip
    space = """\
UUID                   1K-blocks        Used   Available Use% Mounted on
testfs-MDT0000_UUID       585656        1684      516768   1% /l[MDT:0]
testfs-OST0000_UUID      1908940        5488     1782212   1% /l[OST:0]
testfs-OST0001_UUID      1908940        9584     1778116   1% /l[OST:1]
"""
    run = Lfs(layouts={"/l/data": printed("205-getstripe-default")}, df=space)
    wish = DesiredLayout(library="data", layout=FileLayout(parts), stated=False)
    (told,) = directory_findings(lustre, run, "/l/data", wish)
    assert told.text.endswith("the model chooses 1 OST until 64 MiB, then all")
    as_wanted = Lfs(layouts={"/l/data": printed("221-getstripe-d-yaml-dir3")}, df=space)
    assert directory_findings(lustre, as_wanted, "/l/data", wish) == []


def test_a_kind_without_layouts_has_nothing_to_differ() -> None:
    local = LocalFileSystem.model_validate({"type": "local", "path": "/s"})
    wish = DesiredLayout(library="data", layout=plain(4))
    assert directory_findings(local, RUN, "/s", wish) == []
