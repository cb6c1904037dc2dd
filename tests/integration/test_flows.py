"""Flows and usage by the real commands, on a grid of this machine."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.local_grid import LocalGrid, local_grid

FLOW = """\
flow: nightly
defaults: {memory: 64 MiB}
jobs:
  extract: {command: [sh, -c, "echo got; test -e extracted && echo twice; touch extracted"]}
  clean: {command: [sh, -c, 'test -e mended || test "$GRIDWRIGHT_ARRAY_INDEX" != 2'], array: 1-3,
          after: extract}
  score: {command: [sh, -c, "echo $GRIDWRIGHT_ARRAY_INDEX"], array: 1-3, after: "each:clean",
          stdout: "score-{index}"}
  load: {command: [cat], stdin: score-2, stdout: loaded, after: score}
  alarm: {command: ["true"], after: "not-ok:load"}
"""


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[LocalGrid]:
    with local_grid(tmp_path / "grid", cores=4) as made:
        (made.directory / "nightly.yaml").write_text(FLOW)
        yield made


def submitted(gridwright: Command, grid: LocalGrid, *more: str) -> dict[str, str]:
    """Names and numbers of a submission of the flow, when all its jobs have ended."""
    made = gridwright(
        "submit", "--grid", grid.file, "--flow", grid.directory / "nightly.yaml", *more, "--json"
    )
    assert made.status == 0, made.err
    jobs: dict[str, str] = made.json["jobs"]
    if jobs:
        gridwright("wait", "--grid", grid.file, *jobs.values())
    return jobs


def test_a_flow_goes_on_from_what_failed(gridwright: Command, grid: LocalGrid) -> None:
    first = submitted(gridwright, grid)
    assert set(first) == {"extract", "clean", "score", "load", "alarm"}
    states = {
        (job["name"], job["id"].partition("_")[2]): job["state"]
        for job in gridwright("jobs", "--grid", grid.file, "--json").json["jobs"]
    }
    assert states == {
        ("extract", ""): "completed",
        ("clean", "1"): "completed",
        ("clean", "2"): "failed",
        ("clean", "3"): "completed",
        ("score", "1"): "completed",
        ("score", "2"): "cancelled",
        ("score", "3"): "completed",
        ("load", ""): "cancelled",
        ("alarm", ""): "completed",
    }
    assert "nightly/extract" in gridwright("jobs", "--grid", grid.file).out
    (grid.directory / "mended").touch()
    second = submitted(gridwright, grid, "--resume")
    assert set(second) == {"clean", "score", "load", "alarm"}
    assert gridwright("logs", "--grid", grid.file, first["extract"]).out == "got\n"
    assert (grid.directory / "loaded").read_text() == "2\n"
    third = gridwright("submit", "--grid", grid.file, "--flow", grid.directory / "nightly.yaml", "--resume")
    assert third.out == "every job of flow nightly has completed\n"


def test_what_the_scheduler_refuses_stands_at_its_line_and_nothing_is_submitted(
    gridwright: Command, grid: LocalGrid
) -> None:
    file = grid.directory / "wrong.yaml"
    long = "x" * 200_000
    file.write_text(
        "flow: wrong\n"
        "jobs:\n"
        "  fits: {command: [echo]}\n"
        "  wide: {command: [echo], cores: 99, after: fits}\n"
        "  odd: {command: [echo], qos: high, queue: nihgt}\n"
        f"  long: {{command: [echo, {long}]}}\n"
        "  many: {command: [echo], array: 1-10000000}\n"
    )
    refused = gridwright("submit", "--grid", grid.file, "--flow", file, "--json")
    assert refused.status == 2
    told = {
        (each["where"].rpartition("wrong.yaml:")[2].partition(":")[0], each["field"])
        for each in refused.json["problems"]
    }
    assert told == {
        ("4", "jobs.wide.cores"),
        ("5", "jobs.odd.qos"),
        ("5", "jobs.odd.queue"),
        ("6", "jobs.long.command"),
        ("7", "jobs.many.array"),
    }
    assert gridwright("jobs", "--grid", grid.file, "--json").json["jobs"] == []


def test_flags_of_one_job_do_not_go_with_a_flow(gridwright: Command, grid: LocalGrid) -> None:
    wrong = gridwright(
        "submit", "--grid", grid.file, "--flow", grid.directory / "nightly.yaml", "--cores", "2", "--qos", "a"
    )
    assert wrong.status == 2
    assert "--cores goes with one job" in wrong.err
    assert "--qos goes with one job" in wrong.err
    alone = gridwright("submit", "--grid", grid.file, "--resume", "--", "true")
    assert "--resume goes with --flow" in alone.err
    never = gridwright("submit", "--grid", grid.file, "--flow", grid.directory / "nightly.yaml", "--resume")
    assert "no run of flow nightly is remembered" in never.err
    empty = gridwright("submit", "--grid", grid.file)
    assert (empty.status, "there is no command" in empty.err) == (2, True)


def test_usage_is_told_as_table_json_csv_and_page(gridwright: Command, grid: LocalGrid) -> None:
    none = gridwright("usage", "--grid", grid.file)
    assert (none.out, none.err) == ("no job ended in this time\n", "")
    longer = gridwright("usage", "--grid", grid.file, "--since", "90d")
    assert "scheduler local remembers a job for 30 days after its end" in longer.err
    for name, account in (("a", "sales"), ("a", "ops"), ("b", "<b>ops")):
        made = gridwright(
            "submit", "--grid", grid.file, "--name", name, "--account", account, "--", "sleep", "0.2"
        )
        gridwright("wait", "--grid", grid.file, made.out.strip())
    shown = gridwright("usage", "--grid", grid.file, "--by", "job-name", "--json").json
    assert {each["name"]: each["jobs"] for each in shown["groups"]} == {"a": 2, "b": 1}
    assert shown["total"]["core_hours"] == pytest.approx(3 * 0.2 / 3600, rel=1)
    rows = list(
        csv.DictReader(io.StringIO(gridwright("usage", "--grid", grid.file, "--by", "account", "--csv").out))
    )
    assert {row["account"] for row in rows} == {"sales", "ops", "<b>ops"}
    assert {row["cost_usd"] for row in rows} == {""}
    page = grid.directory / "usage.html"
    table = gridwright("usage", "--grid", grid.file, "--by", "account", "--chart", page)
    assert "sales" in table.out and "USD" not in table.out, "what nobody knows takes no room"
    assert "default-src 'none'" in html.unescape(page.read_text())
    assert "&lt;b&gt;ops" in page.read_text()
    later = gridwright("usage", "--grid", grid.file, "--since", "2h", "--until", "1h", "--json").json
    assert later["groups"] == []
    wrong = gridwright("usage", "--grid", grid.file, "--since", "1h", "--until", "2h", "--by", "users")
    assert (wrong.status, "did you mean user" in wrong.err, "--until" in wrong.err) == (2, True, True)
