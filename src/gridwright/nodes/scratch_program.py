"""The program that nodes run: package `gridwright.nodes.scratch` as one file that Python starts."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

PROGRAM = Path("/usr/local/lib/gridwright/scratch.pyz")
"""Where nodes have it."""
UNIT = "gridwright-scratch.service"
_SHEBANG = b"#!/usr/bin/env python3\n"
_WHEN = (1980, 1, 1, 0, 0, 0)
"""The first moment that a zip file knows: the same sources give the same bytes."""
_SOURCE = Path(__file__).with_name("scratch")
_START = '''"""Starts the scratch storage of this node."""
import sys

if sys.version_info < (3, 9):
    sys.exit("scratch.pyz needs Python 3.9 or newer; this is " + sys.version.split()[0])

from gridwright.nodes.scratch.command import main

sys.exit(main())
'''


def build_zipapp() -> bytes:
    """The program, byte for byte the same for the same sources (zipapp of the standard library's format)."""
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(_content().items()):
            entry = zipfile.ZipInfo(name, _WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def unit_file() -> str:
    """The systemd unit that runs it at every start."""
    return (_SOURCE / UNIT).read_text(encoding="utf-8")


def _content() -> dict[str, bytes]:
    """By name within the archive. The packages above are empty there: nothing of them is needed on a node."""
    content = {
        "__main__.py": _START.encode(),
        "gridwright/__init__.py": b"",
        "gridwright/nodes/__init__.py": b"",
    }
    for path in (*_SOURCE.glob("*.py"), *_SOURCE.glob("*.json")):
        content[f"gridwright/nodes/scratch/{path.name}"] = path.read_bytes()
    return content
