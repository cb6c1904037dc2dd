"""What `up` must not do about a lab that has data: nothing of it goes but by `down`."""

from __future__ import annotations

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.kernel_files import names_in
from gridwright.providers.lab.contents import contents, missing
from gridwright.providers.lab.host_python import other_installation
from gridwright.providers.lab.places import Places
from gridwright.providers.lab.record import LabRecord, part_of
from gridwright.providers.lab.spec_copy import differences
from gridwright.spec.model import GridSpec


def _down(lab: str) -> str:
    """The remedy that deletes, with what it deletes."""
    there = "; ".join(contents(lab))
    return f"run gridwright down, which deletes it: {there}" if there else "run gridwright down"


def refuse_changes(record: LabRecord, spec: GridSpec) -> None:
    """Raise GridwrightError (INPUT) with each difference to the spec that a lab was made from."""
    if changed := differences(record, spec):
        raise GridwrightError(
            *(
                Problem(
                    what=f"lab {spec.name} is {record.standing}, and made from another spec: {each}",
                    where=str(spec.file) if spec.file else None,
                    remedy=f"write it as it was; or {_down(record.lab)}; then gridwright up again",
                )
                for each in changed
            )
        )


def refuse_half_removed(record: LabRecord) -> None:
    """Raise GridwrightError (ENVIRONMENT) for a lab of which part of the data went."""
    raise environment_error(
        f"a gridwright down of lab {record.lab} was not finished, and files of it went",
        where=str(Places(record.lab).home),
        remedy=f"{_down(record.lab)}; then gridwright up makes a new one",
    )


def refuse_other_installation(record: LabRecord) -> None:
    """Raise GridwrightError (ENVIRONMENT) where the nodes of a lab that is up cannot run this Gridwright."""
    if why := made_by_another(record):
        raise environment_error(
            f"lab {record.lab} is up, and cannot be used from here: {why}",
            remedy=f"use that command; or {_down(record.lab)}; then gridwright up makes a new one",
        )


def made_by_another(record: LabRecord) -> str | None:
    """Why the nodes of a lab cannot run this Gridwright; None where they can, or none is up."""
    first = next((node.process for node in record.nodes if node.process and node.up), None)
    return other_installation(first.pid) if first else None


def refuse_missing(record: LabRecord, spec: GridSpec) -> None:
    """Raise GridwrightError (ENVIRONMENT) where a lab, or nodes of it, would be booted without its data."""
    if gone := missing(record, spec):
        raise environment_error(
            f"lab {record.lab} was up, and of its data this is not there: {', '.join(map(str, gone))}",
            remedy=f"mount or put back what holds it, and run gridwright up again; or {_down(record.lab)}",
        )


def refuse_unknown(lab: str) -> None:
    """Raise GridwrightError (ENVIRONMENT) where files are there as of a lab, and no record of it."""
    home = Places(lab).home
    if home.is_symlink() and not home.exists():
        raise environment_error(
            f"lab {lab} has its files elsewhere, and they are not there",
            where=f"{home} -> {home.readlink()}",
            remedy="mount what holds them, and run gridwright up again",
        )
    # A command that is killed while it writes the first record leaves no more than part of that.
    if set(names_in(home)) - {part_of(Places(lab).record).name}:
        raise environment_error(
            f"files of a lab {lab} are here, and no record of it",
            where=str(home),
            remedy=f"put {Places(lab).record.name} back; or move the directory away; or {_down(lab)}",
        )


def no_image(record: LabRecord) -> GridwrightError:
    """The error for a stopped lab whose node image is gone, and cannot be made by this release."""
    return environment_error(
        f"the node image that lab {record.lab} was made with is gone, and this release makes another one",
        where=record.image,
        remedy=f"put it back, or use the release that made the lab; or {_down(record.lab)}",
    )
