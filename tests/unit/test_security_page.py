"""docs/security.md is true: each sentence names a test that is there, and the table of directories is the data.

`python -m tests.unit.test_security_page` writes that table anew.
"""

from __future__ import annotations

import ast
import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/security.md"
TABLE = ROOT / "src/gridwright/setup/directories.csv"
HELD = re.compile(r"^\| (?P<sentence>[^|]+\.) \| `(?P<file>[\w/]+\.py)::(?P<test>\w+)` \|$", re.MULTILINE)
HEADING = "## Directories\n"


def directories() -> str:
    """The data as a table of the page."""
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = [
        f"| `{row['path']}` | {row['owner']} | {row['mode']} | {row['made_by']} | {row['what']} |"
        for row in rows
    ]
    return (
        "\n".join(["| directory | owner | mode | made by | what |", "|---|---|---|---|---|", *lines]) + "\n"
    )


def test_each_sentence_names_a_test_that_is_there() -> None:
    text = PAGE.read_text("utf-8")
    held = list(HELD.finditer(text))
    assert len(held) > 25
    assert len(held) == text.count("| `tests/")
    for each in held:
        tree = ast.parse((ROOT / each["file"]).read_text("utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert each["test"] in names, each["sentence"]


def test_the_table_of_directories_is_the_data() -> None:
    assert PAGE.read_text("utf-8").endswith(directories()), "python -m tests.unit.test_security_page"


if __name__ == "__main__":
    before, _, after = PAGE.read_text("utf-8").partition(HEADING)
    said = after.partition("\n| ")[0].rstrip()
    PAGE.write_text(f"{before}{HEADING}{said}\n\n{directories()}", "utf-8")
