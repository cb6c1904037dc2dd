"""The command starts fast: nothing heavy is imported before it is needed, and every help works."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from gridwright.cli.main import app
from tests.support.command import GRIDWRIGHT

HEAVY = (
    "pydantic",
    "rich",
    "pyarrow",
    "plotly",
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


def verbs(app: typer.Typer, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command below `app`, groups included."""
    found = []
    for command in app.registered_commands:
        name = command.name or (command.callback.__name__ if command.callback else "")
        found.append((*before, name))
    for group in app.registered_groups:
        name = str(group.name)
        assert group.typer_instance is not None
        found += [(*before, name), *verbs(group.typer_instance, (*before, name))]
    return found


def test_the_verbs_are_those_of_the_issue() -> None:
    assert {" ".join(verb) for verb in verbs(app)} == {
        "init",
        "check",
        "schema",
        "setup",
        "up",
        "status",
        "doctor",
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
        "submit",
        "jobs",
        "logs",
        "cancel",
        "wait",
        "explain",
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
        "runs",
        "runs list",
        "runs show",
        "runs compare",
    }


@pytest.mark.parametrize("verb", [(), *verbs(app)], ids=" ".join)
def test_every_command_has_help(verb: tuple[str, ...]) -> None:
    done = subprocess.run([GRIDWRIGHT, *verb, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith(f"Usage: gridwright {' '.join(verb)}".rstrip())


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
