"""Runs one command of the double: its name is that of the link which started it."""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.scale_double.cluster import Cluster, Refused
from tests.support.scale_double.rows import listed

_ROOT = Path(__file__).resolve().parents[3]
_LISTING = ("mmlscluster", "mmgetstate", "mmlslicense", "mmlsnodeclass", "mmlsnsd", "mmlsconfig", "mmlsmount")
_CHANGING = (
    *("mmcrcluster", "mmaddnode", "mmchnode", "mmchlicense", "mmcrnodeclass", "mmchnodeclass", "mmcrnsd"),
    *("mmchnsd", "mmchconfig", "mmstartup", "mmshutdown", "mmcrfs", "mmadddisk", "mmmount", "mmumount"),
    "mmcallhome",
)


def install(directory: Path, state: Path) -> None:
    """Make the commands; their state is in the file `state`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in (*_LISTING, *_CHANGING):
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


def main(command: str, state: str, words: Sequence[str]) -> int:
    """Run a command; its exit status."""
    with Path(f"{state}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = read(Path(state))
        try:
            if command in _LISTING:
                sys.stdout.write(listed(cluster, command, words))
                return 0
            files = [words[at + 1] for at, word in enumerate(words) if word == "-F"]
            if command in ("mmcrcluster", "mmaddnode"):
                files = [words[words.index("-N") + 1]]
            cluster.run(command, words, Path(files[0]).read_text() if files else "")
        except Refused as error:
            sys.stderr.write(f"{error}\n")
            return 1
        write(Path(state), cluster)
    return 0
