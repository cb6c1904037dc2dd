"""What `iotest --layout NAME` means for each library: the layout that the spec states, or one as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.bounded import Hangs, call_bounded
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error, input_error
from gridwright.filesystems import all_kinds, kind_of
from gridwright.filesystems.kind import Layouts
from gridwright.filesystems.layout import EXAMPLES, read_layout_text
from gridwright.filesystems.mounts import describe_mount
from gridwright.iotest.library_facts import LOOK_S
from gridwright.iotest.options import TriedLayout

if TYPE_CHECKING:
    from gridwright.filesystems.layout import FileLayout, LayoutProblem
    from gridwright.iotest.options import LibraryTarget
    from gridwright.spec import GridSpec

FLAG = "--layout"
STATED = "spec"
"""The layout that each library has by the spec: stated there, else chosen by the model."""
CHOSEN = "auto"
"""The layout that the model chooses, whatever the spec states."""


def with_layouts(targets: Sequence[LibraryTarget], name: str, spec: GridSpec) -> list[LibraryTarget]:
    """The libraries that can be tested in the layout of this name; the others are named, and left out.

    Raises GridwrightError (status INPUT) where there is none, or a library cannot have the layout.
    """
    layouts = _layouts(name, spec)
    tried: list[LibraryTarget] = []
    passed_over: list[Problem] = []
    problems: list[Problem] = []
    for target in targets:
        filesystem = spec.filesystems[target.filesystem or ""]
        kind = kind_of(filesystem)
        layout = layouts.get(target.library)
        if not isinstance(kind, Layouts):
            passed_over.append(_has_none(target, kind.title))
        elif layout is None:
            passed_over.append(_not_chosen(target))
        else:
            problems += [
                _of_library(target, layout_problem) for layout_problem in kind.layout_problems(layout)
            ]
            tried.append(replace(target, layout=TriedLayout(filesystem.type, name, layout)))
    if problems or not tried:
        raise GridwrightError(*(problems or passed_over), status=ExitStatus.INPUT)
    for problem in passed_over:
        say(f"not tested: {problem.what}")
    return tried


def with_layout(target: LibraryTarget, name: str) -> LibraryTarget:
    """A directory without a spec, to be tested in the layout of this name.

    Raises GridwrightError: status INPUT where its file system has no layouts, or not this one, ENVIRONMENT
    where it does not answer.
    """
    if name in {STATED, CHOSEN}:
        raise input_error(
            f"a directory has no grid spec, by which {name} is known",
            where=FLAG,
            remedy=f"write a layout: {EXAMPLES}",
        )
    layout = read_layout_text(name, FLAG)
    try:
        mount = call_bounded(partial(describe_mount, Path(target.path)), LOOK_S)
    except (Hangs, OSError) as error:
        raise environment_error(
            f"which file system {target.path} lies on is not told: {error}",
            where=target.path,
            remedy="check the mount (`mount`, `dmesg`)",
        ) from error
    kinds = (kind for kind in all_kinds() if mount.filesystem_type in kind[1].kernel_types)
    found = next(kinds, None)
    if found is None or not isinstance(found[1], Layouts):
        raise GridwrightError(_has_none(target, mount.filesystem_type), status=ExitStatus.INPUT)
    if wrong := found[1].layout_problems(layout):
        raise GridwrightError(*(_of_library(target, each) for each in wrong), status=ExitStatus.INPUT)
    return replace(target, layout=TriedLayout(found[0], name, layout))


def _layouts(name: str, spec: GridSpec) -> Mapping[str, FileLayout]:
    """The layout of this name for each library. Raises GridwrightError."""
    if name not in {STATED, CHOSEN}:
        return dict.fromkeys(map(str, spec.libraries), read_layout_text(name, FLAG))
    from gridwright.model.grid import library_layouts

    if name == CHOSEN:
        left_open = {
            key: library.model_copy(update={"layout": []}) for key, library in spec.libraries.items()
        }
        spec = spec.model_copy(update={"libraries": left_open})
    return {library: choice.layout for library, choice in library_layouts(spec).items()}


def _has_none(target: LibraryTarget, filesystem: str) -> Problem:
    return Problem(
        f"library {target.library}: on {filesystem} nobody chooses over which targets files lie",
        where=target.path,
        remedy=f"leave out {FLAG}, or test a library on a file system that has layouts",
    )


def _not_chosen(target: LibraryTarget) -> Problem:
    return Problem(
        f"library {target.library}: the grid spec states no layout, and too little for one to be chosen",
        where=target.path,
        remedy=f"give it `layout:` there, or write one: {FLAG} {EXAMPLES}",
    )


def _of_library(target: LibraryTarget, wrong: LayoutProblem) -> Problem:
    problem = wrong.problem
    where = f"{FLAG}: {problem.where}" if problem.where else FLAG
    return replace(problem, what=f"library {target.library}: {problem.what}", where=where)
