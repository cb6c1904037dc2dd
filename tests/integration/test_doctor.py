"""`gridwright doctor` on this machine: what it prints, how it ends, and that it changes nothing."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.support.command import Command

KEYS = {"name", "level", "nodes", "found", "expected", "reason", "source", "remedy", "ok"}
SPEC = """\
filesystems:
  disk: {{type: local, path: {path}}}
libraries: {{data: {{}}, work: {{}}}}
{more}
"""


def spec_of(tmp_path: Path, more: str = "") -> Path:
    (tmp_path / "data").mkdir(exist_ok=True)
    spec = tmp_path / "grid.yaml"
    spec.write_text(SPEC.format(path=tmp_path, more=more))
    return spec


def test_this_machine_without_a_spec(gridwright: Command, tmp_path: Path) -> None:
    began = time.monotonic()
    ended = gridwright("doctor", "--json", cwd=tmp_path)
    took = time.monotonic() - began
    document = ended.json
    assert ended.status == (0 if document["met"] else 1)
    assert (document["schema"], document["command"]) == (1, "doctor")
    checks = document["checks"]
    assert len({each["name"] for each in checks}) >= 40
    for each in checks:
        assert each.keys() >= KEYS
        assert each["source"] and each["reason"] and each["remedy"] and each["found"]
        assert each["level"] in ("error", "warning", "info")
    judged = [each for each in checks if each["applies"]]
    assert len(judged) >= 20, "most checks that need no spec hold on any Linux"
    assert {each["nodes"] for each in judged} == {os.uname().nodename}
    busy = os.getloadavg()[0] > (os.cpu_count() or 1) + 1
    assert took < (20.0 if busy else 5.0)


def test_a_library_that_is_missing_ends_with_status_1(gridwright: Command, tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    ended = gridwright("doctor", spec, "--json")
    assert ended.status == 1
    assert ended.json["met"] is False
    wrong = {
        each["name"]: each for each in ended.json["checks"] if not each["ok"] and each["level"] == "error"
    }
    assert set(wrong) == {"library-missing"}
    assert wrong["library-missing"]["found"] == f"library work ({tmp_path}/work): No such file or directory"
    shown = gridwright("doctor", spec)
    assert shown.status == 1
    first = shown.out.splitlines()[0]
    assert first.startswith("error library-missing: ")
    assert "expected: a directory" in shown.out and "install -d -m 1777" in shown.out
    assert "1 error" in shown.out.splitlines()[-1]
    assert list((tmp_path / "data").iterdir()) == []


def test_a_silenced_check_is_shown_with_the_reason_and_does_not_count(
    gridwright: Command, tmp_path: Path
) -> None:
    spec = spec_of(tmp_path, "silence: {library-missing: work comes with the first job}")
    ended = gridwright("doctor", spec, "--json")
    assert ended.status == 0
    assert ended.json["met"] is True
    silenced = ended.json["silenced"]
    assert [(each["name"], each["reason"]) for each in silenced] == [
        ("library-missing", "work comes with the first job")
    ]
    assert "silenced library-missing" in gridwright("doctor", spec).out


def test_one_check_only(gridwright: Command, tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    ended = gridwright("doctor", spec, "--only", "library-hangs", "--only", "flock-missing", "--json")
    assert ended.status == 0
    assert {each["name"] for each in ended.json["checks"]} == {"library-hangs", "flock-missing"}
    assert all(each["ok"] for each in ended.json["checks"])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--only", "library-hang"), "did you mean library-hangs?"),
        (("--nodes", "compute1"), "this machine alone is looked at"),
        (("no-such.yaml",), "no-such.yaml"),
    ],
)
def test_wrong_input(gridwright: Command, tmp_path: Path, flags: tuple[str, ...], said: str) -> None:
    ended = gridwright("doctor", *flags, "--json", cwd=tmp_path)
    assert ended.status == 2
    assert said in ended.text
    assert json.loads(ended.out)["ok"] is False


def test_all_shows_what_is_right_too(gridwright: Command, tmp_path: Path) -> None:
    ended = gridwright("doctor", "--all", cwd=tmp_path)
    assert "ok version-differs: " in ended.out
    assert "-- node-down: " in ended.out


def test_a_proof_begins_with_the_checks_and_is_not_failed_by_settings(
    gridwright: Command, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    spec = spec_of(tmp_path)
    flags = ("--skip", "workload", "--phases", "write", "--seconds", "0.3s", "--json")
    document = gridwright("prove", spec, *flags).json
    assert document["status"] == "complete"
    names = [each["name"] for each in document["doctor"]]
    assert not [name for name in names if name.startswith(("sysctl-", "block-", "limit-"))]
    assert names.count("tuning-drift") <= 1
    assert not [each for each in document["doctor"] if each["level"] in ("error", "info")]
