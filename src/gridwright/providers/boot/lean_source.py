"""Programs as user data carry them: without the texts that only their readers need.

User data are small, and compressing them would make their bytes depend on the library that compresses: other
bytes make a machine anew.
"""

from __future__ import annotations

import ast


def lean(source: str) -> str:
    """A Python program without docstrings, comments on lines of their own and blank lines.

    The same source gives the same text with every Python. Raises SyntaxError.
    """
    tree = ast.parse(source)
    lines: list[str | None] = list(source.splitlines())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        texts = [each for each in body if _is_text(each)]
        for each in texts:
            first, last = each.lineno - 1, (each.end_lineno or each.lineno) - 1
            # A body needs a statement.
            lines[first] = " " * each.col_offset + "pass" if len(texts) == len(body) else None
            lines[first + 1 : last + 1] = [None] * (last - first)
    inside = _inside_texts(tree)
    kept = [
        line
        for number, line in enumerate(lines, start=1)
        if line is not None and (number in inside or (line.strip() and not line.lstrip().startswith("# ")))
    ]
    return "\n".join(kept) + "\n"


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _inside_texts(tree: ast.AST) -> set[int]:
    """Lines of texts that go over several lines: what looks like a comment there is none."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and (node.end_lineno or 0) > node.lineno:
            found |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return found
