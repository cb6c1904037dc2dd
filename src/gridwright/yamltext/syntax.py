"""Explains broken YAML: turns the parser's words into what the user should do."""

from __future__ import annotations

import re

from gridwright.errors import Problem
from gridwright.yamltext.source import SourceText, show

_TAB_INDENT = re.compile(r"^ *\t[ \t]*(?=[^\s#])", re.MULTILINE)

# Parts of the parser's messages, what they mean to a user, and what to do. The first match wins.
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        "mapping values are not allowed",
        "a second colon, or an indentation that does not fit the line above",
        "begin each field on a line of its own, or put a text that contains a colon in quotes",
    ),
    ("while scanning a quoted scalar", "a quote is opened here and never closed", "add the closing quote"),
    ("expected ',' or ']'", "the [ opened here is not closed", "add ] or a comma"),
    ("expected ',' or '}'", "the { opened here is not closed", "add } or a comma"),
    (
        "expected <block end>",
        "the indentation does not fit the lines above",
        "give fields of the same level the same indentation",
    ),
    ("could not find expected ':'", "a field name without a colon", "write name: value"),
    ("unknown escape character", "a backslash in double quotes begins no known escape", "use single quotes"),
    ("expected the node content", "a value is expected here", "write a value, or put the text in quotes"),
    (
        "expected '<document start>'",
        "the text goes on where it should have ended",
        "write every field as name: value",
    ),
    ("anchor", "this anchor or alias cannot be read", "write the value out"),
    ("tag", "this tag cannot be read", "remove the tag"),
    ("directive", "this directive cannot be read", "remove the line that begins with %"),
)
# For these the place where the construct began helps more than where the parser gave up.
_SHOW_START = ("while scanning a quoted scalar", "expected ',' or ']'", "expected ',' or '}'")


def syntax_problems(source: SourceText, error: Exception, last_index: int) -> list[Problem]:
    """All that can be said about a text the YAML parser gave up on.

    Tabs in the indentation are reported each, since one is seldom alone.
    """
    tabs = [
        source.problem(found.end() - 1, "a tab in the indentation", "indent with spaces")
        for found in _TAB_INDENT.finditer(source.text)
    ]
    return tabs or [_explained(source, error, last_index)]


def _explained(source: SourceText, error: Exception, last_index: int) -> Problem:
    words = " ".join(str(getattr(error, name, None) or "") for name in ("context", "problem"))
    index = _index(error, "problem_mark", last_index)
    if any(part in words for part in _SHOW_START):
        index = _index(error, "context_mark", index)
    if "cannot start any token" in words:
        char = source.text[index : index + 1]
        what = (
            "a tab where a value is expected" if char == "\t" else f"a value cannot begin with {show(char)}"
        )
        return source.problem(index, what, "use spaces" if char == "\t" else "put the value in quotes")
    for part, what, remedy in _MEANINGS:
        if part in words:
            return source.problem(index, what, remedy)
    return source.problem(index, "this is not valid YAML", "look at this line and the one above")


def _index(error: Exception, mark: str, default: int) -> int:
    found = getattr(getattr(error, mark, None), "index", None)
    return found if isinstance(found, int) else default
