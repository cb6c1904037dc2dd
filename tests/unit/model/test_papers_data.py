"""The published figures, the grid specs of the papers, and the pages made of them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import gridwright
from gridwright.model.grid import grid_model
from gridwright.model.papers.figures import (
    PAPERS,
    advice,
    configurations,
    paper_spec,
    published_figures,
    reasons,
)
from gridwright.report.papers.page import papers_page
from gridwright.report.terminal.papers import papers_text
from gridwright.spec import load_spec
from gridwright.units import Bytes
from tests.unit.model.paper_grids import papers

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "papers"
PACKAGED = Path(gridwright.__file__).parent / "model" / "data" / "papers"
PAGE = ROOT / "docs" / "papers.md"

CONFIGURATIONS = {
    "aws-2015-3oss-all-lustre",
    "aws-2015-3oss-local-work",
    "reference-smp-direct-attached",
    "aws-2015-3oss-iotest",
    "aws-2015-6oss-iotest",
    "aws-2020-fsx-ior-write",
    "aws-2020-instance-store-ior-write",
    "aws-2020-fsx-rhel-iotest",
    "oci-2020-scale-workload",
    "oci-2020-iotest-saswork",
    "oci-2020-iotest-sasdata",
    "aws-2015-icel-ior",
}
SPECS = sorted({each.spec for each in configurations().values() if each.spec})


def test_every_configuration_has_a_spec_or_a_reason() -> None:
    assert set(configurations()) == CONFIGURATIONS
    without = [each for each in configurations().values() if not each.spec]
    assert [each.name for each in without] == ["reference-smp-direct-attached"]
    assert "not described" in without[0].note


def test_examples_are_the_packaged_specs() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.yaml")) == SPECS
    assert sorted(path.name for path in PACKAGED.glob("*.yaml")) == SPECS
    for name in SPECS:
        assert (EXAMPLES / name).read_bytes() == (PACKAGED / name).read_bytes(), name


@pytest.mark.parametrize("name", SPECS)
def test_every_example_makes_a_grid(name: str) -> None:
    spec = load_spec(EXAMPLES / name)
    assert spec.name.startswith(f"paper-{name[:3]}-")
    model = grid_model(spec)
    assert model.unknown == {}
    assert model.usd_per_hour is None or model.usd_per_hour > 0


def test_the_instance_table_has_one_node_on_fsx() -> None:
    spec = paper_spec("002-fsx-lustre.yaml")
    assert [(each.instance, each.count) for each in spec.nodes.values()] == [("m5n.8xlarge", 1)]
    (filesystem,) = spec.filesystems.values()
    fields = filesystem.model_dump()
    assert (fields["type"], fields["deployment"]) == ("fsx-lustre", "persistent-1")
    assert fields["capacity"] == str(Bytes.parse("100800 GiB"))


def test_every_figure_is_of_a_known_configuration_and_has_known_reasons() -> None:
    figures = published_figures()
    assert len(figures) > 200
    assert len({(each.fact_id, each.quantity) for each in figures}) == len(figures)
    for each in figures:
        assert each.paper in PAPERS
        assert each.configuration in configurations()
        assert each.value > 0
        assert not each.reason or each.reason in reasons()
        assert each.role == "check" or each.reason, f"{each.quantity} does not count, and nothing says why"
    assert {each.reason for each in figures} - {""} == set(reasons())
    assert {each.configuration for each in figures} == CONFIGURATIONS - {"aws-2015-3oss-local-work"}


@pytest.mark.parametrize("name", ["figures", "configurations", "reasons", "advice"])
def test_every_line_of_the_data_has_all_its_cells(name: str) -> None:
    with (PACKAGED / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        head, *lines = csv.reader(file)
    assert lines
    assert [line for line in lines if len(line) != len(head)] == []


def test_printed_units_are_read_as_they_are_meant() -> None:
    values = {(each.fact_id, each.printed_unit): (each.value, each.unit) for each in published_figures()}
    assert values["001.meas.shared", "GB/s"] == (1.5e9, "bytes/s")
    assert values["004.ior.write_mib", "MiB/s"] == (2023.97 * 2**20, "bytes/s")
    assert values["000.ratio.lustre", "ratio"][1] == "ratio"
    assert values["002.mem.m5n_gib", "GiB"][0] == pytest.approx(values["002.mem.m5n_bytes", "B"][0], rel=1e-6)
    assert values["003.res.3node", "min"][1] == "s"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == papers_page(papers()), (
        "run gridwright predict --papers --markdown > docs/papers.md"
    )


def test_the_page_shows_every_check_and_every_piece_of_advice() -> None:
    page = papers_page(papers())
    for row in papers().of("check"):
        assert f"| `{row.fact_id}` | {row.quantity} |" in page
    assert len(advice()) > 40
    for each in advice():
        assert each.paper in PAPERS
        assert each.instead.replace("|", "\\|") in page
    for target in re.findall(r"\]\(([^)]+)\)", page):
        assert (PAGE.parent / target).exists(), target


def test_tables_of_the_page_have_as_many_cells_in_every_line() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", papers_page(papers()), re.MULTILINE)
    assert len(tables) >= 2 + 2 * len(PAPERS)
    for table in tables:
        cells = {len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(cells) == 1, table.splitlines()[0]


def test_the_terminal_shows_checks_misses_and_the_closing_note() -> None:
    shown = re.sub(r"\s+", " ", papers_text(papers()))
    words = ("Physics: the network is a share of the host's", "90th percentile", "within 5%", "within 15%")
    for each in (*words, *(row.quantity for row in papers().of("check"))):
        assert each in shown
