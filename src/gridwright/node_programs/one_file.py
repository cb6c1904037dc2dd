"""Programs that nodes run, each as one file that Python starts: packages without the rest of this room."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

DIRECTORY = Path("/usr/local/lib/gridwright")
"""Where nodes have them."""
_SHEBANG = b"#!/usr/bin/env python3\n"
_WHEN = (1980, 1, 1, 0, 0, 0)
"""The first moment that a zip file knows: the same sources give the same bytes."""
_START = '''"""Starts {does}."""
import sys

if sys.version_info < (3, 9):
    sys.exit("{name}.pyz needs Python 3.9 or newer; this is " + sys.version.split()[0])

from gridwright.node_programs.{name}.command import main

sys.exit(main())
'''


def one_file(name: str, does: str, packages: Sequence[str]) -> bytes:
    """`NAME.pyz`, which starts package `name`, byte for byte the same for the same sources.

    The format is that of zipapp of the standard library. `packages` are all that it consists of.
    """
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for path, content in sorted(_content(name, does, packages).items()):
            entry = zipfile.ZipInfo(path, _WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def unit_of(package: str) -> str:
    """The systemd unit that a package brings along."""
    path = source_of(package) / f"gridwright-{package}.service"
    return path.read_text(encoding="utf-8")


def source_of(package: str) -> Path:
    """Where the sources of a package are."""
    return Path(__file__).with_name(package)


def _content(name: str, does: str, packages: Sequence[str]) -> dict[str, bytes]:
    """By name within the archive. The packages above are empty there: nothing of them is needed on a node."""
    content = {
        "__main__.py": _START.format(name=name, does=does).encode(),
        "gridwright/__init__.py": b"",
        "gridwright/node_programs/__init__.py": b"",
    }
    for package in packages:
        source = source_of(package)
        for path in (*source.glob("*.py"), *source.glob("*.json")):
            content[f"gridwright/node_programs/{package}/{path.name}"] = path.read_bytes()
    return content
