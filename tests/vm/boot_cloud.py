"""A cloud for machines that boot: moto by TLS under AWS's own names, and what a grid has there.

Machines are told nothing of this: they find services by DNS, and credentials in the metadata service.
"""

from __future__ import annotations

import datetime
import re
import select
import socket
import socketserver
import ssl
import threading
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from moto.server import ThreadedMotoServer

from gridwright.providers.aws.layout import Machine, Role, aws_layout
from gridwright.providers.aws.machine_files import machine_files, part_of, user_data
from gridwright.providers.aws.names import GRID_TAG, ROLE_TAG, SLOT_TAG, claims_table, grid_stack
from gridwright.providers.boot.bundle import Bundle, bundle, pointer
from gridwright.spec import parse_spec
from tests.support.aws_faults import Faults
from tests.support.aws_permissions import ACCOUNT, BUCKET, REGION
from tests.vm.boot_network import METADATA, SERVICES, BootNetwork
from tests.vm.instance_metadata import InstanceMetadata, serve_all

GROUP = "ComputeNodes"
KEY = "s3cret-of-munge-" * 8
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
TRUST = "etc/ssl/certs/ca-certificates.crt"
"""Where machines have the certificates that they trust; that of the cloud comes to them."""


def certificate(directory: Path) -> Path:
    """One for all services, with its key, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cloud")])
    now = datetime.datetime.now(datetime.UTC)
    names = [
        "*.amazonaws.com",
        f"*.{REGION}.amazonaws.com",
        f"*.s3.{REGION}.amazonaws.com",
        "*.s3.amazonaws.com",
    ]
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = directory / "cloud.pem"
    path.write_bytes(
        built.public_bytes(serialization.Encoding.PEM) + key.private_bytes(serialization.Encoding.PEM, *form)
    )
    return path


class _Relay(socketserver.BaseRequestHandler):
    """From TLS to a server without."""

    def handle(self) -> None:
        """Pass on both ways until one end closes."""
        context: ssl.SSLContext = self.server.context  # type: ignore[attr-defined]
        to: tuple[str, int] = self.server.to  # type: ignore[attr-defined]
        try:
            with (
                context.wrap_socket(self.request, server_side=True) as near,
                socket.create_connection(to) as far,
            ):
                _pass_on(near, far)
        except OSError:
            pass


def _pass_on(near: ssl.SSLSocket, far: socket.socket) -> None:
    other: Mapping[socket.socket, socket.socket] = {near: far, far: near}
    while True:
        ready = [near] if near.pending() else select.select([near, far], [], [], 120)[0]
        if not ready:
            return
        for each in ready:
            content = each.recv(1 << 16)
            if not content:
                return
            other[each].sendall(content)


class _RelayServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, listening: socket.socket, to: tuple[str, int], context: ssl.SSLContext) -> None:
        super().__init__(("", 0), _Relay, bind_and_activate=False)
        self.socket.close()
        self.socket, self.to, self.context = listening, to, context
        threading.Thread(target=self.serve_forever, daemon=True).start()


@dataclass
class BootCloud:
    """A storage stack of a grid in moto, and one instance that is to become a machine of it."""

    directory: Path
    text: str
    """The grid spec."""
    closing: list[Callable[[], object]] = field(default_factory=list)
    instances: dict[str, InstanceMetadata] = field(default_factory=dict)
    """What each instance is told, by its address."""

    def __post_init__(self) -> None:
        """Build it all."""
        self.spec = parse_spec(self.text)
        self.layout = aws_layout(self.spec)
        self.directory.mkdir(parents=True)
        self.network = BootNetwork(self.directory / "network.log")
        self.closing.append(self.network.close)
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        self.closing.append(server.stop)
        host, port = server.get_host_and_port()
        self.moto = f"http://{host}:{port}"
        before = Faults.before(self.moto)
        self.faults = before.__enter__()
        self.closing.append(lambda: before.__exit__(None, None, None))
        self._serve()
        self._fill()

    def client(self, service: str) -> Any:
        """A client that no machine's calls are counted with."""
        return boto3.client(service, region_name=REGION, endpoint_url=self.moto, **KEYS)

    def _serve(self) -> None:
        pem = certificate(self.directory)
        self.trusted = re.sub(r"-----BEGIN PRIVATE.*", "", pem.read_text(), flags=re.DOTALL)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        calls = urlsplit(self.faults.url)
        relay = _RelayServer(
            self.network.listen(SERVICES, 443), (calls.hostname or "", calls.port or 0), context
        )
        self.closing.append(relay.shutdown)

    def _fill(self) -> None:
        """What the stacks would have made."""
        reset = urllib.request.Request(f"{self.moto}/moto-api/reset", method="POST")  # noqa: S310
        urllib.request.urlopen(reset, timeout=30)  # noqa: S310
        self.client("s3").create_bucket(Bucket=BUCKET)
        self.client("dynamodb").create_table(
            TableName=claims_table(self.spec),
            KeySchema=[{"AttributeName": "slot", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "slot", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.secret = self.client("secretsmanager").create_secret(Name="munge", SecretString=KEY)["ARN"]
        ec2 = self.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.20.0.0/16")["Vpc"]["VpcId"]
        made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.20.128.0/24", AvailabilityZone=f"{REGION}a")
        self.subnet = made["Subnet"]["SubnetId"]
        self.interfaces = {each.name: self._interface(each) for each in self.layout.of_role(Role.COMPUTE)}
        self._group()

    def _interface(self, machine: Machine) -> dict[str, Any]:
        marks = {GRID_TAG: self.spec.name, ROLE_TAG: str(machine.role), SLOT_TAG: machine.name}
        tags = [{"Key": name, "Value": value} for name, value in marks.items()]
        made: dict[str, Any] = self.client("ec2").create_network_interface(
            SubnetId=self.subnet,
            PrivateIpAddress=str(machine.address),
            TagSpecifications=[{"ResourceType": "network-interface", "Tags": tags}],
        )["NetworkInterface"]
        return made

    @property
    def slots(self) -> dict[str, str]:
        """The slot of each interface, by its ID."""
        return {str(each["NetworkInterfaceId"]): name for name, each in self.interfaces.items()}

    def _group(self) -> None:
        groups = self.client("autoscaling")
        groups.create_launch_configuration(
            LaunchConfigurationName="nodes", ImageId="ami-12c6146b", InstanceType="m5.large"
        )
        groups.create_auto_scaling_group(
            AutoScalingGroupName="nodes",
            LaunchConfigurationName="nodes",
            MinSize=1,
            MaxSize=2,
            DesiredCapacity=1,
            VPCZoneIdentifier=self.subnet,
        )
        (self.instance,) = self.group()

    def group(self) -> dict[str, str]:
        """Instances of the group, with their health."""
        (found,) = self.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
        return {each["InstanceId"]: each["HealthStatus"] for each in found["Instances"]}

    def metadata(self, role: Role, mac: str, address: str) -> InstanceMetadata:
        """The metadata service of the instance, which is to become a machine of this role."""
        found = InstanceMetadata(self.instance_of(role), ACCOUNT, self.user_data(role))
        found.macs[mac] = _described(mac, address, 0)
        if not self.instances:
            server = serve_all(self.network.listen(METADATA, 80), self.instances)
            self.closing.append(server.shutdown)
        self.instances[address] = found
        return found

    def instance_of(self, role: Role) -> str:
        """The ID of the instance: of a node it is that of the group."""
        if role is Role.COMPUTE:
            return self.instance
        made = self.client("ec2").run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1)
        return str(made["Instances"][0]["InstanceId"])

    def attached(self, slot: str) -> Mapping[str, str]:
        """What the metadata service says of the interface of a slot."""
        made = self.interfaces[slot]
        return _described(made["MacAddress"], made["PrivateIpAddress"], 1)

    def user_data(self, role: Role) -> str:
        """As CloudFormation fills them in."""
        machines = self.layout.of_role(role)
        text = user_data(self.spec, self.layout, machines, GROUP if machines[0].replaced else None).text
        values = {
            "AWS::StackName": grid_stack(self.spec),
            "AWS::Region": REGION,
            "Bucket": BUCKET,
            "MungeKey": self.secret,
        }
        return re.sub(r"\$\{([A-Za-z:]+)\}", lambda found: values[found[1]], text).replace("${!", "${")

    def upload(self, role: Role, **more: str) -> Bundle:
        """Put the bundle of machines of a role where they look for it."""
        part = part_of(role)
        files = {**machine_files(self.spec, self.layout, None).parts[part], **more}
        made = bundle(_in_a_container(files))
        s3 = self.client("s3")
        s3.put_object(Bucket=BUCKET, Key=made.key, Body=made.content)
        s3.put_object(Bucket=BUCKET, Key=pointer(part), Body=f"{made.key}\n".encode())
        return made

    @property
    def told(self) -> dict[str, str]:
        """What the node told last of its set-up."""
        return self.told_of(self.instance)

    def told_of(self, instance: str) -> dict[str, str]:
        """What an instance told last of its set-up."""
        slot = f"boot#arn:aws:ec2:{REGION}:{ACCOUNT}:instance/{instance}"
        found = self.client("dynamodb").get_item(TableName=claims_table(self.spec), Key={"slot": {"S": slot}})
        return {name: str(next(iter(value.values()))) for name, value in found.get("Item", {}).items()}

    def logs(self) -> list[str]:
        """Logs of tries that failed, oldest first."""
        s3 = self.client("s3")
        arn = f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/{self.instance}"
        found = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"boot-logs/{arn}/").get("Contents", [])
        return [s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read().decode() for each in found]

    def close(self) -> None:
        """End it."""
        for each in reversed(self.closing):
            each()


def _in_a_container(files: Mapping[str, str | bytes]) -> dict[str, str | bytes]:
    """A bundle for machines that share this kernel: it is not theirs to set, and has no NFS.

    A tmpfs stands for the mount of NFS, and Slurm keeps jobs together without cgroups.
    """
    found = dict(files) | {"slurm/cgroup.conf": "CgroupPlugin=cgroup/v1\n"}
    for name, there, then in (
        ("group_vars/all.yml", "gridwright_own_kernel: true", "gridwright_own_kernel: false"),
        ("group_vars/all.yml", "- nfs4\n", "- tmpfs\n"),
        ("slurm/slurm.conf", "proctrack/cgroup", "proctrack/linuxproc"),
        ("slurm/slurm.conf", "task/cgroup,task/affinity", "task/none"),
    ):
        assert there in str(found[name])
        found[name] = str(found[name]).replace(there, then)
    return found


def _described(mac: str, address: str, number: int) -> dict[str, str]:
    return {
        "mac": mac,
        "device-number": str(number),
        "local-ipv4s": address,
        "subnet-ipv4-cidr-block": "10.20.128.0/24",
        "vpc-ipv4-cidr-block": "10.20.0.0/16",
    }
