"""What the parser refuses, and what a failed call of the system says of the environment, as problems."""

from __future__ import annotations

import errno
import os
import re
from importlib.metadata import requires
from typing import Any

from gridwright.errors import Problem, nearest
from gridwright.refusals import REMEDIES

_NO_COMMAND = re.compile(r"No such command '(?P<name>.*?)'\.", re.DOTALL)
_TOO_MANY = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((?P<words>.*)\)", re.DOTALL)
_BRACES = re.compile(r"\{(.+?)\}(?:\.\.\.)?")
_EXTRA = re.compile(r"(?P<package>[\w.-]+)[^;]*; extra == '(?P<extra>[\w-]+)'")
"""A line Requires-Dist of a package's metadata."""
_PARSED = re.compile(r", unable to parse .*", re.DOTALL)


def problem_of(error: Any, typed: str) -> Problem:  # noqa: ANN401 - typer hides the classes of its errors
    """The problem of a usage error of typer; `typed` is the command, where the error does not know it."""
    context = error.ctx
    command = context.command_path if context is not None else typed
    kind = type(error).__name__
    if kind == "NoSuchOption":
        near = nearest(error.option_name, error.possibilities or ())
        return Problem(f"{command} has no such flag", error.option_name, remedy=_remedy(near, command))
    if kind == "BadOptionUsage":
        wants = "takes no value" if "not take" in error.message else "needs a value"
        return Problem(f"it {wants}", error.option_name, remedy=_remedy(None, command))
    if kind == "MissingParameter" and error.param is not None:
        return Problem("it is missing", _name(error.param), remedy=f"write {_usage(context)}")
    if hasattr(error, "param_hint"):
        where = error.param_hint or (_name(error.param) if error.param is not None else None)
        what, _, remedy = _wrong(error.message).partition("; ")
        return Problem(what, where, remedy=remedy or _remedy(None, command))
    return _of_words(error, context, command)


def _of_words(error: Any, context: Any, command: str) -> Problem:  # noqa: ANN401
    """A verb that is not there, or more arguments than there may be."""
    if match := _NO_COMMAND.match(error.message):
        near = nearest(match["name"], list(getattr(context.command, "commands", {})))
        return Problem(f"{command} has no such command", match["name"], remedy=_remedy(near, command))
    if match := _TOO_MANY.match(error.message):
        what = f"{command} takes no further arguments"
        return Problem(what, match["words"], remedy=_remedy(None, command))
    return Problem(_wrong(error.format_message()), remedy=_remedy(None, command))


def _usage(context: Any) -> str:  # noqa: ANN401
    """The command with its arguments, and the flags that it needs: `gridwright cancel JOB...`."""
    usage = " ".join(context.get_usage().split()).removeprefix("Usage: ").replace("[OPTIONS] ", "")
    needed = [each for each in context.command.params if each.required and each.param_type_name == "option"]
    flags = [f" {_name(each)} {each.metavar or 'VALUE'}" for each in needed]
    return _BRACES.sub(r"\1", usage) + "".join(flags)


def _remedy(near: str | None, command: str) -> str:
    return f"did you mean {near}? {command} --help shows all" if near else f"see {command} --help"


def _name(parameter: Any) -> str:  # noqa: ANN401
    """The flag as it is typed, or the metavar of an argument."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def _wrong(message: str) -> str:
    """A message that goes on behind the place, without the full stop."""
    message = _PARSED.sub("", message).replace("Input should", "its value should", 1).rstrip(".")
    return message[:1].lower() + message[1:]


def environment_fault(error: Exception) -> Problem | None:
    """What is wrong with the environment; None where the error may be our own."""
    if isinstance(error, ModuleNotFoundError):
        return _missing_extra(error.name or "")
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENOENT and not _is_somewhere():
        return Problem("the working directory is gone", remedy="go to a directory that is there: cd DIR")
    if error.errno not in REMEDIES:
        return None
    where = None if error.filename is None else os.fsdecode(error.filename)
    return Problem(error.strerror or str(error), where=where, remedy=REMEDIES[error.errno])


def _missing_extra(module: str) -> Problem | None:
    """That the optional package which brings a module is not installed; None for other modules."""
    package = module.partition(".")[0]
    for found in filter(None, map(_EXTRA.match, requires("gridwright") or ())):
        if found["package"] == package and found["extra"] != "dev":
            return Problem(
                f"{package} is not installed, and this command uses it",
                remedy=f"pip install 'gridwright[{found['extra']}]'",
            )
    return None


def _is_somewhere() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - asked for its error
    except FileNotFoundError:
        return False
    return True
