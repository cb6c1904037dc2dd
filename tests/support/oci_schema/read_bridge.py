"""Reads the schema of resources out of the Python package that is bridged from the Terraform provider.

    python -m tests.support.oci_schema.read_bridge DIRECTORY_OF_pulumi_oci VERSION

writes arguments.json anew: arguments of each resource and data source, whether they are required and
whether a change is made in place ("(Updatable)" in the provider's own text), and what is computed.
The package is parsed, not imported: its wheel is unpacked, nothing is installed.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("arguments.json")
RESOURCES = {
    "oci_bastion_bastion": "bastion/bastion.py",
    "oci_cluster_placement_groups_cluster_placement_group": (
        "clusterplacementgroups/cluster_placement_group.py"
    ),
    "oci_core_default_security_list": "core/default_security_list.py",
    "oci_core_instance": "core/instance.py",
    "oci_core_internet_gateway": "core/internet_gateway.py",
    "oci_core_nat_gateway": "core/nat_gateway.py",
    "oci_core_network_security_group": "core/network_security_group.py",
    "oci_core_network_security_group_security_rule": "core/network_security_group_security_rule.py",
    "oci_core_route_table": "core/route_table.py",
    "oci_core_service_gateway": "core/service_gateway.py",
    "oci_core_subnet": "core/subnet.py",
    "oci_core_vcn": "core/vcn.py",
    "oci_file_storage_export": "filestorage/export.py",
    "oci_file_storage_file_system": "filestorage/file_system.py",
    "oci_file_storage_mount_target": "filestorage/mount_target.py",
    "oci_lustre_file_storage_lustre_file_system": "lustre/file_storage_lustre_file_system.py",
    "oci_lustre_file_storage_object_storage_link": "lustre/file_storage_object_storage_link.py",
    "oci_core_vnic_attachment": "core/vnic_attachment.py",
    "oci_core_volume": "core/volume.py",
    "oci_core_volume_attachment": "core/volume_attachment.py",
    "oci_identity_dynamic_group": "identity/dynamic_group.py",
    "oci_identity_policy": "identity/policy.py",
    "oci_objectstorage_bucket": "objectstorage/bucket.py",
    "oci_objectstorage_object": "objectstorage/storage_object.py",
    "oci_objectstorage_preauthrequest": "objectstorage/preauthrequest.py",
}
SOURCES = {
    "oci_core_images": "core/get_images.py",
    "oci_core_services": "core/get_services.py",
    "oci_identity_availability_domains": "identity/get_availability_domains.py",
    "oci_objectstorage_namespace": "objectstorage/get_namespace.py",
}
UNNUMBERED = {
    "allowed_auths": "allowed_auth",
    "client_cidr_block_allow_lists": "client_cidr_block_allow_list",
    "filters": "filter",
    "maintenance_windows": "maintenance_window",
    "plugins_configs": "plugins_config",
}
"""Lists of Terraform whose names the bridge has made a plural. The `oci` SDK has the singular, too, except
for `filter`, which is Terraform's own (`tests.support.oci_schema.models.plurals`)."""
_UPDATABLE = re.compile(r":param [^:\n]* (\w+): \(Updatable\)")
_SCALARS = {"str": "string", "bool": "bool", "int": "number", "float": "number"}


def arguments(package: Path) -> dict[str, Any]:
    """Arguments of each resource and data source: type, whether it is required, and those of blocks."""
    found: dict[str, Any] = {}
    for name, file in RESOURCES.items():
        found[name] = _of_class(package, file, _class_name(file))
    for name, file in SOURCES.items():
        found[f"data.{name}"] = _of_function(package, file)
    return found


def computed(package: Path) -> dict[str, Any]:
    """What each resource and data source tells beside its arguments: types, and those of lists' elements."""
    found: dict[str, Any] = {}
    for name, file in RESOURCES.items():
        state = _of_class(package, file, "_" + _class_name(file).removesuffix("Args") + "State")
        given = _of_class(package, file, _class_name(file))
        found[name] = {key: _plain(each) for key, each in state.items() if key not in given}
    for name, file in SOURCES.items():
        given = _of_function(package, file)
        result = "".join(word.capitalize() for word in Path(file).stem.split("_")) + "Result"
        told = _of_result(package, file, result)
        known = {*given, *UNNUMBERED}
        found[f"data.{name}"] = {key: each for key, each in told.items() if key not in known}
    return found


