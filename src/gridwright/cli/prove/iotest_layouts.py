"""What `iotest --layout NAME` means for each library: the layout that the spec states, or one as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.bounded import Hangs, look
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error, input_error
from gridwright.filesystems import all_kinds, kind_of
from gridwright.filesystems.layout_text import EXAMPLES, read_layout_text
from gridwright.filesystems.mounts import describe_mount
from gridwright.iotest.layouts import TriedLayout
from gridwright.iotest.library_facts import LOOK_S

if TYPE_CHECKING:
    from gridwright.iotest.options import LibraryTarget
    from gridwright.spec import GridSpec

FLAG = "--layout"
STATED = "spec"
"""The layout that the spec states for each library."""


def with_layouts(targets: Sequence[LibraryTarget], name: str, spec: GridSpec) -> list[LibraryTarget]:
    """The libraries that can be tested in the layout of this name; the others are named, and left out.

    Raises GridwrightError (status INPUT) where there is none, or a library cannot have the layout.
    """
    written = None if name == STATED else read_layout_text(name, FLAG)
    tried: list[LibraryTarget] = []
    passed_over: list[Problem] = []
    problems: list[Problem] = []
    for target in targets:
        library = next(each for each in spec.libraries if each == target.library)
        filesystem = spec.filesystem_of(library)
        kind = kind_of(filesystem)
        layout = written or kind.stated_layout(filesystem, spec.libraries[library])
        if not kind.has_layouts:
            passed_over.append(_has_none(target, kind.title))
        elif layout is None:
            passed_over.append(_not_stated(target))
        else:
            problems += [_of_library(target, each) for each in kind.layout_problems(layout)]
            tried.append(replace(target, layout=TriedLayout(filesystem.type, name, layout)))
    if problems or not tried:
        raise GridwrightError(*(problems or passed_over), status=ExitStatus.INPUT)
    for each in passed_over:
        say(f"not tested: {each.what}")
    return tried


def with_layout(target: LibraryTarget, name: str) -> LibraryTarget:
    """A directory without a spec, to be tested in the layout of this name.

    Raises GridwrightError: status INPUT where its file system has no layouts, or not this one, ENVIRONMENT
    where it does not answer.
    """
    if name == STATED:
        raise input_error(
            "a directory has no grid spec that states a layout", where=FLAG, remedy=f"write one: {EXAMPLES}"
        )
    layout = read_layout_text(name, FLAG)
    try:
        mount = look(partial(describe_mount, Path(target.path)), LOOK_S)
    except (Hangs, OSError) as error:
        raise environment_error(
            f"which file system {target.path} lies on is not told: {error}",
            where=target.path,
            remedy="check the mount (`mount`, `dmesg`)",
        ) from error
    kinds = (each for each in all_kinds() if mount.filesystem_type in each[1].kernel_types)
    found = next(kinds, None)
    if found is None or not found[1].has_layouts:
        raise GridwrightError(_has_none(target, mount.filesystem_type), status=ExitStatus.INPUT)
    if wrong := found[1].layout_problems(layout):
        raise GridwrightError(*(_of_library(target, each) for each in wrong), status=ExitStatus.INPUT)
    return replace(target, layout=TriedLayout(found[0], name, layout))


def _has_none(target: LibraryTarget, filesystem: str) -> Problem:
    return Problem(
        f"library {target.library}: on {filesystem} nobody chooses over which targets files lie",
        where=target.path,
        remedy=f"leave out {FLAG}, or test a library on a file system that has layouts",
    )


def _not_stated(target: LibraryTarget) -> Problem:
    return Problem(
        f"library {target.library}: the grid spec states no layout",
        where=target.path,
        remedy=f"give it `layout:` there, or write one: {FLAG} {EXAMPLES}",
    )


def _of_library(target: LibraryTarget, problem: Problem) -> Problem:
    where = f"{FLAG}: {problem.where}" if problem.where else FLAG
    return replace(problem, what=f"library {target.library}: {problem.what}", where=where)
