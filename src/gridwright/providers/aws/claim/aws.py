"""The cloud of a claim: DynamoDB and EC2, each call with a limit of time and of tries."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.lustre_targets.states import NEW
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.configuration import Configuration
from gridwright.providers.aws.claim.records import UNKNOWN, Interface, LostError, Record, Volume, VolumeRecord

# Puts refusals of AWS into words that say what to do next.

_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId", "AuthFailure")
_THROTTLED = (
    *("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"),
    "ProvisionedThroughputExceededException",
)
_AGAIN = "systemctl restart gridwright-claim"
_LIMITS = ("AttachmentLimitExceeded",)


def explained(error: Any, what: str, table: str) -> Trouble:  # noqa: ANN401 - boto3 has no types of its own
    """An error of boto3 as something that is wrong, and what to do about it."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return _unreached(error, what)
    code = str(response.get("Error", {}).get("Code", ""))
    said = " ".join(str(response.get("Error", {}).get("Message", "")).split())[:400]
    action = getattr(error, "operation_name", "?")
    if code in _DENIED:
        return Trouble(
            f"{what}: this instance may not call {action}: {said}",
            "its role has to allow that; the grid's own roles do: gridwright up makes them as they should be",
        )
    if code == "ResourceNotFoundException":
        return Trouble(
            f"{what}: the table of claims, {table}, is not there",
            "gridwright up makes it; a table that was deleted can be restored from its backups. "
            "Nothing was attached or formatted",
        )
    if code in _EXPIRED:
        return Trouble(
            f"{what}: AWS does not take the credentials of this instance ({code}): {said}",
            f"see that its clock is right (chronyc tracking) and that its role exists; then {_AGAIN}",
        )
    remedy = f"mend what it says, then {_AGAIN}"
    if code in _THROTTLED:
        remedy = f"AWS lets no more requests through; in a minute: {_AGAIN}"
    elif code in _LIMITS:
        remedy = "choose an instance type to which more volumes can be attached"
    return Trouble(f"{what}: AWS answers {code}: {said}", remedy)


def _unreached(error: Any, what: str) -> Trouble:  # noqa: ANN401
    kind = type(error).__name__
    said = " ".join(str(error).split())[:400]
    if "Credential" in kind:
        return Trouble(
            f"{what}: there are no credentials: {said}",
            "the instance needs a role (an instance profile): gridwright up gives it one",
        )
    return Trouble(
        f"{what}: {said}",
        "see that the machine reaches AWS: the route to the NAT gateway or the proxy, the endpoints of the "
        f"VPC, its security group; then {_AGAIN}",
    )


GRID_TAG = "gridwright:grid"
SLOT_TAG = "gridwright:slot"
TARGET_TAG = "gridwright:target"
WANTED = "wanted#"
"""How keys of items begin by which the scheduler wants a slot on; the name of the slot follows."""
_NAMES = {"#owner": "owner", "#token": "token", "#volumes": "volumes", "#interface": "interface"}
"""Some of them are reserved words of DynamoDB."""
_OURS = "#owner = :owner AND #token = :token"
_MOST_VALUES = 150
"""Values of one filter; EC2 takes 200."""
_RACED = ("IncorrectState", "VolumeInUse", "InvalidNetworkInterface.InUse", "InvalidParameterValue.Attached")
"""Somebody, or an earlier try, was there first: the next look tells who."""


