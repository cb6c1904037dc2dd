"""The command starts fast: nothing heavy is imported before it is needed, and every help works."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gridwright.cli.main import app
from gridwright.cli.verbs import VERBS
from tests.support.command import GRIDWRIGHT

HEAVY = (
    "pydantic",
    "rich",
    "pyarrow",
    "numpy",
    "ruptures",
    "jinja2",
    "ruamel",
    "psutil",
    "gridwright._native",
)


def test_the_command_line_imports_nothing_heavy() -> None:
    code = f"import sys, gridwright.cli.main; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_tables_of_a_run_need_no_pandas(tmp_path: Path) -> None:
    """Arrow imports it, where it is installed, with the first list that becomes a column."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from gridwright.runs.samples import SampleRow, read_samples, write_samples\n"
        f"path = Path({str(tmp_path)!r}, 'samples.parquet')\n"
        "write_samples(path, [SampleRow(op='write', read_bytes=0)], 'node')\n"
        "print(read_samples(path)[0].node, 'pandas.core' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["node", "False"]


def verbs(group: Any = None, before: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every command below a group, groups included."""
    found: dict[tuple[str, ...], Any] = {}
    for name, command in getattr(group or get_command(app), "commands", {}).items():
        found |= {(*before, name): command, **verbs(command, (*before, name))}
    return found


def test_the_verbs_are_those_of_the_issue() -> None:
    assert {" ".join(verb) for verb in verbs()} == {
        "help",
        "top",
        "console",
        "exporter",
        "watch",
        "layout",
        "layout set",
        "layout rebalance",
        "usage",
        "init",
        "check",
        "schema",
        "setup",
        "up",
        "status",
        "doctor",
        "stop",
        "start",
        "down",
        "lab",
        "lab exec",
        "lab power-off",
        "lab power-on",
        "lab partition",
        "lab heal",
        "node",
        "node claim",
        "node scratch",
        "node history",
        "repo",
        "repo status",
        "repo export",
        "repo import",
        "repo release",
        "repo verify",
        "repo duplicate",
        "repo serve",
        "repo trash",
        "repo ls",
        "submit",
        "jobs",
        "logs",
        "cancel",
        "wait",
        "explain",
        "explain-slow",
        "iotest",
        "plan",
        "predict",
        "prove",
        "render",
        "report",
        "catalog",
        "catalog list",
        "catalog show",
        "catalog qualify",
        "catalog refresh",
        "workload",
        "workload run",
        "workload import",
        "workload clean",
        "workload profile",
        "workload replay",
        "runs",
        "runs list",
        "runs show",
        "runs compare",
        "runs rm",
        "runs prune",
        "completion",
        "layout show",
        "layout check",
    }


def test_the_help_imports_no_verb() -> None:
    code = (
        "import sys, gridwright.cli.main as main\n"
        "try: main.app(['--help'], standalone_mode=False)\n"
        "finally: print([name for name in sys.modules if name.startswith('gridwright')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    imported = {name.removeprefix("gridwright.") for name in ast.literal_eval(done.stderr)}
    ours = {
        "gridwright",
        "cli",
        "cli.main",
        "cli.verbosity",
        "cli.verbs",
        "errors",
        "foreign_text",
    }
    assert imported == ours


def test_the_help_shows_each_area_with_the_first_sentence_of_each_verb() -> None:
    commands = {" ".join(verb): command for verb, command in verbs().items()}
    for verbs_of_area in VERBS.values():
        for verb, line in verbs_of_area.items():
            assert " ".join(commands[verb].help.split("\n\n")[0].split()) == line
    done = subprocess.run([GRIDWRIGHT, "--help"], capture_output=True, text=True, check=True)
    shown = done.stdout[done.stdout.index("\nPlan:") :]
    headings = [line.rstrip(":") for line in shown.splitlines() if line and not line.startswith(" ")]
    assert headings == ["Plan", "Build", "Prove", "Work", "Watch", "Data", "Shell"]
    assert (
        shown.split()
        == " ".join(
            f"{area.capitalize()}: " + " ".join(f"{verb} {line}" for verb, line in found.items())
            for area, found in VERBS.items()
            if found
        ).split()
    )


def test_a_verb_that_is_not_there_gets_the_nearest() -> None:
    done = subprocess.run([GRIDWRIGHT, "statsu"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "error: statsu: gridwright has no such command\n  did you mean status? gridwright --help shows all\n"
    )


@pytest.mark.parametrize("verb", [(), *verbs()], ids=" ".join)
def test_every_command_has_help(verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert app([*verb, "--help"], prog_name="gridwright", standalone_mode=False) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith(f"Usage: gridwright {' '.join(verb)}".rstrip())


def test_every_flag_and_argument_says_what_it_does() -> None:
    shown = {
        f"{' '.join(verb)} {parameter.name}": parameter.help
        for verb, command in verbs().items()
        for parameter in command.params
    }
    assert len(shown) > 100
    assert [name for name, text in shown.items() if not text] == []


def test_the_help_of_iotest_names_every_flag_of_the_contract() -> None:
    done = subprocess.run([GRIDWRIGHT, "iotest", "--help"], capture_output=True, text=True, check=True)
    flags = (
        "--directory --requires --streams --size --seconds --until-steady --block --engine --queue-depth "
        "--phases --keep --verify --seed --sweep --format --json"
    )
    assert [flag for flag in flags.split() if flag not in done.stdout] == []


def test_the_version_is_the_package_s() -> None:
    from gridwright import __version__

    done = subprocess.run([GRIDWRIGHT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"gridwright {__version__}\n"
