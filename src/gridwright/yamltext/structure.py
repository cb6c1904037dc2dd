"""The shape of a file, read from its models: the model and field at a path, and rules of several fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails

from gridwright.yamltext.fields import FieldError

FieldPath = tuple[str | int, ...]
"""Names of fields, and numbers of entries of lists."""


class Section(BaseModel):
    """Base of all sections: unknown fields are refused, values are not converted, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def variants(cls) -> Sequence[Model]:
        """The models that this one stands for; itself, unless it is the base of several kinds."""
        return [cls]

    @classmethod
    def variant(cls, data: Mapping[str, Any]) -> Model:
        """The model of a section with these fields: itself, or the kind that the fields name."""
        return cls

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str] | None:
        """What is wrong with a field that it does not have, and the remedy; None where nothing is known."""
        return None


Model: TypeAlias = type[Section]
"""The model of a section."""


def model_at(root: type[Section], path: FieldPath, data: Any) -> type[Section] | None:  # noqa: ANN401
    """The model of the mapping at `path` of plain data whose model is `root`; None where there is none."""
    annotation, _, value = _walk(root, path, data)
    return _model(annotation, value)


def field_at(root: type[Section], path: FieldPath, data: Any) -> FieldInfo | None:  # noqa: ANN401
    """What is declared about the field at `path`; None for a name that the user chose or that is unknown."""
    return _walk(root, path, data)[1]


def section_below(annotation: Any) -> tuple[type[Section] | None, str]:  # noqa: ANN401
    """The model that a field holds, and the placeholder of its names when it holds a mapping of them."""
    annotation = _unwrapped(annotation)
    if get_origin(annotation) is not Mapping:
        return _model(annotation, None), ""
    key, value = get_args(annotation)
    model = _model(_unwrapped(value), None)
    placeholder = model.__name__.lower() if model and get_origin(key) is Literal else "name"
    return model, f"<{placeholder}>"


def _walk(root: type[Section], path: FieldPath, data: Any) -> tuple[Any, FieldInfo | None, Any]:  # noqa: ANN401
    """Type, declaration and value at `path`; None for what is not known."""
    annotation: Any = root
    info: FieldInfo | None = None
    for part in path:
        model = _model(annotation, data)
        info = model.model_fields.get(str(part)) if model else None
        annotation = _unwrapped(info.annotation) if info else None if model else _entry_type(annotation)
        data = _entry(data, part)
    return annotation, info, data


def _model(annotation: Any, value: Any) -> type[Section] | None:  # noqa: ANN401
    if not isinstance(annotation, type) or not issubclass(annotation, Section):
        return None
    return annotation.variant(value) if isinstance(value, Mapping) else annotation


def _entry_type(annotation: Any) -> Any:  # noqa: ANN401
    """The type of the values of a mapping or a list."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Mapping:
        return _unwrapped(arguments[1])
    return _unwrapped(arguments[0]) if get_origin(annotation) in (list, tuple) else None


def _entry(data: Any, part: str | int) -> Any:  # noqa: ANN401
    if isinstance(data, Mapping):
        return data.get(part)
    return data[part] if isinstance(data, list) and isinstance(part, int) and part < len(data) else None


def _unwrapped(annotation: Any) -> Any:  # noqa: ANN401
    """The type itself, without what is said about it, and without None."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (UnionType, Union):
            annotation = next(arg for arg in get_args(annotation) if arg is not NoneType)
        else:
            return annotation


KEY = "[key]"
"""Ends the path of a problem with a name instead of its value, as pydantic has it."""

Refused = tuple[tuple[str, ...], FieldError | str]
"""A path and what is wrong there, or a section and the name of its missing field."""

M = TypeVar("M", bound=BaseModel)


def validated_with(model: type[M], handler: Callable[[Any], M], data: Any, refused: Iterable[Refused]) -> M:  # noqa: ANN401
    """What `handler` makes of the data.

    Raises ValidationError that carries what `handler` finds wrong and what was `refused` besides.
    """
    errors: list[InitErrorDetails] = []
    made: M | None = None
    try:
        made = handler(data)
    except ValidationError as error:
        errors += placed(error)
    errors += map(_detail, refused)
    if made is None or errors:
        raise ValidationError.from_exception_data(model.__name__, errors)
    return made


def placed(error: ValidationError, *below: str) -> list[InitErrorDetails]:
    """The errors of a part of a file, at their place in the whole."""
    details: list[InitErrorDetails] = []
    for each in error.errors(include_url=False):
        detail = InitErrorDetails(type=each["type"], loc=(*below, *each["loc"]), input=each["input"])
        if "ctx" in each:
            detail["ctx"] = each["ctx"]
        details.append(detail)
    return details


def _detail(refused: Refused) -> InitErrorDetails:
    path, problem = refused
    if isinstance(problem, str):
        return InitErrorDetails(type="missing", loc=(*path, problem), input=None)
    return InitErrorDetails(type="value_error", loc=path, input=None, ctx={"error": problem})