def _plain(typed: Mapping[str, Any]) -> dict[str, Any]:
    """A computed value is an attribute, also where it is a list of objects, and nobody can update it."""
    found = {key: each for key, each in typed.items() if key in ("type", "list")}
    if typed["type"] == "block":
        found |= {"list": True, "block": {key: _plain(each) for key, each in typed["block"].items()}}
    return found


def _of_result(package: Path, file: str, name: str) -> dict[str, Any]:
    """Properties of a class of results."""
    outputs = str(Path(file).with_name("outputs.py"))
    found = {}
    for each in _classes(package / file)[name].body:
        if isinstance(each, ast.FunctionDef) and each.returns is not None:
            if each.name.startswith("_") or ast.unparse(each.returns) == "None":
                continue
            words = ast.unparse(each.returns)
            reference = re.search(r"outputs\.(\w+)", words)
            if reference is None:
                found[each.name] = _typed(package, outputs, each.returns)
            elif not _deep(reference[1]):
                block = _of_result(package, outputs, reference[1])
                found[each.name] = {"type": "block", "list": True, "block": block}
    return found


def _deep(name: str) -> bool:
    """Whether a class of results is further down than anybody refers to."""
    return name.startswith("GetImagesImage") and name != "GetImagesImageResult"


def _class_name(file: str) -> str:
    return "".join(word.capitalize() for word in Path(file).stem.split("_")) + "Args"


@cache
def _classes(file: Path) -> dict[str, ast.ClassDef]:
    return {each.name: each for each in ast.parse(file.read_text()).body if isinstance(each, ast.ClassDef)}


def _of_class(package: Path, file: str, name: str) -> dict[str, Any]:
    (init,) = (
        each
        for each in _classes(package / file)[name].body
        if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    )
    given = zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)
    inputs = str(Path(file).with_name("_inputs.py"))
    updatable = set(_UPDATABLE.findall(ast.get_docstring(init) or ""))
    return {
        UNNUMBERED.get(argument.arg, argument.arg): _typed(package, inputs, argument.annotation)
        | ({} if default else {"required": True})
        | ({"updatable": True} if argument.arg in updatable else {})
        for argument, default in given
    }


def _of_function(package: Path, file: str) -> dict[str, Any]:
    """Of a data source: the bridge makes every argument optional, so that only their names are known."""
    functions = [
        each for each in ast.parse((package / file).read_text()).body if isinstance(each, ast.FunctionDef)
    ]
    (asked,) = (each for each in functions if each.name == Path(file).stem)
    inputs = str(Path(file).with_name("_inputs.py"))
    names = [each for each in asked.args.args if each.arg != "opts"]
    return {UNNUMBERED.get(each.arg, each.arg): _typed(package, inputs, each.annotation) for each in names}


def _typed(package: Path, inputs: str, annotation: ast.expr | None) -> dict[str, Any]:
    assert annotation is not None
    words = ast.unparse(annotation)
    for wrapping in ("pulumi.Input[", "Optional[", "_builtins."):
        words = words.replace(wrapping, "")
    words = words.replace("]", "").replace("'", "")
    is_list = words.startswith("Sequence[")
    words = words.removeprefix("Sequence[").strip()
    kind = {"list": True} if is_list else {}
    if words.startswith("Mapping["):
        return {"type": "map", **kind}
    if words in _SCALARS:
        return {"type": _SCALARS[words], **kind}
    choices = (each.strip().removeprefix("Union[") for each in words.split(","))
    name = next(each for each in choices if each.endswith("Args"))
    return {"type": "block", **kind, "block": _of_class(package, inputs, name)}


def content(package: Path, version: str) -> dict[str, Any]:
    """What the file has."""
    return {
        "source": f"PyPI pulumi-oci {version}, bridged from the Terraform provider of OCI",
        "date": "2026-11-27",
        "provider": _of_class(package, "provider.py", "ProviderArgs"),
        "arguments": arguments(package),
        "computed": computed(package),
    }


def text(found: Any, indent: str = "") -> str:
    """JSON with a row for each argument, in which its block begins where it has one."""
    if not isinstance(found, dict) or not any(isinstance(each, dict) for each in found.values()):
        return json.dumps(found, sort_keys=True)
    if "block" in found:
        itself = json.dumps({key: each for key, each in found.items() if key != "block"}, sort_keys=True)
        return f'{itself.removesuffix("}")}, "block": {text(found["block"], indent)}}}'
    rows = (f"{indent} {json.dumps(key)}: {text(found[key], indent + ' ')}" for key in sorted(found))
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


def main() -> None:
    """Write the file."""
    FILE.write_text(text(content(Path(sys.argv[1]), sys.argv[2])) + "\n")


if __name__ == "__main__":
    main()
