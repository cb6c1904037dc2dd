"""What a claim reaches: the machine that runs it, with metadata, network and disks, and DynamoDB and EC2.

Each call of the cloud has a limit of time and of tries.
"""

from __future__ import annotations

import contextlib
import datetime
import http.client
import ipaddress
import json
import os
import re
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gridwright.node_programs.lustre_targets import NEW, ClaimError, LustreTools, write
from gridwright.node_programs.scratch.commands import Ended, run, tool
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.configuration import Configuration, Directories
from gridwright.providers.aws.claim.deciding import (
    UNKNOWN,
    Identity,
    Interface,
    LostError,
    Record,
    Volume,
    VolumeRecord,
)

# Asks the metadata service of EC2 which instance this is, by IMDSv2.

_HOST = "http://169.254.169.254"
ENDPOINT = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
"""The variable by which the AWS SDKs find it elsewhere."""
_ANSWER_S = 2.0
_TRIES = 4
_PAUSE_S = 1.0
_LIFETIME = "300"


class Metadata:
    """One answer at a time, in bounded time; what it says stays while the machine runs."""

    def __init__(self, endpoint: str | None = None, pause_s: float = _PAUSE_S) -> None:
        self._url = urllib.parse.urlsplit(endpoint or os.environ.get(ENDPOINT) or _HOST)
        self._pause_s = pause_s
        self._known: dict[str, str] = {}

    def instance(self) -> str:
        """The ID of this instance."""
        return self.get("instance-id")

    def region(self) -> str:
        """The region that it runs in."""
        return self.get("placement/region")

    def subnet(self, mac: str) -> str:
        """The range of the subnet that one of its network interfaces is in."""
        return self.get(f"network/interfaces/macs/{mac}/subnet-ipv4-cidr-block")

    def get(self, name: str) -> str:
        """A value below /latest/meta-data/. Raises ClaimError where nobody answers."""
        if name not in self._known:
            self._known[name] = self._get(name)
        return self._known[name]

    def _get(self, name: str) -> str:
        said = ""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(self._pause_s)
            try:
                return self._get_once(name)
            except (OSError, http.client.HTTPException) as error:
                said = str(error) or type(error).__name__
        raise ClaimError(
            Trouble(
                f"the instance metadata service at {self._url.netloc} does not tell {name}: {said}",
                "this has to run on an instance of EC2 whose metadata service is on (IMDSv2)",
            )
        )

    def _get_once(self, name: str) -> str:
        connection = http.client.HTTPConnection(
            self._url.hostname or "", self._url.port or 80, timeout=_ANSWER_S
        )
        try:
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": _LIFETIME}
            token = _body(connection, "PUT", "/latest/api/token", headers)
            headers = {"X-aws-ec2-metadata-token": token}
            return _body(connection, "GET", f"/latest/meta-data/{name}", headers).strip()
        finally:
            connection.close()


def _body(connection: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str]) -> str:
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read(1 << 16).decode("ascii", "replace")
    if answer.status != http.client.OK or not body.strip():
        raise http.client.HTTPException(f"{method} {path} is answered with status {answer.status}")
    return body


# Sets up a second network interface: answers must leave by the one that the questions came in by.
#
# Amazon Linux does that by itself (amazon-ec2-net-utils); other systems do not, or only with tools that take
# minutes. The address gets no route of its subnet in the main table: two such routes would send what belongs
# to one interface through the other.
#
# Where systemd-networkd runs, as on Ubuntu, it is told this by a file. From 249 on it may take away rules and
# routes that are not its own when it starts anew (networkd.conf(5), ManageForeignRoutingPolicyRules= and
# ManageForeignRoutes=), and cloud-init may write a configuration of the same interface, with an address by
# DHCP and a table 101 (10-netplan-*.network): the first file by name is the one that counts
# (systemd.network(5)).

