"""What the commands of Spectrum Scale print with -Y: rows with colons, under headers that name their columns.

`command:kind:HEADER:version:reserved:reserved:column:...`, then `command:kind:0:1:::value:...`; values have
special characters as %XX (IBM Storage Scale, mmhealth and mmlscluster). Nodes run this by Python 3.9.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

SPECIAL = ":%\n"
"""Characters of a value that are written as %XX."""


def records(printed: str) -> dict[str, list[dict[str, str]]]:
    """Rows by their kind, which is empty for commands with one kind alone, each as column to value.

    Lines that are no rows, and rows before a header of their kind, are passed over.
    """
    columns: dict[str, list[str]] = {}
    found: dict[str, list[dict[str, str]]] = {}
    for line in printed.splitlines():
        fields = line.split(":")
        if len(fields) < 4 or not fields[0].startswith("mm"):
            continue
        kind = fields[1]
        if fields[2] == "HEADER":
            columns[kind] = fields[3:]
        elif kind in columns:
            found.setdefault(kind, []).append(dict(zip(columns[kind], map(unquote, fields[3:]))))  # noqa: B905 - 3.9
    return found


def encoded(value: str) -> str:
    """A value as rows have it."""
    return "".join(quote(each, safe="") if each in SPECIAL else each for each in value)
