"""The tests by name, in the order of the tables."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from gridwright.workload.programs.program import Program

NAMES = (
    "sort",
    "merge",
    "append",
    "join",
    "summary",
    "transpose",
    "convert",
    "lookup",
    "matrix",
    "reg",
    "logistic",
    "glm",
    "mixed",
    "forest",
    "boost",
    "cluster",
    "princomp",
    "forecast",
    "optimize",
)


REPLAY = "replay"
"""What runs launch profiles: it is asked for by the plan of a replay, and no matrix can name it."""


@cache
def program(name: str) -> Program:
    """The test of a name. Raises KeyError if there is none."""
    if name not in (*NAMES, REPLAY):
        raise KeyError(name)
    where = "replays.program" if name == REPLAY else f"programs.{name}"
    found = import_module(f"gridwright.workload.{where}").PROGRAM
    if not isinstance(found, Program) or found.name != name:
        raise TypeError(f"the module of test {name} holds no such program")
    return found
