"""The script that runs a job on its node: one text for all jobs, with arguments and an environment for each.

Nothing that a user wrote ever becomes part of a shell's text. The command travels as the script's own
arguments, which sbatch hands on as they are, and the environment as `NAME=value` with a NUL after each
(sbatch --export-file), so every byte arrives. There is no Python in it: a job costs two small processes more
than a bare one, mkdir and rm, and a file of a few bytes that says that it runs and how it ended.

Those files are in the directories of one user's jobs, below the state directory, at the same path on all
nodes.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from gridwright.schedulers.batch.submission import HOLDS, OwnDirectories, given_environment
from gridwright.schedulers.job import JobRequest, JobTag
from gridwright.state_parts import own_directory, write_program

SCRIPT = r"""#!/bin/sh
# A job of Gridwright. Slurm runs this on the node; its arguments are
#   STATE TAG ID KEEP DIRECTORY WORK UTIL COMMAND [ARGUMENT]...
# STATE    directory of this user's jobs, the same on all nodes
# TAG      which submission and which attempt this is
# ID       the job's identifier where it is not Slurm's, else empty
# KEEP     1 where the private directories stay
# WORK UTIL  directories of the libraries, empty where the grid has none
state=$1 tag=$2 id=$3 keep=$4 directory=$5 work=$6 util=$7
shift 7

# The controller had lost this attempt, and it was submitted again: it must not run twice.
[ -e "$state/fences/$tag" ] && exit 0
[ -n "$SLURM_ARRAY_TASK_ID" ] && tag=${tag}_$SLURM_ARRAY_TASK_ID

# What the shell says of the end of the command does not belong into its log.
exec 3>&2 2>/dev/null

# Removes directories of the job, also what it made unwritable, such as a cache of modules.
remove() {
    command -p rm -rf -- "$@" || { command -p chmod -R u+rwx -- "$@" && command -p rm -rf -- "$@" 2>&3; }
}
HOLDS
# Removes a directory that is open as descriptor $1 and is called $2, if it still is.
remove_open() {
    if [ -k "${2%/*}" ]; then
        remove "$2"
    elif cd "/proc/self/fd/$1"; then
        # Another user may have given the name to another directory of this user.
        command -p find . ! -name . -prune -exec rm -rf -- {} + ||
            { command -p chmod -R u+rwx . && command -p find . ! -name . -prune -exec rm -rf -- {} + 2>&3; }
        cd / && command -p rmdir -- "$2"
    fi
}

# A controller that was killed may start a run again that it has forgotten: it is there already, and
# is still going on where it has no status yet.
run=$state/runs/$tag.${SLURM_RESTART_COUNT:-0}
set -C
if ! true >"$run" && [ -e "$run" ]; then
    read -r status <"$run"
    exit "${status:-75}"
fi
set +C

trap 'ended=143' TERM
trap : HUP INT QUIT USR1 USR2

