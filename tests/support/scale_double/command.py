"""Runs one command of the double on this machine, which plays all nodes of the cluster."""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.scale_double.cluster import Cluster
from tests.support.scale_double.nfs import CES, SHELL, ces_listed, shell
from tests.support.scale_double.rows import LISTING, PLAIN, listed, printed_plain, shown
from tests.support.scale_double.words import Refused

_ROOT = Path(__file__).resolve().parents[3]
CHANGING = (
    *("mmcrcluster", "mmaddnode", "mmchnode", "mmchlicense", "mmcrnodeclass", "mmchnodeclass", "mmcrnsd"),
    *("mmchnsd", "mmchconfig", "mmstartup", "mmshutdown", "mmcrfs", "mmadddisk", "mmmount", "mmumount"),
    *("mmcallhome", "mmsdrrestore", "mmremotecluster", "mmremotefs", "mmafmcoskeys", "mmafmcosconfig"),
    *("mmchpolicy", "mmaddcallback", *CES),
)
_SSH_FAILED = 255


def install(directory: Path, state: Path) -> None:
    """Make the commands, and an ssh to the nodes; their state is in the file `state`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in (*LISTING, *CHANGING, "ssh"):
        program = directory / name
        program.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path[:0] = [{str(_ROOT)!r}, {str(_ROOT / 'src')!r}]\n"
            "from tests.support.scale_double.command import main\n"
            f"sys.exit(main({name!r}, {str(state)!r}, sys.argv[1:]))\n"
        )
        program.chmod(0o755)


def read(state: Path) -> Cluster:
    """The cluster as it is."""
    return Cluster.of(json.loads(state.read_text())) if state.exists() else Cluster()


def write(state: Path, cluster: Cluster) -> None:
    """Keep it."""
    state.write_text(json.dumps(cluster.state()))


def stanzas_of(command: str, words: Sequence[str]) -> str:
    """The content of the file that a command is given."""
    files = [words[at + 1] for at, word in enumerate(words) if word == "-F"]
    if command == "mmchpolicy":
        files = [words[1]]
    if command in ("mmcrcluster", "mmaddnode"):
        files = [words[words.index("-N") + 1]]
    return Path(files[0]).read_text() if files else ""


def main(command: str, state: str, words: Sequence[str]) -> int:
    """Run a command; its exit status."""
    with Path(f"{state}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = read(Path(state))
        status, printed, error = answer(cluster, command, words)
        write(Path(state), cluster)
    sys.stdout.write(printed)
    sys.stderr.write(error)
    return status


def answer(cluster: Cluster, command: str, words: Sequence[str]) -> tuple[int, str, str]:
    """The exit status, and what a command prints on stdout and stderr."""
    try:
        if command in ("ssh", *SHELL):
            return _of_system(cluster, command, words)
        if [*words[:2]] == ["show", "all"]:
            return 0, shown(cluster, command), ""
        if command in LISTING and command not in PLAIN:
            return (*listed(cluster, command, words), "")
        if command in PLAIN or (command in CES and {"list", "show"} & set(words[:2])):
            made = printed_plain if command in PLAIN else ces_listed
            return 0, made(cluster, command, words), ""
        cluster.run(command, words, stanzas_of(command, words))
    except Refused as error:
        return 1, "", f"{error}\n"
    return 0, "", ""


def _of_system(cluster: Cluster, program: str, words: Sequence[str]) -> tuple[int, str, str]:
    """Programs that are not Scale's. Raises Refused."""
    if program == "ssh":
        return _elsewhere(cluster, words)
    return shell(cluster, program, words, cluster.node_here)


def _elsewhere(cluster: Cluster, words: Sequence[str]) -> tuple[int, str, str]:
    """`ssh … NODE mmlscluster -Y`, and what is on a disk there."""
    there = cluster.cluster_at(words[-2])
    if there is None:
        return _SSH_FAILED, "", ""
    if words[-1].startswith("wipefs "):
        return _signatures(cluster.read_device(words[-2], words[-1].split()[-1]))
    if words[-1].endswith("mmdiag --config"):
        node = cluster.nodes[words[-2]]
        lines = [f" ! {name} {_in_bytes(value)}\n" for name, value in node.running.items()]
        return (
            (0, "".join(["\n=== mmdiag: config ===\n", *lines]), "")
            if node.daemon
            else (1, "", "mmfsd is down")
        )
    if not there:
        raise Refused("mmlscluster: This node does not belong to a GPFS cluster.")
    head = "mmlscluster:clusterSummary:HEADER:version:reserved:reserved:clusterName:\n"
    return 0, f"{head}mmlscluster:clusterSummary:0:1:::{there}:\n", ""


def _signatures(content: str | None) -> tuple[int, str, str]:
    """As `wipefs --parsable` has it; an NSD's disk has a partition table of its own."""
    if content is None:
        return 1, "", "wipefs: error: probing initialization failed: No such file or directory\n"
    kind = "gpt" if content.startswith("NSD ") else content.removeprefix("empty")
    return 0, f"# offset,uuid,label,type\n0x438,,,{kind}\n" if kind else "", ""


def _in_bytes(value: str) -> str:
    """Sizes are told in bytes, whatever was written."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    number, unit = value[:-1], value[-1:]
    return str(int(number) * units[unit]) if unit in units and number.isdecimal() else value
