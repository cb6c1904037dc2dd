"""User data of machines: the program that fetches what they set themselves up from, with its settings.

They have nothing that changes while a grid is up, and CloudFormation replaces no machine for another bundle.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from troposphere import AWSHelperFn, Base64, ImportValue, Sub

from gridwright.providers.aws.layout import AwsLayout, Machine, Role, fsx_file_systems
from gridwright.providers.aws.names import Export, claims_table, fsx_export, storage_stack
from gridwright.providers.aws.session import Cloud
from gridwright.providers.boot.bundle import Part, boot_file, here, multipart, pointer
from gridwright.providers.boot.reports import BootReport
from gridwright.providers.lustre_servers import root_squash_rows
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.machines import SharedKey
from gridwright.spec.model import GridSpec

# What machines tell of how they set themselves up: rows of the table of claims, one for each instance.

BOOT = "boot#"
"""What the keys of these rows begin with; the ARN of the instance follows."""
NAMESPACE, FAILURES, GRID = "Gridwright", "SetUpFailures", "Grid"
"""The metric of boots that failed for good, and its dimension: boot/set_up.py counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsBootReport(BootReport):
    """What an instance told."""

    key: str
    """Of the row."""

    def is_of_this_start(self, instance: Mapping[str, Any]) -> bool:
        """Whether it was told since EC2 started the instance: each start sets a machine up again.

        One that was stopped and started with other user data has told of the same bundle before.
        """
        started = instance.get("LaunchTime")
        return not self.at or started is None or datetime.fromisoformat(self.at) >= started


def boot_reports(rows: Iterable[Mapping[str, Any]]) -> dict[str, AwsBootReport]:
    """The reports among the rows of the table of claims, by instance."""
    found = [_report(row) for row in rows if row["slot"]["S"].startswith(BOOT)]
    return {each.instance: each for each in found}


def _report(row: Mapping[str, Any]) -> AwsBootReport:
    texts = {
        name: str(row.get(name, {}).get("S", ""))
        for name in ("slot", "instance", "name", "state", "bundle", "reason", "log", "at")
    }
    return AwsBootReport(
        key=texts["slot"],
        instance=texts["instance"] or texts["slot"].rpartition("/")[2],
        name=texts["name"],
        state=texts["state"],
        bundle=texts["bundle"],
        tries=int(row.get("tries", {}).get("N", 1)),
        reason=texts["reason"],
        log=texts["log"],
        at=texts["at"],
    )


def forget_gone(
    cloud: Cloud, spec: GridSpec, reports: Mapping[str, AwsBootReport], there: Collection[str]
) -> None:
    """Remove the reports of instances that are gone."""
    for instance, report in reports.items():
        if instance not in there:
            cloud.call(
                "dynamodb", "delete_item", TableName=claims_table(spec), Key={"slot": {"S": report.key}}
            )


LARGEST = 16 * 1024
"""Bytes of user data that EC2 takes (EC2 User Guide, user data)."""


@dataclass(frozen=True)
class UserData:
    """Text with placeholders, as Fn::Sub takes it, and what stands for those that are not of the stack."""

    text: str
    values: Mapping[str, AWSHelperFn] = field(default_factory=dict)

    def property(self) -> Base64:
        """The property of a machine."""
        return Base64(Sub(self.text, **self.values))


def user_data(
    spec: GridSpec, layout: AwsLayout, machines: tuple[Machine, ...], auto_scaling: str | None
) -> UserData:
    """Of machines that are alike: one machine, or those of the Auto Scaling group with this logical ID."""
    aws, first = layout.aws, machines[0]
    values: dict[str, AWSHelperFn] = {"Bucket": import_value(spec, Export.SITE_BUCKET)}
    settings: dict[str, Any] = {
        "schema": 3,
        "stack": "${AWS::StackName}",
        "region": "${AWS::Region}",
        "bucket": "${Bucket}",
        "pointer": pointer(part_of(first.role)),
        "table": claims_table(spec),
        "group": auto_scaling,
        "name": None if first.replaced else first.name,
        "claim": claim_name(first) if first.replaced else None,
        "key": _key_of(spec, first.role),
        "sources": {},
    }
    if not first.role.serves_files:
        for name in fsx_file_systems(spec):
            dns, mount = fsx_export(name, "Dns"), fsx_export(name, "Mount")
            settings["sources"][name] = f"${{{dns}}}@tcp:/${{{mount}}}"
            values |= {dns: import_value(spec, dns), mount: import_value(spec, mount)}
    parts = [boot_file("aws", "preamble.sh")]
    if aws.proxy is not None:
        parts.append(_proxy(aws.proxy, ",".join(map(str, layout.networks)), spec.region or ""))
    parts += [
        here("etc/gridwright/boot.json", json.dumps(settings, indent=1)),
        *(
            here(f"var/lib/gridwright/{name}", _literal(boot_file("aws", name)))
            for name in ("fetch.py", "begin.sh", "boto3.lock")
        ),
        boot_file("aws", "start.sh"),
    ]
    literal = [_literal(parts[0]), *parts[1:-1], _literal(parts[-1])]
    return UserData(multipart("\n".join(literal)), values)


def part_of(role: Role) -> Part:
    """What machines of a role set themselves up from."""
    return "servers" if role.serves_files else "nodes"


def role_variables(spec: GridSpec, layout: AwsLayout, part: Part) -> dict[str, Any]:
    """What the roles are told beside the grid spec."""
    if part == "servers":
        return {"lustre_server_root_squash": root_squash_rows(spec, layout.root_nids)}
    return {}


def claim_name(machine: Machine) -> str:
    """The claim file, within the bundle, of machines that are replaced."""
    return f"{machine.group}-{machine.role}"


def shared_key(spec: GridSpec, role: Role) -> SharedKey | None:
    """The key that machines of a role share for their scheduler; None where they have no part in it."""
    return None if role.serves_files or role is Role.MACHINE else scheduler_kind(spec.scheduler).shared_key


def key_id(key: SharedKey) -> str:
    """Logical ID of the secret that holds a key."""
    return f"{key.name.capitalize()}Key"


def _key_of(spec: GridSpec, role: Role) -> dict[str, str] | None:
    key = shared_key(spec, role)
    if key is None:
        return None
    return {"name": key.name, "variable": key.variable, "secret": f"${{{key_id(key)}}}"}


def import_value(spec: GridSpec, name: str) -> ImportValue:
    """What the storage stack tells under this name."""
    return ImportValue(f"{storage_stack(spec)}-{name}")


def _literal(text: str) -> str:
    """As Fn::Sub leaves it."""
    return text.replace("${", "${!")


def _proxy(proxy: str, networks: str, region: str) -> str:
    """What the environment says to most programs; S3 and DynamoDB have gateways in the network itself."""
    local = f"localhost,127.0.0.1,169.254.169.254,{networks}"
    gateways = [f"s3.{region}.amazonaws.com", "s3.amazonaws.com", f"dynamodb.{region}.amazonaws.com"]
    direct = ",".join([local, *gateways, *(f".{each}" for each in gateways[:2])])
    lines = [f"export {name}={proxy}" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")]
    return "\n".join([*lines, f"export no_proxy={direct}", 'export NO_PROXY="$no_proxy"'])
