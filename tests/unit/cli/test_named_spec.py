"""Commands of remedies are about the grid that the user named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gridwright.cli import named_spec
from gridwright.cli.named_spec import naming_spec, with_named_remedies, with_named_spec
from gridwright.errors import Problem
from gridwright.messages import encode
from gridwright.watch.rounds import ANSWERS, RoundLost, RoundReport, RoundRequest, RoundRunner
from tests.support.command import GRIDWRIGHT


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_spec, "_file", Path("my grids/site.yaml"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("root: gridwright setup; or not", "root: gridwright setup 'my grids/site.yaml'; or not"),
        ("gridwright setup FILE, or so", "gridwright setup 'my grids/site.yaml', or so"),
        ("see `gridwright doctor`", "see `gridwright doctor 'my grids/site.yaml'`"),
        ("gridwright doctor -v", "gridwright doctor 'my grids/site.yaml' -v"),
        ("gridwright exporter FILE --rules", "gridwright exporter 'my grids/site.yaml' --rules"),
        ("gridwright explain-slow", "gridwright explain-slow 'my grids/site.yaml'"),
        ("gridwright jobs --all", "gridwright jobs --grid 'my grids/site.yaml' --all"),
        ("gridwright repo import", "gridwright repo import --grid 'my grids/site.yaml'"),
        ("gridwright repo ls archive", "gridwright repo ls --grid 'my grids/site.yaml' archive"),
        *(
            (same, same)
            for same in (
                "sudo gridwright setup --local",
                "gridwright help doctor",
                "gridwright iotest --directory DIR",
                "gridwright up 'my grids/site.yaml'",
                "gridwright plan my grids/site.yaml --write OUT",
                "gridwright up other.yaml",
            )
        ),
    ],
)  # fmt: skip
def test_a_command_of_a_remedy_names_the_spec_that_was_named(text: str, expected: str) -> None:
    assert with_named_spec(text) == expected
    assert naming_spec(Problem("what", remedy=text)).remedy == expected


def test_where_the_spec_was_not_named_remedies_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_spec, "_file", None)
    assert with_named_spec("gridwright setup FILE") == "gridwright setup FILE"
    assert naming_spec(Problem("what")).remedy is None


def test_remedies_of_documents_name_it_and_nothing_else_changes() -> None:
    found = [{"name": "gridwright setup", "remedy": "gridwright setup"}, {"remedy": None, "of": (1, "x")}]
    assert with_named_remedies({"checks": found}) == {
        "checks": [
            {"name": "gridwright setup", "remedy": "gridwright setup 'my grids/site.yaml'"},
            {"remedy": None, "of": [1, "x"]},
        ]
    }


def test_json_of_doctor_and_what_a_watch_sends_name_the_spec(tmp_path: Path) -> None:
    """On any machine, some settings are not as set-up has them."""
    spec = tmp_path / "site.yaml"
    spec.write_text("filesystems: {disk: {type: local, path: .}}\nlibraries: {data: {}, work: {}}\n", "utf-8")
    done = subprocess.run(
        [GRIDWRIGHT, "doctor", spec, "--json"], capture_output=True, text=True, check=False, timeout=300
    )
    remedies = [each["remedy"] for each in json.loads(done.stdout)["checks"]]
    request = RoundRequest(str(spec), everything=True, known=[])
    answered = subprocess.run(
        [sys.executable, "-P", "-m", "gridwright.cli.watch.watch_round"],
        input=encode(request), capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    answer = ANSWERS.decode(answered.stdout)
    assert isinstance(answer, RoundReport), answered.stderr
    for said in (remedies, [each.remedy for each in answer.found]):
        commands = [each for each in said if "gridwright setup" in each]
        assert commands
        assert [each for each in commands if f"gridwright setup {spec}" not in each] == []


def test_a_round_that_cannot_be_done_names_the_spec_in_what_to_do(tmp_path: Path) -> None:
    runner = RoundRunner(["sh", "-c", "echo no answer"])
    lost = runner.run(RoundRequest(str(tmp_path / "site.yaml"), everything=False, known=[]), lambda: False)
    assert isinstance(lost, RoundLost)
    assert lost.remedy.endswith(f"gridwright doctor {tmp_path}/site.yaml")
