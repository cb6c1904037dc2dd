"""Kinds that a grid spec can name (file systems, providers, schedulers), built in or of a site's package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

K = TypeVar("K")


class KindRegistry(Generic[K]):
    """Kinds of one sort by the name that a spec gives them; each is imported when it is first asked for.

    `group` is both the room whose module `builtin` lists the built-in kinds (`BUILT_IN`, name to
    `module:attribute`), and the group of entry points by which a site's own packages add theirs. A built-in
    name cannot be taken. An extension that cannot be imported concerns only those who ask for its kind.
    """

    def __init__(self, what: str, group: str) -> None:
        self.what = what
        self.group = group
        self._loaded: dict[str, K] = {}
        self._extensions: Mapping[str, EntryPoint] | None = None

    def names(self) -> list[str]:
        """All names, those built in first; nothing is imported for it."""
        return [*self._built_in(), *self._extended()]

    def get(self, name: object) -> K:
        """The kind of that name.

        Raises FieldError that names the nearest for an unknown one, and GridwrightError (ENVIRONMENT) that
        names the extension and what it raised for one that cannot be imported.
        """
        if not isinstance(name, str) or (name not in self._built_in() and name not in self._extended()):
            raise FieldError(f"{show(name)} is no {self.what}", self._remedy(name))
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def kinds(self) -> Iterator[tuple[str, K]]:
        """Every kind that can be imported, with its name; see `broken` for the others."""
        for name in self.names():
            try:
                yield name, self.get(name)
            except GridwrightError:
                continue

    def broken(self) -> list[Problem]:
        """What is wrong with each extension that cannot be imported."""
        found: list[Problem] = []
        for name in self._extended():
            try:
                self.get(name)
            except GridwrightError as error:
                found += error.problems
        return found

    def _built_in(self) -> Mapping[str, str]:
        return cast("Mapping[str, str]", import_module(f"{self.group}.builtin").BUILT_IN)

    def _extended(self) -> Mapping[str, EntryPoint]:
        if self._extensions is None:
            found = entry_points(group=self.group)
            self._extensions = {each.name: each for each in found if each.name not in self._built_in()}
        return self._extensions

    def _load(self, name: str) -> K:
        if name in self._built_in():
            module, _, attribute = self._built_in()[name].partition(":")
            return cast("K", getattr(import_module(module), attribute))
        entry = self._extended()[name]
        try:
            return cast("K", entry.load())
        except Exception as error:
            package = entry.dist.name if entry.dist else "an extension"
            problem = Problem(
                f"{self.what} {name} of package {package} cannot be used: {type(error).__name__}: {error}",
                where=f"entry point {entry.value} in {self.group}",
                remedy=f"mend or update package {package}, or uninstall it",
            )
            raise GridwrightError(problem, status=ExitStatus.ENVIRONMENT) from error

    def _remedy(self, name: object) -> str:
        known = self.names()
        near = nearest(name, known) if isinstance(name, str) else None
        if near:
            return f"did you mean {near}? In this release: {', '.join(known)}"
        return f"write {' or '.join(known)}"
