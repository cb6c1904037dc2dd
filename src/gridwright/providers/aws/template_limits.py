"""Templates as text, and the limits that CloudFormation has for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from troposphere import AWSObject, Template

from gridwright.errors import GridwrightError, Problem

# CloudFormation User Guide, quotas. Not verified against a page.
MOST_RESOURCES = 500
MOST_OUTPUTS = 200
MOST_BYTES = 1_000_000


class CountedTemplate(Template):  # type: ignore[misc] # troposphere has no types
    """A template that counts resources beyond the limit, where troposphere would stop at the first one."""

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.beyond = 0

    def add_resource(self, resource: AWSObject) -> Any:  # noqa: ANN401
        """Take a resource, or count it."""
        if len(self.resources) < MOST_RESOURCES:
            return super().add_resource(resource)
        self.beyond += 1
        return resource

    def check(self, where: str | None = None) -> None:
        """Raise GridwrightError where CloudFormation would not take it; `where` is the file of the spec."""
        found = [*count_problems(len(self.resources) + self.beyond, len(self.outputs), where)]
        if problems := found or [*template_problems(self, where)]:
            raise GridwrightError(*problems)


def template_text(template: Template) -> str:
    """The template as YAML: the same text for the same template, keys in order of the alphabet."""
    text: str = template.to_yaml(clean_up=True)
    return text


def template_problems(template: Template, where: str | None = None) -> Iterator[Problem]:
    """The limits of CloudFormation that a template goes beyond; `where` is the file it is made from."""
    yield from count_problems(len(template.resources), len(template.outputs), where)
    yield from _beyond(_size(template), MOST_BYTES, "bytes", where)


def _size(template: Template) -> int:
    """Bytes of the larger of its two forms: `render` writes YAML, and `up` changes stacks with JSON.

    YAML indents user data line by line, so that it is larger by a fifth, and it takes long to write: a
    template that is far from the limit is counted as JSON alone.
    """
    size = len(template.to_json(indent=None).encode())
    return size if size < MOST_BYTES // 2 else max(size, len(template_text(template).encode()))


def count_problems(resources: int, outputs: int, where: str | None = None) -> Iterator[Problem]:
    """Those of a template that is not made yet: troposphere takes no more than CloudFormation does."""
    yield from _beyond(resources, MOST_RESOURCES, "resources", where)
    yield from _beyond(outputs, MOST_OUTPUTS, "outputs", where)


def _beyond(count: int, most: int, what: str, where: str | None) -> Iterator[Problem]:
    if count > most:
        yield Problem(
            f"the template has {count} {what}, and CloudFormation takes {most}",
            where=where,
            remedy="Use fewer and larger volumes for each server, nodes that are replaced, fewer machines, "
            "or two grids.",
        )
