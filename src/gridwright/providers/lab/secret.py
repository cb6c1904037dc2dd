"""Secrets of a lab: made once, kept where only root can read them, the same for all of its nodes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.refusals import refusal


def secret(path: Path, make: Callable[[], bytes]) -> bytes:
    """The secret in a file; `make` makes it when there is none. Raises GridwrightError (ENVIRONMENT)."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return _keep(path, make())
    except OSError as error:
        why = refusal(path, error, "name another directory with state: in the spec", writes=True)
        raise environment_error(
            f"a key of the lab cannot be kept: {why.reason}", where=str(path), remedy=why.remedy
        ) from error


def _keep(path: Path, content: bytes) -> bytes:
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    return content
