"""What nodes need of this machine to run the same Gridwright: its Python, read-only at the same paths."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import gridwright
from gridwright.commands import run_bounded
from gridwright.errors import environment_error
from gridwright.services.service import ServiceNode

_OF_THE_IMAGE = ("/usr", "/lib", "/bin", "/sbin", "/etc", "/var")
"""What every node has of its own: the system's Python there is that of the image."""

_ROOTS_HOME = Path("/root")
OPEN_PYTHON = (
    "install Gridwright where all may read it, such as below /opt, with a Python there; or let users pass on "
    "each node: gridwright lab exec NODE -- chmod 711 /root"
)


def python_directories() -> list[Path]:
    """Directories that `sys.executable` and this package need, none within another."""
    desired = {
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sys.exec_prefix),
        Path(sys.executable).parent,
        Path(sys.executable).resolve().parent,
        Path(gridwright.__file__).parent,
        *map(Path, _search_path()),
    }
    found: list[Path] = []
    for path in sorted(desired, key=lambda each: len(each.parts)):
        if not path.is_absolute() or not path.is_dir() or _in_image(path):
            continue
        if not any(path.is_relative_to(outer) for outer in found):
            found.append(path)
    return found


def closed_python() -> str | None:
    """Why users of a lab cannot run Gridwright on its nodes; None where they can.

    Nodes have this machine's Python at its path, and root's home of the image there, which is closed.
    """
    closed = [path for path in python_directories() if path.is_relative_to(_ROOTS_HOME)]
    if not closed:
        return None
    return (
        f"users of the lab cannot run gridwright on nodes: {closed[0]} is below {_ROOTS_HOME}, root's alone"
    )


def other_installation(node: int) -> str | None:
    """Why nodes of a lab cannot run this Gridwright, by the first process of one; None where they can.

    Nodes have the Python of what made the lab at its path, and that of another installation is not there.
    """
    root = Path(f"/proc/{node}/root")
    needed = (Path(sys.executable), Path(gridwright.__file__).parent)
    absent = [path for path in needed if not os.path.lexists(f"{root}{path}")]
    if not absent or not root.exists():
        return None
    why = f"its nodes lack {absent[0]}, which this Gridwright runs from: another installation made the lab"
    makers = (Path(point, "bin/gridwright") for point in _mount_points(node))
    maker = next((each for each in makers if os.path.lexists(f"{root}{each}")), None)
    return f"{why}, {maker}" if maker else why


def _mount_points(process: int) -> Iterator[str]:
    """Where file systems are mounted for a process, by the paths that it has for them (proc(5))."""
    try:
        lines = Path(f"/proc/{process}/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        yield re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split(" ")[4])


@cache
def _search_path() -> tuple[str, ...]:
    """Where `sys.executable -P` looks for modules: without what this program or its caller added.

    Raises GridwrightError (ENVIRONMENT) where it cannot be started.
    """
    answer = run_bounded([sys.executable, "-P", "-c", "import sys; print(*sys.path, sep='\\0', end='')"])
    return tuple(os.fsdecode(entry) for entry in answer.stdout.split(b"\0") if entry)


def _in_image(path: Path) -> bool:
    if path == Path("/"):
        return True
    local = Path("/usr/local")
    if path.is_relative_to(local):
        return False
    return any(path.is_relative_to(own) for own in _OF_THE_IMAGE)


def check_python(node: ServiceNode) -> None:
    """Raise GridwrightError (ENVIRONMENT) where a node cannot run this machine's Python."""
    done = node.run([sys.executable, "-P", "-c", "import gridwright"], timeout_s=30)
    if done.status:
        why = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise environment_error(
            f"nodes cannot run the Python of this machine, {sys.executable}: {why}",
            where=node.name,
            remedy="nodes have Debian 12: install Gridwright into a Python that brings its own libraries, "
            "such as one of uv or pyenv, or work on Debian 12",
        )
