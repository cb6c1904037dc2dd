"""Programs that nodes run, each as one file that Python starts: some packages without all others."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
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

from {package}.command import main

sys.exit(main())
'''


def one_file(package: str, does: str, others: Sequence[str] = ()) -> bytes:
    """`NAME.pyz`, which starts a package of that name, byte for byte the same for the same sources.

    The format is that of zipapp of the standard library. `others` are all other packages and modules that it
    imports.
    """
    return _archive(package, does, tuple(others))


@cache
def _archive(package: str, does: str, others: tuple[str, ...]) -> bytes:
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for path, content in sorted(_content(package, does, [package, *others]).items()):
            entry = zipfile.ZipInfo(path, _WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def unit_of(package: str) -> str:
    """The systemd unit that a package brings along."""
    name = package.rpartition(".")[2]
    return _directory(package).joinpath(f"gridwright-{name}.service").read_text("utf-8")


def _directory(package: str) -> Traversable:
    return resources.files(package)


def _content(package: str, does: str, packages: Sequence[str]) -> dict[str, bytes]:
    """By name within the archive. The packages above are empty there: nothing of them is needed on a node."""
    start = _START.format(name=package.rpartition(".")[2], package=package, does=does)
    content = {"__main__.py": start.encode()}
    for each in packages:
        parts = each.split(".")
        for depth in range(1, len(parts)):
            content["/".join([*parts[:depth], "__init__.py"])] = b""
        module = _directory(".".join(parts[:-1])).joinpath(f"{parts[-1]}.py")
        if module.is_file():
            content["/".join(parts) + ".py"] = module.read_bytes()
            continue
        for file in _directory(each).iterdir():
            if file.name.endswith((".py", ".json")):
                content["/".join([*parts, file.name])] = file.read_bytes()
    return content