TABLE = "7001"
"""A table of routes that nobody else has (ip-route(8))."""
OWN_TOOL = "setup-policy-routes"
"""Of amazon-ec2-net-utils, which routes by source itself."""
NETWORK_FILE = "05-gridwright-claim.network"
"""Before those of netplan, cloud-init and amazon-ec2-net-utils; in /run, as each start claims anew."""
_LIMIT_S = 20.0
_OWN_TOOL_S = 40.0
_RELOADED_S, _NETWORKD_S = 5.0, 20.0
_LARGEST_MTU = 9001
"""Of a VPC (Amazon EC2 User Guide, jumbo frames)."""


class Network:
    """Looks at, and sets, one interface."""

    def __init__(self, directories: Directories, metadata: Metadata) -> None:
        self._links = directories.sys / "class/net"
        self._networkd = directories.networkd
        self._metadata = metadata

    def link(self, mac: str) -> str | None:
        """The name of the interface with this address of its hardware."""
        for entry in sorted(self._links.glob("*")):
            with contextlib.suppress(OSError):
                if (entry / "address").read_text(encoding="ascii").strip().lower() == mac.lower():
                    return entry.name
        return None

    def is_configured(self, link: str, address: str) -> bool:
        """Whether it is up with its address and a rule for it."""
        shown = run(["ip", "-4", "-o", "address", "show", "dev", link, "up"], _LIMIT_S)
        if not shown.well or f" {address}/" not in shown.output:
            return False
        rules = run(["ip", "-4", "rule", "show"], _LIMIT_S)
        return rules.well and any(f"from {address} " in f"{line} " for line in rules.output.splitlines())

    def configure(self, link: str, mac: str, address: str) -> None:
        """Bring it up. Raises ClaimError."""
        if tool(OWN_TOOL) is not None and self._comes_up(link, address, _OWN_TOOL_S):
            return
        subnet = ipaddress.IPv4Network(self._metadata.subnet(mac))
        # VPC User Guide, subnet CIDR blocks: the router of a subnet has its second address.
        gateway = str(subnet[1])
        if networkd_runs():
            text = network_file(mac, address, subnet, gateway, self._mtu(link))
            write(self._networkd / NETWORK_FILE, text)
            run(["networkctl", "reload"], _LIMIT_S)
            # From 246 on that is all: to ask for more would take the address away again for a moment.
            if self._comes_up(link, address, _RELOADED_S):
                return
            run(["networkctl", "reconfigure", link], _LIMIT_S)
            if self._comes_up(link, address, _NETWORKD_S):
                return
        if tool("nmcli") is not None:
            # Else it asks for an address by DHCP, and adds the route that must not be there.
            run(["nmcli", "device", "set", link, "managed", "no"], _LIMIT_S)
        self._ip("link", "set", "dev", link, "mtu", str(self._mtu(link)), "up")
        self._ip("-4", "address", "replace", f"{address}/32", "dev", link)
        self._ip("route", "replace", str(subnet), "dev", link, "src", address, "table", TABLE)
        self._ip("route", "replace", "default", "via", gateway, "dev", link, "src", address, "table", TABLE)
        self._ip("-4", "rule", "add", "from", address, "lookup", TABLE, "priority", TABLE, known="exists")

    def _comes_up(self, link: str, address: str, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while not (up := self.is_configured(link, address)) and time.monotonic() < deadline:
            time.sleep(1.0)
        return up

    def _mtu(self, link: str) -> int:
        """As large as that of the first interface, which its system has set."""
        found = [_number(entry / "mtu") for entry in self._links.glob("*") if entry.name not in ("lo", link)]
        return min(max(found, default=1500), _LARGEST_MTU)

    def _ip(self, *words: str, known: str = "") -> None:
        ended: Ended = run(["ip", *words], _LIMIT_S)
        if not ended.well and not (known and known in ended.output):
            raise ClaimError(
                Trouble(str(ended), "mend what it says; then systemctl restart gridwright-claim")
            )


def networkd_runs() -> bool:
    """Whether systemd-networkd sees to the interfaces of this machine."""
    if tool("networkctl") is None:
        return False
    return run(["systemctl", "is-active", "--quiet", "systemd-networkd.service"], _LIMIT_S).well


def network_file(mac: str, address: str, subnet: ipaddress.IPv4Network, gateway: str, mtu: int) -> str:
    """What systemd-networkd is told of the interface (systemd.network(5)): the same as `ip` would be."""
    return f"""\
# Written by gridwright node claim at each start. Changes here are lost.
[Match]
MACAddress={mac.lower()}

[Link]
MTUBytes={mtu}
RequiredForOnline=no

[Network]
Address={address}/32
LinkLocalAddressing=no
IPv6AcceptRA=no

[Route]
Destination={subnet}
Scope=link
PreferredSource={address}
Table={TABLE}

[Route]
Gateway={gateway}
GatewayOnLink=yes
PreferredSource={address}
Table={TABLE}

[RoutingPolicyRule]
From={address}
Table={TABLE}
Priority={TABLE}
"""


def _number(path: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return 0


_AGAIN = "then start again: systemctl restart gridwright-claim"


class ThisMachine(LustreTools):
    """See `machine.Machine`."""

    def __init__(self, configuration: Configuration, metadata: Metadata | None = None) -> None:
        self._at = configuration.directories
        self.mounts, self.modprobe = self._at.mounts, self._at.modprobe
        self._metadata = metadata or Metadata()
        network = Network(configuration.directories, self._metadata)
        self.link, self.is_configured, self.configure = network.link, network.is_configured, network.configure
        region = self._metadata.region()
        if region != configuration.region:
            raise ClaimError(
                Trouble(
                    f"this instance runs in {region}, "
                    f"and grid {configuration.grid} is in {configuration.region}",
                    "a claim file belongs to the machines of its grid; nothing was claimed",
                )
            )

    def instance(self) -> str:
        """The ID of this instance."""
        return self._metadata.instance()

    def identity(self) -> Identity | None:
        """What it has been named since it started; None before."""
        path = self._at.run / "node.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return Identity(str(data["name"]), str(data["address"]), int(data["token"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = f"{path} is not what a claim writes there: {error}"
            raise ClaimError(Trouble(what, f"remove it; {_AGAIN}")) from None

    def name(self, identity: Identity) -> None:
        """Remember who it is until it is switched off."""
        document = {"schema": 1, "name": identity.name, "address": identity.address, "token": identity.token}
        write(self._at.run / "node.json", json.dumps(document) + "\n")

    def path(self, volume: str, name: str) -> str | None:
        """By what the disk itself says it is: names such as nvme1n1 change from start to start."""
        serial = volume.replace("-", "")
        nitro = False
        for entry in sorted((self._at.sys / "block").glob("nvme*")):
            with contextlib.suppress(OSError):
                found = (entry / "device/serial").read_text(encoding="ascii", errors="replace").strip()
                nitro = nitro or found.startswith("vol")
                if found == serial:
                    return str(self._at.dev / entry.name)
        linked = self._at.dev / f"disk/by-id/nvme-Amazon_Elastic_Block_Store_{serial}"
        if linked.exists():
            return str(linked.resolve())
        # Machines of the Xen generation have no serials; the name that EC2 was given is the disk's there.
        letters = name.rsplit("/", 1)[-1]
        for each in (letters, re.sub("^sd", "xvd", letters)):
            if not nitro and (self._at.sys / "block" / each).exists():
                return str(self._at.dev / each)
        return None

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def now(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()


def plain(identity: Identity | None) -> dict[str, Any]:
    """For the JSON document."""
    if identity is None:
        return {"name": None, "address": None, "token": None}
    return {"name": identity.name, "address": identity.address, "token": identity.token}


# Puts refusals of AWS into words that say what to do next.

_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId", "AuthFailure")
_THROTTLED = (
    *("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"),
    "ProvisionedThroughputExceededException",
)
_RESTART = "systemctl restart gridwright-claim"
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
            f"see that its clock is right (chronyc tracking) and that its role exists; then {_RESTART}",
        )
    remedy = f"mend what it says, then {_RESTART}"
    if code in _THROTTLED:
        remedy = f"AWS lets no more requests through; in a minute: {_RESTART}"
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
        f"VPC, its security group; then {_RESTART}",
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
