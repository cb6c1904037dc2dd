"""Templates as text, and the limits that CloudFormation has for them."""

from __future__ import annotations

from collections.abc import Iterator

from troposphere import Template

from gridwright.errors import Problem

# CloudFormation User Guide, quotas. Not verified against a page.
MOST_RESOURCES = 500
MOST_OUTPUTS = 200
MOST_BYTES = 1_000_000


def template_text(template: Template) -> str:
    """The template as YAML: the same text for the same template, keys in order of the alphabet."""
    text: str = template.to_yaml(clean_up=True)
    return text


def template_problems(template: Template, where: str | None = None) -> Iterator[Problem]:
    """The limits of CloudFormation that a template goes beyond; `where` is the file it is made from."""
    yield from count_problems(len(template.resources), len(template.outputs), where)
    # As JSON, which is as large and written much sooner.
    yield from _beyond(len(template.to_json(indent=None).encode()), MOST_BYTES, "bytes", where)


def count_problems(resources: int, outputs: int, where: str | None = None) -> Iterator[Problem]:
    """Those of a template that is not made yet: troposphere takes no more than CloudFormation does."""
    yield from _beyond(resources, MOST_RESOURCES, "resources", where)
    yield from _beyond(outputs, MOST_OUTPUTS, "outputs", where)


def _beyond(count: int, most: int, what: str, where: str | None) -> Iterator[Problem]:
    if count > most:
        yield Problem(
            f"the template has {count} {what}, and CloudFormation takes {most}",
            where=where,
            remedy="Use fewer and larger volumes for each server, fewer machines, or two grids.",
        )
