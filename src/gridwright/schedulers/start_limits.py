"""What Linux takes to start a program, and how many elements an array may have, for every scheduler."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gridwright.schedulers.job import JobRequest

MOST_ELEMENTS = 1_000_000
"""Elements of one array that are kept track of, each singly."""
_LONGEST_STRING = 131_071
"""Linux takes no longer argument and no longer variable (MAX_ARG_STRLEN, execve(2)); bytes, less the NUL."""
_LONGEST_TOGETHER = 1_900_000
"""Bytes of arguments and environment together: a quarter of the usual stack limit, 8 MiB, less some room."""


def index_range(array: Sequence[int]) -> tuple[int, int]:
    """The lowest and the highest index of an array that has elements, in no time where it is a range."""
    if isinstance(array, range):
        return (array[0], array[-1]) if array.step > 0 else (array[-1], array[0])
    return min(array), max(array)


def what_is_too_long(request: JobRequest) -> str | None:
    """What of a request no process could be started with, in words; None where all is well."""
    together = 0
    strings: Sequence[tuple[str, str]] = [
        *((f"argument {number}", each) for number, each in enumerate(request.command)),
        *((f"variable {name}", f"{name}={value}") for name, value in request.environment.items()),
    ]
    for what, text in strings:
        length = len(os.fsencode(text))
        together += length + 9
        if length > _LONGEST_STRING:
            return f"{what} has {length} bytes, and Linux takes no more than {_LONGEST_STRING}"
    if together > _LONGEST_TOGETHER:
        return f"arguments and environment have {together} bytes, and Linux takes no more than about 2 MiB"
    return None
