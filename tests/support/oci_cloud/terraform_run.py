"""Runs a root of Terraform JSON on a state: as much of the language as rendered roots have."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_ANEW = {"availability_domain", "subnet_id", "volume_id", "instance_id", "device", "object"}
"""Arguments that OCI cannot change in place."""


class JobError(Exception):
    """What Terraform prints when it fails."""


def read_zip(archive: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The root, and values of its *.auto.tfvars.json."""
    root: dict[str, Any] = {}
    values: dict[str, Any] = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for name in opened.namelist():
            if name.endswith(".tf.json"):
                root.update(json.loads(opened.read(name)))
            elif name.endswith(".auto.tfvars.json"):
                values.update(json.loads(opened.read(name)))
    return root, values


class Run:
    """One run of a root on a state: resources by address, each with id, type and arguments."""

    def __init__(self, archive: bytes, variables: Mapping[str, str], state: Mapping[str, Any]) -> None:
        self.root, files = read_zip(archive)
        self.values = {**variables, **files}
        for name, declared in self.root.get("variable", {}).items():
            if name not in self.values and "default" not in declared:
                raise JobError(f"Error: No value for required variable {name}")
        self.state = dict(state)
        self.wanted = {
            f"{kind}.{name}": (kind, arguments)
            for kind, named in self.root.get("resource", {}).items()
            for name, arguments in named.items()
        }
        self.made: dict[str, Any] = {}

    def changes(self) -> list[dict[str, Any]]:
        """resource_changes of the plan. Raises JobError."""
        found = []
        for address, (kind, arguments) in self.wanted.items():
            old = self.state.get(address)
            actions = ["create"] if old is None else self._actions(old["values"], self._resolved(arguments))
            if "delete" in actions and arguments.get("lifecycle", {}).get("prevent_destroy"):
                raise JobError(
                    f"Error: Instance cannot be destroyed\n{address} has lifecycle.prevent_destroy set"
                )
            found.append(_change(address, kind, actions, old and old["values"], arguments))
        for address, old in self.state.items():
            if address not in self.wanted:
                found.append(_change(address, old["type"], ["delete"], old["values"], None))
        return found

    def _actions(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
        differing = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        if not differing:
            return ["no-op"]
        return ["delete", "create"] if differing & _ANEW else ["update"]

    def apply(
        self, make: Callable[[str, str, dict[str, Any], str | None], str], changes: list[dict[str, Any]]
    ) -> None:
        """Carry changes out, each resource after those that it refers to. Raises JobError."""
        actions = {each["address"]: each["change"]["actions"] for each in changes}
        for address in [each for each, does in actions.items() if does == ["delete"]]:
            del self.state[address]
        waiting = dict(self.wanted)
        while waiting:
            ready = [
                a for a, (_, arguments) in waiting.items() if not self._refers_to(arguments) & set(waiting)
            ]
            if not ready:
                raise JobError(f"Error: Cycle: {', '.join(waiting)}")
            for address in ready:
                kind, arguments = waiting.pop(address)
                keeps = actions[address] in (["no-op"], ["update"])
                values = self._resolved(arguments)
                ocid = make(address, kind, values, self.state[address]["id"] if keeps else None)
                self.state[address] = {"id": ocid, "type": kind, "values": values}

    def outputs(self) -> dict[str, Any]:
        """Values of outputs after an apply."""
        return {
            name: {"value": self._value(each["value"]), "type": "dynamic"}
            for name, each in self.root.get("output", {}).items()
        }

    def _refers_to(self, value: object) -> set[str]:
        found = set()
        for text in _REFERENCE.findall(json.dumps(value)):
            for word in re.findall(r"(oci_\w+\.[\w-]+)", text):
                if f"data.{word}" not in text:
                    found.add(word)
                    if word not in self.wanted:
                        raise JobError(f"Error: Reference to undeclared resource {word}")
        return found

    def _resolved(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {k: self._value(v) for k, v in arguments.items() if k not in ("lifecycle", "//", "depends_on")}

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._value(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._value(each) for each in value]
        if not isinstance(value, str):
            return value
        if whole := _REFERENCE.fullmatch(value):
            return self._expression(whole[1])
        return _REFERENCE.sub(lambda found: str(self._expression(found[1])), value)

    def _expression(self, text: str) -> Any:
        if found := re.fullmatch(r'var\.(\w+)(?:\["([^"]+)"\])?', text):
            value = self.values[found[1]]
            return value if found[2] is None else value[found[2]]
        if found := re.fullmatch(r"(oci_\w+\.[\w-]+)\.(\w+)", text):
            made = self.state.get(found[1])
            if made is None:
                return f"(known after apply: {text})"
            return (
                made["id"]
                if found[2] == "id"
                else made["values"].get(found[2], f"{found[2]} of {made['id']}")
            )
        return f"<{text}>"


def _change(address: str, kind: str, actions: list[str], before: object, after: object) -> dict[str, Any]:
    change = {"actions": actions, "before": before, "after": after}
    return {"address": address, "mode": "managed", "type": kind, "change": change}
