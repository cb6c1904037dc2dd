"""bash, zsh and fish as a user has them: what a TAB makes of a command line."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gridwright.cli.shell import completion
from tests.support.command import GRIDWRIGHT
from tests.support.records import finished_run
from tests.support.shells import InteractiveShell
from tests.support.skips import needs

COMMANDS = Path(GRIDWRIGHT).parent
SHARED = Path(__file__).parents[2] / "packaging/wheel/data/share"
SCRIPTS = Path(completion.__file__).parent
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


@pytest.mark.few(1)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_an_installed_package_completes_from_the_first_tab_on(shell: str, here: Path) -> None:
    needs(shell)
    shutil.copytree(SHARED, here / "share")
    with InteractiveShell(shell, here, COMMANDS, INSTALLED[shell]) as terminal:
        for _ in range(2):
            assert terminal.completed("gridwright pro") == "gridwright|prove"


# What shells evaluate where it stands unquoted, behind a letter by which a TAB finds it.
_EVALUATED = (
    *("$(id>PWNED)", ";id>PWNED", "`id>PWNED`", "|id>PWNED", "&id>PWNED", ">PWNED", "<(id>PWNED)"),
    *("'$(id>PWNED)", '"$(id>PWNED)', "${a[$(id>PWNED)]}", "\\$(id>PWNED)", "\\:b", "!ls", "{a,b}", " *"),
)
_STAND_IN = """#!/bin/sh
[ "$1 $#" = "completion 2" ] && exec cat "$SCRIPTS/gridwright.$2"
[ "$1" = completion ] && exec cat "$ANSWER"
printf '<%s>' "$@" > "$GOT"
"""


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("sort", ["words", "grids", "directories", "files"])
def test_nothing_that_is_offered_is_evaluated(shell: str, sort: str, tmp_path: Path) -> None:
    needs(shell)
    here, programs = tmp_path / "here", tmp_path / "programs"
    here.mkdir()
    programs.mkdir()
    got, answer = tmp_path / "got", tmp_path / "answer"
    places = {"SCRIPTS": SCRIPTS, "ANSWER": answer, "GOT": got}
    (programs / "gridwright").write_text(
        _STAND_IN.replace("#!/bin/sh\n", "#!/bin/sh\n" + "".join(f"{k}='{v}'\n" for k, v in places.items()))
    )
    (programs / "gridwright").chmod(0o755)
    with InteractiveShell(shell, here, programs, SET_UP[shell]) as terminal:
        for number, end in enumerate(_EVALUATED):
            begin = chr(ord("a") + number)
            name = begin + end + (".yaml" if sort == "grids" else "")
            answer.write_text(f"none\n{name}\tof mallory\n" if sort == "words" else f"{sort}\n")
            if sort == "directories":
                (here / name / "below").mkdir(parents=True)
            elif sort != "words":
                (here / name).touch()
            # The second TAB goes on from what the first one put there.
            terminal.result(f"gridwright show {begin}\t" + ("\t" if sort == "directories" else ""))
            words = got.read_text().rstrip("/>").removesuffix("/below")
            assert words == f"<show><{name}".rstrip("/>")
            assert not (here / "PWNED").exists()


@pytest.mark.thorough
def test_behind_a_quotation_mark_nothing_is_offered_that_needs_other_quotes(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    run = finished_run(runs).name
    forged = [
        runs / f"20991231T000000Z-{name}" for name in ("$(id>PWNED)", "a;id>PWNED", "b\nid>PWNED", "c'd")
    ]
    for each in (*forged, runs / "20261128-2205-lab-$(id>PWNED)"):
        each.mkdir()
        (each / "run.json").write_text("{}")
    with InteractiveShell("bash", tmp_path, COMMANDS, SET_UP["bash"]) as terminal:
        for typed in ("20", "'20", '"20'):
            assert terminal.completed(f"gridwright report {typed}") == f"gridwright|report|{run}"
        assert terminal.completed("gridwright report 2099") == "gridwright|report|2099"
    assert not (tmp_path / "PWNED").exists()


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