if [ -n "$SLURM_ARRAY_TASK_ID" ]; then
    GRIDWRIGHT_ARRAY_INDEX=$SLURM_ARRAY_TASK_ID
    GRIDWRIGHT_JOB_ID=${id:-$SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    export GRIDWRIGHT_ARRAY_INDEX
else
    GRIDWRIGHT_JOB_ID=${id:-$SLURM_JOB_ID}
fi
if [ -n "$SLURM_MEM_PER_NODE" ] && [ "$SLURM_MEM_PER_NODE" -gt 0 ]; then
    GRIDWRIGHT_MEMORY_BYTES=$((SLURM_MEM_PER_NODE * 1048576))
elif [ -n "$SLURM_MEM_PER_CPU" ] && [ "$SLURM_MEM_PER_CPU" -gt 0 ]; then
    GRIDWRIGHT_MEMORY_BYTES=$((SLURM_MEM_PER_CPU * SLURM_CPUS_ON_NODE * 1048576))
else
    while read -r key value _; do
        [ "$key" = MemTotal: ] && GRIDWRIGHT_MEMORY_BYTES=$((value * 1024)) && break
    done </proc/meminfo
fi
export GRIDWRIGHT_JOB_ID GRIDWRIGHT_MEMORY_BYTES

# Directories of jobs that were killed on this node, where the head node does not see them.
left=$state/leftovers/$SLURMD_NODENAME
if [ -e "$left" ] && command -p mv -- "$left" "$left.$tag"; then
    while IFS= read -r each; do
        case $each in /*/gridwright-????????????????.*) ;; *) continue ;; esac
        for each in "$each"*; do
            [ -O "$each" ] && [ ! -L "$each" ] && holds "${each%/*}" && remove "$each"
        done
    done <"$left.$tag"
    command -p rm -f -- "$left.$tag"
fi

private=gridwright-$tag.${SLURM_RESTART_COUNT:-0}
[ -n "$work" ] && GRIDWRIGHT_WORK=$work/$private && export GRIDWRIGHT_WORK
[ -n "$util" ] && GRIDWRIGHT_UTIL=$util/$private && export GRIDWRIGHT_UTIL
if [ -n "$work$util" ] &&
    ! command -p mkdir -m 700 -- ${work:+"$GRIDWRIGHT_WORK"} ${util:+"$GRIDWRIGHT_UTIL"}; then
    # Who can list jobs knows these names. What somebody else has made there is not used, and nobody knows
    # the next names.
    command -p rmdir -- ${work:+"$GRIDWRIGHT_WORK"} ${util:+"$GRIDWRIGHT_UTIL"}
    if [ -n "$work" ]; then
        GRIDWRIGHT_WORK=$(command -p mktemp -d -- "$GRIDWRIGHT_WORK.XXXXXXXXXXXX" 2>&3) || exit 1
    fi
    if [ -n "$util" ] &&
        ! GRIDWRIGHT_UTIL=$(command -p mktemp -d -- "$GRIDWRIGHT_UTIL.XXXXXXXXXXXX" 2>&3); then
        [ -n "$work" ] && command -p rmdir -- "$GRIDWRIGHT_WORK"
        exit 1
    fi
fi

[ -n "$work" ] && exec 4<"$GRIDWRIGHT_WORK"
[ -n "$util" ] && exec 5<"$GRIDWRIGHT_UTIL"

if ! cd -- "$directory" 2>&3; then
    ended=1
fi
if [ -n "$ended" ]; then
    status=$ended
else
    (exec 2>&3 3>&- 4<&- 5<&-; exec "$@")
    status=$?
fi

if [ -n "$work$util" ] && [ "$keep" != 1 ]; then
    cd /
    [ -n "$work" ] && remove_open 4 "$GRIDWRIGHT_WORK"
    [ -n "$util" ] && remove_open 5 "$GRIDWRIGHT_UTIL"
fi
command times >"$run.times"
printf '%s\n' "$status" >"$run"
exit "$status"
""".replace("HOLDS", HOLDS)
"""The text of the script, for every job the same; a POSIX shell runs it, dash or bash."""

REPEATED = 75
"""Exit status of the script where the same run goes on elsewhere: EX_TEMPFAIL of sysexits.h."""

_HELD_BY_A_SHELL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_THE_SHELL = frozenset({"BASHOPTS", "IFS", "LINENO", "OPTIND", "PPID", "PS1", "PS2", "PS4", "SHELLOPTS"})
"""Variables that a shell makes its own or that change what it does: they go round it."""


def script_file(directory: Path) -> Path:
    """The script as a file in a directory of this user's own, with this text; its name holds a hash of it."""
    digest = hashlib.sha256(SCRIPT.encode()).hexdigest()[:12]
    return write_program(directory, f"job-{digest}.sh", SCRIPT.encode())


def slurm_environment(request: JobRequest) -> dict[str, str]:
    """All variables of the job but those that are only known on its node.

    What says something of the job that submits (SLURM_…, GRIDWRIGHT_WORK and the like) is not handed on.
    """
    given = given_environment(request)
    return {name: value for name, value in given.items() if not name.startswith(("SLURM_", "SLURMD_"))}


def exported(environment: Mapping[str, str]) -> bytes:
    """The environment as sbatch --export-file reads it."""
    return b"".join(
        os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items() if not _goes_round(name)
    )


def script_arguments(
    request: JobRequest, *, state: Path, tag: JobTag, identifier: str, environment: Mapping[str, str]
) -> list[str]:
    """The arguments of the script. `identifier` is empty where Slurm's is the job's."""
    command = list(request.command)
    if round_the_shell := [f"{name}={value}" for name, value in environment.items() if _goes_round(name)]:
        # To env, a command with = in its name would be one more variable; to nice it is not.
        between = ["nice", "-n", "0", "--"] if "=" in command[0] else []
        command = ["/usr/bin/env", "--", *round_the_shell, *between, *command]
    libraries = request.libraries
    return [
        str(state),
        str(tag),
        identifier,
        "1" if request.keep else "0",
        request.directory,
        libraries.get("work", ""),
        libraries.get("util", ""),
        *command,
    ]


def _goes_round(name: str) -> bool:
    return name in _OF_THE_SHELL or _HELD_BY_A_SHELL.fullmatch(name) is None


class JobDirectories(OwnDirectories):
    """See OwnDirectories; a job of Slurm is run by a script, and each of its runs is one file."""

    __slots__ = ()

    @property
    def record(self) -> Path:
        """The record of submissions."""
        return self.base / "slurm.sqlite"

    @property
    def leftovers(self) -> Path:
        """A file for each node, with directories to be removed there."""
        return self.base / "leftovers"

    @property
    def script(self) -> Path:
        """The script that runs jobs."""
        return script_file(self.base)

    def lift_fence(self, tag: JobTag) -> None:
        """Let an attempt begin after all."""
        self.fence_file(tag).unlink(missing_ok=True)

    @property
    def runs(self) -> Path:
        """A file for each run of a job: empty from its begin to its end, then with the exit status."""
        return self.base / "runs"

    def runs_begun(self) -> dict[str, int]:
        """The last run of each job that has begun, by what its files' names have before the number."""
        last: dict[str, int] = {}
        for entry in self.runs.iterdir():
            job, _, number = entry.name.rpartition(".")
            if number.isdigit():
                last[job] = max(last.get(job, 0), int(number))
        return last

    def run_status(self, name: str) -> int | None:
        """The exit status of a run; None while it has none."""
        try:
            text = (self.runs / name).read_text(errors="replace")
        except OSError:
            return None
        return int(text) if text.endswith("\n") and text.strip().isdigit() else None

    def run_ended(self, name: str) -> float | None:
        """When a run wrote its status; seconds since 1970."""
        try:
            return (self.runs / name).stat().st_mtime
        except OSError:
            return None


def make_job_directories(state: Path) -> JobDirectories:
    """The directories of this user, made where they are not there. Raises GridwrightError (ENVIRONMENT)."""
    return JobDirectories(own_directory(state, "slurm", ("logs", "runs", "fences", "leftovers")))
