"""Sections of a grid spec that belong to its provider: validated by the provider's own model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import InitErrorDetails

from gridwright.spec.provider import PROVIDERS, ProviderSection, provider_in
from gridwright.yamltext.together import placed

T = TypeVar("T")


def with_sections(
    handler: Callable[[Any], T],
    data: Mapping[str, Any],
    fields: Collection[str],
    context: Any,  # noqa: ANN401 - pydantic's
) -> T:
    """What `handler` makes of plain data whose provider's section was made a model of its own.

    `fields` are those of every spec. What stands under another key is a field that does not exist, unless it
    is the section of another provider, which the cross-checks report. Raises ValidationError.
    """
    read: dict[str, Any] = {name: data[name] for name in data if name in fields}
    errors: list[InitErrorDetails] = []
    for name in data.keys() - read.keys():
        section = _section(name)
        if section is None:
            errors.append(InitErrorDetails(type="extra_forbidden", loc=(name,), input=data[name]))
        elif data[name] is not None and _is_meant(name, data):
            try:
                read[name] = section.model.model_validate(data[name], context=context)
            except ValidationError as error:
                errors += placed(error, name)
    try:
        made = handler(read)
    except ValidationError as error:
        raise ValidationError.from_exception_data(error.title, [*placed(error), *errors]) from None
    if errors:
        raise ValidationError.from_exception_data("sections", errors)
    return made


def _section(name: object) -> ProviderSection | None:
    return PROVIDERS.get(name).section if name in PROVIDERS.names() else None


def _is_meant(name: str, data: Mapping[str, Any]) -> bool:
    """Whether it is the section of the grid's provider, or may be, where that is not known."""
    provider = provider_in(data)
    return provider is None or provider.name == name
