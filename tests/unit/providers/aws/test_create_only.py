"""The list of properties that only a new resource can have, against the schemas of resources in cfn-lint."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import gridwright.providers.aws
from tests.support.aws_updates import schema
from tests.unit.providers.aws.storage_specs import SPECS, template

FILE = Path(gridwright.providers.aws.__file__).parent / "data" / "create-only.csv"
OF_SCHEMAS = ("createOnlyProperties", "conditionalCreateOnlyProperties")

with FILE.open(encoding="utf-8", newline="") as _file:
    ROWS = list(csv.DictReader(_file))
TYPES = sorted({row["type"] for row in ROWS})


def listed(kind: str, source: str) -> set[str]:
    return {row["property"] for row in ROWS if row["type"] == kind and row["source"].startswith(source)}


@pytest.mark.parametrize("kind", TYPES)
def test_the_list_has_what_the_schema_of_the_type_has(kind: str) -> None:
    for key in OF_SCHEMAS:
        properties = {
            each.removeprefix("/properties/").replace("/", ".") for each in schema(kind).get(key, ())
        }
        assert listed(kind, f"resource schema, {key}") == properties


@pytest.mark.parametrize("row", [row for row in ROWS if row["source"].startswith("template reference")])
def test_what_only_the_reference_says_is_a_property_and_not_in_the_schema_already(
    row: dict[str, str],
) -> None:
    found = schema(row["type"])
    name, _, inner = row["property"].partition(".")

    assert name in found["properties"]
    if inner:
        definition = found["properties"][name]["$ref"].rpartition("/")[2]
        assert inner in found["definitions"][definition]["properties"]
    assert row["property"] not in listed(row["type"], "resource schema")


def test_every_row_says_where_it_is_from() -> None:
    assert all(row["source"].startswith(("resource schema, ", "template reference, ")) for row in ROWS)
    assert len({(row["type"], row["property"]) for row in ROWS}) == len(ROWS)


def test_the_list_knows_every_type_of_the_storage_stack() -> None:
    used = {each["Type"] for grid in SPECS.values() for each in template(grid)["Resources"].values()}
    # Nothing of these replaces them: their schema has no such property.
    free = {kind for kind in used if not any(schema(kind).get(key) for key in OF_SCHEMAS)}

    assert used <= set(TYPES) | free
