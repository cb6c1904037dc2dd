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


@cache
def program(name: str) -> Program:
    """The test of a name. Raises KeyError if there is none."""
    if name not in NAMES:
        raise KeyError(name)
    found = import_module(f"gridwright.workload.programs.{name}").PROGRAM
    if not isinstance(found, Program) or found.name != name:
        raise TypeError(f"the module of test {name} holds no such program")
    return found
