"""`gridwright setup`: sets the nodes of a grid up, or shows what differs."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridwright.cli.arguments import Json, Reader, SpecFile, read_path, verb
from gridwright.cli.build.render import Slurm
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import has_default_spec
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, environment_error, input_error, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gridwright.setup.playbook import Hosts
    from gridwright.setup.running import SettingChange, SetupRequest, SetupResult
    from gridwright.spec import GridSpec

_STATES = {
    "ok": "as they should be",
    "changed": "changed",
    "failed": "FAILED",
    "unreachable": "NOT REACHED",
    "unfinished": "NOT FINISHED",
}
_DRIFTED = "differ"
_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupFlags:
    """The flags of `gridwright setup`, as they were typed."""

    file: SpecFile = None
    check: Annotated[bool, typer.Option("--check", help="Show what differs, and change nothing.")] = False
    diff: Annotated[bool, typer.Option("--diff", help="Show the lines of files that differ, too.")] = False
    local: Annotated[bool, typer.Option("--local", help="This machine alone, as a node that runs jobs.")] = (
        False
    )
    limit: Annotated[
        str | None,
        typer.Option(metavar="NODES", help="Only these, such as compute[1-3] or compute1,storage2."),
    ] = None
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="The account on the nodes, which may sudo.")
    ] = None
    private_key: Annotated[
        Path | None, typer.Option(metavar="FILE", parser=read_path, help="The key that ssh logs in with.")
    ] = None
    inventory: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=read_path, help="An inventory of Ansible, instead of the grid's own."
        ),
    ] = None
    variables: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=read_path, help="What the site chooses: variables of the roles, in YAML."
        ),
    ] = None
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            help="Restart nodes that need another kernel for their file systems, unless jobs run there.",
        ),
    ] = False
    slurm: Slurm = "22.05"
    json: Json = False


def run_setup(flags: SetupFlags) -> ExitStatus:
    """Set kernel, limits, disks, file systems and Slurm of the nodes; once is enough.

    Runs, over ssh, the playbook that `gridwright render` writes. Exit status: 0 all nodes are as they should
    be, 1 with --check when something differs, 3 when a node failed or could not be reached.

    No node is restarted, unless --restart says so. A node that needs another kernel is named until then.

    \b
    Examples:
      gridwright setup grid.yaml --check --diff
      gridwright setup grid.yaml --limit compute[1-4] --user admin
      sudo gridwright setup --local
    """  # noqa: D301 - \b keeps typer from filling the lines
    from gridwright.cli.interrupt import stop_on_signals
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
    Output("setup", json=flags.json).show(
        LazyResult(
            document=lambda: _document(spec, result, check=flags.check),
            text=lambda: _text(
                result, check=flags.check, diff=flags.diff, root=not local or os.geteuid() == 0
            ),
        )
    )
    if result.failed:
        return ExitStatus.ENVIRONMENT
    return ExitStatus.MISSED if flags.check and result.changed else ExitStatus.DONE


setup = verb(run_setup)


def _check_flags(flags: SetupFlags) -> None:
    reader = Reader()
    for flag, path in (
        ("--private-key", flags.private_key),
        ("--inventory", flags.inventory),
        ("--variables", flags.variables),
    ):
        if path is not None and not path.exists():
            reader.problem(f"there is no file {path}", flag, "name one that is there")
        elif path is not None and not (path.is_file() or (path.is_dir() and flag == "--inventory")):
            reader.problem(f"{path} is no regular file, and Ansible reads it more than once", flag, "save it")
    if flags.local:
        for flag, given in (
            ("--limit", flags.limit),
            ("--user", flags.user),
            ("--private-key", flags.private_key),
            ("--inventory", flags.inventory),
            ("--restart", flags.restart or None),
        ):
            if given is not None:
                reader.problem("--local is this machine alone, without ssh", flag, "leave one of them out")
    reader.finish(True)


def _spec(flags: SetupFlags) -> GridSpec:
    """The grid spec; with --local and none at hand, that of a node of no grid."""
    if flags.local and flags.file is None and not has_default_spec():
        from gridwright.spec import parse_spec

        # A directory of the node itself: nothing is mounted for it, and no disk is touched.
        # The name is no grid's, so that people of the grid that it belongs to are left alone.
        return parse_spec("name: no-grid\nfilesystems: {disk: {type: local, path: /var/tmp}}")
    from gridwright.cli.spec_file import load

    return load(flags.file)


def _playbook(spec: GridSpec, flags: SetupFlags) -> tuple[Hosts, Mapping[str, str | bytes]]:
    if flags.local:
        from gridwright.model.grid import library_layouts
        from gridwright.setup.playbook import Hosts, Provided, playbook_files

        hosts = Hosts.this_machine(socket.gethostname().partition(".")[0])
        return hosts, playbook_files(spec, hosts, provided=Provided(layouts=library_layouts(spec)))
    from gridwright.cli.spec_file import render_here

    rendering = render_here(spec, flags.slurm)
    known = _known_to_slurm(spec) if flags.inventory is None else []
    if not known:
        return rendering.hosts, rendering.files
    from gridwright.setup.playbook import Hosts, inventory

    hosts = Hosts.named(compute=known).with_machines(spec)
    return hosts, {**rendering.files, "inventory.yml": inventory(hosts)}


def _known_to_slurm(spec: GridSpec) -> list[str]:
    """Nodes that a site's Slurm knows, where the spec names none; empty for other grids."""
    if spec.names_hosts or spec.provider_kind.names_its_nodes or not spec.scheduler.knows_nodes:
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
        restart=flags.restart,
        become=not local and account != "root",
        ssh=("ssh",) if local else _ssh(spec),
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
    from gridwright.spec.cluster_shell import NodeSet, NodeSetParseError

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
    say(line)


