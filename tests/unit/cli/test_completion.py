"""What `gridwright completion` offers for every kind of word, and how it reads what bash hands it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command

from gridwright.cli.main import app
from gridwright.cli.shell.completion import SHELLS, Candidates, answer, typed
from gridwright.doctor.checks import all_checks
from tests.support.local_grid import LocalGrid
from tests.support.records import finished_run
from tests.unit.cli.test_startup import verbs

SPEC = """name: demo
provider: aws
region: us-east-1
nodes: {compute: {count: 2, instance: m5n.8xlarge}}
filesystems: {fast: {type: local, path: /srv/grid}, slow: {type: local, path: /mnt/slow}}
libraries: {data: {filesystem: slow}, work: {filesystem: fast}, util: {filesystem: fast}}
"""


def offered(*words: str) -> Candidates:
    return answer(get_command(app), words)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRIDWRIGHT_RUNS", raising=False)
    return tmp_path


@pytest.fixture
def grid(here: Path) -> Path:
    (here / "grid.yaml").write_text(SPEC)
    return here


def test_every_verb_and_every_flag_is_offered() -> None:
    for words, command in verbs().items():
        assert words[-1] in offered(*words[:-1], words[-1][:2]).words
        flags = [each.opts[0] for each in command.params if each.opts[0].startswith("--") and not each.hidden]
        assert set(flags) <= set(offered(*words, "--").words) | {"--help"}, words
    assert offered("pro").words == {"prove": "Test and judge a grid, and write it up."}


def test_a_flag_that_was_given_is_not_offered_again() -> None:
    assert "--json" not in offered("prove", "--json", "--").words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("iotest", "--engine", ""), {"buffered", "direct"}),
        (("iotest", "--engine=d"), {"direct"}),
        (("prove", "--skip", ""), {"doctor", "iotest", "workload"}),
        (("prove", "--skip", "doctor", "--skip", "io"), {"iotest"}),
        (("workload", "--matrix", "mix"), {"mixed-20", "mixed-30"}),
        (("workload", "run", "--scale", "t"), {"tiny"}),
        (("iotest", "--streams", ""), set()),
    ],
)
def test_words_of_a_flag(words: tuple[str, ...], expected: set[str]) -> None:
    assert set(offered(*words).words) == expected


def test_every_check_of_the_doctor_is_offered() -> None:
    assert set(offered("doctor", "--only", "").words) == {check.name for check in all_checks()}


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (("prove", ""), "grids"),
        (("check", "gr"), "grids"),
        (("workload", ""), "grids"),
        (("workload", "gr"), "grids"),
        (("workload", "cl"), "none"),
        (("jobs", "--grid", ""), "grids"),
        (("plan", "--html", ""), "files"),
        (("workload", "import", "one.log", ""), "files"),
        (("prove", "--runs", ""), "directories"),
        (("iotest", "--streams", ""), "none"),
        (("runs", "show", ""), "directories"),
    ],
)
def test_where_a_path_may_stand(words: tuple[str, ...], paths: str) -> None:
    assert offered(*words).paths == paths


def test_runs_are_offered_from_where_they_are_kept(here: Path) -> None:
    first, second = (finished_run(here / "elsewhere", name).name for name in ("one", "two"))
    assert offered("runs", "show", "").words == {}
    shown = offered("runs", "compare", "--runs", "elsewhere", "")
    assert list(shown.words) == ["last", *sorted([first, second], reverse=True)]
    assert shown.words["last"] in (first, second)
    finished_run(here / "runs", "three")
    assert len(offered("report", "").words) == 2


def test_what_a_grid_has_is_offered(grid: Path) -> None:
    assert offered("iotest", "--directory", "").words == {
        "/mnt/slow/data": "library data",
        "/srv/grid/work": "library work",
        "/srv/grid/util": "library util",
    }
    assert set(offered("down", "--delete-data", "").words) == {"fast", "slow"}
    assert offered("doctor", "--nodes", "").words == {"compute1": "compute", "compute2": "compute"}
    (grid / "other.yaml").write_text(SPEC.replace("count: 2", "count: 1"))
    assert set(offered("doctor", "other.yaml", "--nodes", "").words) == {"compute1"}


def test_jobs_are_offered_and_those_that_ended_not_to_be_cancelled(here: Path) -> None:
    grid = LocalGrid.create(here / "local")
    scheduler = grid.scheduler()
    done, waiting = scheduler.submit([grid.request("sleep", "60", name=name) for name in ("first", "second")])
    scheduler.cancel([done])
    place = ("--grid", str(grid.file))
    assert list(offered("logs", *place, "").words) == [waiting, done]
    assert offered("logs", *place, "").words[done].endswith(" first")
    assert list(offered("cancel", *place, "").words) == [waiting]
    scheduler.cancel([waiting])


def test_a_spec_that_is_wrong_offers_nothing_and_says_nothing(here: Path) -> None:
    (here / "grid.yaml").write_text("name: [")
    assert offered("doctor", "--nodes", "") == Candidates()
    assert offered("cancel", "") == Candidates()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["prove", "my\\ grid"], ["prove", "my grid"]),
        (["prove", "'my gr"], ["prove", "my gr"]),
        (["prove", '"my gr'], ["prove", "my gr"]),
        (["iotest", "--engine", "=", "dir"], ["iotest", "--engine=dir"]),
        (["iotest", "--engine", "="], ["iotest", "--engine="]),
        (["submit", "--", "A", "=", "b"], ["submit", "--", "A", "=", "b"]),
        ([""], [""]),
    ],
)
def test_words_of_bash_are_read_as_the_command_would_get_them(words: list[str], expected: list[str]) -> None:
    assert typed(words) == expected


def test_every_shell_has_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in SHELLS:
        app(["completion", shell], standalone_mode=False)
        assert f"completion {shell} -- " in capsys.readouterr().out
