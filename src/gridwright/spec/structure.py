"""The shape of a grid spec, read from its models: which model stands at a path, and every field there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from gridwright.spec.fields import SpecModel, Update
from gridwright.spec.filesystems import FILESYSTEMS, FileSystem
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """One field of the spec. `path` has a placeholder such as `<name>` for names that users choose."""

    path: str
    owner: type[SpecModel]
    name: str
    info: FieldInfo

    @property
    def updates(self) -> list[Update]:
        """What the field declares about changing it; a test holds that it is exactly one."""
        return [each for each in self.info.metadata if isinstance(each, Update)]


def all_fields(model: type[SpecModel] = GridSpec, prefix: str = "") -> Iterator[FieldPlace]:
    """Every field of every section, of every registered kind, in the order of the models."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        yield FieldPlace(path, model, name, info)
        section, placeholder = _section(info.annotation)
        for kind in _kinds(section):
            yield from all_fields(kind, f"{path}.{placeholder}." if placeholder else f"{path}.")


def model_at(path: tuple[str, ...], data: Any) -> type[SpecModel] | None:  # noqa: ANN401
    """The model of the mapping at `path` of the spec's plain data; None where there is none."""
    model: type[SpecModel] | None = GridSpec
    parts = list(path)
    while parts and model is not None:
        info = model.model_fields.get(parts[0])
        section, placeholder = _section(info.annotation) if info else (None, "")
        steps = 2 if placeholder else 1
        if len(parts) < steps:
            return None
        for part in parts[:steps]:
            data = data.get(part) if isinstance(data, Mapping) else None
        parts = parts[steps:]
        kind = data.get("type") if isinstance(data, Mapping) else None
        known = section is FileSystem and isinstance(kind, str) and kind in FILESYSTEMS.names()
        model = FILESYSTEMS.get(kind) if known else section
    return model


def field_at(path: tuple[str, ...], data: Any) -> FieldInfo | None:  # noqa: ANN401
    """What is declared about the field at `path`; None for a name that the user chose or that is unknown."""
    owner = model_at(path[:-1], data) if path else None
    return owner.model_fields.get(path[-1]) if owner else None


def _kinds(section: type[SpecModel] | None) -> list[type[SpecModel]]:
    if section is None:
        return []
    return list(FILESYSTEMS.kinds()) if section is FileSystem else [section]


def _section(annotation: Any) -> tuple[type[SpecModel] | None, str]:  # noqa: ANN401
    """The model that a field holds, and the placeholder of its names when it holds a mapping of them."""
    if isinstance(annotation, UnionType):
        annotation = next(each for each in get_args(annotation) if each is not NoneType)
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return annotation, ""
    if get_origin(annotation) is Mapping:
        key, value = get_args(annotation)
        while get_origin(value) is Annotated:
            value = get_args(value)[0]
        if isinstance(value, type) and issubclass(value, SpecModel):
            return value, "<library>" if get_origin(key) is Literal else "<name>"
    return None, ""
