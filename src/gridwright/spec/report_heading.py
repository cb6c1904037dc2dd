"""What stands above reports of a grid: the section `report` of the grid spec."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator, WithJsonSchema

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

LONGEST = 120
"""Characters of a line that fits into the head of a page."""
_PRINTED = Update(Change.LIVE, "only reports print it")


def _line(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise FieldError(f"a line of text is wanted, and {show(value)} is given", "write it in a few words")
    text = value.strip()
    if not text.isprintable():
        raise FieldError("more than one line, or a character that cannot be printed", "write one line")
    if len(text) > LONGEST:
        raise FieldError(f"{len(text)} characters, and {LONGEST} fit into the head of a page", "shorten it")
    return text


Line = Annotated[
    str, PlainValidator(_line), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LONGEST})
]
"""One line of text, as people read it."""


class ReportHeading(SpecModel):
    """Title, site and customer, as reports of runs, predictions and plans have them in their head."""

    title: Annotated[Line | None, _PRINTED] = Field(
        default=None, description="The title of reports, such as Proof of the new grid."
    )
    site: Annotated[Line | None, _PRINTED] = Field(
        default=None, description="Where the grid stands, such as Hall 2, Karlsruhe."
    )
    customer: Annotated[Line | None, _PRINTED] = Field(
        default=None, description="For whom it was built or proven."
    )

    def lines(self) -> dict[str, str]:
        """What is given, by the names of the fields."""
        given = {"title": self.title, "site": self.site, "customer": self.customer}
        return {name: text for name, text in given.items() if text}
