"""Root squash of FSx for Lustre. moto cannot update a file system, so a recording stands for the service."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gridwright.providers.aws.root_squash import settle_root_squash
from gridwright.providers.aws.session import Cloud
from tests.unit.providers.aws.storage_specs import FSX, lustre, spec


class Service:
    """File systems with their root squash, as the two calls of FSx see them."""

    def __init__(self, **squashed: str | None) -> None:
        self.squashed = squashed
        self.updates = 0

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        assert service == "fsx"
        if operation == "describe_file_systems":
            (name,) = arguments["FileSystemIds"]
            known = self.squashed[name]
            settings = {} if known is None else {"RootSquashConfiguration": {"RootSquash": known}}
            return {"FileSystems": [{"FileSystemId": name, "LustreConfiguration": settings}]}
        assert operation == "update_file_system"
        self.updates += 1
        settings = arguments["LustreConfiguration"]["RootSquashConfiguration"]
        self.squashed[arguments["FileSystemId"]] = settings["RootSquash"]
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
    grid = spec(shared=FSX | ({"root_squash": wanted} if wanted else {}), built=lustre() | {"path": "/built"})

    for _ in range(2):
        settle_root_squash(cast(Cloud, service), grid, {"Shared": "fs1", "Vpc": "vpc-1"})

    assert service.squashed["fs1"] == then
    assert service.updates == (there != then)


def test_those_that_were_changed_are_named() -> None:
    grid = spec(shared=FSX | {"root_squash": "1:1"}, other=FSX | {"path": "/other"})
    service = Service(fs1=None, fs2=None)
    physical = {"Shared": "fs1", "Other": "fs2"}

    assert settle_root_squash(cast(Cloud, service), grid, physical) == ("shared",)
    assert settle_root_squash(cast(Cloud, service), grid, physical) == ()
