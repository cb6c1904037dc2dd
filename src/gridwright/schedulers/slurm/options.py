"""Checks the options for sbatch that a grid spec adds against those that Gridwright sets itself."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from gridwright.errors import ExitStatus, GridwrightError, Problem

_OURS = {
    "array": "--array of gridwright submit",
    "chdir": "the directory that the job is submitted in",
    "clusters": "one grid spec for each cluster",
    "cpus-per-task": "--cores of gridwright submit",
    "dependency": "--after of gridwright submit",
    "error": "gridwright logs",
    "exclusive": "the field exclusive of a request",
    "export": "the environment of gridwright submit",
    "export-file": "the environment of gridwright submit",
    "get-user-env": "the environment of gridwright submit",
    "help": "sbatch itself",
    "hint": "--cores of gridwright submit",
    "input": "the job's own command",
    "job-name": "--name of gridwright submit",
    "kill-on-invalid-dep": "--after of gridwright submit",
    "mem": "--memory of gridwright submit",
    "mem-per-cpu": "--memory of gridwright submit",
    "mem-per-gpu": "--memory of gridwright submit",
    "no-requeue": "--restart of gridwright submit",
    "nodelist": "the field node of a request",
    "nodes": "one job for each node",
    "ntasks": "one job for each task",
    "open-mode": "gridwright logs",
    "output": "gridwright logs",
    "parsable": "gridwright submit",
    "quiet": "gridwright submit",
    "requeue": "--restart of gridwright submit",
    "test-only": "gridwright explain",
    "threads-per-core": "--cores of gridwright submit",
    "usage": "sbatch itself",
    "verbose": "gridwright submit",
    "version": "sbatch itself",
    "wait": "gridwright wait",
    "wrap": "the command of gridwright submit",
}
"""Long options that Gridwright sets or that would change what sbatch prints, and what to use instead."""
_SHORT = {
    "a": "array",
    "c": "cpus-per-task",
    "d": "dependency",
    "D": "chdir",
    "e": "error",
    "h": "help",
    "i": "input",
    "J": "job-name",
    "M": "clusters",
    "n": "ntasks",
    "N": "nodes",
    "o": "output",
    "Q": "quiet",
    "u": "usage",
    "v": "verbose",
    "V": "version",
    "w": "nodelist",
    "W": "wait",
}
"""Those with a letter of their own (sbatch(1))."""
_BARE = frozenset("HIkOsS")
"""Letters that take no value, so that more may follow in the same word."""


def sbatch_options(lines: Sequence[str], place: str | None) -> list[str]:
    """The options as arguments, each with its value in one word: none can pass for the script's name.

    `place` is the spec's file. Raises GridwrightError (INPUT) with every wrong line.
    """
    words: list[str] = []
    problems: list[Problem] = []
    for number, line in enumerate(lines):
        try:
            words.append(_one_word(line))
        except ValueError as error:
            problems.append(
                Problem(
                    what=f"{line!r} {error}", where=place, field=f"scheduler.options.{number}", remedy=_REMEDY
                )
            )
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.INPUT)
    return words


_REMEDY = "write one option of sbatch a line, such as --qos=night"


def _one_word(line: str) -> str:
    try:
        parts = shlex.split(line)
    except ValueError as error:
        raise ValueError(f"cannot be read: {error}") from error
    if not 1 <= len(parts) <= 2 or not parts[0].startswith("-") or parts[0] in ("-", "--"):
        raise ValueError("is not one option of sbatch")
    option, value = parts[0], parts[1] if len(parts) == 2 else None
    if name := _named(option):
        raise ValueError(f"sets --{name}, which Gridwright sets itself; instead: {_OURS[name]}")
    if value is None:
        return option
    if option.startswith("--"):
        if "=" in option:
            raise ValueError("has two values")
        return f"{option}={value}"
    return option + value


def _named(option: str) -> str | None:
    """The option of ours that a word sets, long, abbreviated or by its letter; None where it sets none."""
    if option.startswith("--"):
        word = option[2:].partition("=")[0]
        if word in _OURS:
            return word
        # getopt_long(3) takes any beginning that only one option has.
        return next((name for name in _OURS if len(word) > 1 and name.startswith(word)), None)
    for letter in option[1:]:
        if letter in _SHORT:
            return _SHORT[letter]
        if letter not in _BARE:
            break
    return None
