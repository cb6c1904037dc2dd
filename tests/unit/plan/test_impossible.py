"""What a plan without designs says: only of what it looked at, and at the line that it is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError
from gridwright.plan.candidates import market
from gridwright.plan.needs import read_needs
from gridwright.plan.search import plan_grids
from gridwright.spec.load import parse_spec
from tests.support.requirements import spec

CATALOG = load_catalog()
AWS = "name: p\nprovider: aws\nregion: us-east-1\n"
WANTED = "requirements: {cores: 1}\n"
PLACED = "filesystems: {own: {type: local, path: /x}}\nlibraries: {data: {filesystem: own}}\n"


def said(**sections: Any) -> tuple[str, ...]:
    found = plan_grids(spec(**sections), CATALOG)
    assert found.designs == ()
    return found.impossible


def test_a_type_of_another_family_is_not_denied_its_memory() -> None:
    """Types with 30 GB per core are on sale, and none of the allowed families is."""
    asked = {"memory_per_core": "30 GB", "families": {"allow": ["m5n", "c5n"]}}
    on_sale = market(CATALOG, read_needs(spec(requirements=asked)))
    assert any(one.memory_bytes_per_core > 30e9 for one, _ in on_sale.instances)
    (line,) = said(requirements=asked)
    count = sum(one.family in {"m5n", "c5n"} for one, _ in on_sale.instances)
    assert f"none of the {count} instance types with a price that meet allowed families m5n, c5n" in line
    assert "no instance type with a price" not in line


def test_a_family_of_another_architecture_is_not_said_to_have_no_price() -> None:
    (line,) = said(requirements={"architecture": "arm64", "families": {"allow": ["m5n"]}})
    assert "that meet architecture arm64 has allowed families m5n" in line


@pytest.mark.parametrize(
    ("family", "rate", "own", "says", "not_said"),
    [
        ("c5", 1, 1, "a plan has at most 10000 nodes", "FSx"),
        ("m5dn", 60, 10, "for data, a plan has at most", "nodes)"),
    ],
)
def test_only_the_limit_that_stops_the_cores_is_named(
    family: str, rate: int, own: int, says: str, not_said: str
) -> None:
    rates = {"data": rate, "work": own, "util": own}
    asked = {"cores": 900_000, "memory_per_core": "1 GB", "families": {"allow": [family]}}
    libraries = {name: {"requires": f"{each} MB/s/core", "capacity": "1 TiB"} for name, each in rates.items()}
    lines = said(requirements=asked, libraries=libraries)
    (line,) = [each for each in lines if each.startswith("requirements.cores")]
    assert says in line
    assert not_said not in line


def test_rooms_that_nobody_asked_for_are_not_called_out_of_reach() -> None:
    libraries = {name: {"requires": "90 GB/s/core", "capacity": None} for name in ("data", "work", "util")}
    lines = said(libraries=libraries, requirements={"families": {"allow": ["t3"]}})
    assert "capacit" not in "".join(lines)
    assert "with any of the" in lines[-1]
    assert "allowed families t3" in lines[-1]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"# two\n# lines\n{AWS}nodes: {{c: {{instance: m5.large, count: 1}}}}\n{PLACED}", 3),
        (f"name: p\n\nprovider: lab\n{WANTED}libraries: {{data: {{}}}}\nscheduler: {{type: slurm}}\n", 3),
        (f"{AWS}\n{WANTED}libraries:\n  data: {{}}\n", 6),
    ],
)
def test_a_requirement_of_the_whole_file_points_at_its_line(text: str, line: int) -> None:
    with pytest.raises(GridwrightError) as refused:
        plan_grids(parse_spec(text, "grid.yaml", base=Path("/")), CATALOG)
    (problem,) = refused.value.problems
    assert problem.where is not None
    assert problem.where.startswith(f"grid.yaml:{line}:")
    assert problem.source
    assert problem.remedy


def test_a_spec_that_was_not_read_from_text_names_its_file() -> None:
    with pytest.raises(GridwrightError) as refused:
        plan_grids(spec(libraries={name: {} for name in ("data", "work", "util")}), CATALOG)
    assert refused.value.problems[0].where == "grid.yaml"
