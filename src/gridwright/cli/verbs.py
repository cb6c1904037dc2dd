"""The verbs of `gridwright`, by area, and a command that imports one only when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from gridwright.cli.verbosity import with_verbosity

VERBS: Mapping[str, Mapping[str, str]] = {
    "plan": {
        "init": "Write a commented grid spec, to be edited.",
        "check": "Validate a grid spec, and warn of what will hurt.",
        "schema": "Print the JSON Schema of grid.yaml, for editors and other tools.",
        "plan": "Search the catalogue for the cheapest grids that meet the requirements of FILE.",
        "predict": "Predict what each library gives each core, what binds, and what it costs.",
        "catalog": "Instance types, volumes, managed file systems and prices, each with source and date.",
    },
    "build": {
        "render": "Write what `up` would use: playbook, configuration of Slurm, a README with next commands.",
        "up": "Make the nodes of a grid, and wait until all their services serve.",
        "setup": "Set kernel, limits, disks, file systems and Slurm of the nodes; once is enough.",
        "status": "Show the nodes of a grid, what serves on them, its file systems and its cost.",
        "stop": "Stop all machines of a grid in a cloud, for a night or a week-end, and say what that saves.",
        "start": "Start the machines of a grid that gridwright stop stopped, and wait until all are set up.",
        "down": "Take a grid down: all its nodes with their processes, jobs and logs.",
        "lab": "Run commands on nodes of a lab, and make faults on purpose.",
        "node": "Look after the node that the command is run on.",
    },
    "prove": {
        "doctor": "Check this machine, or every node of a grid, and change nothing.",
        "iotest": "Measure what each library gives each core, on all nodes of the grid at once.",
        "workload": "Run the mixed analytics workload.",
        "prove": "Test and judge a grid, and write it up.",
        "runs": "List, show, compare and remove past runs.",
        "report": "Build the HTML report of a run again.",
    },
    "work": {
        "submit": "Hand a job to the grid's scheduler, and print its number.",
        "jobs": "Show the jobs that wait, run, or ended within a day.",
        "logs": "Print what a job printed: its standard output and its standard error, as it came.",
        "cancel": "End jobs, waiting or running; one that runs gets SIGTERM, and a moment later SIGKILL.",
        "wait": "Wait until jobs have ended.",
        "usage": "Show who used how much of a grid: core-hours, CPU/real, memory, waiting, bytes, cost.",
        "explain": "Say why a job waits: all that it needs, what there is of it, and whether that fits.",
    },
    "watch": {
        "top": "Show what nodes, libraries and jobs of a grid do now, and what binds.",
        "console": "Serve a page for browsers: a grid as it is and as it was, and what binds.",
        "exporter": "Serve what this node does now as OpenMetrics, for Prometheus and VictoriaMetrics.",
        "watch": "Watch a grid: look each minute, keep what is wrong since when, and tell who wants to know.",
        "explain-slow": "Say why a grid, a library or a job is slow: what binds, who else uses it, "
        "since when, what changed.",
    },
    "data": {
        "repo": "Move a library's files to object storage and back, compare both, and free space.",
        "layout": "Show, check and set over which targets files of libraries lie, and move them.",
    },
    "shell": {
        "help": "Show a page of the documents, or what causes a finding and how to mend it.",
        "completion": "Print the script by which bash, zsh or fish completes commands of gridwright.",
    },
}
"""Area, verb, what it does. The verb `up` of area `build` is `up` in `gridwright.cli.build.up`: a function
with the flags as parameters, or a `typer.Typer` of several commands."""
CHAPTERS: Mapping[str, str] = {
    **dict.fromkeys(("init", "schema"), "check"),
    **dict.fromkeys(("status", "stop", "start", "down"), "up"),
    "report": "runs",
    **dict.fromkeys(("logs", "cancel", "wait", "explain"), "jobs"),
}
"""The module of a verb that stands in the module of another verb of its area."""


class Verbs(TyperGroup):
    """The command `gridwright`, whose help needs no verb to be imported."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - what typer hands on
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment]

    def format_commands(self, _ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - classes that typer hides
        """Write the verbs with one line each, by area."""
        for area, verbs in VERBS.items():
            if verbs:
                with formatter.section(area.capitalize()):
                    formatter.write_dl([(f"{verb:<8}", line) for verb, line in verbs.items()])


class _Commands(Mapping[str, Any]):
    """The verbs by name; to look one up is to import it."""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - the class of commands that typer hides
        area = next((area for area, verbs in VERBS.items() if name in verbs), None)
        if area is None:
            raise KeyError(name)
        attribute = name.replace("-", "_")
        module = import_module(f"gridwright.cli.{area}.{CHAPTERS.get(name, attribute)}")
        found = getattr(module, attribute)
        if isinstance(found, typer.Typer):
            for registered_command in found.registered_commands:
                registered_command.callback = (
                    with_verbosity(registered_command.callback) if registered_command.callback else None
                )
        else:
            function, found = found, plain_app()
            found.command()(with_verbosity(function))
        command = get_command(found)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return (verb for verbs in VERBS.values() for verb in verbs)

    def __len__(self) -> int:
        return sum(map(len, VERBS.values()))


def plain_app(about: str | None = None, **settings: Any) -> typer.Typer:  # noqa: ANN401 - as typer has them
    """One command or several, with plain help: rich's boxes would double the time to the first line."""
    return typer.Typer(
        help=about, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False, **settings
    )
