"""What holds for every program that nodes run as one file with a systemd unit: scratch, claim."""

from __future__ import annotations

import ast
import configparser
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from tests.support.skips import needs

OWN_MOUNT_NAME_SPACE = frozenset(
    {
        *("PrivateTmp", "PrivateDevices", "PrivateMounts", "ProtectSystem", "ProtectHome", "ReadWritePaths"),
        *("ProtectKernelTunables", "ProtectKernelModules", "ProtectControlGroups", "TemporaryFileSystem"),
    }
)
"""Each of these gives a service a name space of its own: nobody else would see what it mounts."""


def imports_beyond_python(module: Path, ours: tuple[str, ...], others: Collection[str] = ()) -> list[str]:
    """What a module imports that is neither Python's nor of these packages; annotations are not evaluated."""
    text = module.read_text()
    assert module.name == "__init__.py" or "from __future__ import annotations" in text
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(str(node.module))
    allowed = sys.stdlib_module_names | set(others)
    return [name for name in names if not name.startswith(ours) and name.split(".")[0] not in allowed]


def sections_of_unit(text: str) -> configparser.ConfigParser:
    """A systemd unit, by section and key."""
    parsed = configparser.ConfigParser(strict=False, delimiters=("=",), interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(text)
    return parsed


def complaints_of_systemd(text: str, program: Path, directory: Path) -> str:
    """What systemd says of a unit; its program is replaced by one that is there."""
    needs("systemd-analyze")
    file = directory / "gridwright-program.service"
    file.write_text(text.replace(f"/usr/bin/python3 {program}", "/bin/true"))
    argv = ["systemd-analyze", "verify", "--man=no", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    return done.stderr if file.stem in done.stderr else ""
