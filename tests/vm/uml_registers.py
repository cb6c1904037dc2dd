"""What User Mode Linux is started with, for processors of which it does not know all registers."""

from __future__ import annotations

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

from tests.vm.images import cache_directory
from tests.vm.machine import MachineError

_SOURCE = Path(__file__).with_suffix(".c")


@cache
def register_library() -> Path:
    """It, compiled once for each version of its source. Raises MachineError where it cannot be."""
    made = cache_directory() / f"registers-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        part = made.with_suffix(f".{os.getpid()}.part")
        command = [
            "cc",
            "-O2",
            "-Wall",
            "-Wextra",
            "-shared",
            "-fPIC",
            "-o",
            str(part),
            str(_SOURCE),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise MachineError(f"{_SOURCE} cannot be compiled: {done.stderr}")
        part.replace(made)
    return made
