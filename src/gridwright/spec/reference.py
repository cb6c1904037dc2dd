"""Makes the table of fields in docs/grid-spec.md from the models.

Run `python -m gridwright.spec.reference docs/grid-spec.md` to bring the file up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic_core import PydanticUndefined

from gridwright.spec.findings import KNOWN, OF_NODES
from gridwright.spec.structure import FieldPlace, all_fields

BEGIN = "<!-- generated: {} -->"
END = "<!-- end of generated -->"


def fields_table() -> str:
    """The table of all fields: path, meaning, default, and what changing it does."""
    rows = ["| field | meaning | default | a change is |", "|---|---|---|---|"]
    rows += [_row(place) for place in all_fields()]
    return "\n".join(rows)


def findings_table() -> str:
    """The table of all findings that can be silenced."""
    rows = ["| finding | means |", "|---|---|"]
    rows += [f"| [{name}]({_explained(name)}) | {meaning} |" for name, meaning in sorted(KNOWN.items())]
    return "\n".join(rows)


def _explained(name: str) -> str:
    """Where the documents say what causes a finding, and how to mend it."""
    page = "doctor.md" if name in OF_NODES and name != "tuning-drift" else "bad-result.md"
    return f"{page}#{name}"


def refreshed(text: str) -> str:
    """The page with its generated parts made anew. Raises ValueError when a part has no markers."""
    return with_parts(text, {"fields": fields_table(), "findings": findings_table()})


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """A page with parts put between their markers, by name. Raises ValueError when one has no markers."""
    for name, part in parts.items():
        begin = BEGIN.format(name)
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(END)
        if not found or not closed:
            raise ValueError(f"the page lacks {begin} or {END}")
        text = f"{before}{begin}\n{part}\n{END}{after}"
    return text


def _row(place: FieldPlace) -> str:
    default = place.info.default
    if place.info.is_required():
        shown = "required"
    elif default in (None, "", PydanticUndefined):
        shown = ""
    else:
        shown = f"`{default}`"
    update = place.updates[0]
    return f"| `{place.path}` | {place.info.description} | {shown} | {update.change}: {update.because} |"


def _main() -> None:
    page = Path(sys.argv[1])
    page.write_text(refreshed(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    _main()
