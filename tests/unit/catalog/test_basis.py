"""How sure the prices of a plan are: their age, and which are estimates."""

from __future__ import annotations

from datetime import date

import pytest

from gridwright.catalog import load_catalog
from gridwright.catalog.basis import age_days, age_findings, estimate_findings, price_basis

CATALOG = load_catalog()
NODE = CATALOG.instance("m5n.8xlarge")


@pytest.mark.parametrize(
    ("dated", "days"),
    [
        ("2026", -39),
        ("2026-10", 22),
        ("2026-10-05", 48),
        ("2024", 691),
        ("our contract", None),
        ("2026-13", None),
    ],
)
def test_an_age_counts_from_the_end_of_what_the_date_names(dated: str, days: int | None) -> None:
    assert age_days(dated, date(2026, 11, 22)) == days


def test_prices_of_over_180_days_are_a_finding_that_names_them() -> None:
    basis = price_basis(CATALOG, "aws", "us-east-1", [NODE])
    assert basis.instances == ("2026-07", "2026-07")
    assert basis.estimated == ()
    (old,) = age_findings(basis, date(2026, 11, 22))
    assert "storage are of 2024" in old.text
    assert "instances" not in old.text
    (older,) = age_findings(basis, date(2027, 3, 1))
    assert "instances are of 2026-07" in older.text
    assert age_findings(basis, date(2024, 6, 1)) == []


def test_estimates_are_a_finding_where_they_are_used_only() -> None:
    there = price_basis(CATALOG, "aws", "eu-west-1", [NODE])
    assert there.estimated == ("storage",)
    (finding,) = estimate_findings(there, "eu-west-1")
    assert "eu-west-1" in finding.text
    new = price_basis(CATALOG, "aws", "eu-west-1", [CATALOG.instance("m8i.8xlarge")])
    assert new.estimated == ("instances", "storage")
    assert estimate_findings(price_basis(CATALOG, "oci", "us-ashburn-1", []), "us-ashburn-1") == []
