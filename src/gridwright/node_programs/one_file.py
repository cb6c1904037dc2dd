"""Programs that nodes run, each as one file that Python starts: some packages without all others."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
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

from {start} import main

sys.exit(main())
'''


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """What nodes run as one file: a module with `main`, or a package whose module `command` has it."""

    package: str
    does: str
    """What it is, for the head of the file."""
    others: tuple[str, ...] = ()
    """All other packages and modules that it imports."""

    @property
    def name(self) -> str:
        """The package's own name, which file and unit have too."""
        return self.package.rpartition(".")[2]

    @property
    def path(self) -> Path:
        """Where nodes have it."""
        return DIRECTORY / f"{self.name}.pyz"

    @property
    def unit(self) -> str:
        """The name of the systemd unit that runs it."""
        return f"gridwright-{self.name}.service"

    def archive(self) -> bytes:
        """`NAME.pyz` in the format of zipapp, byte for byte the same for the same sources."""
        return _archive(self.package, self.does, self.others)

    def unit_text(self) -> str:
        """The systemd unit that the package brings along."""
        return self._unit_file().read_text("utf-8")

    def _unit_file(self) -> Traversable:
        is_module = _module(self.package).is_file()
        directory = self.package.rpartition(".")[0] if is_module else self.package
        return _directory(directory).joinpath(self.unit)

    def role_files(self, role: str = "") -> dict[str, str | bytes]:
        """The file, and its unit if it has one, as files of the role that installs them."""
        place = f"roles/{role or self.name}/files"
        files: dict[str, str | bytes] = {f"{place}/{self.name}.pyz": self.archive()}
        if self._unit_file().is_file():
            files[f"{place}/{self.unit}"] = self.unit_text()
        return files


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


def _directory(package: str) -> Traversable:
    return resources.files(package)


def _module(package: str) -> Traversable:
    """Its file, where it is a module."""
    parent, _, name = package.rpartition(".")
    return _directory(parent).joinpath(f"{name}.py")


def _content(package: str, does: str, packages: Sequence[str]) -> dict[str, bytes]:
    """By name within the archive. The packages above are empty there: nothing of them is needed on a node."""
    start = package if _module(package).is_file() else f"{package}.command"
    text = _START.format(name=package.rpartition(".")[2], start=start, does=does)
    content = {"__main__.py": text.encode()}
    for each in packages:
        parts = each.split(".")
        for depth in range(1, len(parts)):
            content["/".join([*parts[:depth], "__init__.py"])] = b""
        module = _module(each)
        if module.is_file():
            content["/".join(parts) + ".py"] = module.read_bytes()
            continue
        for file in _directory(each).iterdir():
            if file.name.endswith((".py", ".json")):
                content["/".join([*parts, file.name])] = file.read_bytes()
    return content


_NODE = "gridwright.node_programs"
SCRATCH = NodeProgram(f"{_NODE}.scratch", "the scratch storage of this node")
USERS = NodeProgram(
    f"{_NODE}.users", "what makes the accounts of the grid on this machine", ("gridwright.beneath",)
)
BATCH_JOB = NodeProgram(f"{_NODE}.batch_job", "a job of a batch system on its node", ("gridwright.beneath",))
HEALTH = NodeProgram(f"{_NODE}.health", "the check of this node's mounts", (f"{_NODE}.scratch",))

BATCH_JOB_STARTER = """\
#!/bin/sh
# Starts a job of Gridwright, written by it: the Python of the system, wherever the node has it.
for python in /usr/bin/python3 /usr/libexec/platform-python "$(command -v python3)"; do
    if [ -x "$python" ]; then
        exec "$python" -I -S -B "${0%.sh}.pyz" "$@"
    fi
done
echo "gridwright: this node has no python3, which starts jobs" >&2
exit 127
"""
"""The file that a batch system is given. Without site packages Python starts in a third of the time."""
HEALTH_STARTER = DIRECTORY / "health"
"""What starts the health program: slurmd takes a file, and no arguments."""
HEALTH_STARTER_TEXT = f"""\
#!/bin/sh
# HealthCheckProgram of slurm.conf, written by Gridwright. Its status is 0 whatever happens: newer releases of
# Slurm let no node register whose program fails, and all that it has to say it says to Slurm itself.
/usr/bin/python3 -I -S {HEALTH.path}
exit 0
"""
"""The content of HEALTH_STARTER. Without site packages Python starts in a third of the time."""
