"""User data of machines on OCI: programs that fetch what they set themselves up from, with their settings.

They have no secret, and nothing that changes while a grid is up: Terraform makes a machine anew for other
user data. What is made with the machines is in the metadata of each instance, under `gridwright`, for
`boot/begin.py`.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from gridwright.providers.boot.bundle import Part, boot_file, here, lean, multipart, pointer
from gridwright.providers.oci.layout import OciLayout, OciMachine, OciRole
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.machines import SharedKey
from gridwright.spec.model import GridSpec

LARGEST = 32_000
"""Bytes of all metadata of an instance, encoded user data among them (OCI, instance metadata)."""
KEYS = "keys/"
"""Of objects in the bucket that nodes may read and servers may not."""
_NAME, _MAKES_KEY = "@NAME@", '"@MAKES-KEY@"'
_PROGRAMS = ("fetch.py", "begin.py", "object_store.py", "instance_principal.py", "begin.sh")


def part_of(role: OciRole) -> Part:
    """What machines of a role set themselves up from."""
    return "servers" if role.is_server else "nodes"


def user_data_files(spec: GridSpec, layout: OciLayout) -> dict[str, str]:
    """Templates of Terraform beside the root `grid`, one for machines that differ by name alone."""
    return {file_of(spec, each): _template(spec, each) for each in layout.machines}


def file_of(spec: GridSpec, machine: OciMachine) -> str:
    """The template of a machine."""
    kind = part_of(machine.role) if _key(spec, machine.role) or machine.role.is_server else "machines"
    return f"user-data-{kind}.txt"


def expression(spec: GridSpec, machine: OciMachine) -> str:
    """The user data of a machine, as Terraform makes it."""
    makes = "true" if machine.role is OciRole.HEAD else "false"
    values = f'{{name = "{machine.name}", makes_key = {makes}}}'
    return f'${{base64encode(templatefile("${{path.module}}/{file_of(spec, machine)}", {values}))}}'


def user_data(spec: GridSpec, machine: OciMachine) -> str:
    """The text that a machine gets, as cloud-init reads it."""
    makes = "true" if machine.role is OciRole.HEAD else "false"
    return _text(spec, machine).replace(_NAME, machine.name).replace(_MAKES_KEY, makes)


def key_object(key: SharedKey) -> str:
    """The object that holds a key of the scheduler; the head node makes it, once."""
    return f"{KEYS}{key.name}"


def _template(spec: GridSpec, machine: OciMachine) -> str:
    literal = _text(spec, machine).replace("${", "$${").replace("%{", "%%{")
    return literal.replace(_NAME, "${name}").replace(_MAKES_KEY, "${makes_key}")


def _text(spec: GridSpec, machine: OciMachine) -> str:
    """With marks where machines differ."""
    key = _key(spec, machine.role)
    settings: dict[str, Any] = {
        "schema": 3,
        "name": _NAME,
        "claim": None,
        "group": None,
        "pointer": pointer(part_of(machine.role)),
        "key": None if key is None else _key_settings(key),
    }
    files = [here(f"var/lib/gridwright/{name}", _carried(name)) for name in _PROGRAMS]
    parts = [
        boot_file("oci", "preamble.sh"),
        here("etc/gridwright/machine.json", json.dumps(settings, indent=1)),
    ]
    return multipart("\n".join([*parts, *files, boot_file("oci", "start.sh")]))


def _key_settings(key: SharedKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "variable": key.variable,
        "secret": key_object(key),
        "length": key.length,
        "makes": _MAKES_KEY.strip('"'),
    }


def _key(spec: GridSpec, role: OciRole) -> SharedKey | None:
    """The key that machines of a role share for their scheduler; None where they have no part in it."""
    return None if role.is_server or role is OciRole.MACHINE else scheduler_kind(spec.scheduler).shared_key


@cache
def _carried(name: str) -> str:
    """A program as there is room for it."""
    return lean(boot_file("oci", name)) if name.endswith(".py") else boot_file("oci", name)