class Aws:
    """Reads and writes what a grid's claims need, and nothing else. See `cloud.Cloud`."""

    def __init__(self, configuration: Configuration) -> None:
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            remedy = "install it: dnf install python3-boto3, or apt-get install python3-boto3"
            raise ClaimError(Trouble("boto3, by which AWS is asked, is not installed", remedy)) from None
        self._grid, self._table = configuration.grid, configuration.table
        limits = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 6})

        session = boto3.session.Session(region_name=configuration.region)

        def client(service: str) -> Any:  # noqa: ANN401 - boto3 has no types of its own
            return session.client(service, config=limits)

        self._tables = self._call("a client of DynamoDB", lambda: client("dynamodb"))
        self._ec2 = self._call("a client of EC2", lambda: client("ec2"))

    def record(self, slot: str) -> Record | None:
        """The item of a slot, as it is at this moment."""
        found = self._call(
            f"slot {slot}",
            lambda: self._tables.get_item(TableName=self._table, Key=_key(slot), ConsistentRead=True),
        )
        return _record(found["Item"]) if found.get("Item") else None

    def is_desired(self, slot: str) -> bool:
        """Whether the item is there by which the scheduler wants a slot on."""
        key = _key(f"{WANTED}{slot}")
        found = self._call(
            f"whether {slot} is wanted",
            lambda: self._tables.get_item(TableName=self._table, Key=key, ConsistentRead=True),
        )
        return bool(found.get("Item"))

    def take(self, slot: str, over: Record | None, instance: str) -> Record | None:
        """Become the owner; None where somebody was faster."""
        token = over.token + 1 if over is not None else 1
        values: dict[str, Any] = {":new": {"S": instance}, ":risen": {"N": str(token)}, ":at": {"S": _now()}}
        condition = "attribute_not_exists(slot)"
        names = {"#owner": "owner", "#token": "token"}
        if over is not None:
            condition = _OURS
            values.update(_ours(over))
        found = self._conditional(
            f"claiming slot {slot}",
            TableName=self._table,
            Key=_key(slot),
            UpdateExpression="SET #owner = :new, #token = :risen, claimed_at = :at",
            ConditionExpression=condition,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=values,
            ReturnValues="ALL_NEW",
        )
        return None if found is None else _record(found["Attributes"])

    def write(self, record: Record) -> None:
        """Write volumes and interface, if slot and token are still ours. Raises LostError."""
        volumes = {
            name: {"M": {"target": {"S": kept.target}, "state": {"S": kept.state}}}
            for name, kept in record.volumes.items()
        }
        self._update(
            record,
            "SET #volumes = :volumes, #interface = :interface",
            _NAMES,
            {":volumes": {"M": volumes}, ":interface": {"S": record.interface}},
        )

    def hold(self, record: Record) -> None:
        """Make sure that slot and token are still ours. Raises LostError."""
        names = {"#owner": "owner", "#token": "token"}
        self._update(record, "SET held_at = :at", names, {":at": {"S": _now()}})

    def _update(
        self, record: Record, expression: str, names: Mapping[str, str], values: Mapping[str, Any]
    ) -> None:
        found = self._conditional(
            f"slot {record.slot}",
            TableName=self._table,
            Key=_key(record.slot),
            UpdateExpression=expression,
            ConditionExpression=_OURS,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={**values, **_ours(record)},
        )
        if found is None:
            raise LostError(record.slot, record.owner)

    def instances(self, names: Iterable[str]) -> Mapping[str, str]:
        """State of each instance; a filter names those that EC2 has forgotten without an error."""
        desired = sorted(set(names))
        states = dict.fromkeys(desired, UNKNOWN)
        for start in range(0, len(desired), _MOST_VALUES):
            part = desired[start : start + _MOST_VALUES]
            for found in self._described("describe_instances", "Reservations", {"instance-id": part}):
                for each in found["Instances"]:
                    states[each["InstanceId"]] = each["State"]["Name"]
        return states

    def volumes(self, slot: str) -> tuple[Volume, ...]:
        """Volumes that are tagged for a slot."""
        found = []
        for each in self._described("describe_volumes", "Volumes", self._tags(slot)):
            held = each.get("Attachments") or [{}]
            tags = {tag["Key"]: tag["Value"] for tag in each.get("Tags", [])}
            if each["State"] not in ("deleting", "deleted"):
                found.append(
                    Volume(
                        each["VolumeId"],
                        tags.get(TARGET_TAG, ""),
                        each["State"],
                        held[0].get("InstanceId", ""),
                        held[0].get("State", ""),
                        held[0].get("Device", ""),
                    )
                )
        return tuple(sorted(found, key=lambda each: each.id))

    def interfaces(self, slot: str) -> tuple[Interface, ...]:
        """Network interfaces that are tagged for a slot."""
        found = []
        for each in self._described("describe_network_interfaces", "NetworkInterfaces", self._tags(slot)):
            held = each.get("Attachment") or {}
            found.append(
                Interface(
                    each["NetworkInterfaceId"],
                    each.get("MacAddress", ""),
                    each["PrivateIpAddress"],
                    held.get("InstanceId", ""),
                    held.get("Status", ""),
                )
            )
        return tuple(sorted(found, key=lambda each: each.id))

    def attach_volume(self, volume: str, instance: str, device: str) -> None:
        """Begin to attach a volume that is available."""
        self._begun(
            f"attaching volume {volume}",
            lambda: self._ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device=device),
        )

    def attach_interface(self, interface: str, instance: str) -> None:
        """Begin to attach an interface that is available, as the second one."""
        self._begun(
            f"attaching network interface {interface}",
            lambda: self._ec2.attach_network_interface(
                NetworkInterfaceId=interface, InstanceId=instance, DeviceIndex=1
            ),
        )

    def _tags(self, slot: str) -> Mapping[str, list[str]]:
        return {f"tag:{GRID_TAG}": [self._grid], f"tag:{SLOT_TAG}": [slot]}

    def _described(self, operation: str, key: str, filters: Mapping[str, list[str]]) -> list[Any]:
        given = [{"Name": name, "Values": values} for name, values in filters.items()]

        def ask() -> list[Any]:
            pages = self._ec2.get_paginator(operation).paginate(Filters=given)
            return [each for page in pages for each in page[key]]

        found: list[Any] = self._call(operation.replace("_", " "), ask)
        return found

    def _begun(self, what: str, call: Callable[[], object]) -> None:
        from botocore.exceptions import ClientError

        def begin() -> None:
            try:
                call()
            except ClientError as error:
                if error.response["Error"]["Code"] not in _RACED:
                    raise

        self._call(what, begin)

    def _conditional(self, what: str, **update: Any) -> Any:  # noqa: ANN401
        """The answer of an update; None where its condition does not hold."""
        from botocore.exceptions import ClientError

        def ask() -> Any:  # noqa: ANN401
            try:
                return self._tables.update_item(**update)
            except ClientError as error:
                if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                    return None
                raise

        return self._call(what, ask)

    def _call(self, what: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return call()
        except (BotoCoreError, ClientError) as error:
            raise ClaimError(explained(error, what, self._table)) from None


def _key(slot: str) -> dict[str, Any]:
    return {"slot": {"S": slot}}


def _ours(record: Record) -> dict[str, Any]:
    return {":owner": {"S": record.owner}, ":token": {"N": str(record.token)}}


def _now() -> str:
    now = datetime.datetime.now(datetime.timezone.utc)  # noqa: UP017 - 3.9
    return now.replace(microsecond=0).isoformat()


def _record(item: Mapping[str, Any]) -> Record:
    """Raises ClaimError where the item is not one that a claim has written."""
    try:
        volumes = {
            name: VolumeRecord(each["M"]["target"]["S"], each["M"].get("state", {}).get("S", NEW))
            for name, each in item.get("volumes", {}).get("M", {}).items()
        }
        interface = item.get("interface", {}).get("S", "")
        return Record(item["slot"]["S"], item["owner"]["S"], int(item["token"]["N"]), volumes, interface)
    except (KeyError, TypeError, ValueError) as error:
        name = item.get("slot", {}).get("S", "?")
        raise ClaimError(
            Trouble(
                f"item {name} of the table of claims is not as Gridwright writes it: {error!r}",
                "restore the table to a moment before it was changed (point-in-time recovery), or correct it",
            )
        ) from None
