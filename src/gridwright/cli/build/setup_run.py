"""What `gridwright setup` does with its flags."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.arguments import DEFAULT_SPEC, Reader
from gridwright.cli.build.setup_show import print_json, print_result
from gridwright.cli.interrupt import stop_on_signals
from gridwright.cli.spec_file import load
from gridwright.errors import ExitStatus, environment_error, input_error, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gridwright.setup.playbook import Hosts
    from gridwright.setup.running import SetupRequest
    from gridwright.spec import GridSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupFlags:
    """The flags as they were typed."""

    file: Path | None
    check: bool
    diff: bool
    local: bool
    limit: str | None
    user: str | None
    private_key: Path | None
    inventory: Path | None
    variables: Path | None
    slurm: str
    json: bool


def run_setup(flags: SetupFlags) -> ExitStatus:
    """Set the nodes up and say what became of them; returns the exit status. Raises GridwrightError."""
    from gridwright.setup.running import set_up

    _check_flags(flags)
    spec = _spec(flags)
    hosts, files = _playbook(spec, flags)
    if not hosts.names() and flags.inventory is None:
        raise environment_error("the grid has no nodes to set up", remedy="name some, with --inventory FILE")
    local = flags.inventory is None and hosts.is_this_machine
    if local and os.geteuid() != 0 and not flags.check:
        raise environment_error(
            "setting this machine up changes its kernel, limits and disks: it needs root",
            where=socket.gethostname(),
            remedy="run it with sudo; or see what differs: gridwright setup --local --check",
        )
    request = _request(spec, flags, hosts, files, local=local)
    with stop_on_signals() as stop:
        result = set_up(request, stop=stop, say=_say)
    if flags.json:
        print_json(spec, result, check=flags.check)
    else:
        print_result(result, check=flags.check, diff=flags.diff, root=not local or os.geteuid() == 0)
    if result.failed:
        return ExitStatus.ENVIRONMENT
    return ExitStatus.MISSED if flags.check and result.changed else ExitStatus.DONE


def _check_flags(flags: SetupFlags) -> None:
    reader = Reader()
    for flag, path in (
        ("--private-key", flags.private_key),
        ("--inventory", flags.inventory),
        ("--variables", flags.variables),
    ):
        if path is not None and not path.exists():
            reader.problem(f"there is no file {path}", flag, "name one that is there")
    if flags.local:
        for flag, given in (
            ("--limit", flags.limit),
            ("--user", flags.user),
            ("--private-key", flags.private_key),
            ("--inventory", flags.inventory),
        ):
            if given is not None:
                reader.problem("--local is this machine alone, without ssh", flag, "leave one of them out")
    reader.finish(True)


def _spec(flags: SetupFlags) -> GridSpec:
    """The grid spec; with --local and none at hand, that of a node of no grid."""
    if flags.local and flags.file is None and not DEFAULT_SPEC.exists():
        from gridwright.spec import parse_spec

        # A directory of the node itself: nothing is mounted for it, and no disk is touched.
        return parse_spec("filesystems: {disk: {type: local, path: /var/tmp}}")
    return load(flags.file)


def _playbook(spec: GridSpec, flags: SetupFlags) -> tuple[Hosts, Mapping[str, str | bytes]]:
    if flags.local:
        from gridwright.setup.playbook import Hosts, playbook_files

        hosts = Hosts.this_machine(socket.gethostname().partition(".")[0])
        return hosts, playbook_files(spec, hosts)
    from gridwright.cli.this_node import render_here

    rendering = render_here(spec, flags.slurm)
    known = _known_to_slurm(spec) if flags.inventory is None else []
    if not known:
        return rendering.hosts, rendering.files
    from gridwright.setup.playbook import Hosts, inventory

    hosts = Hosts.named(compute=known)
    return hosts, {**rendering.files, "inventory.yml": inventory(hosts)}


def _known_to_slurm(spec: GridSpec) -> list[str]:
    """Nodes that a site's Slurm knows, where the spec names none; empty for other grids."""
    named = any(group.hosts is not None for group in spec.nodes.values())
    if named or spec.provider != "local" or not spec.scheduler.knows_nodes:
        return []
    from gridwright.grid.grid import Grid

    return [node.name for node in Grid.open(spec).states]


def _request(
    spec: GridSpec, flags: SetupFlags, hosts: Hosts, files: Mapping[str, str | bytes], *, local: bool
) -> SetupRequest:
    from gridwright.setup.running import SetupRequest

    account = flags.user or getpass.getuser()
    return SetupRequest(
        files=files,
        check=flags.check,
        diff=flags.diff,
        nodes=_chosen(flags, hosts),
        user=flags.user,
        private_key=flags.private_key,
        inventory=flags.inventory,
        variables=flags.variables,
        become=not local and account != "root",
        ssh=_ssh(spec),
        local=local,
    )


def _ssh(spec: GridSpec) -> Sequence[str]:
    from gridwright.grid.grid import Grid

    return Grid.open(spec).head.ssh([])


def _chosen(flags: SetupFlags, hosts: Hosts) -> Sequence[str]:
    """The nodes of --limit; names of an inventory of the user's own are for Ansible to know."""
    if flags.limit is None:
        return ()
    if flags.inventory is not None:
        return (flags.limit,)
    from ClusterShell.NodeSet import NodeSet, NodeSetParseError

    known = hosts.names()
    try:
        wanted = [str(name) for name in NodeSet(flags.limit)]
    except NodeSetParseError as error:
        raise input_error(f"{error}", where="--limit", remedy="write nodes as compute[1-3],head1") from None
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        near = nearest(unknown[0], known) if unknown else None
        raise input_error(
            f"the grid has no node {unknown[0] if unknown else flags.limit!r}",
            where="--limit",
            remedy=(f"did you mean {near}? " if near else "") + f"its nodes are {', '.join(known)}",
        )
    return wanted


def _say(line: str) -> None:
    typer.echo(line, err=True)
