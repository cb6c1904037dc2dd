"""Raises problems that span several fields together with those of single fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails

from gridwright.yamltext.fields import FieldError

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
