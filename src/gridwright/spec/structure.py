"""Every field that a grid spec can have, read from its models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from gridwright.spec.fields import SpecModel, Update
from gridwright.spec.model import GridSpec, whole_model
from gridwright.yamltext import structure


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
