"""Jobs of a site's own, imported by the real command from their logs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.support.command import Command

LOG = """\
NOTE: PROCEDURE SORT used (Total process time):
      real time           {seconds}.00 seconds
      user cpu time       4.00 seconds
      system cpu time     1.00 seconds
      memory              2048.00k
      Timestamp           11/21/2026 06:59:02 AM
{error}
NOTE: The SAS System used:
      real time           {seconds}.00 seconds
      user cpu time       4.00 seconds
      system cpu time     1.00 seconds
      memory              4096.00k
      Timestamp           11/21/2026 06:59:02 AM
"""


def test_logs_of_a_sites_own_are_judged_alike(gridwright: Command, tmp_path: Path) -> None:
    (tmp_path / "nightly.log").write_text(LOG.format(seconds=10, error=""))
    (tmp_path / "weekly.log").write_text(LOG.format(seconds=20, error="ERROR: Library WORK is full."))
    good = gridwright("workload", "import", tmp_path / "nightly.log", "--node", "sas01", "--json")
    assert good.status == 0, good.err
    (launch,) = good.json["launches"]
    assert (launch["test"], launch["node"], launch["real_s"]) == ("nightly", "sas01", 10.0)
    assert launch["cpu_real_ratio"] == 0.5
    assert good.json["met"] is None, "nothing is required of imported jobs"
    both = gridwright("workload", "import", tmp_path / "nightly.log", tmp_path / "weekly.log", "--json")
    assert both.status == 1, both.err
    assert [launch["ok"] for launch in both.json["launches"]] == [True, False]
    assert "Library WORK is full" in both.json["launches"][1]["reason"]
    assert both.json["summary"]["real_s"] == 10.0
    run = Path(both.json["run"])
    assert {path.name for path in run.iterdir()} >= {
        "run.json",
        "workload.json",
        "launches.parquet",
        "report.html",
    }
    assert json.loads((run / "workload.json").read_text()) == both.json
    assert "weekly" in (run / "report.html").read_text()
    table = gridwright("workload", "import", tmp_path / "nightly.log")
    assert table.status == 0
    assert "nightly" in table.out


def test_good_logs_are_imported_beside_those_that_are_refused(gridwright: Command, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "older").mkdir(parents=True)
    (logs / "good.log").write_text(LOG.format(seconds=10, error=""))
    (logs / "older" / "good.log.1.gz").write_bytes(gzip.compress(LOG.format(seconds=20, error="").encode()))
    (logs / "older" / "good.sas").write_text("data a; run;\n")
    (logs / "empty.log").write_text("")
    (logs / "loop").symlink_to(logs)
    (tmp_path / "notes.txt").write_text("no log\n")
    ended = gridwright("workload", "import", logs, tmp_path / "notes.txt", tmp_path / "missing.log", "--json")
    assert ended.status == 1, ended.err
    document = ended.json
    assert [(each["test"], each["real_s"]) for each in document["launches"]] == [
        ("good", 10.0),
        ("good.log", 20.0),
    ]
    refused = {Path(each["log"]).name: each for each in document["refused"]}
    assert list(refused) == ["empty.log", "notes.txt", "missing.log"]
    assert all(each["reason"] and each["remedy"] for each in refused.values())
    assert refused["empty.log"]["reason"] == "the log is empty"
    assert "No such file" in refused["missing.log"]["reason"]
    assert document["met"] is None
    passed = next(each for each in document["findings"] if each["name"] == "import-passed-over")
    assert "good.sas" in passed["text"]
    page = (Path(document["run"]) / "report.html").read_text()
    assert "Refused logs" in page
    assert "3 logs could not be read" in page
    shown = gridwright("runs", "show")
    assert "refused:" in shown.out
    assert "notes.txt" in shown.out


def test_where_no_log_can_be_read_every_one_is_named(gridwright: Command, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no log\n")
    (tmp_path / "none").mkdir()
    names = ("notes.txt", "none", "missing.log")
    ended = gridwright("workload", "import", *(tmp_path / name for name in names), "--json")
    assert ended.status == 2
    assert len(ended.json["problems"]) == 3
    assert all(str(tmp_path / name) in ended.text for name in names)
    assert not gridwright.runs.exists()


def test_nested_sessions_lose_no_minute(gridwright: Command, tmp_path: Path) -> None:
    def note(subject: str, minutes: int, cpu_minutes: int) -> str:
        return (
            f"NOTE: {subject} used (Total process time):\n      real time           {minutes}:00.00\n"
            f"      user cpu time       {cpu_minutes}:00.00\n      system cpu time     0.00 seconds\n\n"
        )

    def signed_on(name: str, steps: str, closing: str) -> str:
        off = (
            f"NOTE: Remote signoff from {name} commencing.\n{closing}"
            f"NOTE: Remote signoff from {name} complete.\n"
        )
        return (
            f"NOTE: Remote signon to {name} commencing (SAS Release 9.04.01M6P110718).\n"
            f"{note('SAS initialization', 0, 0)}NOTE: Remote signon to {name} complete.\n"
            f"NOTE: Remote submit to {name} commencing.\n{steps}NOTE: Remote submit to {name} complete.\n"
            f"{off if closing else ''}"
        )

    (tmp_path / "nested.log").write_text(
        note("SAS initialization", 0, 0)
        + note("PROCEDURE SORT", 10, 6)
        + signed_on("CLOSED", note("PROCEDURE REG", 20, 19), note("The SAS System", 21, 20))
        + note("PROCEDURE APPEND", 5, 1)
        + signed_on("OPEN", note("PROCEDURE GLM", 30, 29), "")
        + note("The SAS System", 70, 8)
    )
    ended = gridwright("workload", "import", tmp_path / "nested.log", "--json")
    assert ended.status == 0, ended.err
    (launch,) = ended.json["launches"]
    assert (launch["real_s"], launch["user_s"]) == (70 * 60, (8 + 20 + 29) * 60)
    assert [(each["procedure"], each["session"]) for each in launch["steps"] if each["real_s"]] == [
        ("SORT", None),
        ("REG", "CLOSED"),
        ("APPEND", None),
        ("GLM", "OPEN"),
    ]
    assert "sas-log-nested-session-open" in [each["name"] for each in ended.json["findings"]]
