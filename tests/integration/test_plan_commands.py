"""`plan` and `predict` as users run them."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from tests.support.command import GRIDWRIGHT, Command

ROOT = Path(__file__).parents[2]
REQUIREMENTS = str(ROOT / "examples" / "requirements-64-cores.yaml")
FSX = ROOT / "examples" / "papers" / "002-fsx-lustre.yaml"


def test_a_written_design_is_checked_and_predicted_as_planned(gridwright: Command, tmp_path: Path) -> None:
    out = tmp_path / "grid.yaml"
    planned = gridwright("plan", REQUIREMENTS, "--write", str(out), "--choose", "2", "--json")
    assert planned.status == 0
    designs = planned.json["designs"]
    assert [each["cost_usd_per_hour"] for each in designs] == sorted(
        each["cost_usd_per_hour"] for each in designs
    )
    assert gridwright("check", str(out)).status == 0
    predicted = gridwright("predict", str(out), "--json")
    assert predicted.status == 0
    assert predicted.json["met"] is True
    assert predicted.json["cost_usd_per_hour"] == pytest.approx(designs[1]["cost_usd_per_hour"])
    for library in predicted.json["libraries"]:
        printed = designs[1]["libraries"][library["library"]]
        assert library["write"]["bytes_per_s_per_core"] == pytest.approx(
            printed["write_bytes_per_s_per_core"]
        )
        assert library["read"]["bytes_per_s_per_core"] == pytest.approx(printed["read_bytes_per_s_per_core"])
    assert "written" in planned.err


def test_a_file_that_is_there_is_not_overwritten_unasked(gridwright: Command, tmp_path: Path) -> None:
    out = tmp_path / "grid.yaml"
    out.write_text("mine")
    refused = gridwright("plan", REQUIREMENTS, "--write", str(out))
    assert refused.status == 2
    assert out.read_text() == "mine"
    assert gridwright("plan", REQUIREMENTS, "--write", str(out), "--overwrite").status == 0
    assert "filesystems:" in out.read_text()


def test_changing_only_the_instance_predicts_another_row(gridwright: Command, tmp_path: Path) -> None:
    for instance, gigabits in (("m5n.8xlarge", 25), ("c5n.18xlarge", 100), ("i3en.24xlarge", 100)):
        spec = tmp_path / "grid.yaml"
        spec.write_text(FSX.read_text().replace("m5n.8xlarge", instance))
        predicted = gridwright("predict", str(spec), "--json").json
        for library in predicted["libraries"]:
            assert library["write"]["bytes_per_s"] == pytest.approx(gigabits * 125e6)
            assert library["write"]["bound_by"] == "node.network-out"


def test_a_missed_requirement_ends_with_status_1(gridwright: Command, tmp_path: Path) -> None:
    spec = tmp_path / "grid.yaml"
    spec.write_text(FSX.read_text().replace("m5n.8xlarge", "m5.8xlarge"))
    predicted = gridwright("predict", str(spec))
    assert predicted.status == 1
    assert "no" in predicted.out


def test_the_impossible_ends_with_status_1_and_says_what_is_possible(
    gridwright: Command, tmp_path: Path
) -> None:
    spec = tmp_path / "grid.yaml"
    spec.write_text(Path(REQUIREMENTS).read_text().replace("cores: 64", "cores: 64\n  budget: 2 USD/h"))
    planned = gridwright("plan", str(spec))
    assert planned.status == 1
    assert "the nearest possible is" in " ".join(planned.out.split())
    assert gridwright("plan", str(spec), "--json").json["designs"] == []


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["predict", REQUIREMENTS], "yet to be planned"),
        (["iotest", REQUIREMENTS], "yet to be planned"),
        (["plan", str(FSX)], "no requirements"),
        (["plan", REQUIREMENTS, "--explain", "m5n.9xlarge"], "m5n.9xlarge"),
        (["plan", REQUIREMENTS, "--choose", "3"], "--write"),
        (["plan", REQUIREMENTS, "--write", "/nowhere/at/all.yaml"], "/nowhere/at"),
        (["plan", REQUIREMENTS, "--html", "/nowhere/p.html"], "there is no directory /nowhere"),
        (["plan", REQUIREMENTS, "--write", "/tmp", "--overwrite"], "/tmp is a directory"),
        (["predict", str(FSX), "--html", "/nowhere/p.html"], "there is no directory /nowhere"),
        (["predict", str(FSX), "--html", "/tmp"], "/tmp is a directory"),
        (["predict", str(FSX), "--workload", "mixd-30"], "--workload"),
        (["predict", "--markdown"], "--papers"),
        (["predict", str(FSX), "--papers"], "FILE"),
        (["predict", str(FSX), "--profile", "p.json"], "--workload"),
        (["predict", str(FSX), "--calibrate", "no-such-run"], "there are no runs here"),
    ],
)
def test_what_is_held_wrong_is_refused_with_a_remedy(
    gridwright: Command, arguments: list[str], says: str, tmp_path: Path
) -> None:
    refused = gridwright(*arguments, cwd=tmp_path)
    assert refused.status == 2
    assert says in refused.text


def test_a_disk_that_refuses_the_page_is_a_failure_of_the_environment(
    gridwright: Command, tmp_path: Path
) -> None:
    refused = gridwright("predict", str(FSX), "--html", "/proc/page.html", "--json")
    assert refused.status == 3
    assert refused.json["problems"][0]["where"] == "/proc/page.html"


@pytest.mark.thorough
def test_a_reader_that_goes_away_is_no_missed_requirement(gridwright: Command, tmp_path: Path) -> None:
    """Whether the reader goes before the last line is written is chance; neither way is it status 1."""
    script = f"{GRIDWRIGHT} plan {REQUIREMENTS} | head -1; echo status ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] in {"status 0", "status 3"}, done.stdout
    assert done.stderr in {"", "error: stdout: cannot be written: Broken pipe\n"}


@pytest.mark.thorough
def test_a_design_written_away_from_its_catalogue_says_so(gridwright: Command, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    spec = tmp_path / "mine" / "requirements.yaml"
    spec.write_text(Path(REQUIREMENTS).read_text())
    (tmp_path / "mine" / "catalog.yaml").write_text(
        "prices:\n  instances:\n    us-east-1:\n      m5n.8xlarge: 0.5\n"
    )
    away = gridwright("plan", spec, "--write", tmp_path / "grid.yaml")
    assert away.status == 0, away.err
    assert "catalog.yaml" in away.err
    beside = gridwright("plan", spec, "--write", tmp_path / "mine" / "grid.yaml")
    assert "note:" not in beside.err


def test_pages_are_written(gridwright: Command, tmp_path: Path) -> None:
    pages = {
        "plan": ["plan", REQUIREMENTS],
        "predict": ["predict", str(FSX)],
        "jobs": ["predict", str(FSX), "--workload", "quick"],
    }
    for name, arguments in pages.items():
        page = tmp_path / f"{name}.html"
        ended = gridwright(*arguments, "--html", str(page))
        assert ended.status == 0
        assert "<html" in page.read_text()
    assert "Where the time of each test went" in (tmp_path / "jobs.html").read_text()
    assert "<dt>Region</dt><dd>us-east-1</dd>" in (tmp_path / "plan.html").read_text()


def test_a_plan_for_a_deadline_lists_designs_with_their_end_and_cost(
    gridwright: Command, tmp_path: Path
) -> None:
    night = ROOT / "examples" / "requirements-night.yaml"
    out = tmp_path / "grid.yaml"
    planned = gridwright("plan", str(night), "--json", "--write", str(out))
    assert planned.status == 0, planned.err
    document = planned.json
    assert document["best"]["finish_s"] == document["best"]["checked_finish_s"] <= 3 * 3600
    in_time = [each for each in document["designs"] if each["meets"]]
    assert in_time[0] == document["best"]
    assert len(in_time) > 2
    for one, dearer in itertools.pairwise(in_time):
        assert one["cost_usd_per_hour"] <= dearer["cost_usd_per_hour"]
        assert one["finish_s"] > dearer["finish_s"]
    assert all(
        each["cost_usd_per_hour"] <= in_time[0]["cost_usd_per_hour"]
        for each in document["designs"][len(in_time) :]
    )
    predicted = gridwright("predict", str(out), "--json")
    assert predicted.json["cost_usd_per_hour"] == pytest.approx(document["best"]["cost_usd_per_hour"])
    unknown = tmp_path / "night.yaml"
    unknown.write_text(night.read_text().replace("mixed-30", "mixed-31"))
    refused = gridwright("plan", str(unknown))
    assert refused.status == 2
    assert f"{unknown}:10:9: no matrix is named" in refused.err
    assert "Did you mean mixed-30?" in refused.err


def test_nodes_that_are_given_and_too_few_are_named_and_nothing_is_written(
    gridwright: Command, tmp_path: Path
) -> None:
    given, out = tmp_path / "grid.yaml", tmp_path / "out.yaml"
    text = Path(REQUIREMENTS).read_text()
    given.write_text(f"{text}\nnodes:\n  cheap: {{instance: m6in.2xlarge, count: 2}}\n")
    refused = gridwright("plan", str(given), "--write", str(out))
    assert refused.status == 1
    assert "nodes.cheap: 2 x m6in.2xlarge have 8 of 64 cores required" in " ".join(refused.out.split())
    assert not out.exists()
    given.write_text(given.read_text().replace("count: 2", "count: 16"))
    planned = gridwright("plan", str(given), "--write", str(out), "--json")
    assert planned.status == 0
    assert planned.json["designs"][0]["nodes"] == {"instance": "m6in.2xlarge", "count": 16, "cores": 64}
    assert "cheap:" in out.read_text()
    assert gridwright("predict", str(out)).status == 0
