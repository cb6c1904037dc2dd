"""How flags are read, before anything is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer

from gridwright.cli.arguments import Reader, Reads, one_of, options_of, part_of, read_flags, verb
from gridwright.cli.prove.iotest import DEFAULT_UNTIL_STEADY, IotestFlags, read_options, with_default_longest
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.iotest import options


def read(**flags: object) -> options.IotestOptions:
    reader = Reader()
    read_flags = IotestFlags(file=None, runs=Path("runs"), **flags)  # type: ignore[arg-type]
    return reader.finish(read_options(read_flags, reader))


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a verb may want, in its own words."""

    name: Annotated[str, typer.Argument(help="Whose.")]
    much: Annotated[str, typer.Option(metavar="SIZE", help="How much."), Reads(Reader.size, "bytes")] = "4KiB"
    colour: Annotated[str, typer.Option(help="Which."), Reads(one_of("red", "green"), instead="red")] = (
        "green"
    )


@dataclass(frozen=True)
class Wanted:
    name: str
    bytes: int | None
    colour: str = "none"


@dataclass(frozen=True, kw_only=True)
class Few:
    name: Annotated[str, typer.Option(help="Whose.")] = "from few"
    much: Annotated[str, typer.Option(help="How much.")] = "8KiB"
    others: Annotated[bool, typer.Option(help="Nothing to Sizes.")] = True


def test_a_declared_flag_is_option_help_and_reading(capsys: pytest.CaptureFixture[str]) -> None:
    seen = []

    def paint(flags: Sizes) -> int:
        """Paint."""
        seen.append(options_of(Wanted, read_flags(flags, Reader())))
        return 1

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(verb(paint))
    assert app(["wall", "--much", "2KiB"], standalone_mode=False) == 1
    assert seen == [Wanted(name="wall", bytes=2048, colour="green")]
    app(["--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "--much SIZE" in shown
    assert "How much.  [default: 4KiB]" in shown


def test_all_that_is_wrong_with_flags_is_told_at_once_and_something_stands_for_it() -> None:
    reader = Reader()
    values = read_flags(Sizes(name="wall", much="elephants", colour="gren"), reader)
    assert (values["colour"], values["bytes"]) == ("red", None)
    with pytest.raises(GridwrightError) as caught:
        reader.finish(values)
    assert [problem.where for problem in caught.value.problems] == ["--much", "--colour"]


def test_a_verb_hands_on_the_flags_that_another_one_has_too() -> None:
    assert part_of(Sizes, Few(name="wall")) == Sizes(name="wall", much="8KiB", colour="green")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["iotest", "--until-steady"], ["iotest", "--until-steady=70m"]),
        (["iotest", "--until-steady", "--json"], ["iotest", "--until-steady=70m", "--json"]),
        (["iotest", "--until-steady", "5m"], ["iotest", "--until-steady", "5m"]),
        (["iotest", "--until-steady=5m"], ["iotest", "--until-steady=5m"]),
        (["iotest", "--until-steady", "grid.yaml"], ["iotest", "--until-steady=70m", "grid.yaml"]),
        (["iotest", "grid.yaml"], ["iotest", "grid.yaml"]),
        ([], []),
    ],
)
def test_until_steady_needs_no_time(typed: list[str], meant: list[str]) -> None:
    assert with_default_longest(typed) == meant


def test_the_default_longest_time_is_one_fact() -> None:
    minutes = float(DEFAULT_UNTIL_STEADY.removesuffix("m"))
    assert minutes * 60 == options.DEFAULT_UNTIL_STEADY


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("5m", 300), ("2.5", 2.5), ("1h", 3600)])
def test_times_are_read(text: str, seconds: float) -> None:
    found = read(seconds=text)
    assert found.limit_seconds == seconds


def test_sizes_are_binary_or_decimal_as_written() -> None:
    found = read(size="64MiB", block="1MiB")
    assert (found.size_bytes, found.block_bytes) == (64 << 20, 1 << 20)
    found = read(size="64MB")
    assert found.size_bytes == 64_000_000


@pytest.mark.parametrize(
    ("flags", "flag", "words"),
    [
        ({"block": "5000"}, "--block", "5000"),
        ({"block": "128MiB"}, "--block", "134217728"),
        ({"block": "2KiB"}, "--block", "2048"),
        ({"size": "4KiB"}, "--size", "4096"),
        ({"size": "4 elephants"}, "--size", "elephants"),
        ({"seconds": "0"}, "--seconds", "0"),
        ({"seconds": "-3"}, "--seconds", "-3"),
        ({"seconds": "nan"}, "--seconds", "nan"),
        ({"seconds": "soon"}, "--seconds", "soon"),
        ({"streams": 0}, "--streams", "0"),
        ({"streams": 5000}, "--streams", "5000"),
        ({"queue_depth": 0, "engine": "direct"}, "--queue-depth", "0"),
        ({"queue_depth": 16}, "--queue-depth", "--engine direct"),
        ({"seed": -1}, "--seed", "-1"),
        ({"engine": "dirct"}, "--engine", "did you mean direct"),
        ({"format": "iotest"}, "--format", "did you mean iotest.sh"),
        ({"phases": "write,raed"}, "--phases", "did you mean read"),
        ({"phases": "write,write"}, "--phases", "twice"),
        ({"phases": ","}, "--phases", "no phase"),
        ({"until_steady": "5m", "seconds": "3"}, "--until-steady", "--seconds"),
        ({"until_steady": "5m", "sweep": True}, "--sweep", "knee"),
    ],
)
def test_wrong_flags_name_themselves_the_value_and_the_way_out(
    flags: dict[str, object], flag: str, words: str
) -> None:
    with pytest.raises(GridwrightError) as raised:
        read(**flags)
    assert raised.value.status == ExitStatus.INPUT
    (problem,) = raised.value.problems
    assert problem.where == flag
    assert problem.remedy
    assert words in f"{problem.what} {problem.remedy}"


def test_a_rate_that_is_not_per_core_is_refused_with_the_right_one() -> None:
    reader = Reader()
    found = reader.core_rate("--requires", "100MB/s")
    assert found is None
    with pytest.raises(GridwrightError, match="100MB/s"):
        reader.finish(found)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(GridwrightError) as raised:
        read(engine="dirct", phases="raed", size="huge", streams=0, block="5000", seed=-1)
    places = {problem.where for problem in raised.value.problems}
    assert places == {"--engine", "--phases", "--size", "--streams", "--block", "--seed"}
