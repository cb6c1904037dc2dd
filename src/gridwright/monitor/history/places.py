"""Where the history of a node is kept."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import quote

DIRECTORY = Path("/var/lib/gridwright/history")
"""Where agents keep it that run as services."""


def history_file(directory: Path, node: str = "") -> Path:
    """The file of a node, of this one where none is named: nodes may share a directory."""
    return directory / f"{quote(node or socket.gethostname(), safe='')}.history"
