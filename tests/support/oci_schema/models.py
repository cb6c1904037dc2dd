"""Whether values of a root are what OCI's API takes: types and allowed values of the `oci` SDK's models.

The Terraform provider hands most arguments on as they are. A table says which model of the SDK each
resource becomes; others name what is called otherwise there, and what is no attribute, with the reason.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.support.oci_schema.check import META, known

MODELS = {
    "oci_bastion_bastion": "bastion.CreateBastionDetails",
    "oci_cluster_placement_groups_cluster_placement_group": (
        "cluster_placement_groups.CreateClusterPlacementGroupDetails"
    ),
    "oci_core_default_security_list": "core.UpdateSecurityListDetails",
    "oci_core_instance": "core.LaunchInstanceDetails",
    "oci_core_internet_gateway": "core.CreateInternetGatewayDetails",
    "oci_core_nat_gateway": "core.CreateNatGatewayDetails",
    "oci_core_network_security_group": "core.CreateNetworkSecurityGroupDetails",
    "oci_core_network_security_group_security_rule": "core.AddSecurityRuleDetails",
    "oci_core_route_table": "core.CreateRouteTableDetails",
    "oci_core_service_gateway": "core.CreateServiceGatewayDetails",
    "oci_core_subnet": "core.CreateSubnetDetails",
    "oci_core_vcn": "core.CreateVcnDetails",
    "oci_core_vnic_attachment": "core.AttachVnicDetails",
    "oci_core_volume": "core.CreateVolumeDetails",
    "oci_core_volume_attachment": "core.AttachVolumeDetails",
    "oci_file_storage_export": "file_storage.CreateExportDetails",
    "oci_file_storage_file_system": "file_storage.CreateFileSystemDetails",
    "oci_file_storage_mount_target": "file_storage.CreateMountTargetDetails",
    "oci_identity_dynamic_group": "identity.CreateDynamicGroupDetails",
    "oci_identity_policy": "identity.CreatePolicyDetails",
    "oci_lustre_file_storage_lustre_file_system": "lustre_file_storage.CreateLustreFileSystemDetails",
    "oci_lustre_file_storage_object_storage_link": "lustre_file_storage.CreateObjectStorageLinkDetails",
    "oci_objectstorage_bucket": "object_storage.CreateBucketDetails",
    "oci_objectstorage_preauthrequest": "object_storage.CreatePreauthenticatedRequestDetails",
}
"""Resource of Terraform, and the model that creates it."""
CALLS = {"data.oci_core_images": "core.ComputeClient.list_images"}
"""Data source of Terraform, and the call whose parameters its arguments are; others ask by OCIDs alone."""
RENAMED = {
    "AttachIScsiVolumeDetails": {"attachment_type": "type"},
    "CreateBucketDetails": {"access_type": "public_access_type"},
    "InstanceSourceViaImageDetails": {"source_id": "image_id"},
    "list_images": {"state": "lifecycle_state"},
}
"""By model: names of Terraform, and what the SDK calls them."""
BESIDE = {
    "oci_objectstorage_object": {"": "no model: its arguments are parameters of put_object"},
    "oci_core_default_security_list": {
        "manage_default_resource_id": "it names the list that is changed",
        "compartment_id": "the list keeps its own; the provider moves it by another call",
    },
    "oci_core_instance": {"preserve_boot_volume": "a parameter of terminate_instance"},
    "oci_core_network_security_group_security_rule": {
        "network_security_group_id": "a parameter of add_network_security_group_security_rules"
    },
    "oci_lustre_file_storage_object_storage_link": {
        "start_import_from_object_trigger": "a number that grows has the provider start an import"
    },
    "oci_objectstorage_bucket": {"namespace": "a parameter of create_bucket"},
    "oci_objectstorage_preauthrequest": {
        "bucket": "a parameter of create_preauthenticated_request",
        "namespace": "a parameter of create_preauthenticated_request",
    },
}
"""Arguments that are no attribute of the model, and why."""
_DISCRIMINATORS = {
    "AttachVolumeDetails": ("attachment_type", "type"),
    "InstanceSourceDetails": ("source_type", "sourceType"),
}
"""Models of which there are several kinds: the argument that tells them apart, and its name in JSON."""
_EXPRESSION = re.compile(r"\$\{.*\}", re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_DIGITS = re.compile(r"-?[0-9]+")


@dataclass
class Judged:
    """What is wrong, in words with its place, and what of the tables was of use."""

    problems: list[str] = field(default_factory=list)
    models: set[str] = field(default_factory=set)
    renamed: set[tuple[str, str]] = field(default_factory=set)
    beside: set[tuple[str, str]] = field(default_factory=set)
    chosen: set[tuple[str, str]] = field(default_factory=set)
    """Models and attributes with a list of allowed values that some value was held to."""

    def add(self, root: Mapping[str, Any]) -> None:
        """Judge all resources and data sources of a root."""
        for kind, named in root.get("resource", {}).items():
            for name, given in named.items():
                self._resource(kind, name, given)
        for kind, named in root.get("data", {}).items():
            for name, given in named.items():
                if (call := CALLS.get(f"data.{kind}")) is not None:
                    self._call(f"data.{kind}.{name}", call, given)

    def _resource(self, kind: str, name: str, given: Mapping[str, Any]) -> None:
        if kind in BESIDE and "" in BESIDE[kind]:
            self.beside.add((kind, ""))
        elif kind not in MODELS:
            self.problems.append(f"{kind} has no model of the SDK")
        else:
            self.models.add(kind)
            package, _, model = MODELS[kind].partition(".")
            left = {key: value for key, value in given.items() if key not in BESIDE.get(kind, {})}
            self.beside |= {(kind, key) for key in given if key in BESIDE.get(kind, {})}
            self._block(f"{kind}.{name}", package, model, left, known().get(kind, {}))

    def _block(
        self, place: str, package: str, model: str, given: Mapping[str, Any], taken: Mapping[str, Any]
    ) -> None:
        if model in _DISCRIMINATORS:
            argument, key = _DISCRIMINATORS[model]
            special = _model(package, model).get_subtype({key: given.get(argument)})
            if special == model:
                self.problems.append(f"{place}.{argument} is {given.get(argument)!r}, which OCI has not")
                return
            model = special
        types = _model(package, model)().swagger_types
        for name, value in given.items():
            if name in META:
                continue
            attribute = RENAMED.get(model, {}).get(name, name)
            if attribute != name:
                self.renamed.add((model, name))
            if attribute not in types:
                self.problems.append(f"{place}.{name} is no attribute of {model}")
                continue
            told = taken.get(name, {})
            self._value(f"{place}.{name}", package, (model, attribute), types[attribute], value, told)

    def _value(
        self,
        place: str,
        package: str,
        what: tuple[str, str],
        kind: str,
        value: Any,
        argument: Mapping[str, Any],
    ) -> None:
        if isinstance(value, str) and _EXPRESSION.fullmatch(value):
            return
        if (inner := re.fullmatch(r"list\[(.+)\]", kind)) is not None:
            for each in value if isinstance(value, list) else [value]:
                self._value(place, package, what, inner[1], each, argument)
        elif (inner := re.fullmatch(r"dict\(str, (.+)\)", kind)) is not None:
            if not isinstance(value, Mapping):
                self.problems.append(f"{place} is {value!r}, and no map")
                return
            for key, each in value.items():
                self._value(f"{place}.{key}", package, ("", ""), inner[1], each, argument)
        elif kind in _CHECKS:
            if not _CHECKS[kind](value, argument.get("type") == "string"):
                self.problems.append(f"{place} is {value!r}, and OCI takes {kind}")
            self._allowed(place, package, what, value)
        else:
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, Mapping):
                    self._block(place, package, kind, each, argument.get("block", {}))
                else:
                    self.problems.append(f"{place} is {each!r}, and OCI takes {kind}")

    def _allowed(self, place: str, package: str, what: tuple[str, str], value: object) -> None:
        model, attribute = what
        if model and (allowed := allowed_values(package, model).get(attribute)):
            self.chosen.add(what)
            if value not in allowed:
                self.problems.append(f"{place} is {value!r}, and OCI allows {', '.join(sorted(allowed))}")

    def _call(self, place: str, call: str, given: Mapping[str, Any]) -> None:
        """A data source: the names of its parameters, and those that have allowed values."""
        parameters, allowed = _parameters(call)
        function = call.rpartition(".")[2]
        for name, value in given.items():
            parameter = RENAMED.get(function, {}).get(name, name)
            if parameter != name:
                self.renamed.add((function, name))
            if parameter not in parameters:
                self.problems.append(f"{place}.{name} is no parameter of {function}")
            elif parameter in allowed:
                self.chosen.add((function, parameter))
                if value not in allowed[parameter]:
                    some = ", ".join(sorted(allowed[parameter]))
                    self.problems.append(f"{place}.{name} is {value!r}, and OCI allows {some}")


def judge(*roots: Mapping[str, Any]) -> Judged:
    """Judge roots together."""
    judged = Judged()
    for root in roots:
        judged.add(root)
    return judged


def allowed_values(package: str, model: str) -> dict[str, frozenset[str]]:
    """Allowed values by attribute: constants of the class, X_Y = "Y" for attribute x."""
    return _allowed_values(_model(package, model))


@cache
def _allowed_values(model: Any) -> dict[str, frozenset[str]]:
    attributes = sorted(model().swagger_types, key=len, reverse=True)
    found: dict[str, set[str]] = {}
    for name, value in vars(model).items():
        if name.isupper() and isinstance(value, str):
            of = next((each for each in attributes if name.startswith(f"{each.upper()}_")), None)
            if of is not None:
                found.setdefault(of, set()).add(value)
    return {name: frozenset(values) for name, values in found.items()}


@cache
def _model(package: str, name: str) -> Any:
    return getattr(importlib.import_module(f"oci.{package}.models"), name)


@cache
def _parameters(call: str) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    """Names of a call's parameters, and allowed values of those that have some, out of its source."""
    package, client, function = call.split(".")
    method = getattr(getattr(importlib.import_module(f"oci.{package}"), client), function)
    names = {each for each in inspect.signature(method).parameters if each not in ("self", "kwargs")}
    allowed = {}
    for each in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(method)))):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            name = each.targets[0].id
            if name == "expected_kwargs":
                names |= set(ast.literal_eval(each.value))
            elif name.endswith("_allowed_values"):
                allowed[name.removesuffix("_allowed_values")] = frozenset(ast.literal_eval(each.value))
    return frozenset(names), allowed


