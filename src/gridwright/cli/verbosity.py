"""How much a command tells on stderr beside its result and its errors: flags -q and -v of every command."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

_quiet = False


def say(text: str) -> None:
    """Print progress or a note on stderr; with -q nothing."""
    if not _quiet:
        typer.echo(text, err=True)


def is_quiet() -> bool:
    """Whether the user wants results and errors alone."""
    return _quiet


def _be_quiet(wanted: bool) -> None:
    global _quiet  # noqa: PLW0603 - the one place that knows, for the one command of a process
    _quiet = _quiet or wanted


def _be_verbose(wanted: bool) -> None:
    """Show what rooms log: the commands that they run, here and on nodes."""
    if not wanted:
        return
    import logging

    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("gridwright")
    log.handlers[:] = [shown]
    log.setLevel(logging.INFO)


Quiet = Annotated[
    bool,
    typer.Option("-q", "--quiet", callback=_be_quiet, help="Print the result and errors alone."),
]
Verbose = Annotated[
    bool,
    typer.Option("-v", "--verbose", callback=_be_verbose, help="Print the commands that it runs, too."),
]
FLAGS = {"quiet": Quiet, "verbose": Verbose}


def with_verbosity(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the function of a command the flags -q and -v, which their callbacks take care of.

    A function that hands on a command line as it is gets none: a -v of that would become ours.
    """
    annotations = get_type_hints(function, include_extras=True)
    if "quiet" in annotations or any(_hands_on(annotation) for annotation in annotations.values()):
        return function

    def command(*, quiet: bool, verbose: bool, **typed: Any) -> Any:  # noqa: ANN401 - what typer read
        return function(**typed)

    flags = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=flag)
        for name, flag in FLAGS.items()
    ]
    parameters = [
        parameter.replace(annotation=annotations[parameter.name])
        for parameter in inspect.signature(function).parameters.values()
    ]
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = annotations | FLAGS
    command.__signature__ = inspect.Signature([*parameters, *flags])  # type: ignore[attr-defined]
    return command


def _hands_on(annotation: Any) -> bool:  # noqa: ANN401
    metadata = getattr(annotation, "__metadata__", ())
    return any(str(getattr(each, "metavar", None)).startswith("-- ") for each in metadata)
