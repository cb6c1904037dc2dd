"""Which deployer a grid has, and where a local one keeps its state."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.oci.deploy import state_directory
from gridwright.providers.oci.layout import oci_section
from gridwright.spec import parse_spec
from gridwright.spec.load import load_spec

EXAMPLE = Path(__file__).parents[5] / "examples" / "oci-scale.yaml"


def text(more: str) -> str:
    return EXAMPLE.read_text(encoding="utf-8").replace("oci:\n", f"oci:\n{more}", 1)


@pytest.mark.parametrize(
    ("more", "directory"),
    [
        ("  deploy: tofu\n", "oci-scale.terraform"),
        ("  deploy: terraform\n  state: kept/here\n", "kept/here"),
    ],
)
def test_the_state_lies_beside_the_spec(more: str, directory: str, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(text(more), encoding="utf-8")
    spec = load_spec(tmp_path / "grid.yaml")
    assert state_directory(spec, oci_section(spec)) == tmp_path / directory


def test_resource_manager_has_no_directory_for_its_state() -> None:
    with pytest.raises(GridwrightError, match="Resource Manager keeps the state itself") as raised:
        parse_spec(text("  state: kept\n"))
    assert "deploy: tofu" in str(raised.value)
