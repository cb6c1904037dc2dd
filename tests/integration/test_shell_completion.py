"""bash, zsh and fish as a user has them: what a TAB makes of a command line."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.command import GRIDWRIGHT
from tests.support.records import finished_run
from tests.support.shells import InteractiveShell
from tests.support.skips import needs

COMMANDS = Path(GRIDWRIGHT).parent
SHARED = Path(__file__).parents[2] / "packaging/wheel/data/share"
SET_UP = {
    "bash": 'eval "$(gridwright completion bash)"',
    "zsh": 'autoload -Uz compinit; compinit -u -D; eval "$(gridwright completion zsh)"',
}
SPEC = """name: demo
filesystems: {disk: {type: local, path: /srv/grid}}
libraries: {data: {filesystem: disk}}
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A grid spec with a space in its name, other files, and directories that are called like verbs."""
    (tmp_path / "my grid.yaml").write_text(SPEC)
    (tmp_path / "my notes.txt").touch()
    for name in ("prove", "elsewhere"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_tab_completes_the_line(shell: str, here: Path) -> None:
    needs(shell)
    run = finished_run(here / "runs").name
    slash = "/" if shell == "bash" else ""  # zsh takes it away again where a word ends
    with InteractiveShell(shell, here, COMMANDS, SET_UP[shell]) as terminal:
        for typed, completed in {
            "gridwright pro": "prove",
            "gridwright prove --sk": "prove|--skip",
            "gridwright prove --skip wo": "prove|--skip|workload",
            "gridwright prove my": "prove|my grid.yaml",
            "gridwright prove 'my": "prove|my grid.yaml",
            "gridwright iotest --engine=dir": "iotest|--engine=direct",
            "gridwright plan --html my\\ no": "plan|--html|my notes.txt",
            "gridwright iotest --directory el": f"iotest|--directory|elsewhere{slash}",
            f"gridwright runs show {run[:6]}": f"runs|show|{run}",
        }.items():
            assert terminal.completed(typed) == f"gridwright|{completed}", typed


INSTALLED = {
    "bash": "XDG_DATA_HOME=$PWD/share; . /usr/share/bash-completion/bash_completion",
    "zsh": "fpath=($PWD/share/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D",
}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_an_installed_package_completes_from_the_first_tab_on(shell: str, here: Path) -> None:
    needs(shell)
    shutil.copytree(SHARED, here / "share")
    with InteractiveShell(shell, here, COMMANDS, INSTALLED[shell]) as terminal:
        for _ in range(2):
            assert terminal.completed("gridwright pro") == "gridwright|prove"


def test_fish_offers_what_may_follow(here: Path) -> None:
    needs("fish")
    run = finished_run(here / "runs").name
    asked = {
        "gridwright pro": "prove\tTest and judge a grid, and write it up.",
        "gridwright prove --skip wo": "workload",
        "gridwright prove my": "my grid.yaml",
        "gridwright iotest --engine=dir": "--engine=direct",
        "gridwright iotest --directory el": "elsewhere/\tDirectory",
        f"gridwright runs show {run[:6]}": run,
    }
    script = "; ".join(["gridwright completion fish | source", *(f"complete -C '{each}'" for each in asked)])
    done = subprocess.run(
        ["fish", "--no-config", "-c", script],
        cwd=here,
        env={"PATH": f"{COMMANDS}:{os.environ['PATH']}", "HOME": str(here), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout.splitlines(), done.stderr) == (list(asked.values()), "")
