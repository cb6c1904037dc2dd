"""Reads a record of a run directory, which somebody else may have made.

It is no link, of a bounded size, and says which field is wrong.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from gridwright.errors import GridwrightError, environment_error
from gridwright.handed_files import checked_json, read_within
from gridwright.refusals import refusal

_LOG = logging.getLogger("gridwright.runs")
R = TypeVar("R", bound=BaseModel)
MOST_BYTES = 256 << 20
"""A workload of 100,000 launches has as many."""


def load_record(file: Path, model: type[R]) -> R | None:
    """The record in a file; None where there is no such file. Raises GridwrightError (ENVIRONMENT)."""
    try:
        return model.model_validate_json(checked_json(read_within(file, MOST_BYTES, follows=False)))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(file, error) from error
    except ValueError as error:
        raise damaged(file, error) from error


def unreadable(file: Path, error: OSError) -> GridwrightError:
    """What to say of a file that the system does not give."""
    otherwise = "look at it, or name another run"
    reason, remedy = refusal(file, error, otherwise)
    if error.errno == errno.ELOOP:
        reason, remedy = "it is a link, and a run has none", otherwise
    return environment_error(f"cannot be read: {reason}", where=str(file), remedy=remedy)


def damaged(file: Path, error: Exception) -> GridwrightError:
    """What to say of a file that holds something else than it should, or more than is read."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'document'}: {first['msg']}"
    return environment_error(
        f"the file is damaged: {reason[:200]}", where=str(file), remedy="restore it from a copy, or run again"
    )


@contextmanager
def figures_of(path: Path) -> Iterator[None]:
    """Around what is computed from the records of a run at `path`.

    Each figure of a run of somebody else is of its type, and they may contradict each other all the same: a
    latency below 0, a phase without streams. Raises GridwrightError (ENVIRONMENT) for what comes of that.
    """
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError) as error:
        _LOG.info("the figures of %s", path, exc_info=True)
        raise environment_error(
            f"its figures do not fit each other: {type(error).__name__}: {str(error)[:100]}",
            where=str(path),
            remedy="restore the run from a copy; with -v the command says where it stumbled",
        ) from error
