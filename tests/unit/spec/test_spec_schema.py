"""The JSON Schema, the template and the reference page agree with the models."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.spec import PROVIDERS, init_text, json_schema, parse_spec, warn
from gridwright.spec.reference import refreshed

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "grid-spec.md"


def objects(schema: Any) -> list[dict[str, Any]]:
    """All parts of a schema that have properties."""
    found = []
    if isinstance(schema, dict):
        found += [schema] if "properties" in schema else []
        found += [each for value in schema.values() for each in objects(value)]
    if isinstance(schema, list):
        found += [each for value in schema for each in objects(value)]
    return found


def test_every_field_of_the_schema_has_policy_reason_and_description() -> None:
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert len(objects(schema)) >= 4
    for part in objects(schema):
        assert part["additionalProperties"] is False
        for name, field in part["properties"].items():
            assert field["description"], name
            assert field["x-update-policy"] in ("live", "remount", "rolling", "rebuild", "never")
            assert field["x-update-reason"], name
    json.dumps(schema)


def test_the_schema_has_the_patterns_of_units() -> None:
    library = json_schema()["$defs"]["Library"]["properties"]
    rate = re.compile(library["requires"]["pattern"])
    size = re.compile(library["capacity"]["pattern"])
    assert rate.search("100 MB/s/core")
    assert not rate.search("100 MB/s")
    assert not rate.search("1 Gbit/s/core")
    assert size.search("12 TiB")
    assert not size.search("4096")
    assert not size.search("12 T")


def test_the_schema_closes_mappings_of_names() -> None:
    properties = json_schema()["properties"]
    assert properties["filesystems"]["additionalProperties"] is False
    assert properties["nodes"]["additionalProperties"] is False
    assert properties["libraries"]["propertyNames"]["enum"] == ["data", "work", "util"]
    assert "shared-disks" in properties["silence"]["propertyNames"]["enum"]


_SHARED = {name: {"shared-disks"} for name in ("local", "oci", "azure", "google")}


@pytest.mark.parametrize("provider", PROVIDERS.names())
def test_the_template_is_valid_and_says_what_it_shares(provider: str) -> None:
    spec = parse_spec(init_text(provider), base=Path("/srv"))
    assert spec.provider == provider
    assert {finding.name for finding in warn(spec)} == _SHARED.get(provider, set())


def test_the_silence_of_the_template_works_when_uncommented() -> None:
    text = init_text().replace("# silence:\n#   shared", "silence:\n  shared")
    assert warn(parse_spec(text, base=Path("/srv"))) == []


@pytest.mark.parametrize("provider", ["labs", "ibm"])
def test_no_template_for_other_providers(provider: str) -> None:
    with pytest.raises(GridwrightError, match=provider):
        init_text(provider)


def test_the_reference_is_up_to_date() -> None:
    text = PAGE.read_text("utf-8")
    assert text == refreshed(text), "run python -m gridwright.spec.reference docs/grid-spec.md"
    with pytest.raises(ValueError, match="lacks"):
        refreshed("no markers")


def test_every_spec_in_the_reference_is_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    specs = [block for block in blocks if "filesystems:" in block]
    assert len(specs) >= 2
    for block in specs:
        parse_spec(block)
