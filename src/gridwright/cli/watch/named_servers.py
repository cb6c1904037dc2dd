"""Servers of file systems that verbs ask beside the nodes of a grid."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Reader

Servers = Annotated[
    str | None,
    typer.Option(
        "--servers",
        metavar="HOSTS",
        help="Servers of file systems to ask as well, such as oss[1-4],mds1.",
    ),
]


def named_servers(reader: Reader, servers: str | None, *, no_grid: bool) -> list[str]:
    """The names of servers; what is wrong with them is noted. `no_grid`: there is none to reach them from."""
    from gridwright.spec.hosts import expand_hosts
    from gridwright.yamltext.fields import FieldError

    if servers is None:
        return []
    if no_grid:
        reader.problem("servers are reached from the head node of a grid", "--servers", "name its FILE")
        return []
    try:
        return expand_hosts(servers)
    except FieldError as error:
        reader.problem(error.text, "--servers", error.remedy)
        return []
