"""Grids with a batch system: LSF as a double on this machine, others on a lab."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.lsf_double.running import lsf_double

LSF = """\
name: sched
provider: local
nodes: {{compute: {{cores: 16, memory: 2 GiB}}}}
filesystems: {{disk: {{type: local, path: {directory}}}}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: lsf}}
state: {directory}/state
"""


@contextmanager
def lsf_grid(directory: Path) -> Iterator[Path]:
    """The spec of a grid whose LSF is found in PATH, as at a site; its minutes are short.

    Its file system is `shared` in the directory.
    """
    shared = directory / "shared"
    for name in ("data", "work", "util"):
        (shared / name).mkdir(parents=True)
    file = directory / "sched.yaml"
    file.write_text(LSF.format(directory=shared))
    with (
        lsf_double(directory / "lsf", LSF_DOUBLE_MINUTE="5") as commands,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PATH", str(commands), prepend=":")
        yield file


def private(shared: Path) -> list[Path]:
    """What is in work and util."""
    return [path for name in ("work", "util") for path in (shared / name).iterdir()]