def _document(spec: GridSpec, result: SetupResult, *, check: bool) -> dict[str, Any]:
    return {
        "file": str(spec.file) if spec.file else None,
        "check": check,
        "met": not result.failed and not (check and result.changed),
        "nodes": [asdict(node) for node in result.nodes],
    }


def _text(result: SetupResult, *, check: bool, diff: bool, root: bool) -> str:
    """Each change once with the nodes that it is of, then how the nodes came out; failures go to stderr."""
    from gridwright.spec.hosts import fold_hosts

    changes: dict[SettingChange, list[str]] = {}
    for node in result.nodes:
        for change in node.changes:
            changes.setdefault(change, []).append(node.name)
    lines = []
    for change, names in changes.items():
        lines.append(f"{fold_hosts(names)}: {change.text}")
        lines += [f"    {line}" for line in _lines(change) if diff]
    _say_failures(result)
    lines += [""] if changes else []
    for state, meaning in _STATES.items():
        if named := [node.name for node in result.nodes if node.state == state]:
            lines.append(f"{fold_hosts(named)}: {_DRIFTED if check and state == 'changed' else meaning}")
    if check and result.changed:
        as_root = "" if root else ", as root"
        lines.append(f"nothing was changed; gridwright setup without --check does it{as_root}")
    return "\n".join(lines)


def _say_failures(result: SetupResult) -> None:
    from gridwright.spec.hosts import fold_hosts

    failures: dict[tuple[str, str], list[str]] = {}
    for node in result.nodes:
        for failure in node.failures:
            failures.setdefault((failure.task, failure.message), []).append(node.name)
    for (task, message), names in failures.items():
        first, *others = [*([task] if task else []), *message.splitlines()[:_SHOWN_LINES]]
        _say(f"error: {fold_hosts(names)}: {first}")
        for line in others:
            _say(f"  {line}")


def _lines(change: SettingChange) -> Iterator[str]:
    from difflib import unified_diff

    for before, after in change.differences:
        yield from (
            line
            for line in unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
            if not line.startswith(("---", "+++", "@@"))
        )
