"""Puts problems that other rooms find in a grid spec at their place in its file."""

from __future__ import annotations

from gridwright.errors import Problem
from gridwright.spec.load import GRID_SPEC
from gridwright.spec.model import GridSpec
from gridwright.yamltext.document import compose
from gridwright.yamltext.load import position
from gridwright.yamltext.source import SourceText, sentence


def problem_at(spec: GridSpec, path: tuple[str, ...], what: str, remedy: str) -> Problem:
    """A problem with the field at `path`, with line and caret where the spec was read from text.

    A path that is not written out (a default) is put at the nearest section that is.
    """
    field = ".".join(path) or None
    if not spec.source_text:
        return Problem(what=what, field=field, remedy=sentence(remedy))
    source = SourceText(str(spec.file or "grid.yaml"), spec.source_text)
    return source.problem(position(compose(source, GRID_SPEC), path), what, remedy, field)
