"""Builds Go programs that tests need."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest


def compiler() -> str | None:
    """The Go compiler, where there is one."""
    return shutil.which("go") or ("/usr/local/go/bin/go" if Path("/usr/local/go/bin/go").exists() else None)


def build(arguments: Sequence[str], directory: Path, seconds: float, **environment: str) -> None:
    """Run the compiler in a directory, two processes at once. Fails the test where there is none.

    Raises CalledProcessError, TimeoutExpired.
    """
    go = compiler()
    if go is None:
        pytest.fail("no Go here")
    around = {**os.environ, "GOFLAGS": "-p=2", **environment}
    subprocess.run([go, *arguments], cwd=directory, env=around, timeout=seconds, check=True)
