"""Every field that a grid spec can have, read from its models, and the JSON Schema made from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gridwright.spec.fields import SpecModel, Update
from gridwright.spec.model import GridSpec, whole_model
from gridwright.units import Bytes
from gridwright.yamltext import structure


class _SpecSchema(GenerateJsonSchema):
    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """A field without a value is left out of a spec; null is refused."""
        return self.generate_inner(schema["schema"])

    def encode_default(self, dft: object) -> object:
        """A size is written as in a spec; pydantic would warn on the user's terminal."""
        return str(dft) if isinstance(dft, Bytes) else super().encode_default(dft)


def json_schema() -> dict[str, Any]:
    """The schema of grid.yaml as JSON Schema 2020-12.

    Each field has its description, its pattern, and what changing it does (`x-update-policy`, with
    `x-update-reason`). Rules between fields are not in it; `gridwright check` holds those.
    """
    schema = whole_model().model_json_schema(schema_generator=_SpecSchema)
    sections = {section["title"]: section for section in _sections(schema)}
    for place in all_fields():
        # pydantic leaves it out beside a $ref.
        field = sections[place.owner.__name__]["properties"][place.name]
        field.setdefault("description", place.info.description)
    _tidy(schema)
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": "Gridwright grid spec", **schema}


def _sections(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schema of every model, wherever it stands, while it still has the title of its class."""
    if "properties" in schema and "title" in schema:
        yield schema
    for value in schema.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield from _sections(each)


def _tidy(schema: dict[str, Any]) -> None:
    """Leave out what pydantic says about its classes, and close mappings of names."""
    if "properties" in schema:
        # The rest of a model's docstring speaks to programmers.
        schema["description"] = schema["description"].partition("\n")[0]
        for field in schema["properties"].values():
            # An empty default stands for what other fields decide; the description tells it.
            if field.get("default", 0) in (None, ""):
                del field["default"]
    if isinstance(schema.get("title"), str):
        del schema["title"]
    if "patternProperties" in schema:
        schema["additionalProperties"] = False
    for value in schema.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                _tidy(each)


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


def all_fields(model: type[SpecModel] | None = None, prefix: str = "") -> Iterator[FieldPlace]:
    """Every field of every section, of every registered kind, in the order of the models.

    `model` is a section below `prefix`, by default the whole of grid.yaml.
    """
    if model is None:
        model = whole_model()
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        yield FieldPlace(path, model, name, info)
        section, placeholder = structure.section_below(info.annotation)
        for kind in section.variants() if section else []:
            if issubclass(kind, SpecModel):
                yield from all_fields(kind, f"{path}.{placeholder}." if placeholder else f"{path}.")


def field_at(path: tuple[str, ...], data: Any) -> FieldInfo | None:  # noqa: ANN401
    """What is declared about the field at `path`; None for a name that the user chose or that is unknown."""
    return structure.field_at(GridSpec, path, data)
