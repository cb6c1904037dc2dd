"""Flags that are declared once: each field of a dataclass is a flag of a verb, with help and reader."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, get_type_hints

from gridwright.cli.arguments import Reader

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
