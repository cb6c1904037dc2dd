"""A directory of runs that users share, as /tmp: mallory lays out runs there that look newer than alice's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet  # noqa: F401 - whom a test becomes may not be able to read it
import pytest

from gridwright.runs.directory import list_runs
from gridwright.runs.place import find_run
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all, words_of
from tests.support.command import GRIDWRIGHT
from tests.support.records import finished_run

pytestmark = pytest.mark.root


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    open_to_all(tmp_path)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    return shared


def run_of(uid: int, runs: Path, name: str, days: float) -> Path:
    """A finished run of a user that began so many days ago, by its name and by its record."""
    began = datetime.now(UTC) - timedelta(days=days)
    made = finished_run(runs, name).rename(runs / f"{began:%Y%m%dT%H%M%SZ}-{name}")
    record = json.loads((made / "run.json").read_text())
    (made / "run.json").write_text(json.dumps(record | {"started": began.isoformat(timespec="seconds")}))
    for path in (made, *made.rglob("*")):
        os.chown(path, uid, uid)
    return made


def forged(original: Path) -> list[Path]:
    """What mallory copied of a run, and called as if it were to begin in 2099."""
    copies = [original.parent / f"20991231T00000{number}Z-directory" for number in (1, 2, 3)]

    def mallory() -> None:
        for each in copies:
            shutil.copytree(original, each)
            record = json.loads((each / "run.json").read_text())
            (each / "run.json").write_text(json.dumps(record | {"started": "2099-12-31T00:00:00+00:00"}))

    as_user(MALLORY, mallory)
    return copies


def gridwright(uid: int, *words: str, runs: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*words_of(uid), GRIDWRIGHT, *words, "--runs", str(runs)],
        cwd=runs,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_runs_of_others_are_neither_the_last_nor_count_in_a_prune(shared: Path) -> None:
    old, new = run_of(ALICE, shared, "old", 30), run_of(ALICE, shared, "new", 1)
    theirs = forged(new)
    shown = gridwright(ALICE, "runs", "show", "--json", runs=shared)
    assert (shown.returncode, json.loads(shown.stdout)["path"]) == (0, str(new)), shown.stderr
    reported = gridwright(ALICE, "report", "last", runs=shared)
    assert (reported.returncode, (new / "report.html").exists()) == (0, True), reported.stderr
    kept = gridwright(ALICE, "runs", "prune", "--keep", "3", "--yes", "--json", runs=shared)
    assert (kept.returncode, json.loads(kept.stdout)["removed"]) == (0, []), kept.stderr
    assert f"runs of others stay, whatever their age: 3 of {MALLORY}" in kept.stderr
    pruned = gridwright(ALICE, "runs", "prune", "--keep", "1", "--yes", "--json", runs=shared)
    assert json.loads(pruned.stdout)["removed"] == [str(old)], pruned.stderr
    assert all(each.exists() for each in (new, *theirs))


def test_root_prunes_and_shows_its_own_alone(shared: Path) -> None:
    run_of(ALICE, shared, "hers", 900)
    theirs = forged(next(shared.iterdir()))
    refused = gridwright(0, "report", runs=shared)
    assert refused.returncode == 2
    words = " ".join(refused.stderr.split())
    assert f"none of the runs here is yours (3 of {MALLORY}, 1 of {ALICE})" in words
    assert theirs[-1].name in words
    mine = run_of(0, shared, "mine", 400)
    assert find_run(shared, "last") == mine
    pruned = gridwright(0, "runs", "prune", "--keep", "0", "--yes", "--json", runs=shared)
    assert json.loads(pruned.stdout)["removed"] == [str(mine)], pruned.stderr
    assert len(list_runs(shared)) == 4


def test_a_list_of_several_users_says_whose_each_is(shared: Path) -> None:
    mine = run_of(ALICE, shared, "mine", 1)
    assert "owner" not in gridwright(ALICE, "runs", "list", runs=shared).stdout
    forged(mine)
    told = gridwright(ALICE, "runs", "list", runs=shared).stdout
    assert "owner" in told
    assert (told.count(f" {MALLORY} "), told.count(f" {ALICE} ")) == (3, 1)
    owners = [
        each["owner"]
        for each in json.loads(gridwright(ALICE, "runs", "list", "--json", runs=shared).stdout)["runs"]
    ]
    assert owners == [str(ALICE), *[str(MALLORY)] * 3]


def test_a_run_of_ones_own_that_is_to_come_is_not_the_last_and_stays(tmp_path: Path) -> None:
    now, to_come = run_of(os.geteuid(), tmp_path, "now", 0), run_of(os.geteuid(), tmp_path, "to-come", -400)
    assert find_run(tmp_path, "last") == now
    pruned = gridwright(os.geteuid(), "runs", "prune", "--keep", "1", "--yes", "--json", runs=tmp_path)
    document = json.loads(pruned.stdout)
    assert (document["removed"], [each["run"] for each in document["kept"]]) == ([], [str(to_come)])
    assert "future" in document["kept"][0]["reason"]


def test_part_of_a_name_means_ones_own_run_where_others_have_it_too(shared: Path) -> None:
    mine = run_of(0, shared, "directory", 1)
    forged(mine)
    assert find_run(shared, "direc") == mine
