"""How large the workload is: units per table, settings of the tests, limits of a launch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gridwright.units import Bytes, parse_duration

NAMES = ("tiny", "small", "medium", "paper")


@dataclass(frozen=True, slots=True)
class Scale:
    """One scale. `units` by table, `settings` by name; memory in bytes, the limit in seconds."""

    name: str
    memory_bytes: int
    time_limit_s: float
    units: dict[str, int]
    settings: dict[str, int]


@cache
def scale(name: str) -> Scale:
    """The scale of a name. Raises KeyError if there is none."""
    # The job of a launch is given its scale: it does without these.
    from importlib.resources import files

    from ruamel.yaml import YAML

    text = files("gridwright.workload").joinpath("scales.yaml").read_text(encoding="utf-8")
    fields = YAML(typ="safe", pure=True).load(text)[name]
    return Scale(
        name=name,
        memory_bytes=int(Bytes.parse(fields["memory"])),
        time_limit_s=parse_duration(fields["time_limit"]),
        units=dict(fields["units"]),
        settings=dict(fields["settings"]),
    )
