"""`gridwright lab exec | power-off | power-on | partition | heal`: commands and faults on nodes of a lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import read_path
from gridwright.cli.output import Output
from gridwright.cli.verbs import plain_app
from gridwright.errors import input_error

Grid = Annotated[
    Path | None,
    typer.Option(
        "--grid",
        metavar="FILE",
        parser=read_path,
        help="The grid spec of the lab.  [default: grid.yaml where that is a lab's, else the only lab]",
    ),
]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="A node, such as compute1.")]

NAME = "lab"
lab = plain_app("Run commands on nodes of a lab, and make faults on purpose.", no_args_is_help=True)


@lab.command("exec", context_settings={"allow_interspersed_args": False})
def exec_(
    node: NodeName,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="Program and arguments.")],
    grid: Grid = None,
) -> None:
    """Run a command on a node, as root; its exit status is that of this command.

    It has this terminal, these standard streams, this environment, and this working directory where
    the node has it, else /.

    Example: gridwright lab exec compute1 -- df -h /mnt/grid
    """
    from gridwright.grid.grid import Grid
    from gridwright.providers.lab.provider import LOCAL_LABS

    # The -- that ends our options stands between node and command.
    words = command[1:] if command[:1] == ["--"] else command
    if not words:
        raise typer.BadParameter("a command is wanted after the node", param_hint="COMMAND")
    raise typer.Exit(Grid.local(LOCAL_LABS.named(chosen_lab(grid))).enter(node, words))


@lab.command("power-off")
def power_off(node: NodeName, grid: Grid = None) -> None:
    """Power a node off: everything on it is killed at once, and nothing is said to the others.

    Example: gridwright lab power-off compute2
    """
    from gridwright.providers.lab import power

    done = power.power_off(chosen_lab(grid), node)
    _say(f"{node} is off" if done else f"{node} was off already")


@lab.command("power-on")
def power_on(node: NodeName, grid: Grid = None) -> None:
    """Power a node on again, and wait until its services serve.

    Its disk is as it was left; /run and /tmp are empty.

    Example: gridwright lab power-on compute2
    """
    from gridwright.providers.lab import power

    done = power.power_on(chosen_lab(grid), node)
    _say(f"{node} is on" if done else f"{node} was on already")


@lab.command()
def partition(
    node: NodeName,
    heal: Annotated[
        bool, typer.Option("--heal", help="Connect it again, as gridwright lab heal does.")
    ] = False,
    grid: Grid = None,
) -> None:
    """Cut a node off the network of the lab; it runs on, and neither side gets an answer.

    Example: gridwright lab partition storage1
    """
    _partition(node, grid, heal=heal)


@lab.command("heal")
def heal_(node: NodeName, grid: Grid = None) -> None:
    """Connect a node again that was cut off.

    Example: gridwright lab heal storage1
    """
    _partition(node, grid, heal=True)


def _say(text: str) -> None:
    Output("lab").write(text)


def _partition(node: str, grid: Path | None, *, heal: bool) -> None:
    from gridwright.providers.lab import power

    done = power.partition(chosen_lab(grid), node, heal=heal)
    state = "connected" if heal else "cut off"
    _say(f"{node} is {state}" if done else f"{node} was {state} already")


def chosen_lab(file: Path | None) -> str:
    """The name of the lab of a spec, of ./grid.yaml, or of the only one there is. Raises GridwrightError."""
    from gridwright.cli.build.up import only, resolve_spec
    from gridwright.providers.lab import is_lab
    from gridwright.providers.lab.record import labs

    spec = resolve_spec(file)
    if spec is not None and is_lab(spec):
        from gridwright.providers.lab.record import record_for

        record_for(spec)
        return spec.name
    if spec is not None and file is not None:
        raise input_error(
            f"grid {spec.name} is no lab: its provider is {spec.provider}",
            where=str(file),
            remedy="name the spec of a lab",
        )
    names = labs()
    return names[only(names, "lab")]


def nodes_as_it_runs(file: Path | None) -> Iterator[tuple[str, str]]:
    """Names and roles of the nodes of a lab; see chosen_lab."""
    from gridwright.providers.lab.power import record_of

    for node in record_of(chosen_lab(file)).nodes:
        yield node.plan.name, node.plan.role
