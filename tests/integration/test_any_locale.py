"""Locales that are not UTF-8, and names of files that no encoding has: a proof runs as in any other."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.command import Command

NO_UTF8 = os.fsdecode(b"\xe9t\xe9")
"""What a system in ISO-8859-1 called a directory."""
SPEC = """\
name: demo
filesystems: {disk: {type: local, path: ./größe}}
"""
QUICK = "--seconds", "0.1s", "--phases", "write", "--skip", "doctor"


@pytest.fixture(scope="module")
def latin_1(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user in en_US.ISO-8859-1, made here: few systems have it any more."""
    place = tmp_path_factory.mktemp("locales")
    command = ["localedef", "-i", "en_US", "-f", "ISO-8859-1", str(place / "en_US.ISO-8859-1")]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    return {"LC_ALL": "en_US.ISO-8859-1", "LOCPATH": str(place)}


@pytest.mark.thorough
def test_a_proof_in_iso_8859_1(gridwright: Command, tmp_path: Path, latin_1: dict[str, str]) -> None:
    """Names are in UTF-8 and the locale is not: Python has other letters for them, and the same bytes."""
    spec = tmp_path / "日本.yaml"
    spec.write_text(SPEC.replace("größe", "disk"), "utf-8")
    matrix = tmp_path / "one.yaml"
    matrix.write_text("name: one\nstreams: [[optimize]]\n")
    ended = gridwright(
        "prove", spec, *QUICK, "--scale", "tiny", "--matrix", matrix, environment=latin_1, cwd=tmp_path
    )
    assert ended.status == 0, ended.err
    assert "verdict: " in ended.out
    assert "? yes" not in ended.out
    assert ended.out.isascii(), "what the locale lacks is spelled with what it has"
    for verb in (("runs", "list"), ("runs", "show"), ("check", spec)):
        again = gridwright(*verb, environment=latin_1)
        assert again.status == 0, again.err


def test_a_directory_in_iso_8859_1_is_the_one_that_was_named(
    gridwright: Command, tmp_path: Path, latin_1: dict[str, str]
) -> None:
    library = tmp_path / "größe"
    library.mkdir()
    (library / "kept").touch()
    flags = ("--size", "256KiB", "--streams", "1", "--phases", "write", "--keep")
    ended = gridwright("iotest", "--directory", library, *flags, environment=latin_1)
    assert ended.status == 0, ended.err
    assert any(path.name.startswith(".gridwright-iotest-") for path in library.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["größe", "runs"]


def test_a_workload_where_engines_would_take_another_directory_is_refused(
    gridwright: Command, tmp_path: Path, latin_1: dict[str, str]
) -> None:
    place = tmp_path / "größe"
    place.mkdir()
    (place / "grid.yaml").write_text(SPEC.replace("größe", "disk"), "utf-8")
    ended = gridwright("workload", place / "grid.yaml", environment=latin_1)
    assert ended.status == 2
    assert "run it with LC_ALL=C.UTF-8" in ended.text
    assert not gridwright.runs.exists()


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    """The locale is UTF-8 as that of the tests, so a fork of them will do."""
    place = tmp_path / NO_UTF8
    place.mkdir()
    (place / "grid.yaml").write_text(f"{SPEC}libraries: {{data: {{filesystem: disk}}}}\n", "utf-8")
    out, err = tmp_path / "out", tmp_path / "err"

    def call(*words: str, status: tuple[int, ...] = (0, 1)) -> str:
        environment = {"GRIDWRIGHT_RUNS": str(place / "runs"), "XDG_STATE_HOME": str(tmp_path / "state")}
        with out.open("wb") as stdout:
            ended = forked.called(
                list(words), place, stdout=stdout.fileno(), errors=err, environment=environment
            )
        assert ended in status, err.read_text()
        assert "Traceback" not in err.read_text()
        return out.read_text()

    document = json.loads(call("prove", *QUICK, "--skip", "workload", "--json"))
    assert [each["path"] for each in document["iotest"]["libraries"]] == [
        f"{tmp_path}/\\xe9t\\xe9/größe/data"
    ]
    for words in ("report last", "runs list", "runs show --json"):
        call(*words.split(), status=(0,))
    for words in ("check", "doctor grid.yaml", f"submit -- echo {NO_UTF8}", "jobs"):
        call(*words.split())
    (place / "grid.yaml").write_text(SPEC, "utf-8")
    call("workload", "--scale", "tiny", status=(2,))
    assert "whose names are UTF-8" in " ".join(err.read_text().split())
