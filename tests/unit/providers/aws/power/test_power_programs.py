"""The programs for machines: one file each, Python 3.9, and the units that start them; the notice of EC2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gridwright.node_programs.power import OWN, PowerStates
from gridwright.node_programs.scratch.commands import Ended
from gridwright.providers.aws.machine_files import POWER, SPOT
from gridwright.providers.aws.spot import look, notice_of
from tests.support.oldest_python import beyond_python_3_9
from tests.support.one_file_program import complaints_of_systemd, imports_beyond_python

SOURCE = Path(__file__).parents[5] / "src" / "gridwright"
MODULES = [
    SOURCE / f"{each}.py" for each in ("providers/aws/power", "providers/aws/spot", "node_programs/power")
]
OURS = (
    *("gridwright.providers.aws.power", "gridwright.providers.aws.spot"),
    *("gridwright.node_programs.power", "gridwright.node_programs.scratch."),
)
PROGRAMS = {"power": POWER, "spot": SPOT}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_the_same_bytes_and_runs_on_python_3_9(name: str, tmp_path: Path) -> None:
    made = PROGRAMS[name].archive()
    assert made == PROGRAMS[name].archive()
    assert beyond_python_3_9(made, tmp_path) == ""


@pytest.mark.parametrize("name", PROGRAMS)
def test_systemd_takes_its_unit(name: str, tmp_path: Path) -> None:
    program = Path(f"/usr/local/lib/gridwright/{name}.pyz")
    text = PROGRAMS[name].unit_text()
    assert str(program) in text
    assert complaints_of_systemd(text.replace("python3 -I -S", "python3"), program, tmp_path) == ""


def test_each_module_imports_little() -> None:
    for module in MODULES:
        assert imports_beyond_python(module, OURS, {"boto3", "botocore"}) == [], module


def test_power_says_what_is_wrong_with_its_file(tmp_path: Path) -> None:
    program = tmp_path / "power.pyz"
    program.write_bytes(POWER.archive())
    for text, said in (("{}", "is not as Gridwright writes it"), (None, "No such file")):
        file = tmp_path / f"{said[:2]}.json"
        if text is not None:
            file.write_text(text)
        argv = [sys.executable, "-I", "-S", str(program), "--config", str(file), "--once"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def metadata(action: str | None) -> Callable[[str, str, dict[str, str]], str | None]:
    def ask(method: str, path: str, headers: dict[str, str]) -> str | None:
        if method == "PUT":
            assert path == "/latest/api/token"
            return "a-token"
        assert (path, headers) == (
            "/latest/meta-data/spot/instance-action",
            {"X-aws-ec2-metadata-token": "a-token"},
        )
        return action

    return ask


NOTICE = '{"action": "terminate", "time": "2026-11-24T23:12:00Z"}'


def test_a_notice_gives_the_node_back_and_is_told_again_until_slurm_knows() -> None:
    told: list[Sequence[str]] = []
    statuses = [1, 0]

    def run(argv: Sequence[str], _limit_s: float) -> Ended:
        told.append(argv)
        return Ended(tuple(argv), statuses.pop(0), "", 0.0)

    assert not look(metadata(None), PowerStates(run), "compute1")
    assert told == []
    assert not look(metadata(NOTICE), PowerStates(run), "compute1")
    assert look(metadata(NOTICE), PowerStates(run), "compute1")
    said = f"Reason={OWN}EC2 takes this spot instance back at 2026-11-24T23:12:00Z (terminate)"
    assert told[-1] == ["scontrol", "update", "NodeName=compute1", "State=POWER_DOWN_FORCE", said]


def test_a_metadata_service_that_fails_is_no_notice() -> None:
    def ask(_method: str, _path: str, _headers: dict[str, str]) -> str | None:
        raise OSError("nobody answers")

    assert not look(ask, PowerStates(lambda *_: pytest.fail("nothing is told")), "compute1")
    with pytest.raises(ValueError):
        notice_of(metadata("<html>"))
    assert not look(metadata("<html>"), PowerStates(lambda *_: pytest.fail("told")), "compute1")
