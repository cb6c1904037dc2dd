"""The command `gridwright`: hands on to a verb and turns errors into messages and exit statuses.

Standard output and error take any character, and fail with one line when they are full. What commands a
terminal is visible on stderr, and on stdout where that is one; elsewhere stdout is data for programs, and
goes as it is. See `gridwright.foreign_text`.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import itertools
import os
import select
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

import typer

from gridwright import __version__
from gridwright.cli.verbosity import Quiet, Verbose
from gridwright.cli.verbs import Verbs, plain_app
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error
from gridwright.foreign_text import opened, visible

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from typing_extensions import Buffer


# Wrong flags, missing arguments: typer shows this class only as a base of its own errors.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__bases__[0])

app = plain_app(
    name="gridwright",
    cls=Verbs,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    about=(
        "Plan, build, tune, prove and run analytics grids on parallel file systems, from one grid spec.\n\n"
        "FILE defaults to ./grid.yaml. Results go to stdout, progress and messages to stderr; --json prints "
        "one JSON document. Exit status: 0 done and all requirements met, 1 a requirement is missed, "
        "2 wrong input, 3 the environment failed, 130 interrupted."
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gridwright {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Hold the options of `gridwright` itself."""


def run() -> None:
    """Run the command line; the only place where errors become exit statuses."""
    arguments = sys.argv[1:]
    protect_streams()
    try:
        status = app(args=arguments, prog_name="gridwright", standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        _refuse(error, arguments)
    except GridwrightError as error:
        from gridwright.cli.named_spec import naming_spec

        problems = [naming_spec(problem) for problem in error.problems]
        for problem in problems:
            typer.echo(f"error: {problem}", err=True)
        print_json_problems(problems, command=arguments)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(ExitStatus.INTERRUPTED)
    except Exception as error:
        from gridwright.cli.failures import environment_fault
        from gridwright.spec.kinds import extension_at_fault

        fault = extension_at_fault(error) or environment_fault(error)
        if fault is None:
            raise
        typer.echo(f"error: {fault}", err=True)
        print_json_problems([fault], command=arguments)
        sys.exit(ExitStatus.ENVIRONMENT)
    sys.exit(status if isinstance(status, int) else ExitStatus.DONE)


def _refuse(error: typer.BadParameter, arguments: list[str]) -> NoReturn:
    """Say what the parser did not understand; a group that was called without a command shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message(), err=True)
        sys.exit(ExitStatus.INPUT)
    from gridwright.cli.failures import problem_of

    words = itertools.takewhile(lambda word: not word.startswith("-"), arguments)
    problem = problem_of(error, " ".join(["gridwright", *itertools.islice(words, 1)]))
    typer.echo(f"error: {problem}", err=True)
    print_json_problems([problem], command=arguments)
    sys.exit(ExitStatus.INPUT)


def print_json_problems(problems: Sequence[Problem], *, command: Sequence[str]) -> None:
    """With `--json`, say what is wrong in one document on stdout, too."""
    ours = list(command)
    if "--json" not in ours[: ours.index("--") if "--" in ours else len(ours)]:
        return
    from dataclasses import asdict

    from gridwright.cli.output import LazyResult, Output

    verb = next((word for word in command if not word.startswith("-")), None)
    refusal = {"ok": False, "problems": [asdict(problem) for problem in problems]}
    # Where stdout takes nothing, stderr has said what is wrong.
    with contextlib.suppress(GridwrightError):
        Output(verb, json=True).show(LazyResult(document=lambda: refusal, text=str))


_STDOUT, _STDERR = 1, 2
_MARKED, _NUMBERED = "gridwright-marked", "gridwright-numbered"
_ASCII = dict(
    zip(
        "\u2013\u2014\u2026\u00d7\u00b7\u2500\u2501\u2502\u2588\u201c\u201d\u2018\u2019",
        "--.x.--|#\"\"''",
        strict=True,
    )
)
"""Each as wide as what it stands for, so that tables keep their columns."""


def protect_streams() -> None:
    """Replace `sys.stdout` and `sys.stderr` by streams that any text can be written to.

    All that prints passes them. Of characters that the locale lacks, dashes, dots and lines become those of
    ASCII. Others become, on stdout, a question mark; on stderr, the number of the character or of the byte.
    Standard output that takes no more (a full disk, a pipe that nobody reads) raises GridwrightError (status
    ENVIRONMENT) once, and then swallows all that follows. What standard error does not take is dropped: a
    message that nobody can read is no reason to stop the work.
    """
    codecs.register_error(_MARKED, lambda error: _spelled(error, lambda _: "?"))
    codecs.register_error(_NUMBERED, lambda error: _spelled(error, _number))
    sys.stdout = _protected(sys.stdout, _STDOUT, _MARKED)
    sys.stderr = _protected(sys.stderr, _STDERR, _NUMBERED)


def _spelled(error: UnicodeError, otherwise: Callable[[str], str]) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_ASCII.get(each) or otherwise(each) for each in lacking), error.end


def _number(character: str) -> str:
    r"""`\u65e5`, or `\xe9` for a byte of a name that is no UTF-8."""
    byte = ord(character) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else ascii(character)[1:-1]


class _Descriptor(io.FileIO):
    """A file descriptor to write to, which fails at most once."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self._lost = False

    def write(self, data: Buffer, /) -> int:
        if not self._lost:
            try:
                # None where it was set not to block, as some programs leave a terminal or pipe, and is full.
                while (written := super().write(data)) is None:
                    select.select([], [self.fileno()], [])
                return written
            except OSError as error:
                self._lost = True
                if self.fileno() == _STDOUT:
                    raise environment_error(f"cannot be written: {error.strerror}", where="stdout") from None
        return memoryview(data).nbytes


class _Stream(io.TextIOWrapper):
    """Text to a descriptor."""

    shows_people = False
    """Whether what commands a terminal becomes visible."""

    def write(self, text: str, /) -> int:
        super().write(opened(visible(text) if self.shows_people else text))
        return len(text)


def _protected(stream: TextIO | None, number: int, errors: str) -> TextIO:
    if stream is None:
        _occupy(number)
    made = _Stream(
        io.BufferedWriter(_Descriptor(number)),
        encoding=stream.encoding if stream is not None else "utf-8",
        errors=errors,
        line_buffering=number == _STDERR or os.isatty(number),
    )
    made.shows_people = number == _STDERR or os.isatty(number)
    return made


def _occupy(number: int) -> None:
    """Keep a descriptor that was closed at the start from becoming one of a file that is opened later."""
    null = os.open(os.devnull, os.O_RDONLY)
    if null != number:
        os.dup2(null, number)
        os.close(null)
