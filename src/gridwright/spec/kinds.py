"""Kinds that a grid spec can name (file systems, providers, schedulers), built in or of a site's package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from traceback import walk_tb
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, core_schema

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.spec.fields import SpecModel
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show
from gridwright.yamltext.structure import Model

K = TypeVar("K")

_GROUPS: list[str] = []
"""Groups of entry points of all registries that were made; no extension runs without its registry."""


class KindRegistry(Generic[K]):
    """Kinds of one sort by the name that a spec gives them; each is imported when it is first asked for.

    `group` is both the room whose module `builtin` lists the built-in kinds (`BUILT_IN`, name to
    `module:attribute`), and the group of entry points by which a site's own packages add theirs. A built-in
    name cannot be taken. An extension that cannot be imported concerns only those who ask for its kind.
    """

    def __init__(self, what: str, group: str, answers: Sequence[str]) -> None:
        """`answers` are attributes that every kind has: what an extension names may be anything."""
        self.what = what
        self.group = group
        self.answers = answers
        self._loaded: dict[str, K] = {}
        self._extensions: Mapping[str, EntryPoint] | None = None
        _GROUPS.append(group)

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

    def extension(self, name: str) -> str | None:
        """The name of the site's package that adds a kind; None for one that is built in."""
        entry = None if name in self._built_in() else self._extended().get(name)
        return entry.dist.name if entry is not None and entry.dist is not None else None

    def kinds(self) -> Iterator[tuple[str, K]]:
        """Every kind that can be imported, with its name; see `broken` for the others."""
        for name in self.names():
            try:
                yield name, self.get(name)
            except GridwrightError:
                continue

    def broken(self) -> list[Problem]:
        """What is wrong with each extension that cannot be imported, or takes the name of a built-in kind."""
        problems = [
            Problem(
                f"{self.what} {each.name} of package {_package(each)} is passed over: Gridwright has one of "
                "that name itself",
                where=f"entry point {each.value} in {self.group}",
                remedy="give it another name",
            )
            for each in entry_points(group=self.group)
            if each.name in self._built_in()
        ]
        for name in self._extended():
            try:
                self.get(name)
            except GridwrightError as error:
                problems += error.problems
        return problems

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
            kind = entry.load()
            if lacking := [answer for answer in self.answers if not hasattr(kind, answer)]:
                raise TypeError(f"{entry.attr} has no {' and no '.join(lacking)}")
            return cast("K", kind)
        except Exception as error:
            package = _package(entry)
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


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "of unknown name"


def extension_at_fault(error: BaseException) -> Problem | None:
    """The extension whose code raised, or was running when something raised; None where none was."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    packages = {name.partition(".")[0] for name in modules}
    for entry in (each for group in _GROUPS for each in entry_points(group=group)):
        if entry.module.partition(".")[0] in packages:
            package = _package(entry)
            return Problem(
                f"package {package} failed: {type(error).__name__}: {error}",
                where=f"entry point {entry.value} in {entry.group}",
                remedy=f"mend or update package {package}, or leave {entry.name} out of the grid spec",
            )
    return None


class HasSpecModel(Protocol):
    """A kind that brings its own section of the grid spec."""

    @property
    def spec_model(self) -> type[SpecModel]:
        """The model of the section; its `type` is the kind's name alone."""


class KindSection(SpecModel):
    """Base of sections whose `type` names a kind, which brings its own model.

    What all kinds have in common is a class right below this one, with `registry`; the model of each kind
    derives from that.
    """

    registry: ClassVar[KindRegistry[Any]]
    default: ClassVar[str | None] = None
    """The kind of a section without `type`; None where it must be written."""

    @classmethod
    def kind_in(cls, section: object) -> Any:  # noqa: ANN401 - each registry has its own kinds
        """The kind of a section of plain data; None where that is not known."""
        name = section.get("type", cls.default) if isinstance(section, Mapping) else None
        try:
            return None if name is None else cls.registry.get(name)
        except (FieldError, GridwrightError):
            return None

    @classmethod
    def variants(cls) -> list[Model]:
        """The models of all kinds that can be imported."""
        return [kind.spec_model for _, kind in cls.registry.kinds()] if cls._is_common() else [cls]

    @classmethod
    def variant(cls, data: Mapping[str, Any]) -> Model:
        """The model of the kind that `type` names."""
        kind = cls.kind_in(data) if cls._is_common() else None
        return cls if kind is None else cast("HasSpecModel", kind).spec_model

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str] | None:
        """Where another kind has the field, that it does, and the remedy."""
        others = [other for other, kind in cls.registry.kinds() if name in kind.spec_model.model_fields]
        if not others:
            return None
        remedy = f"remove it, or write {' or '.join(f'{{type: {other}}}' for other in others)}"
        return f"{name} belongs to {cls.registry.what} {' or '.join(others)}", remedy

    @classmethod
    def _is_common(cls) -> bool:
        return "registry" in vars(cls)


@dataclass(frozen=True)
class OfItsKind:
    """Metadata of a field that holds a section of some kind: the model that its `type` names checks it."""

    common: type[KindSection]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Hand a mapping to the model of its kind; the common one reports that there is no `type`."""
        return core_schema.with_info_before_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """One of the registered kinds."""
        return {"oneOf": [handler(model.__pydantic_core_schema__) for model in self.common.variants()]}

    def _checked(self, value: object, info: core_schema.ValidationInfo) -> object:
        name = value.get("type", self.common.default) if isinstance(value, Mapping) else None
        if name is None:
            return value
        try:
            kind = self.common.registry.get(name)
        except FieldError as error:
            detail = InitErrorDetails(type="value_error", loc=("type",), input=name, ctx={"error": error})
            raise ValidationError.from_exception_data("type", [detail]) from None
        return kind.spec_model.model_validate(value, context=info.context)
