"""Which lab a verb of `gridwright lab` is about."""

from __future__ import annotations

from pathlib import Path

from gridwright.errors import input_error


def chosen_lab(file: Path | None) -> str:
    """The name of the lab of a spec, of ./grid.yaml, or of the only one there is. Raises GridwrightError."""
    from gridwright.cli.build.found_grid import asked_spec, only
    from gridwright.providers.lab import is_lab
    from gridwright.providers.lab.record import labs

    spec = asked_spec(file)
    if spec is not None and is_lab(spec):
        return spec.name
    if spec is not None and file is not None:
        raise input_error(
            f"grid {spec.name} is no lab: its provider is {spec.provider}",
            where=str(file),
            remedy="name the spec of a lab",
        )
    names = labs()
    return names[only(names)]