def _is_integer(value: object, as_text: bool) -> bool:
    if isinstance(value, str):
        return as_text and _DIGITS.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object, as_text: bool) -> bool:
    return isinstance(value, float) or _is_integer(value, as_text)


def _is_bool(value: object, as_text: bool) -> bool:
    return isinstance(value, bool) or (as_text and value in ("true", "false"))


def _is_time(value: object, as_text: bool) -> bool:
    return as_text and isinstance(value, str) and _TIME.fullmatch(value) is not None


_CHECKS = {
    "str": lambda value, as_text: isinstance(value, str),
    "int": _is_integer,
    "float": _is_number,
    "bool": _is_bool,
    "datetime": _is_time,
}
"""By type of the SDK. Numbers and truths that the provider has as text, it converts: there text will do."""


def unused(judged: Judged) -> Iterator[str]:
    """Entries of the tables that nothing rendered has needed."""
    yield from (f"MODELS {each}" for each in MODELS.keys() - judged.models)
    for table, used in ((RENAMED, judged.renamed), (BESIDE, judged.beside)):
        for name, entries in table.items():
            yield from (f"{name} {entry}" for entry in entries if (name, entry) not in used)


def plurals(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Names that the SDK has in the singular alone: the bridge has made plurals of them."""
    for kind, model in MODELS.items():
        package, _, name = model.partition(".")
        yield from _plurals(kind, package, name, arguments[kind], frozenset())


def _plurals(
    place: str, package: str, model: str, taken: Mapping[str, Any], around: frozenset[str]
) -> Iterator[str]:
    types = _model(package, model)().swagger_types
    for name, argument in taken.items():
        of = next((each for each in (name, name.removesuffix("s")) if each in types), None)
        if of is None:
            continue
        if of != name:
            yield f"{place}.{name}"
        inner = re.sub(r"list\[(.+)\]", r"\1", types[of])
        if argument["type"] == "block" and inner not in around:
            yield from _plurals(f"{place}.{name}", package, inner, argument["block"], around | {inner})
