"""A root module of Terraform that is put together part by part, and written as JSON.

The form is that of Terraform's JSON configuration syntax, which OpenTofu reads as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

_LOCK: Mapping[str, Any] = json.loads(
    resources.files("gridwright.providers.oci").joinpath("data/provider-lock.json").read_text("utf-8")
)
"""The release of Oracle's provider that roots are made for, and digests of its packages for all platforms."""
PROVIDER = {"oci": {"source": _LOCK["provider"], "version": _LOCK["version"]}}
"""This release and no other one: a newer one could read a root otherwise, and is in no lock file."""
LOCK_FILE = ".terraform.lock.hcl"
_REGISTRIES = ("registry.opentofu.org", "registry.terraform.io")
"""Where `tofu` and `terraform` look for a provider whose source has no host: part of its name in a lock file.
The packages are the same. Nothing of Gridwright connects to them, and no other file has these names."""
LEAST_TERRAFORM = ">= 1.5.0"
"""What OCI Resource Manager offers as its newest (OCI, Resource Manager, Terraform versions)."""
_DATA = ("volume", "filesystem", "bucket")
"""Ends of the types of resources that hold data."""


@dataclass
class Root:
    """Resources, data sources, variables and outputs by name."""

    region: str
    why: str
    """What the root is for, as its first line says."""
    resources: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    data: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    variables: dict[str, dict[str, Any]] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def resource(self, kind: str, name: str, arguments: Mapping[str, Any], *, why: str = "") -> str:
        """Add a resource; gives the expression of its ID."""
        named = self.resources.setdefault(kind, {})
        if name in named:
            raise ValueError(f"{kind}.{name} is there already")
        named[name] = ({"//": why} if why else {}) | {
            key: value for key, value in arguments.items() if value is not None
        }
        return id_of(kind, name)

    def keep(self, kind: str, name: str, arguments: Mapping[str, Any], *, why: str = "") -> str:
        """Add a resource that holds data: Terraform refuses to destroy it."""
        lasting = {"lifecycle": {"prevent_destroy": True, **arguments.get("lifecycle", {})}}
        return self.resource(kind, name, {**arguments, **lasting}, why=why)

    def source(self, kind: str, name: str, arguments: Mapping[str, Any]) -> str:
        """Add a data source; gives its address."""
        self.data.setdefault(kind, {})[name] = dict(arguments)
        return f"data.{kind}.{name}"

    def variable(self, name: str, description: str, kind: str = "string", **more: Any) -> str:  # noqa: ANN401
        """Add a variable; gives its expression."""
        self.variables[name] = {"type": kind, "description": description, **more}
        return f"${{var.{name}}}"

    def output(self, name: str, value: object, description: str) -> None:
        """Add an output."""
        self.outputs[name] = {"value": value, "description": description}

    def drop_unused_variables(self) -> frozenset[str]:
        """Take away variables that nothing in the root names; their names."""
        said = json.dumps([self.resources, self.data, self.outputs])
        unused = frozenset(name for name in self.variables if not re.search(rf"\bvar\.{name}\b", said))
        self.variables = {name: each for name, each in self.variables.items() if name not in unused}
        return unused

    def text(self) -> str:
        """The root as JSON: the same content gives the same text."""
        parts: dict[str, Any] = {
            "//": self.why,
            "terraform": {"required_version": LEAST_TERRAFORM, "required_providers": PROVIDER},
            "provider": {"oci": {"region": self.region}},
            "variable": self.variables,
            "data": self.data,
            "resource": self.resources,
            "output": self.outputs,
        }
        return (
            json.dumps({name: part for name, part in parts.items() if part}, indent=2, sort_keys=True) + "\n"
        )


def lock_text() -> str:
    """The lock file of a root: `init` refuses a package of the provider that has none of these digests.

    `zh` are those of packages as they are published, `h1` those of what is unpacked (Terraform, dependency
    lock file). Each tool reads the block of its own registry, and drops the other one.
    """
    hashes = "".join(f'    "{each}",\n' for each in _LOCK["hashes"])
    blocks = (
        f'provider "{registry}/{_LOCK["provider"]}" {{\n'
        f'  version     = "{_LOCK["version"]}"\n'
        f'  constraints = "{_LOCK["version"]}"\n'
        f"  hashes = [\n{hashes}  ]\n}}\n"
        for registry in _REGISTRIES
    )
    return "\n".join(["# Written by Gridwright.\n", *blocks])


def id_of(kind: str, name: str) -> str:
    """The expression of a resource's ID."""
    return f"${{{kind}.{name}.id}}"


def block_name(name: str) -> str:
    """A name of Terraform: letters, digits, - and _, and no digit at its beginning."""
    return name if name[:1].isalpha() or name.startswith("_") else f"_{name}"
