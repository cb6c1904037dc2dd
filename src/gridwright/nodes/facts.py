"""Facts of a node, looked up on it: `python -m gridwright.nodes.facts` reads a request and prints them.

Request (JSON on stdin): `{"libraries": {name: directory}}`. Nothing is changed but for one empty file
in each library, which is removed at once: that is the test of whether it can be written to.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from pydantic import BaseModel

from gridwright import __version__
from gridwright.filesystems.mounts import describe_mount
from gridwright.nodes.bounded import Hangs, look

LOOK_S = 5.0
"""How long a file system may take to answer before it counts as hanging."""


class LibraryFacts(BaseModel):
    """What a node sees of a library; None where it could not be looked at."""

    path: str
    hangs: bool = False
    missing: str | None = None
    """Why it cannot be looked at, such as `No such file or directory`."""
    refused: str | None = None
    """Why it cannot be written to."""
    filesystem_type: str | None = None
    source: str | None = None
    mount_point: str | None = None
    total_bytes: int | None = None
    available_bytes: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None


class NodeFacts(BaseModel):
    """What a node tells of itself."""

    hostname: str
    version: str
    time: float
    cpus: int
    """Logical ones."""
    memory_bytes: int
    libraries: dict[str, LibraryFacts]


def node_facts(libraries: Mapping[str, str]) -> NodeFacts:
    """Look at this node and at its libraries; takes no longer than LOOK_S for each library that hangs."""
    found = {name: library_facts(Path(path)) for name, path in libraries.items()}
    return NodeFacts(
        hostname=socket.gethostname(),
        version=__version__,
        time=time.time(),
        cpus=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        libraries=found,
    )


def library_facts(path: Path) -> LibraryFacts:
    """Look at a library, in a child: a mount that hangs hangs only that."""
    facts = LibraryFacts(path=str(path))
    try:
        seen = look(lambda: _look(path), LOOK_S)
    except Hangs:
        return facts.model_copy(update={"hangs": True})
    except OSError as error:
        return facts.model_copy(update={"missing": error.strerror})
    return facts.model_copy(update=seen)


def _look(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        path.stat()
        raise NotADirectoryError(20, "Not a directory", str(path))
    mount = describe_mount(path)
    status = os.statvfs(path)
    return {
        "filesystem_type": mount.filesystem_type,
        "source": mount.source,
        "mount_point": mount.mount_point,
        "total_bytes": mount.total_bytes,
        "available_bytes": mount.available_bytes,
        "inodes": status.f_files or None,
        "inodes_free": status.f_favail if status.f_files else None,
        "refused": _refusal(path),
    }


def _refusal(path: Path) -> str | None:
    try:
        with tempfile.TemporaryFile(dir=path, prefix=".gridwright-check-"):
            return None
    except OSError as error:
        return error.strerror


def main() -> None:
    """Answer one request."""
    request = json.loads(sys.stdin.read())
    print(node_facts(request["libraries"]).model_dump_json())  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
