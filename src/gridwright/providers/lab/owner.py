"""Whose lab it is: labs are known by their names alone, and specs in two directories may say the same one."""

from __future__ import annotations

from pathlib import Path

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.lab.record import LabRecord, read
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec


def record_for(spec: GridSpec) -> LabRecord | None:
    """The record of the lab of a spec; None where there is none.

    Raises GridwrightError where the lab of that name was made from a spec in another directory, which still
    is there and still names it: jobs, logs and data in it are somebody else's. A copy beside the spec is the
    same grid's.
    """
    record = read(spec.name)
    if record is None or spec.file is None or not record.spec_file:
        return record
    maker = Path(record.spec_file)
    if _directory(maker) == _directory(spec.file) or not _names(maker, record.lab):
        return record
    raise environment_error(
        f"lab {spec.name} is another grid's of the same name: it was made from {maker}",
        where=str(spec.file),
        remedy=f"give this grid another name, or take that one down first: gridwright down {maker}",
    )


def _directory(file: Path) -> Path:
    return file.parent.resolve()


def _names(file: Path, lab: str) -> bool:
    """Whether a spec is there and names the lab; one that cannot be read may."""
    if not file.is_file():
        return False
    try:
        return load_spec(file).name == lab
    except GridwrightError:
        return True
