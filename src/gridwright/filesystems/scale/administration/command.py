"""The command itself: `administration.pyz`, which the playbook runs on the first server."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gridwright.filesystems.scale.administration.applying import (
    Administration,
    definitions,
    mount_command,
    not_let_in,
    outdated,
    restart,
    restart_commands,
    restart_notes,
)
from gridwright.filesystems.scale.administration.desired import DesiredNfs, ScaleCluster
from gridwright.filesystems.scale.administration.difference import Difference, difference
from gridwright.filesystems.scale.administration.nfs import nfs_commands, nfs_notes
from gridwright.filesystems.scale.administration.observed import ObservedCluster, ScaleError
from gridwright.filesystems.scale.administration.order import BIN, ScaleCommand, bucket_commands
from gridwright.filesystems.scale.administration.reach import new_disks

WRONG, FAILED = 2, 3
ROUNDS = 3
"""Times that the cluster is looked at and changed; a replaced node takes two."""
LOCK = Path("/run/gridwright-scale.lock")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 2 where it refuses, 3 for what failed."""
    parser = argparse.ArgumentParser(
        prog="administration", description="Make a Spectrum Scale cluster as a grid wants it."
    )
    parser.add_argument("cluster", type=Path, help="the cluster that is wanted, as JSON")
    parser.add_argument("--check", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--may-stop", action="store_true", help="the daemon may be stopped on every node")
    parser.add_argument(
        "--may-restart", action="store_true", help="servers may start again, one after the other"
    )
    parser.add_argument(
        "--wait", type=float, default=0.0, help="seconds for nodes to answer before a cluster is made of them"
    )
    parser.add_argument("--bin", type=Path, default=Path(BIN), help="where the commands are")
    parser.add_argument("--lock", type=Path, default=LOCK, help="what keeps two of them apart")
    given = parser.parse_args(arguments)
    done: list[ScaleCommand] = []
    found = Difference(())
    try:
        desired = read_cluster(given.cluster)
        # Who may read a file may lock it.
        with os.fdopen(
            os.open(given.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        ) as lock:
            os.fchmod(lock.fileno(), 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            administration = Administration(given.bin)
            if not given.check:
                administration.wait_until_answering([node.name for node in desired.nodes], given.wait)
            may = {"may_stop": given.may_stop, "may_restart": given.may_restart}
            found = run(desired, administration, done, check=given.check, **may)
        error, status = "; ".join(found.refusals), WRONG if found.refusals else 0
    except BlockingIOError:
        error, status = "another one is at work on this cluster", FAILED
    except (ScaleError, OSError) as failed:
        error, status = str(failed), FAILED
    sys.stdout.write(json.dumps(_document(found, done, error), indent=2) + "\n")
    if error:
        sys.stderr.write(f"{error}\n")
    return status


def run(
    desired: ScaleCluster,
    administration: Administration,
    done: list[ScaleCommand],
    *,
    may_stop: bool = False,
    may_restart: bool = False,
    check: bool = False,
) -> Difference:
    """Bring the cluster to what is wanted; `done` gets each command that was carried out.

    Raises ScaleError, also where something differs when all is done.
    """
    found, observed = _brought(desired, administration, done, may_stop=may_stop, check=check)
    if found.refusals or not observed.name:
        return found
    if desired.nsds:
        found = replace(found, notes=(*found.notes, *administration.lost_paths()))
    if desired.buckets and desired.buckets[0].filesystem in observed.filesystems:
        found = _with_buckets(desired, administration, done, found, check=check)
    if desired.nfs and _has_root(desired, observed):
        found = _with_nfs(desired.nfs, administration, done, found, check=check)
        state = administration.nfs_state(desired.filesystems[0].name, is_settled=not found.commands)
        found = replace(found, notes=(*found.notes, *state))
    if any(remote.key for remote in desired.remotes):
        found = _with_remotes(desired, administration, done, found, observed, check=check)
    old = outdated(desired, observed, administration)
    if not may_restart:
        return replace(found, notes=(*found.notes, *restart_notes(old)))
    again = [
        restart_command for name in old for restart_command in restart_commands(name, observed.filesystems)
    ]
    if not check:
        restart(desired, administration, done, tuple(old))
    return replace(found, commands=(*found.commands, *again))


def _brought(
    desired: ScaleCluster,
    administration: Administration,
    done: list[ScaleCommand],
    *,
    may_stop: bool,
    check: bool,
) -> tuple[Difference, ObservedCluster]:
    """The same without what daemons have since their start, and the cluster as it then is."""
    nodes = [node.name for node in desired.nodes]
    found, observed = _checked(desired, administration, nodes, may_stop=may_stop)
    if check or found.refusals:
        return found, observed
    planned, left = found.commands, found
    for _ in range(ROUNDS):
        for command in left.commands:
            administration.carry_out(command)
            done.append(command)
            if command.name == "mmstartup":
                administration.wait_until_active(command.argv[-1].split(","))
        if not left.commands:
            return replace(found, commands=planned, refusals=left.refusals), observed
        # What is there now may want more: a node whose configuration came back sees the whole cluster.
        left, observed = _checked(desired, administration, nodes, may_stop=False)
        planned += left.commands
    words = ", ".join(" ".join(each.argv[:3]) for each in left.commands[:5])
    raise ScaleError(f"all was done, and the cluster is not as it should be yet: {words}")


def _with_buckets(
    desired: ScaleCluster,
    administration: Administration,
    done: list[ScaleCommand],
    found: Difference,
    *,
    check: bool,
) -> Difference:
    """Directories that are caches of buckets, where they are not there."""
    planned = tuple(bucket_commands(desired, administration.filesets(desired.buckets[0].filesystem)))
    for command in planned if not check else ():
        administration.carry_out(command)
        done.append(command)
    return replace(found, commands=(*found.commands, *planned))


def _has_root(desired: ScaleCluster, observed: ObservedCluster) -> bool:
    """Whether some node has the file system in which protocol servers share what they know."""
    return any(observed.mounted.get(filesystem.name) for filesystem in desired.filesystems)


def _with_nfs(
    desired: DesiredNfs,
    administration: Administration,
    done: list[ScaleCommand],
    found: Difference,
    *,
    check: bool,
) -> Difference:
    """NFS by CES; a look comes before each round, as exports are kept while the service is off."""
    for _ in range(ROUNDS):
        # Anew: a setting of CES may have come in the round before.
        observed = administration.observe(desired.servers)
        there = administration.nfs(desired, observed)
        planned = tuple(nfs_commands(desired, there, observed.active, administration.is_directory))
        found = replace(found, commands=(*found.commands, *planned))
        if check or not planned:
            break
        if not there.root:
            administration.make_directory(desired.root)
        for command in planned:
            administration.carry_out(command)
            done.append(command)
    else:
        raise ScaleError(f"all was done, and NFS is not as it should be yet: {planned[0].why}")
    told = nfs_notes(desired, there, administration.is_directory)
    return replace(found, notes=(*found.notes, *told))


def _with_remotes(
    desired: ScaleCluster,
    administration: Administration,
    done: list[ScaleCommand],
    found: Difference,
    observed: ObservedCluster,
    *,
    check: bool,
) -> Difference:
    """What differs of file systems of other clusters, carried out; a mount that they refuse is told."""
    planned = list(definitions(desired, administration.remotes()))
    notes: list[str] = []
    for command in planned if not check else ():
        administration.carry_out(command)
        done.append(command)
    for remote in desired.remotes if not check else ():
        nodes = [node.name for node in desired.nodes]
        mount = (
            mount_command(remote, observed, administration.mounted(remote.device, nodes))
            if remote.key
            else None
        )
        if mount is None:
            continue
        try:
            administration.carry_out(mount)
        except ScaleError as refused:
            notes.append(not_let_in(desired, remote, str(refused)))
        else:
            planned.append(mount)
            done.append(mount)
    return replace(found, commands=(*found.commands, *planned), notes=(*found.notes, *notes))


def _checked(
    desired: ScaleCluster, administration: Administration, nodes: Sequence[str], *, may_stop: bool
) -> tuple[Difference, ObservedCluster]:
    """What differs; refused as a whole where a disk would be written over that holds something."""
    observed = administration.observe(nodes)
    placed = None
    ruled = [filesystem.name for filesystem in desired.filesystems if filesystem.rules]
    if ruled and observed.active:
        placed = administration.placement([name for name in ruled if name in observed.filesystems])
    found = difference(desired, observed, placed, may_stop=may_stop)
    if not any(command.name == "mmcrnsd" for command in found.commands):
        return found, observed
    refusals = administration.refused_disks(new_disks(desired, observed))
    return (replace(found, commands=(), refusals=refusals) if refusals else found), observed


def read_cluster(path: Path) -> ScaleCluster:
    """The cluster of a file. Raises ScaleError where it is none."""
    try:
        return ScaleCluster.from_document(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ScaleError(f"{path} does not describe a cluster: {error}") from None


def _document(found: Difference, done: Sequence[ScaleCommand], error: str) -> dict[str, object]:
    return {
        "changed": bool(done),
        "planned": [{"command": list(command.argv), "why": command.why} for command in found.commands],
        "done": len(done),
        "notes": list(found.notes),
        "error": error,
    }


if __name__ == "__main__":
    sys.exit(main())
