"""Registries of the kinds that a grid spec can name: providers, file systems, schedulers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from gridwright.errors import nearest
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

T = TypeVar("T")


class Registry(Generic[T]):
    """Kinds by the name that a spec gives them; a new kind registers itself and nothing else changes.

    `planned` are names that the design knows and this release does not: they get their own message.
    """

    def __init__(self, what: str, planned: Iterable[str] = ()) -> None:
        self.what = what
        self._planned = tuple(planned)
        self._kinds: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that enters a kind under `name`; raises ValueError when the name is taken."""

        def enter(kind: T) -> T:
            if name in self._kinds:
                raise ValueError(f"{self.what} {name} is registered twice")
            self._kinds[name] = kind
            return kind

        return enter

    def names(self) -> list[str]:
        """Names that this release accepts, in the order they were entered."""
        return list(self._kinds)

    def planned(self) -> list[str]:
        """Names that a later release will accept."""
        return [name for name in self._planned if name not in self._kinds]

    def kinds(self) -> list[T]:
        """All registered kinds."""
        return list(self._kinds.values())

    def get(self, name: object) -> T:
        """The kind of that name. Raises FieldError that names the nearest, or says it is yet to come."""
        if isinstance(name, str) and name in self._kinds:
            return self._kinds[name]
        choices = f"write {' or '.join(self._kinds)}"
        if isinstance(name, str) and name in self._planned:
            raise FieldError(f"{self.what} {name} is not in this release", choices)
        if isinstance(name, str) and (near := nearest(name, [*self._kinds, *self._planned])):
            if near in self._kinds:
                choices = f"did you mean {near}? In this release: {', '.join(self._kinds)}"
            else:
                choices += f" ({near} is not in this release)"
        raise FieldError(f"{show(name)} is no {self.what}", choices)


def choices(registry: Registry[str]) -> Callable[[dict[str, Any]], None]:
    """Put the names of a registry into the JSON Schema of a field, as they are when it is made."""

    def put(schema: dict[str, Any]) -> None:
        schema["enum"] = registry.names()

    return put
