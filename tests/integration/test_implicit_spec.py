"""What lies in the working directory of somebody else runs nothing of theirs: the real commands, as root."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.as_user import ALICE, MALLORY, open_to_all, words_of
from tests.support.command import GRIDWRIGHT

pytestmark = pytest.mark.root
COMMANDS = (
    ["doctor"],
    ["usage"],
    ["top", "--once"],
    ["jobs"],
    ["submit", "--", "true"],
    ["check"],
    ["status"],
    ["explain-slow", "--interval", "1s"],
    ["watch", "--once"],
    ["console", "--unit"],
    ["exporter", "--unit"],
    ["layout", "check"],
    ["setup", "--local", "--check"],
    ["repo", "status"],
    ["predict"],
)
LSF = "scheduler: {type: lsf, profile: %s/profile.lsf}\n"
GRID_ENGINE = "scheduler: {type: grid_engine, root: %s/sge}\n"
SPEC = """name: trap
provider: site
site: {hosts: [localhost]}
nodes: {compute: {count: 1, hosts: [localhost]}}
filesystems: {disk: {type: local, path: /var/tmp}}
"""


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """Mallory's directory, with a grid.yaml whose scheduler's programs are hers."""
    open_to_all(tmp_path)
    place = tmp_path / "mallory"
    place.mkdir()
    lure(place, LSF)
    own(place, MALLORY)
    return place


def lure(place: Path, scheduler: str) -> None:
    text = f"#!/bin/sh\nid -u >> {place.parent}/caught\n"
    (place / "grid.yaml").write_text(SPEC_TEXT + scheduler % place)
    (place / "profile.lsf").write_text(text)
    for directory in ("lx-amd64", "lx-arm64"):
        (place / "sge/bin" / directory).mkdir(parents=True)
        for program in ("qstat", "qhost", "qacct", "qconf", "qsub", "qdel"):
            made = place / "sge/bin" / directory / program
            made.write_text(text)
            made.chmod(0o755)


def own(place: Path, uid: int) -> None:
    for each in (place, *place.rglob("*")):
        os.chown(each, uid, uid)


def run(words: list[str], place: Path, uid: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
    environment |= {"HOME": str(place.parent), "XDG_STATE_HOME": "", **more}
    return subprocess.run(
        [*(words_of(uid) if uid else []), GRIDWRIGHT, *words], cwd=place, env=environment, text=True,
        stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=200,
    )  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_roots_command_in_mallorys_directory_takes_no_grid_yaml_of_hers(trap: Path, words: list[str]) -> None:
    done = run(words, trap)
    assert done.returncode == 3, done.stderr
    assert "./grid.yaml belongs to 2002" in done.stderr
    assert "./grid.yaml" in done.stderr.partition("name it")[2]
    assert not (trap.parent / "caught").exists()
