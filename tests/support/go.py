"""Builds Go programs that tests need: into a cache, outside of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest


def cache() -> Path:
    """Where what is built stays."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gridwright"


def program() -> str:
    """The Go compiler. Fails the test where there is none."""
    found = shutil.which("go") or ("/usr/local/go/bin/go" if Path("/usr/local/go/bin/go").exists() else None)
    if found is None:
        pytest.fail("no Go here: thorough tests of Terraform roots build OpenTofu and a provider")
    return found


def build(arguments: Sequence[str], directory: Path, seconds: float) -> None:
    """Run the compiler in a directory, two processes at once. Raises CalledProcessError, TimeoutExpired."""
    environment = {**os.environ, "GOFLAGS": "-p=2", "CGO_ENABLED": "0"}
    subprocess.run([program(), *arguments], cwd=directory, env=environment, timeout=seconds, check=True)
