"""Libraries of a grid that have layouts: where they are asked, and which layouts spec and flag ask for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.cli.spec_file import load_placed, note_this_machine
from gridwright.errors import input_error, nearest

if TYPE_CHECKING:
    from gridwright.doctor.access import RunOn
    from gridwright.filesystems.layout import DesiredLayout, LayoutChoice
    from gridwright.spec import GridSpec


_FLAG = "--layout"
_REMEDY = "write auto, a stripe count such as 4 or -1, or parts such as 256MiB:1,16GiB:4,-1"


def desired_layouts(
    spec: GridSpec, names: Collection[str], told: str | None = None
) -> Mapping[str, LayoutChoice]:
    """The layout of each of these libraries, or of all that have layouts; `told` goes before the spec.

    Raises GridwrightError (INPUT) for a library that is not there or has none, and a text that is none.
    """
    from dataclasses import replace

    from gridwright.model.grid import library_layouts

    known = [str(name) for name in spec.libraries]
    for name in names:
        if name not in known:
            near = nearest(name, known)
            raise input_error(
                f"there is no library {name}",
                where=str(spec.file) if spec.file else None,
                remedy=(f"did you mean {near}? " if near else "") + f"there are {', '.join(known)}",
            )
    if told is not None:
        described, spec = spec, _with_layout(spec, set(names) or set(known), told)
    found = library_layouts(spec)
    if told is not None:
        found = {
            name: replace(each, reason=f"as {_FLAG} says") if each.stated else each
            for name, each in found.items()
        }
        _refuse_wide(described, found)
    without = [name for name in names if name not in found]
    if without or not found:
        raise input_error(
            f"library {without[0]} lies on a file system that has no layouts"
            if without
            else "no library lies on a file system that has layouts",
            where=str(spec.file) if spec.file else None,
            remedy="layouts are those of files on Lustre",
        )
    return {name: each for name, each in found.items() if not names or name in names}


def layout_wishes(spec: GridSpec) -> Mapping[str, DesiredLayout]:
    """What is wanted of each library's layout, and what an OST delivers as the model has it.

    None of libraries that have no layouts, and of none where the model cannot work with the spec's figures:
    what is there can be looked at all the same.
    """
    if not any(filesystem.takes_layouts for filesystem in spec.filesystems.values()):
        return {}
    from gridwright.errors import GridwrightError
    from gridwright.filesystems.layout import DesiredLayout
    from gridwright.model.grid import grid_model, library_layouts

    try:
        model = grid_model(spec) if spec.nodes else None
        layouts = model.layouts if model else library_layouts(spec)
    except GridwrightError:
        return {}
    rates: dict[str, float] = {}
    for name, library in spec.libraries.items():
        there = model.contributions.get(library.filesystem) if model else None
        if there and there.target_bytes_per_s:
            rates[str(name)] = there.target_bytes_per_s["read"]
    return {
        name: DesiredLayout(
            library=name,
            layout=layout.layout,
            stated=layout.stated,
            target_bytes_per_s=rates.get(name),
            spec_file=str(spec.file or "grid.yaml"),
        )
        for name, layout in layouts.items()
    }


def _refuse_wide(spec: GridSpec, choices: Mapping[str, LayoutChoice]) -> None:
    """Raise GridwrightError for more stripes than the OSTs that a spec describes, as `check` does."""
    from gridwright.errors import GridwrightError
    from gridwright.model.grid import grid_model

    try:
        there = grid_model(spec).contributions if spec.nodes else {}
    except GridwrightError:
        return
    for name, library in spec.libraries.items():
        known = there.get(library.filesystem)
        choice = choices.get(str(name))
        if known is None or choice is None or not choice.stated:
            continue
        widest = max(component.stripe_count for component in choice.layout.components)
        if 0 < known.targets < widest:
            raise input_error(
                f"files are to have {widest} stripes, and {library.filesystem} has "
                f"{known.targets} OST{'s'[: known.targets != 1]}",
                where=_FLAG,
                remedy=f"write {known.targets}, or -1 for all",
            )


def _with_layout(spec: GridSpec, names: Collection[str], told: str) -> GridSpec:
    """The grid with another layout for some libraries."""
    from pydantic import TypeAdapter, ValidationError

    from gridwright.spec.library import Layout

    try:
        parts = TypeAdapter(Layout).validate_python(_value(told))
    except (ValidationError, ValueError) as error:
        raise input_error(f"{told!r} is no layout", where=_FLAG, remedy=_REMEDY) from error
    libraries = {
        name: library.model_copy(update={"layout": parts}) if str(name) in names else library
        for name, library in spec.libraries.items()
    }
    return spec.model_copy(update={"libraries": libraries})


def _value(told: str) -> Any:  # noqa: ANN401 - what a spec may have there
    if told == "auto":
        return told
    parts: list[dict[str, object]] = []
    for each in told.split(","):
        until, _, stripes = each.strip().rpartition(":")
        parts.append({"stripes": int(stripes), **({"until": until} if until else {})})
    return parts


def opened(file: Path | None) -> tuple[GridSpec, RunOn]:
    """A grid, and what runs commands where a file system is mounted. Raises GridwrightError.

    That is this machine, or the head node, or, where that has not mounted it, a node that has.
    """
    from gridwright.commands import run_here
    from gridwright.doctor.access import MountingNodes
    from gridwright.grid.grid import Grid

    spec = load_placed(file)
    grid = Grid.open(spec)
    if grid.is_this_machine:
        note_this_machine(spec)
        return spec, lambda _: run_here
    return spec, MountingNodes(grid).run_on
