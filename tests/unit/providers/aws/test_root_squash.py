"""Root squash of FSx for Lustre. moto cannot update a file system, so a recording stands for the service."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.session import Cloud
from gridwright.providers.aws.up import settle_root_squash
from tests.unit.providers.aws.storage_specs import FSX, lustre, spec

KEPT = [f"{aws_layout(spec()).addresses[each]}@tcp" for each in ("login1", "controller")]
FSX_NID = re.compile(r"([0-9\[\]\-]*\.){3}([0-9\[\]\-]*)@tcp")
"""What FSx takes (API reference, LustreRootSquashConfiguration, NoSquashNids)."""


class Service:
    """File systems with their root squash, as the two calls of FSx see them."""

    def __init__(self, **squashed: str | None) -> None:
        self.squashed = squashed
        self.kept: dict[str, list[str]] = {}
        self.updates = 0

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        assert service == "fsx"
        if operation == "describe_file_systems":
            (name,) = arguments["FileSystemIds"]
            known = self.squashed[name]
            found = {"RootSquash": known, "NoSquashNids": self.kept.get(name, [])[::-1]}
            settings = {} if known is None else {"RootSquashConfiguration": found}
            return {"FileSystems": [{"FileSystemId": name, "LustreConfiguration": settings}]}
        assert operation == "update_file_system"
        self.updates += 1
        settings = arguments["LustreConfiguration"]["RootSquashConfiguration"]
        self.squashed[arguments["FileSystemId"]] = settings["RootSquash"]
        self.kept[arguments["FileSystemId"]] = settings["NoSquashNids"]
        return {}


@pytest.mark.parametrize(
    ("there", "wanted", "then"),
    [
        (None, None, None),
        (None, "65534:65534", "65534:65534"),
        ("65534:65534", "65534:65534", "65534:65534"),
        ("65534:65534", "1000:1000", "1000:1000"),
        ("65534:65534", None, "0:0"),
        ("0:0", None, "0:0"),
    ],
)
def test_it_becomes_what_the_spec_says_and_is_left_alone_where_it_is(
    there: str | None, wanted: str | None, then: str | None
) -> None:
    service = Service(fs1=there)
    if wanted is not None and there == wanted:
        service.kept["fs1"] = KEPT
    grid = spec(shared=FSX | ({"root_squash": wanted} if wanted else {}), built=lustre() | {"path": "/built"})

    for _ in range(2):
        settle_root_squash(cast(Cloud, service), grid, {"Shared": "fs1", "Vpc": "vpc-1"})

    assert service.squashed["fs1"] == then
    assert service.updates == (there != then)
    assert service.kept.get("fs1", []) == (KEPT if wanted else [])
    assert all(FSX_NID.fullmatch(each) for each in KEPT)


def test_root_of_head_and_login_node_stays_root_where_it_was_not() -> None:
    service = Service(fs1="1:1")
    grid = spec(shared=FSX | {"root_squash": "1:1"})
    assert settle_root_squash(cast(Cloud, service), grid, {"Shared": "fs1"}) == ("shared",)
    assert service.kept["fs1"] == KEPT


def test_those_that_were_changed_are_named() -> None:
    grid = spec(shared=FSX | {"root_squash": "1:1"}, other=FSX | {"path": "/other"})
    service = Service(fs1=None, fs2=None)
    physical = {"Shared": "fs1", "Other": "fs2"}

    assert settle_root_squash(cast(Cloud, service), grid, physical) == ("shared",)
    assert settle_root_squash(cast(Cloud, service), grid, physical) == ()
