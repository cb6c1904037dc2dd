"""Arguments and flags as verbs declare them, how they are read, and the question before something goes.

Flags of large verbs are declared once: each field of a dataclass is a flag, with help and reader.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import datetime, timedelta
from datetime import time as dt_time
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from gridwright.errors import ExitStatus, GridwrightError, Problem, input_error, nearest
from gridwright.units import Bytes, Rate, UnitError, parse_duration


def read_path(text: str) -> Path:
    """A path of a flag or an argument, which is not looked at: a hanging mount would hang the command.

    Raises typer.BadParameter for an empty one, which would be the working directory.
    """
    if not text:
        raise typer.BadParameter("the path is empty; name a file or a directory, or leave it out")
    return Path(text)


SpecFile = Annotated[
    Path | None, typer.Argument(metavar="FILE", parser=read_path, help="The grid spec.  [default: grid.yaml]")
]
RunsDirectory = Annotated[
    Path,
    typer.Option(
        "--runs",
        envvar="GRIDWRIGHT_RUNS",
        metavar="DIR",
        parser=read_path,
        help="Where run directories are kept.",
    ),
]
AllowDisturbed = Annotated[
    bool,
    typer.Option(
        "--allow-disturbed",
        envvar="GRIDWRIGHT_ALLOW_DISTURBED",
        help="Judge also what other processes or runs disturbed.",
    ),
]
Repeat = Annotated[
    int,
    typer.Option(
        "--repeat", metavar="N", help="Run it N times: median, spread, and the least change these can tell."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run directory, its name, or `last`: your newest.")
]

DEFAULT_SPEC = Path("grid.yaml")
DEFAULT_RUNS = Path("runs")


Value = TypeVar("Value")


def typed_command() -> list[str]:
    """The command as it was typed, to repeat it."""
    return ["gridwright", *sys.argv[1:]]


class Reader:
    """Reads the values of flags and collects what is wrong with them, to be reported at once."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def size(self, flag: str, text: str | None) -> int | None:
        """Read a size in bytes, such as `4GiB`."""
        if text is None:
            return None
        try:
            return int(Bytes.parse(text))
        except UnitError as error:
            self._wrong(flag, error)
            return None

    def seconds(self, flag: str, text: str | None) -> float | None:
        """Read a time: `30s`, `5m`, or a plain number of seconds."""
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            pass
        try:
            return parse_duration(text)
        except UnitError as error:
            self._wrong(flag, error)
            return None

    def age(self, flag: str, text: str | None) -> float | None:
        """Read an age by which something is removed, such as `30d`: no bare number, nobody knows of what."""
        if text is None:
            return None
        try:
            return parse_duration(text)
        except UnitError as error:
            self.problem(error.text, flag, "say 30d, 12h, 45m or 30s")
            return None

    def moment(self, flag: str, text: str | None) -> float | None:
        """Read a time in the past: a day or a time, in the time zone of this machine, or how long ago."""
        if text is None:
            return None
        now = time.time()
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            pass
        try:
            clock = dt_time.fromisoformat(text)
            here = datetime.fromtimestamp(now).astimezone().replace(tzinfo=None)
            then = datetime.combine(here.date(), clock.replace(tzinfo=None))
            return (then if then <= here else then - timedelta(days=1)).timestamp()
        except ValueError:
            pass
        try:
            return now - parse_duration(text)
        except UnitError:
            self.problem(
                f"{text!r} is no time in the past",
                flag,
                "write how long ago, such as 30d or 8h, or a day such as 2027-01-31",
            )
            return None

    def rate(self, flag: str, text: str) -> float | None:
        """Read a rate in bytes/s, such as `100MB/s`."""
        try:
            return float(Rate.parse(text).bytes_per_s)
        except UnitError as error:
            self._wrong(flag, error)
            return None

    def core_rate(self, flag: str, text: str | None) -> float | None:
        """Read a rate per core in bytes/s, such as `100MB/s/core`."""
        if text is None:
            return None
        try:
            rate = Rate.parse(text)
        except UnitError as error:
            self._wrong(flag, error)
            return None
        if not rate.per_core:
            self.problem(
                f"{text!r} is a rate in all, and a rate per core is wanted", flag, f"write {text}/core"
            )
            return None
        return float(rate.bytes_per_s)

    def choice(self, value: str, allowed: Sequence[str], flag: str) -> None:
        """Note a value that is not among those allowed, with the nearest that is."""
        near = nearest(value, allowed)
        hint = f"did you mean {near}? " if near else ""
        self.problem(f"{value!r} is not known here", flag, f"{hint}allowed: {', '.join(allowed)}")

    @property
    def wrong(self) -> bool:
        """Whether anything was wrong so far."""
        return bool(self._problems)

    def problem(self, what: str, where: str, remedy: str) -> None:
        """Note something else that is wrong."""
        self._problems.append(Problem(what=what, where=where, remedy=remedy))

    def add(self, problems: Sequence[Problem]) -> None:
        """Note what a check of the values together found."""
        self._problems += problems

    def attempt(self, read: Callable[[], Value]) -> Value | None:
        """What a function returns; None where it raises GridwrightError, whose problems are noted."""
        try:
            return read()
        except GridwrightError as error:
            self.add(error.problems)
            return None

    def finish(self, value: Value | None) -> Value:
        """Hand on what was read, if nothing was wrong; else raise GridwrightError with all problems."""
        if self._problems or value is None:
            raise GridwrightError(*self._problems, status=ExitStatus.INPUT)
        return value

    def _wrong(self, flag: str, error: UnitError) -> None:
        self.problem(error.text, flag, error.remedy)


