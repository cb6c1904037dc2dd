"""The layout of a library's directory, set by the playbook's role with an lfs that keeps what it is told."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridwright.filesystems.layout import FileLayout, LayoutChoice
from gridwright.filesystems.lustre_client.layout import parse_layout, plain, progressive
from gridwright.setup.playbook import layout_rows
from gridwright.spec import parse_spec
from tests.integration.test_lustre_playbook import play
from tests.support.lfs_double import installed

TASKS: list[dict[str, Any]] = [
    {"ansible.builtin.include_role": {"name": "lustre_client", "tasks_from": "layouts.yml"}}
]
WIDE = progressive((256 * 2**20, 1), (16 * 2**30, 4), (None, -1))


class Lustre:
    """A directory that an lfs of the test's own takes for Lustre, with a library in it."""

    def __init__(self, directory: Path, **given: Any) -> None:
        self.directory, self.root = directory, directory / "mnt"
        self.root.mkdir()
        self.library = self.root / "work"
        self.file = installed(directory / "bin", self.root, **given)
        self.choice = LayoutChoice(WIDE, "few streams meet few OSTs", stated=False)

    @property
    def state(self) -> Any:
        return json.loads(self.file.read_text())

    @property
    def sets(self) -> list[list[str]]:
        return [each for each in self.state["asked"] if each[0] == "setstripe"]

    def play(self, *, check: bool = False) -> str:
        spec = parse_spec(
            "name: one\n"
            f"filesystems: {{scratch: {{type: lustre, path: {self.root}, source: 10.0.0.1@tcp:/scratch}}}}\n"
            "libraries: {work: {filesystem: scratch}}\n"
        )
        rows = layout_rows(spec, {"work": self.choice})
        os.environ["LFS_STATE"] = str(self.file)
        variables = {"gridwright_layouts": rows}
        said = play(self.directory, TASKS, variables, str(self.directory / "bin"), check=check)
        assert "failed=" in said, said[-3000:]
        return " ".join(said.split())

    def layout(self) -> FileLayout:
        told = subprocess.run(
            [self.directory / "bin/lfs", "getstripe", "-d", "--yaml", self.library],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found = parse_layout(told.stdout)
        assert found is not None
        return found


@pytest.fixture
def lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lustre:
    monkeypatch.setenv("LFS_STATE", "")
    return Lustre(tmp_path)


def test_a_library_is_made_with_its_layout_once_and_check_mode_changes_nothing(lustre: Lustre) -> None:
    said = lustre.play(check=True)
    assert "not there -> 1 OST until 256 MiB, then 4 until 16 GiB, then all" in said
    assert "failed=0" in said
    assert "changed=1" in said
    assert not lustre.library.exists()
    assert lustre.sets == []
    said = lustre.play()
    assert "changed=2 " in said
    assert "failed=0" in said
    assert lustre.layout().is_as(WIDE)
    assert stat.S_IMODE(lustre.library.stat().st_mode) == 0o1777
    assert "changed=0" in lustre.play()
    assert len(lustre.sets) == 1


@pytest.mark.thorough
def test_what_somebody_has_set_stays_until_the_spec_states_another_layout(lustre: Lustre) -> None:
    lustre.library.mkdir()
    narrow = [{"start": 0, "end": -1, "count": 2, "size": 1048576, "pattern": "raid0", "plain": True}]
    kept = lustre.state
    kept["layouts"][str(lustre.library)] = narrow
    lustre.file.write_text(json.dumps(kept))
    said = lustre.play()
    assert "changed=0" in said
    assert "gridwright layout set work sets that" in said
    assert lustre.sets == []
    lustre.choice = replace(lustre.choice, layout=plain(4), stated=True)
    said = lustre.play()
    assert "changed=1" in said
    assert "stripe_count 2 -> 4 OSTs" in said
    assert lustre.layout().is_as(plain(4))


@pytest.mark.thorough
def test_a_directory_with_files_gets_it_and_one_that_only_inherits_has_none_of_its_own(
    lustre: Lustre,
) -> None:
    lustre.library.mkdir()
    (lustre.library / "old").write_text("its layout stays")
    kept = lustre.state
    # As a file system of AWS has it: a progressive default on its root, told of each directory.
    part = {"start": 0, "end": 104857600, "count": 1, "size": 4194304, "pattern": "raid0"}
    kept["default"] = [part, {**part, "start": 104857600, "end": -1, "count": 8}]
    lustre.file.write_text(json.dumps(kept))
    assert "changed=1" in lustre.play()
    assert lustre.layout().is_as(WIDE)
    assert str(lustre.library / "old") not in lustre.state["layouts"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("given", "failed", "words"),
    [
        ({"squashed": True}, 0, "Permission denied. Root of this machine may be nobody"),
        ({"mounted": False}, 1, "is not mounted"),
    ],
)
def test_what_hinders_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, bool], failed: int, words: str
) -> None:
    monkeypatch.setenv("LFS_STATE", "")
    said = Lustre(tmp_path, **given).play()
    assert words in said
    assert f"failed={failed}" in said


@pytest.mark.thorough
def test_a_pool_that_is_not_there_fails_the_play_by_the_words_of_lfs(lustre: Lustre) -> None:
    lustre.choice = replace(lustre.choice, layout=plain(2, pool="flash"), stated=True)
    said = lustre.play()
    assert "failed=1" in said
    assert "pool 'flash fsname scratch' does not exist" in said
