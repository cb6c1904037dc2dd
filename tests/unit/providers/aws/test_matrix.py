"""Grids on AWS in which every two values of fields meet: what each of them renders to holds together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gridwright.catalog import load_catalog
from gridwright.model.pricing_provider import pricing_provider
from gridwright.providers.aws import changes
from gridwright.providers.aws.files import GRID_TEMPLATE, MOST_CHARACTERS, STORAGE_TEMPLATE, aws_files, size
from gridwright.providers.aws.grid_template import grid_template
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.storage_template import storage_template
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec
from tests.support.aws_matrix import FIELDS, SCALE_ROWS, can_be, matrix, rows, scale_rows
from tests.support.operator_permissions import documents, operator_of
from tests.support.pairwise import missing

MATRIX = matrix()
PSEUDO = "AWS::"
MOST_USER_DATA = 16384
"""Bytes of user data before they are in base64 (Amazon EC2 User Guide, user data)."""


def references(content: object) -> Iterator[str]:
    """What a template refers to within itself."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name == "Ref":
                yield value
            elif name == "Fn::GetAtt":
                yield value[0] if isinstance(value, list) else value.partition(".")[0]
            elif name == "DependsOn":
                yield from value if isinstance(value, list) else [value]
            else:
                yield from references(value)
    elif isinstance(content, list):
        for each in content:
            yield from references(each)


def imports(content: object) -> Iterator[Any]:
    if isinstance(content, dict):
        for name, value in content.items():
            yield from [value] if name == "Fn::ImportValue" else imports(value)
    elif isinstance(content, list):
        for each in content:
            yield from imports(each)


def test_every_two_values_meet_that_can() -> None:
    assert len(MATRIX) == len(rows()) + SCALE_ROWS >= 30
    assert missing(FIELDS, can_be, rows()) == []


def storage_of(name: str) -> str:
    spec = read(name)
    return str(storage_template(spec, aws_layout(spec)).to_json())


def test_scale_meets_most_of_all_else() -> None:
    """In what they have in common it meets all kinds of network but for two, and both answers of most."""
    met = {each for row in scale_rows() for each in row.items()}
    left = {(field, value) for field, values in FIELDS.items() for value in values} - met
    assert {field for field, _ in left} == {
        *("filesystem", "nodes", "network", "machines", "depots", "replace_nodes", "kms_key", "alarms")
    }
    assert len([each for each in left if each[0] == "network"]) == 2
    volumes = {
        each["Properties"]["VolumeType"]
        for name in MATRIX
        if name.startswith("filesystem=scale")
        for each in json.loads(storage_of(name))["Resources"].values()
        if each["Type"] == "AWS::EC2::Volume" and each["Properties"].get("MultiAttachEnabled")
    }
    assert volumes == {"io2"}


@pytest.mark.few(20)
@pytest.mark.parametrize("name", MATRIX)
def test_the_templates_hold_together(name: str) -> None:
    spec = read(name)
    layout = aws_layout(spec)
    storage = json.loads(storage_template(spec, layout).to_json())
    grid = json.loads(grid_template(spec, layout).to_json())
    for template in (storage, grid):
        known = {*template["Resources"], *template.get("Parameters", {})}
        missing = {each for each in references(template) if not each.startswith(PSEUDO)} - known
        assert missing == set()
    exported = {each["Export"]["Name"] for each in storage["Outputs"].values() if "Export" in each}
    assert set(imports(grid)) <= exported
    for each in grid["Resources"].values():
        data = each["Properties"].get("LaunchTemplateData", {}).get("UserData")
        assert len(json.dumps(data)) < MOST_USER_DATA


@pytest.mark.few(20)
@pytest.mark.parametrize("name", MATRIX)
def test_what_holds_data_is_known_without_the_spec_as_well(name: str) -> None:
    """A release that cannot read the spec in the stack's metadata must not take data for nothing."""
    spec = read(name)
    layout = aws_layout(spec)
    storage = json.loads(storage_template(spec, layout).to_json())
    assert changes.holders_by_tags(storage, spec.name) == changes.holders(spec, layout)


@pytest.mark.few(20)
@pytest.mark.parametrize("name", MATRIX)
def test_the_spec_in_the_stack_is_read_again(name: str) -> None:
    """With all defaults in it: by what is deployed, `status`, `down` and refusals of `up` go."""
    template: dict[str, Any] = {}
    changes.keep(template, read(name))
    again = changes.deployed_spec(json.loads(json.dumps(template)))
    assert again is not None
    assert changes.values(again) == changes.values(read(name))


@pytest.mark.few(20)
@pytest.mark.parametrize("name", MATRIX)
def test_it_is_rendered_with_policies_and_costs(name: str) -> None:
    spec = read(name)
    files = aws_files(spec)[0]
    assert {STORAGE_TEMPLATE, GRID_TEMPLATE} <= set(files)
    assert all(size(each) <= MOST_CHARACTERS for each in documents(operator_of(json.dumps(MATRIX[name]))))
    assert all(
        each.usd_per_hour is not None for each in pricing_provider(spec).costs_beside(spec, load_catalog())
    )


def read(name: str) -> GridSpec:
    return parse_spec(json.dumps(MATRIX[name]))