Flags = TypeVar("Flags")


@dataclass(frozen=True, slots=True)
class Reads:
    """How the text of a flag becomes a value of options, beside `typer.Option` in the field's `Annotated`."""

    read: Callable[[Reader, str, Any], Any]
    """Such as `Reader.size`: takes the reader, the flag's name and its text; None where that is wrong."""
    into: str | None = None
    """The field of the options where that is not called as the flag is."""
    instead: Any = None
    """What stands for a value that cannot be read, so that the others are still checked together."""


def one_of(*allowed: str) -> Callable[[Reader, str, str], str | None]:
    """A reader of a word out of few."""

    def read(reader: Reader, flag: str, text: str) -> str | None:
        if text in allowed:
            return text
        reader.choice(text, allowed, flag)
        return None

    return read


def some_of(*allowed: str) -> Callable[[Reader, str, str], tuple[str, ...]]:
    """A reader of words out of few, with commas between them."""

    def read(reader: Reader, flag: str, text: str) -> tuple[str, ...]:
        words = tuple(word.strip() for word in text.split(",") if word.strip())
        for word in words:
            if word not in allowed:
                reader.choice(word, allowed, flag)
        return words

    return read


def verb(run: Callable[[Flags], int]) -> Callable[..., int]:
    """Make a command of a function of one dataclass of flags, which returns the exit status."""
    hints = get_type_hints(run)
    hints.pop("return", None)
    (kind,) = hints.values()

    def command(**typed: Any) -> int:  # noqa: ANN401 - what typer read
        return int(run(kind(**typed)))

    annotations = get_type_hints(kind, include_extras=True)
    command.__name__, command.__doc__ = run.__name__, run.__doc__
    command.__annotations__ = annotations
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=annotations[field.name],
        )
        for field in fields(kind)
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def options_of(kind: type[Flags], values: Mapping[str, Any]) -> Flags:
    """Make options of those values that they have a field for. Raises what `kind` raises.

    A flag that was not given has None, and its option then has the default of the options.
    """
    given = {}
    for field in fields(kind):  # type: ignore[arg-type]
        value = values.get(field.name)
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if value is not None or (field.name in values and not has_default):
            given[field.name] = value
    return kind(**given)


def read_flags(flags: object, reader: Reader) -> dict[str, Any]:
    """The values of all flags, read as their declarations say, by the names of the options that they are for.

    What is wrong with one is noted in `reader`.
    """
    values = {}
    for name, hint in get_type_hints(type(flags), include_extras=True).items():
        value = getattr(flags, name)
        reads = next(
            (each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Reads)), Reads(_as_is)
        )
        if value is not None:
            value = reads.read(reader, f"--{name.rstrip('_').replace('_', '-')}", value)
            value = reads.instead if value is None else value
        values[reads.into or name] = value
    return values


def part_of(flags: type[Flags], others: object) -> Flags:
    """Flags of one command out of those of another one that has some of them; the rest has its defaults."""
    names: Sequence[str] = [field.name for field in fields(flags)]  # type: ignore[arg-type]
    return flags(**{name: getattr(others, name) for name in names if hasattr(others, name)})


def _as_is(_reader: Reader, _flag: str, value: Any) -> Any:  # noqa: ANN401 - any flag
    return value


def confirm(question: str, *, yes: bool) -> None:
    """Show on stderr what would be done, and go on only where that is wanted. Raises GridwrightError."""
    typer.echo(question, err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise input_error(
            "this removes what cannot be brought back, and nobody is there to be asked",
            where="--yes",
            remedy="add --yes",
        )
    try:
        wanted = typer.confirm("Do it?", err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    if not wanted:
        raise input_error("nothing is removed", remedy="run it again when it is wanted")


Servers = Annotated[
    str | None,
    typer.Option(
        "--servers",
        metavar="HOSTS",
        help="Servers of file systems to ask as well, such as oss[1-4],mds1.",
    ),
]


def named_servers(reader: Reader, servers: str | None, *, no_grid: bool) -> list[str]:
    """The names of servers; what is wrong with them is noted. `no_grid`: there is none to reach them from."""
    from gridwright.spec.hosts import expand_hosts
    from gridwright.yamltext.fields import FieldError

    if servers is None:
        return []
    if no_grid:
        reader.problem("servers are reached from the head node of a grid", "--servers", "name its FILE")
        return []
    try:
        return expand_hosts(servers)
    except FieldError as error:
        reader.problem(error.text, "--servers", error.remedy)
        return []
