"""A site's own roles and variables of the playbook: the section `setup` of the grid spec."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from gridwright.secret_text import is_elsewhere, looks_secret, names_secret
from gridwright.spec.fields import Change, Directory, SpecModel, Update
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

MACHINES = "machines"
GROUPS = ("compute", "storage", "head", MACHINES)
"""Groups of the playbook's inventory: what a machine is there for. `machines` has all beside the nodes; each
group of these is one of its own, too."""
DEFAULT_GROUPS = ("compute", "head", MACHINES)
"""Servers of file systems are left alone unless a site asks for them."""

_IN_PLACE = Update(
    Change.LIVE,
    "machines run the playbook in place: on AWS within a minute of up, elsewhere at the next setup",
)
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_RESERVED = ("gridwright_", "ansible_")
_ELSEWHERE = (
    "put it into a file on the machines or into a secret of the cloud, and write its path or ARN; "
    "or keep it in a file of its own for gridwright setup --variables"
)


def _variables(value: object) -> dict[str, Any]:
    """Variables of Ansible as plain data."""
    if not isinstance(value, Mapping):
        raise FieldError(
            f"names and values are wanted, and {show(value)} is given", "write them as {depot: s3://b/sas}"
        )
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(value)))
    except (TypeError, ValueError):
        raise FieldError(
            "a value that is neither text, number, truth value, list nor mapping", "write dates in quotes"
        ) from None
    return plain


def setup_problems(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    """Variables, in a spec as it is written, that are no names, are not the site's, or hold secrets."""
    section = data.get("setup")
    variables = section.get("variables") if isinstance(section, Mapping) else None
    for name, each in variables.items() if isinstance(variables, Mapping) else ():
        path = ("setup", "variables", name)
        if not isinstance(name, str) or not re.fullmatch(_VARIABLE, name, re.ASCII):
            problem = f"{show(name)} is not a name of a variable of Ansible"
            yield path, FieldError(problem, "use letters, digits and _, such as sas_depot")
        elif name.startswith(_RESERVED):
            problem = f"{show(name)} is a name of Gridwright or Ansible"
            yield path, FieldError(problem, f"choose a name without {' or '.join(_RESERVED)}")
        elif (found := next(_secrets(each, name), None)) is not None:
            problem = f"{found} looks like a secret, and the spec is copied to all machines"
            yield path, FieldError(problem, _ELSEWHERE)


def _group(value: object) -> str:
    """A name of a group; whether the grid has it is looked at with the groups of machines."""
    if isinstance(value, str):
        return value
    raise FieldError(
        f"{show(value)} is no group of machines", f"write {', '.join(GROUPS[:-1])} or {GROUPS[-1]}"
    )


def _secrets(value: object, name: str) -> Iterator[str]:
    """Names of values that look like secrets; a path, an ARN and an expression name one and hold none."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _secrets(each, f"{name}.{key}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _secrets(each, f"{name}[{number}]")
    elif isinstance(value, str):
        # Of a list, its own name says what it holds.
        called = name.rpartition(".")[2].partition("[")[0]
        if looks_secret(value) or (names_secret(called) and not is_elsewhere(value)):
            yield name


SetupGroup = Annotated[
    str, PlainValidator(_group), WithJsonSchema({"type": "string", "examples": list(GROUPS)})
]
"""A group of machines that a role runs on."""

Variables = Annotated[
    dict[str, Any],
    PlainValidator(_variables),
    WithJsonSchema({"type": "object", "propertyNames": {"pattern": f"^{_VARIABLE}$"}}),
]


class SiteSetup(SpecModel):
    """A site's own roles of Ansible, which run with those of Gridwright, and variables for all of them."""

    before: Annotated[list[Directory], _IN_PLACE] = Field(
        default_factory=list,
        description="Directories of roles that run before Gridwright's own, in this order, such as "
        "./roles/ad. Each has tasks/main.yml; relative paths start at the directory of the grid spec.",
    )
    after: Annotated[list[Directory], _IN_PLACE] = Field(
        default_factory=list,
        description="Directories of roles that run after Gridwright's own, when all is mounted, such as "
        "./roles/sas.",
    )
    only_on: Annotated[Mapping[str, list[SetupGroup]], _IN_PLACE] = Field(
        default_factory=dict,
        description="Where a role runs, by its name, such as {sas: [compute]}: the groups compute, head "
        "(login machines, too), machines (those beside the nodes, or one group of them by its name) and "
        "storage (servers of file systems). By default all but storage.",
    )
    variables: Annotated[Variables, _IN_PLACE] = Field(
        default_factory=dict,
        description="Variables of the playbook, for roles of the site and of Gridwright, on all machines. No "
        "secrets: the spec and the playbook are copied to all machines.",
    )
