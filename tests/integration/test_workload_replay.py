"""Imported jobs as profiles: predicted and replayed by the real commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.workload import Grid

MB = 10**6
ACCOUNTING = """\
JobID|JobName|Submit|Start|End|ElapsedRaw|State|ExitCode|NodeList|AllocCPUS|UserCPU|SystemCPU|MaxRSS|NTasks|TRESUsageInTot|TRESUsageOutTot
1|load|2026-11-22T12:00:00|2026-11-22T12:00:00|2026-11-22T12:00:10|10|COMPLETED|0:0|n1|1|00:00.600|00:00.200||||
1.batch|batch|2026-11-22T12:00:00|2026-11-22T12:00:00|2026-11-22T12:00:10|10|COMPLETED|0:0|n1|1|00:00.600|00:00.200|120M|1|fs/disk=20000000|fs/disk=10000000
2|sum|2026-11-22T12:00:00|2026-11-22T12:00:01|2026-11-22T12:00:03|2|COMPLETED|0:0|n1|2|00:02.000|00:00.400||||
3|load|2026-11-22T12:00:00|2026-11-22T12:00:10|2026-11-22T12:00:22|12|COMPLETED|0:0|n1|1|00:00.700|00:00.200||||
4|fails|2026-11-22T12:00:00|2026-11-22T12:00:22|2026-11-22T12:00:23|1|FAILED|1:0|n1|1|00:00.700|00:00.200||||
"""


@pytest.fixture
def profiles(gridwright: Command, tmp_path: Path) -> Path:
    log = tmp_path / "jobs.txt"
    log.write_text(ACCOUNTING)
    assert gridwright("workload", "import", log).status == 1
    out = tmp_path / "jobs.json"
    made = gridwright("workload", "profile", "last", out, "--json")
    assert made.status == 0, made.err
    assert made.json["tests"] == ["load", "sum"]
    assert {"profile-io-calls", "profile-lacking"} <= {each["name"] for each in made.json["findings"]}
    return out


def test_jobs_are_replayed_in_their_order_with_what_they_used(
    gridwright: Command, tmp_path: Path, profiles: Path
) -> None:
    grid = Grid(tmp_path, gridwright)
    ended = gridwright("workload", "replay", profiles, grid.spec, "--scale", "tiny", "--json")
    assert ended.status == 0, ended.err
    document = ended.json
    assert document["matrix"].startswith("replay-of-")
    assert [(each["test"], each["stream"]) for each in document["launches"]] == [
        ("load", 1),
        ("load", 1),
        ("sum", 2),
    ]
    load, again, total = document["launches"]
    assert (load["class"], load["ok"], load["reason"]) == ("command", True, None)
    for launch, cpu in ((load, 0.8), (again, 0.8), (total, 2.4)):
        assert launch["user_s"] + launch["system_s"] == pytest.approx(cpu, rel=0.15)
    assert load["libraries"]["data"]["read_bytes"] == pytest.approx(20 * MB, rel=0.01)
    assert load["libraries"]["work"]["written_bytes"] == 10 * MB
    assert load["peak_memory_bytes"] == pytest.approx(120 * 2**20, rel=0.15)
    rows = {each["test"]: each for each in document["replayed"]}
    assert (rows["load"]["launches"], rows["load"]["job_real_s"]) == (2, 10.0)
    assert rows["sum"]["ratio"] == pytest.approx(rows["sum"]["real_s"] / 2.0)
    assert not grid.left()


def test_jobs_are_predicted_on_a_grid_that_may_not_exist(
    gridwright: Command, tmp_path: Path, profiles: Path
) -> None:
    def seconds(rate: str, *flags: str) -> dict[str, float]:
        grid = tmp_path / "bought.yaml"
        grid.write_text(
            "name: bought\nnodes: {compute: {count: 1, cores: 4, memory: 8 GiB}}\nfilesystems:\n"
            f"  disk: {{type: local, path: /x, delivers: {{read: {rate}, write: {rate}}}}}\n"
            "libraries: {data: {filesystem: disk}, work: {filesystem: disk}, util: {filesystem: disk}}\n"
        )
        told = gridwright("predict", grid, "--workload", profiles, "--json", *flags)
        assert told.status == 0, told.err
        return {each["test"]: each["real_s"] for each in told.json["tests"]}

    slow, fast = seconds("1 MB/s"), seconds("100 MB/s")
    assert slow["load"] == pytest.approx(0.8 + 30.0, rel=0.1)
    assert fast["load"] == pytest.approx(0.8 + 0.3, rel=0.1)
    assert slow["sum"] == fast["sum"] == pytest.approx(2.0, rel=0.1)


def test_profiles_of_a_matrix_are_replayed_by_that_matrix_alone(
    gridwright: Command, tmp_path: Path, profiles: Path
) -> None:
    document = json.loads(profiles.read_text())
    del document["launch_streams"]
    profiles.write_text(json.dumps(document))
    grid = Grid(tmp_path, gridwright)
    ended = gridwright("workload", "replay", profiles, grid.spec)
    assert ended.status == 2
    assert "do not tell which launches follow each other" in ended.text
    assert "--profile" in ended.text


def test_wrong_flags_of_a_replay(gridwright: Command, profiles: Path) -> None:
    ended = gridwright("workload", "replay", profiles, "--scale", "smal")
    assert ended.status == 2
    assert "did you mean small?" in ended.text
    ended = gridwright("workload", "profile", "last", profiles, "--io-rate", "100")
    assert ended.status == 2
    assert "has no unit" in ended.text
